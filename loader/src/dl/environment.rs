//! The functions of the C library that read or change the environment, or pass it to a program.
//!
//! A domain without an environment of its own uses the process's. Then only the functions that change it are
//! interposed: [`crate::sys::environ`] makes them safe among several programs. For a domain with an environment
//! of its own, this module interposes the variable `environ`, its functions, and the functions that start
//! programs with it. One library of a domain without may have a variable `environ` of its own ([`steady`]). What the C library reads for itself (`TZ`, `RES_OPTIONS` and so on) comes from the
//! process's environment, and so does what system objects read.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Interposed;
use crate::arch::gathering;
use crate::domain::Domain;
use crate::replica::thunk::Interposition;
use crate::sys::environ::{self, Environment, Steady, Strings};

/// The interpositions of a domain whose environment is `environment`, its own or the process's.
pub(super) fn changes(environment: &Environment) -> Vec<Interposed> {
    let context = ptr::from_ref(environment).expose_provenance();
    // SAFETY: each function has the signature that <stdlib.h> gives the name that stands beside it, then the
    // context; the number is that of the signature's arguments, which are integers and pointers.
    let with =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    vec![
        ("clearenv", with(clearenv as *const c_void, 0)),
        ("putenv", with(putenv as *const c_void, 1)),
        ("setenv", with(setenv as *const c_void, 3)),
        ("unsetenv", with(unsetenv as *const c_void, 1)),
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
    // SAFETY: as above, for a function of the same signature.
    let plain = |target: *const c_void| unsafe { Interposition::function(target) };
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
        ("pclose", plain(pclose as *const c_void)),
    ]
}

/// The interpositions of the replica that has a steady `environ`.
pub(crate) fn steady(steady: &Steady) -> Vec<Interposed> {
    let context = ptr::from_ref(steady).expose_provenance();
    // SAFETY: a variable of the type of `environ`.
    let variable = unsafe { Interposition::function(steady.variable().as_ptr().cast()) };
    // SAFETY: as in `changes`.
    let with =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    // SAFETY: as in `uses`.
    let gathered = |target| unsafe { Interposition::with_hidden_context(target, context) };
    vec![
        ("environ", variable),
        ("__environ", variable),
        ("_environ", variable),
        ("clearenv", with(steady_clearenv as *const c_void, 0)),
        ("putenv", with(steady_putenv as *const c_void, 1)),
        ("setenv", with(steady_setenv as *const c_void, 3)),
        ("unsetenv", with(steady_unsetenv as *const c_void, 1)),
        ("posix_spawn", gathered(steady_posix_spawn as *const c_void)),
        ("posix_spawnp", gathered(steady_posix_spawnp as *const c_void)),
    ]
}

/// The steady environment that a thunk's context refers to.
///
/// # Safety
/// As for [`environment`].
unsafe fn steadily<'a>(context: usize) -> &'a Steady {
    // SAFETY: it lives as long as code of the domain can run.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// `setenv(name, value, overwrite)`.
///
/// # Safety
/// As [`setenv`].
unsafe extern "C" fn steady_setenv(
    name: *const c_char,
    value: *const c_char,
    overwrite: c_int,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (name, value) = unsafe { (string(name), string(value)) };
    // SAFETY: called through its thunk.
    unsafe { steadily(context) }.set(name, value, overwrite != 0)
}

/// `putenv(entry)`.
///
/// # Safety
/// As [`putenv`].
unsafe extern "C" fn steady_putenv(entry: *mut c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { steadily(context).put(entry) }
}

/// `unsetenv(name)`.
///
/// # Safety
/// As [`unsetenv`].
unsafe extern "C" fn steady_unsetenv(name: *const c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { steadily(context).unset(string(name)) }
}

/// `clearenv()`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn steady_clearenv(context: usize) -> c_int {
    // SAFETY: by contract.
    unsafe { steadily(context) }.clear()
}

gathering!(steady_posix_spawn => spawn_currently);
gathering!(steady_posix_spawnp => search_and_spawn_currently);

/// `posix_spawn(pid, path, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` has the arguments of a call as posix_spawn(3) has it.
unsafe extern "C" fn spawn_currently(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let Spawn { pid, file, actions, attributes, arguments, variables } = call.read();
        let variables = steadily(context).current(variables);
        environ::spawn(pid, file, actions, attributes, arguments, variables)
    }
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn search_and_spawn_currently(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: as above.
    unsafe {
        let Spawn { pid, file, actions, attributes, arguments, variables } = call.read();
        let variables = steadily(context).current(variables);
        environ::spawn_along_path(pid, file, actions, attributes, arguments, variables)
    }
}

/// Whether `domain` has an environment of its own and `name` is a function or a variable for it.
pub(super) fn has_its_own(domain: &Domain, name: &[u8]) -> bool {
    let Some(environment) = &domain.0.environment else { return false };
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

/// `setenv(name, value, overwrite)`.
///
/// # Safety
/// As setenv(3): the texts are NUL-terminated. Null pointers are errors.
unsafe extern "C" fn setenv(
    name: *const c_char,
    value: *const c_char,
    overwrite: c_int,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (name, value) = unsafe { (string(name), string(value)) };
    // SAFETY: called through its thunk.
    unsafe { environment(context) }.set(name, value, overwrite != 0)
}

/// `putenv(entry)`.
///
/// # Safety
/// As putenv(3): the text is NUL-terminated, and stays for as long as it is part of the environment.
unsafe extern "C" fn putenv(entry: *mut c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environment(context).put(entry) }
}

/// `unsetenv(name)`.
///
/// # Safety
/// As unsetenv(3): the name is NUL-terminated. A null pointer is an error.
unsafe extern "C" fn unsetenv(name: *const c_char, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { environment(context).unset(string(name)) }
}

/// `clearenv()`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn clearenv(context: usize) -> c_int {
    // SAFETY: by contract.
    unsafe { environment(context) }.clear()
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

/// The arguments of `posix_spawn` and `posix_spawnp`.
#[repr(C)]
struct Spawn {
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: Strings,
    variables: Strings,
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` has the arguments of a call as posix_spawnp(3) has it.
unsafe extern "C" fn search_and_spawn(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe {
        let Spawn { pid, file, actions, attributes, arguments, variables } = call.read();
        let file = CStr::from_ptr(file);
        let environment = environment(context);
        environment.search_and_spawn(pid, file, actions, attributes, arguments, variables)
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
    unsafe { environ::popen(environment(context), CStr::from_ptr(command), CStr::from_ptr(mode)) }
}

/// `pclose(stream)`.
///
/// # Safety
/// As pclose(3).
unsafe extern "C" fn pclose(stream: *mut libc::FILE) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { environ::pclose(stream) }
}
