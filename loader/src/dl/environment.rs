//! The functions of the C library that read or change the environment, or pass it to a program.
//!
//! A domain without an environment of its own uses the process's. Then only the functions that change it are
//! interposed: [`crate::sys::environ`] makes them safe among several programs. One library of such a domain may have
//! a variable `environ` of its own ([`steady`]). For a domain with an environment of its own, this module interposes
//! the variable `environ`, its functions, and the functions that start programs with it. What the C library reads for
//! itself (`TZ`, `RES_OPTIONS` and so on) comes from the process's environment, and so does what system objects read.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Interposed;
use super::programs::spawned;
use crate::arch::gathering;
use crate::domain::Domain;
use crate::replica::thunk::Interposition;
use crate::sys::environ::{self, Changes, Environment, Spawn, Steady, Strings};

/// The functions that change `environment`: a domain's own, the process's, or a steady one.
pub(super) fn changes<E: Changes>(environment: &E) -> Vec<Interposed> {
    let context = ptr::from_ref(environment).expose_provenance();
    // SAFETY: each function has the signature that <stdlib.h> gives the name that stands beside it, then the
    // context; the number is that of the signature's arguments, which are integers and pointers.
    let with =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    vec![
        ("clearenv", with(clearenv::<E> as *const c_void, 0)),
        ("putenv", with(putenv::<E> as *const c_void, 1)),
        ("setenv", with(setenv::<E> as *const c_void, 3)),
        ("unsetenv", with(unsetenv::<E> as *const c_void, 1)),
    ]
}

/// The further interpositions of a domain with an environment of its own.
pub(super) fn uses(environment: &Environment) -> Vec<Interposed> {
    let context = ptr::from_ref(environment).expose_provenance();
    // SAFETY: a variable of the type of `environ`.
    let variable = unsafe { Interposition::function(environment.variable().as_ptr().cast()) };
    // SAFETY: as in `changes`, for <stdlib.h>, <stdio.h> and <unistd.h>.
    let with =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    // SAFETY: as above, for functions that `gathering` has defined.
    let gathered = |target| unsafe { Interposition::with_hidden_context(target, context) };
    vec![
        ("environ", variable),
        ("__environ", variable),
        ("_environ", variable),
        ("getenv", with(getenv as *const c_void, 1)),
        ("secure_getenv", with(secure_getenv as *const c_void, 1)),
        ("__secure_getenv", with(secure_getenv as *const c_void, 1)),
        ("execv", with(execv as *const c_void, 2)),
        ("execvp", with(execvp as *const c_void, 2)),
        ("execvpe", with(execvpe as *const c_void, 3)),
        ("execl", gathered(execl as *const c_void)),
        ("execlp", gathered(execlp as *const c_void)),
        ("posix_spawnp", gathered(posix_spawnp as *const c_void)),
        ("system", with(system as *const c_void, 1)),
        ("popen", with(popen as *const c_void, 2)),
    ]
}

/// The interpositions of the replica that has a steady `environ`.
pub(crate) fn steady(steady: &Steady) -> Vec<Interposed> {
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

/// What a thunk's context refers to.
///
/// # Safety
/// The context is that of an interposition of this module for an `E`, and called by code of the domain.
unsafe fn receiver<'a, E>(context: usize) -> &'a E {
    // SAFETY: it is the process's, or one that lives as long as code of the domain can run.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// The environment that a thunk's context refers to.
///
/// # Safety
/// As for [`receiver`].
unsafe fn environment<'a>(context: usize) -> &'a Environment {
    // SAFETY: by contract.
    unsafe { receiver(context) }
}

/// The string behind a pointer; `None` for null.
///
/// # Safety
/// A pointer that is not null points to a NUL-terminated string that stays as it is during the call.
unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// `setenv(name, value, overwrite)`.
///
/// # Safety
/// As setenv(3): the texts are NUL-terminated. Null pointers are errors.
unsafe extern "C" fn setenv<E: Changes>(
    name: *const c_char,
    value: *const c_char,
    overwrite: c_int,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (name, value) = unsafe { (string(name), string(value)) };
    // SAFETY: called through its thunk.
    unsafe { receiver::<E>(context) }.set(name, value, overwrite != 0)
}

/// `putenv(entry)`.
///
/// # Safety
/// As putenv(3): the text is NUL-terminated, and stays for as long as it is part of the environment.
unsafe extern "C" fn putenv<E: Changes>(entry: *mut c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { receiver::<E>(context).put(entry) }
}

/// `unsetenv(name)`.
///
/// # Safety
/// As unsetenv(3): the name is NUL-terminated. A null pointer is an error.
unsafe extern "C" fn unsetenv<E: Changes>(name: *const c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { receiver::<E>(context).unset(string(name)) }
}

/// `clearenv()`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn clearenv<E: Changes>(context: usize) -> c_int {
    // SAFETY: by contract.
    unsafe { receiver::<E>(context) }.clear()
}

/// `getenv(name)`.
///
/// # Safety
/// As getenv(3): the name is NUL-terminated.
unsafe extern "C" fn getenv(name: *const c_char, context: usize) -> *mut c_char {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environment(context).value(CStr::from_ptr(name)) }
}

/// `secure_getenv(name)`.
///
/// # Safety
/// As secure_getenv(3): the name is NUL-terminated.
unsafe extern "C" fn secure_getenv(name: *const c_char, context: usize) -> *mut c_char {
    if environ::is_secure() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { getenv(name, context) }
}

/// `execv(path, arguments)`.
///
/// # Safety
/// As execv(3).
unsafe extern "C" fn execv(path: *const c_char, arguments: Strings, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environment(context).execute(path, arguments) }
}

/// `execvp(file, arguments)`.
///
/// # Safety
/// As execvp(3).
unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environment(context).search_and_execute(CStr::from_ptr(file), arguments, None) }
}

/// `execvpe(file, arguments, variables)`.
///
/// # Safety
/// As execvpe(3).
unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    variables: Strings,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        environment(context).search_and_execute(CStr::from_ptr(file), arguments, Some(variables))
    }
}

gathering!(execl => execute_list);
gathering!(execlp => search_and_execute_list);
gathering!(posix_spawnp => search_and_spawn);

/// `execl(path, argument, ..., NULL)`.
///
/// # Safety
/// `list` are the arguments of a call as execl(3) has it.
unsafe extern "C" fn execute_list(list: Strings, context: usize) -> c_int {
    // SAFETY: the program's arguments follow the path. The caller's promise, and called through its thunk.
    unsafe { execv(*list, list.add(1), context) }
}

/// `execlp(file, argument, ..., NULL)`.
///
/// # Safety
/// `list` are the arguments of a call as execlp(3) has it.
unsafe extern "C" fn search_and_execute_list(list: Strings, context: usize) -> c_int {
    // SAFETY: as above.
    unsafe { execvp(*list, list.add(1), context) }
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` has the arguments of a call as posix_spawnp(3) has it.
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
/// `call` has the arguments of a call as posix_spawn(3) has it.
unsafe extern "C" fn spawn_with_current(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let steady = receiver::<Steady>(context);
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
        let steady = receiver::<Steady>(context);
        spawned(steady.owner(), steady.with_current(call.read()), |call| call.search_and_start())
    }
}

/// `system(command)`.
///
/// # Safety
/// As system(3): the command is null or NUL-terminated.
unsafe extern "C" fn system(command: *const c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environ::run_shell(environment(context), string(command)) }
}

/// `popen(command, mode)`.
///
/// # Safety
/// As popen(3): the texts are NUL-terminated.
unsafe extern "C" fn popen(
    command: *const c_char,
    mode: *const c_char,
    context: usize,
) -> *mut libc::FILE {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let environment = environment(context);
        let (command, mode) = (CStr::from_ptr(command), CStr::from_ptr(mode));
        environ::popen(environment, command, mode, environment.owner())
    }
}
