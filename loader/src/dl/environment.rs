//! The functions of the C library that read or change the environment, or pass it to a program.
//!
//! A domain without an environment of its own uses the process's. Then only the functions that change it are
//! interposed: [`crate::sys::environ`] makes them safe among several programs. One library of such a domain may have
//! a variable `environ` of its own ([`steady`]). For a domain with an environment of its own, this module interposes
//! the variable `environ`, its functions, and the functions that start programs with it. Variables that the C library
//! reads for itself (`RES_OPTIONS` and so on; `TZ` is the domain's), or that system objects read, come from the process's environment.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::programs::spawned;
use super::{Interposed, interposed};
use crate::arch::gathering;
use crate::current;
use crate::domain::Domain;
use crate::replica::thunk::Interposition;
use crate::sys::answering::answering;
use crate::sys::environ::{self, Environment, Spawn, Strings};

/// The functions that change `environment`: a domain's own, the process's, or a steady one.
pub(super) fn changes(environment: &Environment) -> Vec<Interposed> {
    interposed(changing(), ptr::from_ref(environment).expose_provenance())
}

/// The further interpositions of a domain with an environment of its own.
pub(super) fn uses(environment: &Environment) -> Vec<Interposed> {
    let context = ptr::from_ref(environment).expose_provenance();
    // SAFETY: a variable of the type of `environ`.
    let variable = unsafe { Interposition::function(environment.variable().as_ptr().cast()) };
    // SAFETY: `gathering` has defined the functions.
    let gathered = |target| unsafe { Interposition::with_hidden_context(target, context) };
    let mut all = interposed(functions(), context);
    all.extend(["environ", "__environ", "_environ"].map(|name| (name, variable)));
    all.extend([
        ("execl", gathered(execl as *const c_void)),
        ("execlp", gathered(execlp as *const c_void)),
        ("posix_spawnp", gathered(posix_spawnp as *const c_void)),
    ]);
    all
}

/// The interpositions of the replica that has a steady `environ`.
pub(crate) fn steady(steady: &Environment) -> Vec<Interposed> {
    let context = ptr::from_ref(steady).expose_provenance();
    // SAFETY: a variable of the type of `environ`.
    let variable = unsafe { Interposition::function(steady.variable().as_ptr().cast()) };
    // SAFETY: as in `uses`.
    let gathered = |target| unsafe { Interposition::with_hidden_context(target, context) };
    let mut all = changes(steady);
    all.extend(["environ", "__environ", "_environ"].map(|name| (name, variable)));
    all.push(("posix_spawn", gathered(steady_spawn as *const c_void)));
    all.push(("posix_spawnp", gathered(steady_spawnp as *const c_void)));
    all
}

/// Whether `domain` has an environment of its own and `name` is a function or a variable for it.
pub(super) fn has_its_own(domain: &Domain, name: &[u8]) -> bool {
    let Some(environment) = domain.0.environment.as_deref() else { return false };
    let both = [changes(environment), uses(environment)];
    both.iter().flatten().any(|(known, _)| known.as_bytes() == name)
}

/// The environment that a thunk's context refers to.
///
/// # Safety
/// The context is that of an interposition of this module, and called by code of the domain.
unsafe fn environment<'a>(context: usize) -> &'a Environment {
    // SAFETY: it is the process's, or one that lives as long as code of the domain can run.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// The string behind a pointer; `None` for null.
///
/// # Safety
/// A pointer that is not null points to a NUL-terminated string that stays as it is during the call.
unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

answering! {
    fn changing, context: usize;

    /// `setenv(name, value, overwrite)`. Null pointers are errors.
    "setenv" => extern "C" fn setenv(
        name: *const c_char, value: *const c_char, overwrite: c_int,
    ) -> c_int {
        environment(context).set(current::domain(), string(name), string(value), overwrite != 0)
    }

    /// `putenv(entry)`. The text stays for as long as it is part of the environment.
    "putenv" => extern "C" fn putenv(entry: *mut c_char) -> c_int {
        environment(context).put(current::domain(), entry)
    }

    /// `unsetenv(name)`. A null pointer is an error.
    "unsetenv" => extern "C" fn unsetenv(name: *const c_char) -> c_int {
        environment(context).unset(current::domain(), string(name))
    }

    /// `clearenv()`.
    "clearenv" => extern "C" fn clearenv() -> c_int {
        environment(context).clear(current::domain())
    }
}

answering! {
    fn functions, context: usize;

    /// `getenv(name)`.
    "getenv" => extern "C" fn getenv(name: *const c_char) -> *mut c_char {
        environment(context).value(CStr::from_ptr(name))
    }

    /// `secure_getenv(name)`.
    "secure_getenv", "__secure_getenv" => extern "C" fn secure_getenv(name: *const c_char) -> *mut c_char {
        if environ::is_secure() { ptr::null_mut() } else { getenv(name, context) }
    }

    /// `execv(path, arguments)`.
    "execv" => extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
        environment(context).execute(path, arguments)
    }

    /// `execvp(file, arguments)`.
    "execvp" => extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
        environment(context).search_and_execute(CStr::from_ptr(file), arguments, None)
    }

    /// `execvpe(file, arguments, variables)`.
    "execvpe" => extern "C" fn execvpe(
        file: *const c_char, arguments: Strings, variables: Strings,
    ) -> c_int {
        environment(context).search_and_execute(CStr::from_ptr(file), arguments, Some(variables))
    }

    /// `system(command)`.
    "system" => extern "C" fn system(command: *const c_char) -> c_int {
        environ::run_shell(environment(context), string(command))
    }

    /// `popen(command, mode)`.
    "popen" => extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        let environment = environment(context);
        let (command, mode) = (CStr::from_ptr(command), CStr::from_ptr(mode));
        environ::popen(environment, command, mode, environment.owner())
    }
}

gathering!(execl => execute_list);
gathering!(execlp => search_and_execute_list);
gathering!(posix_spawnp => search_and_spawn);

/// `execl(path, argument, ..., NULL)`.
///
/// # Safety
/// `list` holds the arguments of an execl(3) call.
unsafe extern "C" fn execute_list(list: Strings, context: usize) -> c_int {
    // SAFETY: the program's arguments follow the path. The caller's promise, and called through its thunk.
    unsafe { execv(*list, list.add(1), context) }
}

/// `execlp(file, argument, ..., NULL)`.
///
/// # Safety
/// `list` holds the arguments of an execlp(3) call.
unsafe extern "C" fn search_and_execute_list(list: Strings, context: usize) -> c_int {
    // SAFETY: as above.
    unsafe { execvp(*list, list.add(1), context) }
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` holds the arguments of a posix_spawnp(3) call.
unsafe extern "C" fn search_and_spawn(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let environment = environment(context);
        spawned(environment.owner(), call.read(), |call| environment.search_and_spawn(call))
    }
}

gathering!(steady_spawn => spawn_with_current);
gathering!(steady_spawnp => search_and_spawn_with_current);

/// `posix_spawn(pid, path, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` holds the arguments of a posix_spawn(3) call.
unsafe extern "C" fn spawn_with_current(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let steady = environment(context);
        spawned(steady.owner(), steady.with_current(call.read()), |call| call.start())
    }
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn search_and_spawn_with_current(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: as above.
    unsafe {
        let steady = environment(context);
        spawned(steady.owner(), steady.with_current(call.read()), |call| call.search_and_start())
    }
}
