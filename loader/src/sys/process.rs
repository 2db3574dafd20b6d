//! The identity of this process: a number that a forked child does not share.
//!
//! The kernel's number does not tell. A container's first process is process 1, and so is a child that it forks into a
//! namespace of its own (pid_namespaces(7)). So the number lies in a page that the kernel gives to a child as zeroes
//! (madvise(2), MADV_WIPEONFORK), whatever has made the child, and before any handler of pthread_atfork(3) runs there.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::functions::functions;
use super::{page_size, thread};

/// A process. A child that it forks is another one. A child of vfork(2) is the same until it calls exec, because it has
/// the memory of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

/// The place of the process's number, once somebody has asked; 0 in a child that has not asked yet.
static PLACE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// The place if the kernel refuses a page of that kind (before Linux 4.14, or by a filter of system calls). A handler of
/// forks clears it.
static CLEARED: AtomicU32 = AtomicU32::new(0);

/// The number of the next process: greater than those of all processes that this one descends from.
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Process {
    /// The calling process. A handler of signals may ask, once there is a loader.
    #[inline]
    pub fn current() -> Process {
        // SAFETY: null, or a place that stays for the life of the process.
        let place = unsafe { PLACE.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| make());
        match place.load(Ordering::Relaxed) {
            0 => Process(begin(place)),
            number => Process(number),
        }
    }

    /// Whether it is the calling process, and not one that this one descends from.
    #[inline]
    pub fn is_current(self) -> bool {
        self == Process::current()
    }

    /// Its number, which is not 0. No process that it descends from has the same.
    pub fn number(self) -> u32 {
        self.0
    }
}

#[cold]
fn begin(place: &AtomicU32) -> u32 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let before = place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    before.err().unwrap_or(number)
}

#[cold]
fn make() -> &'static AtomicU32 {
    let place = wiped_page().unwrap_or_else(cleared);
    let made = ptr::from_ref(place).cast_mut();
    let before = PLACE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    match before {
        Ok(_) => place,
        // Another thread was faster. Its place stays, and this page is never used.
        // SAFETY: as in `Process::current`.
        Err(before) => unsafe { &*before },
    }
}

/// A page that a child finds filled with zeroes.
fn wiped_page() -> Option<&'static AtomicU32> {
    // SAFETY: maps new memory, of which this function has the address alone, and marks it. The kernel fills it with zeroes,
    // and it stays mapped.
    unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            page_size(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, page_size(), libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, page_size());
            return None;
        }
        Some(&*page.cast::<AtomicU32>())
    }
}

fn cleared() -> &'static AtomicU32 {
    extern "C" fn nothing() {}
    extern "C" fn clear() {
        CLEARED.store(0, Ordering::Relaxed);
    }
    if let Err(error) = thread::at_fork(nothing, nothing, clear) {
        tracing::warn!(%error, "forked children take themselves for this process");
    }
    &CLEARED
}

/// `_Fork()` (glibc 2.34).
pub(crate) fn fork_without_handlers() -> libc::pid_t {
    type Fork = unsafe extern "C" fn() -> libc::pid_t;
    // SAFETY: a name, and the definition that a library's code has bound by it.
    unsafe {
        let found = (functions().dlsym)(libc::RTLD_DEFAULT, c"_Fork".as_ptr());
        if found.is_null() {
            return libc::fork();
        }
        std::mem::transmute::<*mut c_void, Fork>(found)()
    }
}

/// `forkpty(terminal, name, attributes, size)`.
///
/// # Safety
/// As forkpty(3).
pub(crate) unsafe fn fork_with_terminal(
    terminal: *mut c_int,
    name: *mut c_char,
    attributes: *const libc::termios,
    size: *const libc::winsize,
) -> libc::pid_t {
    // SAFETY: the caller's promise.
    unsafe { libc::forkpty(terminal, name, attributes, size) }
}

/// `clone(function, stack, flags, argument, parent's place, thread's data, child's place)`.
///
/// # Safety
/// As clone(2), of these words.
pub(crate) unsafe fn clone(arguments: [usize; 7]) -> c_int {
    unsafe extern "C" {
        fn clone(
            function: usize,
            stack: usize,
            flags: c_int,
            argument: usize,
            parent: usize,
            data: usize,
            child: usize,
        ) -> c_int;
    }
    let [function, stack, flags, argument, parent, data, child] = arguments;
    // SAFETY: the caller's promise. A variadic function gets its arguments where others get them (psABI, 3.2.3).
    unsafe { clone(function, stack, flags as c_int, argument, parent, data, child) }
}

/// Whether clone(2) with these flags makes a child of the calling process.
pub(crate) fn is_own_child(flags: c_int) -> bool {
    flags & (libc::CLONE_THREAD | libc::CLONE_PARENT) == 0
}

/// `syscall(number, arguments...)`. The child of a `vfork` would return through frames that it shares with its parent, so
/// it gets memory of its own, as by `fork`.
///
/// # Safety
/// As syscall(2).
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> c_long {
    #[cfg(target_arch = "x86_64")]
    let number = if number == libc::SYS_vfork { libc::SYS_fork } else { number };
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// Whether a system call that has returned a number in the parent has made a child of the process.
///
/// # Safety
/// As syscall(2).
pub(crate) unsafe fn makes_child(number: c_long, arguments: &[usize; 6]) -> bool {
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => true,
        libc::SYS_clone => is_own_child(arguments[0] as c_int),
        libc::SYS_clone3 => {
            // SAFETY: the kernel has read the flags, which are the first word (clone(2), `struct clone_args`).
            let flags = unsafe { *ptr::with_exposed_provenance::<u64>(arguments[0]) };
            is_own_child(flags as c_int)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, cleared};
    use std::ffi::c_int;
    use std::sync::atomic::Ordering;

    /// The result of `ask` in a child that a system call has forked, without handlers.
    fn in_child(ask: impl Fn() -> bool, fork: impl Fn() -> libc::pid_t) -> bool {
        let mut status: c_int = 0;
        // SAFETY: the child reads memory, and ends without a return.
        unsafe {
            let child = fork();
            if child == 0 {
                libc::_exit(c_int::from(ask()));
            }
            assert!(child > 0);
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn a_child_is_another_process_whatever_has_forked_it() {
        let own = Process::current();
        assert!(own.is_current());
        let is_other = || !own.is_current() && Process::current() == Process::current();
        // SAFETY: see `in_child`.
        assert!(in_child(is_other, || unsafe { libc::fork() }));
        // SAFETY: as fork(2), without handlers; see `in_child`.
        assert!(in_child(is_other, || unsafe {
            libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
        }));
        // A child of a child, beside one of the same parent.
        // SAFETY: see `in_child`.
        let fork = || unsafe { libc::fork() };
        assert!(in_child(
            || {
                let child = Process::current();
                in_child(|| ![own, child].contains(&Process::current()), fork)
            },
            fork
        ));
        assert!(own.is_current());
    }

    #[test]
    fn a_child_of_fork_is_another_process_where_the_kernel_gives_no_such_page() {
        let place = cleared();
        place.store(7, Ordering::Relaxed);
        // SAFETY: see `in_child`.
        assert!(in_child(|| place.load(Ordering::Relaxed) == 0, || unsafe { libc::fork() }));
        assert_eq!(place.load(Ordering::Relaxed), 7);
    }
}
