//! A kernel that refuses requests: the n-th of those that a load makes fails.
//!
//! A seccomp filter (seccomp(2)) makes the kernel send SIGSYS instead of obeying. The handler counts the
//! request. It then fails the request, or makes it after all, by an instruction that the filter lets
//! through. This needs no privilege, and no code in the product.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

use machine::{EARLIER, Request, let_through};
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// A system call's number, its name, and errors that Linux has for it (its manual page).
type Call = (c_long, &'static str, &'static [c_int]);

/// The requests that the handler counts. The last ones are those of this machine alone.
static CALLS: [Call; LATER.len() + EARLIER.len()] = {
    let mut all = [LATER[0]; LATER.len() + EARLIER.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < LATER.len() { LATER[at] } else { EARLIER[at - LATER.len()] };
        at += 1;
    }
    all
};

/// Those of every machine.
const LATER: [Call; 17] = [
    (libc::SYS_mmap, "mmap", &[libc::ENOMEM]),
    (libc::SYS_mprotect, "mprotect", &[libc::ENOMEM, libc::EACCES]),
    (libc::SYS_munmap, "munmap", &[libc::ENOMEM]),
    (libc::SYS_madvise, "madvise", &[libc::EINVAL]),
    (libc::SYS_openat, "openat", &[libc::EMFILE, libc::EACCES]),
    (libc::SYS_read, "read", &[libc::EIO]),
    (libc::SYS_pread64, "pread64", &[libc::EIO]),
    (libc::SYS_write, "write", &[libc::ENOSPC]),
    (libc::SYS_fstat, "fstat", &[libc::EIO]),
    (libc::SYS_newfstatat, "newfstatat", &[libc::ENOMEM]),
    (libc::SYS_statx, "statx", &[libc::EIO]),
    (libc::SYS_getdents64, "getdents64", &[libc::EIO]),
    (libc::SYS_memfd_create, "memfd_create", &[libc::EMFILE, libc::ENOMEM]),
    (libc::SYS_fcntl, "fcntl", &[libc::EMFILE]),
    (libc::SYS_ftruncate, "ftruncate", &[libc::ENOSPC]),
    (libc::SYS_lseek, "lseek", &[libc::EIO]),
    (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", &[libc::EAGAIN]),
];

/// One request, and how it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Which call: an index of [`CALLS`].
    call: usize,
    /// The request's number among the requests of that call, from 0.
    number: usize,
    /// The error number.
    pub error: c_int,
    /// Whether later ones fail too.
    lasting: bool,
}

impl Point {
    /// Whether it is of this call.
    pub fn is(self, call: &str) -> bool {
        CALLS[self.call].1 == call
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Point { call, number, error, lasting } = self;
        let error = std::io::Error::from_raw_os_error(*error);
        let lasting = if *lasting { " and later" } else { "" };
        write!(formatter, "{} number {number}{lasting}: {error}", CALLS[*call].1)
    }
}

static COUNTS: [AtomicUsize; CALLS.len()] = [const { AtomicUsize::new(0) }; CALLS.len()];
static ARMED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// The point, in parts.
static CALL: AtomicUsize = AtomicUsize::new(usize::MAX);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static ERROR: AtomicI32 = AtomicI32::new(0);
static LASTING: AtomicBool = AtomicBool::new(false);

/// Counts the requests of the calling thread, and of threads that it makes, from now on. It cannot be undone.
pub fn watch() {
    // SAFETY: zero is a value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_call as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the handler is async-signal-safe: atomics, and one system call.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) }, 0);
    let through = let_through() as u64;
    let mut filter = Vec::new();
    // Offsets are those of struct seccomp_data.
    load(&mut filter, 8);
    filter.push(jump(through as u32, 0, 3));
    load(&mut filter, 12);
    filter.push(jump((through >> 32) as u32, 0, 1));
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    load(&mut filter, 0);
    for (number, name, _) in CALLS {
        if name == "madvise" {
            // A thread that ends calls MADV_DONTNEED with all signals blocked.
            filter.push(jump(number as u32, 0, 4));
            load(&mut filter, 32);
            filter.push(jump(libc::MADV_POPULATE_WRITE as u32, 0, 1));
            filter.push(answer(libc::SECCOMP_RET_TRAP));
            filter.push(answer(libc::SECCOMP_RET_ALLOW));
        } else {
            filter.push(jump(number as u32, 0, 1));
            filter.push(answer(libc::SECCOMP_RET_TRAP));
        }
    }
    install(filter);
}

/// Calls that a kernel, or the filter of a container, may not have at all.
const OPTIONAL: [(&str, c_long, Option<c_int>); 23] = [
    ("memfd_create", libc::SYS_memfd_create, None),
    ("userfaultfd", libc::SYS_userfaultfd, None),
    ("io_uring_setup", libc::SYS_io_uring_setup, None),
    ("clone3", libc::SYS_clone3, None),
    ("openat2", libc::SYS_openat2, None),
    ("statx", libc::SYS_statx, None),
    ("faccessat2", libc::SYS_faccessat2, None),
    ("process_vm_readv", libc::SYS_process_vm_readv, None),
    ("process_vm_writev", libc::SYS_process_vm_writev, None),
    ("process_madvise", libc::SYS_process_madvise, None),
    ("close_range", libc::SYS_close_range, None),
    ("membarrier", libc::SYS_membarrier, None),
    ("getrandom", libc::SYS_getrandom, None),
    ("pidfd_open", libc::SYS_pidfd_open, None),
    ("copy_file_range", libc::SYS_copy_file_range, None),
    ("preadv2", libc::SYS_preadv2, None),
    ("mincore", libc::SYS_mincore, None),
    ("mlock", libc::SYS_mlock, None),
    ("sched_getaffinity", libc::SYS_sched_getaffinity, None),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, None),
    ("fallocate", libc::SYS_fallocate, None),
    ("madvise/populate_write", libc::SYS_madvise, Some(libc::MADV_POPULATE_WRITE)),
    ("madvise/dontfork", libc::SYS_madvise, Some(libc::MADV_DONTFORK)),
];

/// The names of calls that [`refuse`] knows.
pub fn optional() -> impl Iterator<Item = &'static str> {
    OPTIONAL.iter().map(|(name, ..)| *name)
}

/// Has the kernel refuse a call to this thread, and to those that it makes, with an error: `NAME=ENOSYS`, or `EINVAL` or
/// `EPERM`. It cannot be undone. Without a text nothing is refused.
pub fn refuse(text: &str) {
    let Some((name, error)) = text.split_once('=') else { return };
    let (_, number, advice) =
        OPTIONAL.iter().find(|(known, ..)| *known == name).expect("a call of the list");
    let error = match error {
        "EPERM" => libc::EPERM,
        "EINVAL" => libc::EINVAL,
        _ => libc::ENOSYS,
    };
    let mut filter = Vec::new();
    // Offsets are those of struct seccomp_data.
    load(&mut filter, 0);
    match advice {
        None => filter.push(jump(*number as u32, 0, 1)),
        Some(advice) => {
            filter.push(jump(*number as u32, 0, 3));
            load(&mut filter, 32);
            filter.push(jump(*advice as u32, 0, 1));
        }
    }
    filter.push(answer(libc::SECCOMP_RET_ERRNO | error as u32));
    install(filter);
}

/// Installs a filter that permits everything that it has not answered.
fn install(mut filter: Vec<libc::sock_filter>) {
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both take what they are given here (prctl(2)); the program outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let status =
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(status, 0, "seccomp: {}", std::io::Error::last_os_error());
    }
}

fn load(filter: &mut Vec<libc::sock_filter>, offset: u32) {
    let code = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    filter.push(libc::sock_filter { code, jt: 0, jf: 0, k: offset });
}

fn jump(equal: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code, jt, jf, k: equal }
}

fn answer(value: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

extern "C" fn on_call(_signal: c_int, _information: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted registers.
    let mut request = unsafe { Request::of(context) };
    let call = request.number();
    let index = CALLS.iter().position(|(number, ..)| *number == call).unwrap_or(0);
    let fails = ARMED.load(Ordering::SeqCst) && {
        let number = COUNTS[index].fetch_add(1, Ordering::SeqCst);
        let first = NUMBER.load(Ordering::SeqCst);
        let named = number == first || LASTING.load(Ordering::SeqCst) && number > first;
        named && CALL.load(Ordering::SeqCst) == index
    };
    let result = if fails {
        REFUSED.fetch_add(1, Ordering::SeqCst);
        -i64::from(ERROR.load(Ordering::SeqCst))
    } else {
        request.make()
    };
    request.answer(result);
}

/// Calls `action` with requests refused. Also returns whether a request was refused.
pub fn refusing<T>(point: Point, action: impl FnOnce() -> T) -> (T, bool) {
    CALL.store(point.call, Ordering::SeqCst);
    NUMBER.store(point.number, Ordering::SeqCst);
    ERROR.store(point.error, Ordering::SeqCst);
    LASTING.store(point.lasting, Ordering::SeqCst);
    let result = counted(action);
    CALL.store(usize::MAX, Ordering::SeqCst);
    (result, REFUSED.swap(0, Ordering::SeqCst) != 0)
}

fn counted<T>(action: impl FnOnce() -> T) -> T {
    COUNTS.iter().for_each(|count| count.store(0, Ordering::SeqCst));
    ARMED.store(true, Ordering::SeqCst);
    let result = action();
    ARMED.store(false, Ordering::SeqCst);
    result
}

/// Calls `action` undisturbed and returns how often it made each of the [`CALLS`].
pub fn count<T>(action: impl FnOnce() -> T) -> Vec<usize> {
    counted(action);
    COUNTS.iter().map(|count| count.load(Ordering::SeqCst)).collect()
}

/// All ways in which the kernel may refuse one of so many requests, or one and all that follow.
pub fn points(counts: &[usize]) -> Vec<Point> {
    let mut points = Vec::new();
    for (call, &count) in counts.iter().enumerate() {
        for number in 0..count {
            let (_, name, errors) = CALLS[call];
            let point = |error, lasting| Point { call, number, error, lasting };
            points.extend(errors.iter().map(|&error| point(error, false)));
            if ["mmap", "mprotect", "munmap", "openat"].contains(&name) {
                points.push(point(errors[0], true));
            }
        }
    }
    points
}
