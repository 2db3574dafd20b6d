//! The functions that make processes, for one program among several: the processes are its children.
//!
//! `fork` is in [`super::forks`]. For a domain with an environment of its own, [`super::environment`] replaces some of
//! these. The child of `system` is the C library's, which waits for it.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::arch::{gathering, vforking};
use crate::dl::{Interposed, forks, interposed};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::answering::answering;
use crate::sys::answering::types::{pid_t, termios, winsize};
use crate::sys::environ::{self, PROCESS, Spawn};
use crate::sys::errno::set_errno;
use crate::sys::{children, descriptors, process};

/// The functions that make processes.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    let context = domain.0 as usize;
    // SAFETY: the function has no arguments, and then the context.
    let fork = unsafe { Interposition::with_context(forks::fork as *const c_void, 0, context) };
    // SAFETY: `gathering` and `vforking` have defined the functions.
    let hidden = |target| unsafe { Interposition::with_hidden_context(target, context) };
    // SAFETY: a function of the same signature.
    let close = unsafe { Interposition::function(pclose as *const c_void) };
    let (vfork, clone) = (hidden(vfork as *const c_void), hidden(clone as *const c_void));
    let mut all = interposed(functions(), context);
    all.extend([
        ("__fork", fork),
        ("vfork", vfork),
        ("__vfork", vfork),
        ("clone", clone),
        ("__clone", clone),
        ("posix_spawn", hidden(posix_spawn as *const c_void)),
        ("posix_spawnp", hidden(posix_spawnp as *const c_void)),
        ("pclose", close),
    ]);
    all
}

/// The result of a call that `start` makes for a domain. The new process is that domain's child.
///
/// # Safety
/// As posix_spawn(3).
pub(super) unsafe fn spawned(
    domain: Option<DomainId>,
    call: Spawn,
    start: impl FnOnce(Spawn) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let (code, child) = unsafe { call.with_number(start) };
    if let (Some(domain), Some(child)) = (domain, child) {
        children::note(child, domain);
    }
    code
}

answering! {
    fn functions, context: usize;

    /// `_Fork()`, which calls no handlers.
    "_Fork" => extern "C" fn fork_without_handlers() -> pid_t {
        forks::forked(context, process::fork_without_handlers)
    }

    /// `forkpty(terminal, name, attributes, size)`.
    "forkpty" => extern "C" fn forkpty(
        terminal: *mut c_int, name: *mut c_char, attributes: *const termios, size: *const winsize,
    ) -> pid_t {
        let child = forks::forked(context, || process::fork_with_terminal(terminal, name, attributes, size));
        // The parent has the terminal.
        if child > 0 {
            descriptors::note(*terminal, DomainId(context as u32));
        }
        child
    }

    /// `popen(command, mode)`.
    "popen" => extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        let (command, mode) = (CStr::from_ptr(command), CStr::from_ptr(mode));
        environ::popen(&PROCESS, command, mode, Some(DomainId(context as u32)))
    }
}

vforking!(vfork => note_vfork);
gathering!(clone => clone_gathered);
gathering!(posix_spawn => spawn_gathered);
gathering!(posix_spawnp => search_and_spawn_gathered);

/// The result of `vfork()` in the parent. The child has called `execve` or has ended.
extern "C" fn note_vfork(child: isize, context: usize) -> libc::pid_t {
    note(child, context)
}

/// The result of a system call that has made a child, or has failed.
pub(super) fn note(child: isize, context: usize) -> libc::pid_t {
    if child < 0 {
        set_errno(-child as c_int);
        return -1;
    }
    if child > 0 {
        children::note(child as libc::pid_t, DomainId(context as u32));
    }
    child as libc::pid_t
}

/// `clone(function, stack, flags, argument, parent's place, thread's data, child's place)`.
///
/// # Safety
/// As clone(2), of the seven words at `arguments`. The last three are there if the flags ask for them.
unsafe extern "C" fn clone_gathered(arguments: *const usize, context: usize) -> c_int {
    // SAFETY: the words are the arguments' registers, and a word of the caller's stack, whatever it has.
    let arguments = unsafe { arguments.cast::<[usize; 7]>().read() };
    // SAFETY: the caller's promise.
    let child = unsafe { process::clone(arguments) };
    if child > 0 && process::is_own_child(arguments[2] as c_int) {
        children::note(child, DomainId(context as u32));
    }
    child
}

/// `posix_spawn(pid, path, actions, attributes, arguments, variables)`.
///
/// # Safety
/// `call` holds the arguments of a posix_spawn(3) call.
unsafe extern "C" fn spawn_gathered(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { spawned(Some(DomainId(context as u32)), call.read(), |call| call.start()) }
}

/// `posix_spawnp(pid, file, actions, attributes, arguments, variables)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn search_and_spawn_gathered(call: *const Spawn, context: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { spawned(Some(DomainId(context as u32)), call.read(), |call| call.search_and_start()) }
}

/// `pclose(stream)`.
///
/// # Safety
/// As pclose(3).
unsafe extern "C" fn pclose(stream: *mut libc::FILE) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { environ::pclose(stream) }
}
