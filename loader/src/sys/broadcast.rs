//! Writes bytes into the static TLS of every running thread.
//!
//! glibc writes such bytes through its list of threads, under its lock (2.36, elf/dl-tls.c,
//! `_dl_init_static_tls`). It exports neither. The kernel lists threads in `/proc/self/task`, and a signal
//! handler that runs in a thread finds that thread's memory, which cannot go away meanwhile. The price: a call
//! that waits in the kernel and that SA_RESTART does not cover (signal(7): `nanosleep`, `epoll_wait`, `poll`)
//! returns EINTR. These broadcasts happen only if a load brings initialised thread-local data that initial-exec code
//! reaches.
//!
//! A thread that blocks the signal gets the bytes from outside. Its thread pointer follows from an address that
//! glibc registers with the kernel for each thread (`set_robust_list`, nptl/pthread_create.c, `start_thread`).
//! That address is at the same distance from the thread pointer in all threads. Bytes that a recycled replica uses
//! again are written from outside where that is possible: no thread is disturbed because an interpreter was replaced.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, mem, ptr};

use crate::arch;
use crate::sys::lock::{Guard, Mutex, Rank};
use crate::sys::thread;

/// How long a thread may take to handle the signal.
const PATIENCE: Duration = Duration::from_secs(2);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(Rank::Broadcast, ());

/// The bytes that the handler copies; the source is null between broadcasts.
static SOURCE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Signals that were sent. A sender's earlier writes come before the handler's actions: the kernel ensures it, and a memory
/// model without the kernel needs these two steps.
static SENT: AtomicUsize = AtomicUsize::new(0);

/// The right to change the data that threads begin with, and to write into running threads.
pub(crate) struct Turn(#[allow(dead_code, reason = "held")] Guard<'static, ()>);

/// Waits for it.
pub(crate) fn turn() -> Turn {
    Turn(ONE_AT_A_TIME.lock())
}

impl Turn {
    /// Copies `bytes` to `offset` from the thread pointer, in every thread of the process. The error names
    /// the thread that prevents it. Nobody may use the bytes at that place yet.
    pub(crate) fn write_everywhere(
        &self,
        offset: isize,
        bytes: &[u8],
        first: First,
    ) -> Result<(), String> {
        copy_here(offset, bytes.as_ptr(), bytes.len());
        let mut done = HashSet::from([thread::number()]);
        if tasks()?.iter().all(|task| done.contains(task)) {
            return Ok(());
        }
        OFFSET.store(offset, Ordering::Relaxed);
        LENGTH.store(bytes.len(), Ordering::Relaxed);
        SOURCE.store(bytes.as_ptr().cast_mut(), Ordering::Release);
        let signal = Handler::install().map_err(|error| format!("no signal is free: {error}"))?;
        let outcome =
            Delivery { signal: &signal, offset, bytes, first, late: false }.run(&mut done);
        SOURCE.store(ptr::null_mut(), Ordering::Release);
        // The handler must stay for a late delivery. It does nothing then.
        if outcome.as_ref().map_or(true, |late| *late) {
            mem::forget(signal);
        }
        outcome.map(drop)
    }
}

/// The method to try first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A signal.
    Signal,
    /// From outside: system calls of the thread are not interrupted.
    Outside,
}

/// How a thread can be reached.
enum Reach {
    Signal,
    /// It blocks the signal.
    Outside,
    /// It runs no code of the process, or it has ended.
    Never,
}

struct Delivery<'a> {
    signal: &'a Handler,
    offset: isize,
    bytes: &'a [u8],
    first: First,
    /// Whether a signal may still be waiting for its thread.
    late: bool,
}

impl Delivery<'_> {
    /// Continues until every thread that the kernel lists has the bytes. Returns whether a thread may handle
    /// a signal later.
    fn run(mut self, done: &mut HashSet<i32>) -> Result<bool, String> {
        let started = Instant::now();
        loop {
            let mut waiting: Vec<(i32, &'static AtomicBool)> = Vec::new();
            let mut newborn = None;
            for task in tasks()? {
                if done.contains(&task) {
                    continue;
                }
                if self.first == First::Outside && self.write_into(task) {
                    done.insert(task);
                    continue;
                }
                match reach(task, self.signal.number) {
                    Reach::Never => drop(done.insert(task)),
                    Reach::Outside if self.write_into(task) => drop(done.insert(task)),
                    // A thread begins so: glibc registers the address first, and unblocks signals then.
                    Reach::Outside => newborn = Some(task),
                    Reach::Signal => {
                        // It is leaked, a byte each: a late handler may still write to it.
                        let answer = &*Box::leak(Box::new(AtomicBool::new(false)));
                        let sent = self.signal.send(task, answer).map_err(|error| {
                            let thread = named(task);
                            format!("{thread} cannot be sent a signal, by which its data is initialised: {error}")
                        })?;
                        if sent {
                            waiting.push((task, answer));
                        }
                    }
                }
            }
            match (waiting.is_empty(), newborn) {
                (true, None) => return Ok(self.late),
                (_, Some(task)) if started.elapsed() > PATIENCE => {
                    return Err(format!(
                        "it has initialised thread-local data that initial-exec code reaches, which every thread is \
                         given. {} blocks signal {}, and the C library did not start it, so nothing says where its \
                         data is; unblock the signal in that thread, or load the library before the thread starts",
                        named(task),
                        self.signal.number
                    ));
                }
                (true, _) => std::thread::sleep(Duration::from_micros(50)),
                (false, _) => {}
            }
            for (task, answer) in waiting {
                self.wait(task, answer)?;
                done.insert(task);
            }
        }
    }

    /// Waits until the thread has handled the signal. If the thread has blocked the signal meanwhile, it gets
    /// the bytes from outside.
    fn wait(&mut self, task: i32, answer: &AtomicBool) -> Result<(), String> {
        let started = Instant::now();
        let mut asked = started;
        while !answer.load(Ordering::Acquire) && is_alive(task) {
            if asked.elapsed() > Duration::from_millis(1) {
                if let Reach::Outside = reach(task, self.signal.number)
                    && self.write_into(task)
                {
                    self.late = true;
                    return Ok(());
                }
                asked = Instant::now();
            }
            if started.elapsed() > PATIENCE {
                return Err(format!(
                    "it has initialised thread-local data that initial-exec code reaches, which every thread is given \
                     by signal {}. {} has not handled it within {} s; load the library again when that thread runs",
                    self.signal.number,
                    named(task),
                    PATIENCE.as_secs()
                ));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Copies the bytes into another thread's static TLS. False if the place of that TLS is not known now.
    ///
    /// The kernel does the copying, so that memory that is gone is an error. A thread that is there after
    /// the copy was there during it. If it has ended, glibc keeps its stack, and initialises the TLS there again for
    /// the next thread (nptl/allocatestack.c, `get_cached_stack`), unless more than 40 MiB of stacks are
    /// kept.
    fn write_into(&self, task: i32) -> bool {
        // SAFETY: no arguments.
        let (own, process) = (thread::number(), unsafe { libc::getpid() });
        let (Some(own), Some(other)) = (robust_list(own), robust_list(task)) else { return false };
        let address = arch::thread_pointer()
            .wrapping_add(other.wrapping_sub(own))
            .wrapping_add_signed(self.offset);
        let length = self.bytes.len();
        let from = libc::iovec { iov_base: self.bytes.as_ptr().cast_mut().cast(), iov_len: length };
        let to = libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: length };
        // SAFETY: the bytes are valid. They go to static TLS of this process that nobody uses yet: the thread
        // is at the distance from this one at which its list is.
        let copied = unsafe { libc::process_vm_writev(process, &from, 1, &to, 1, 0) };
        copied == length as isize && robust_list(task) == Some(other)
    }
}

/// Where glibc keeps a thread's list of robust mutexes: within its thread data. `None` for a thread that
/// has just begun, that glibc did not make, or that has ended.
fn robust_list(task: i32) -> Option<usize> {
    let (mut head, mut length) = (0_usize, 0_usize);
    // SAFETY: two words are written (get_robust_list(2)).
    let status =
        unsafe { libc::syscall(libc::SYS_get_robust_list, task, &raw mut head, &raw mut length) };
    (status == 0 && head != 0).then_some(head)
}

/// The state of a thread in `/proc/self/task/TASK` (proc(5)).
fn reach(task: i32, signal: c_int) -> Reach {
    /// `PF_IO_WORKER` (linux/sched.h): a thread of io_uring, which the kernel runs.
    const IO_WORKER: u64 = 0x10;
    let file = |name: &str| fs::read_to_string(format!("/proc/self/task/{task}/{name}"));
    let Ok(status) = file("status") else {
        return if is_alive(task) { Reach::Signal } else { Reach::Never };
    };
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // The first thread stays listed after its end (pthread_exit), until the last one ends.
    if field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return Reach::Never;
    }
    let blocked = field("SigBlk:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    if blocked >> (signal - 1) & 1 == 0 {
        return Reach::Signal;
    }
    // The ninth field; the second, a name in parentheses, may hold anything.
    let stat = file("stat").unwrap_or_default();
    let flags = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(6)?.parse().ok());
    if flags.is_some_and(|flags: u64| flags & IO_WORKER != 0) {
        Reach::Never
    } else {
        Reach::Outside
    }
}

/// A thread by its number and its name (proc(5), `comm`).
fn named(task: i32) -> String {
    match fs::read_to_string(format!("/proc/self/task/{task}/comm")) {
        Ok(name) => format!("thread {task} ({})", name.trim_end()),
        Err(_) => format!("thread {task}"),
    }
}

fn tasks() -> Result<Vec<i32>, String> {
    let list = || -> io::Result<Vec<i32>> {
        let mut tasks = Vec::new();
        for entry in fs::read_dir("/proc/self/task")? {
            tasks.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        Ok(tasks)
    };
    list().map_err(|error| format!("the running threads cannot be listed: {error}"))
}

/// Whether the thread may still exist. If it exists and counts as gone, the signal that it has yet to
/// handle ends the process.
fn is_alive(task: i32) -> bool {
    fs::exists(format!("/proc/self/task/{task}")).unwrap_or(true)
}

fn copy_here(offset: isize, source: *const u8, length: usize) {
    let target = arch::thread_pointer().wrapping_add_signed(offset) as *mut u8;
    // SAFETY: the callers' promise: a part of this thread's static TLS that nobody uses yet, and
    // as many bytes at the source.
    unsafe { ptr::copy_nonoverlapping(source, target, length) };
}

/// A real-time signal that nobody else handles, handled by us until dropped.
struct Handler {
    number: c_int,
    previous: libc::sigaction,
}

impl Handler {
    fn install() -> io::Result<Handler> {
        for number in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
            // SAFETY: zero is a value of every field.
            let mut previous: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: asks only; the place is valid.
            if unsafe { libc::sigaction(number, ptr::null(), &mut previous) } != 0
                // Ours is there after a broadcast that failed, for deliveries that are late.
                || ![libc::SIG_DFL, on_signal as *const () as usize].contains(&previous.sa_sigaction)
            {
                continue;
            }
            // SAFETY: zero is a value of every field.
            let mut ours: libc::sigaction = unsafe { mem::zeroed() };
            ours.sa_sigaction = on_signal as *const () as usize;
            // Interrupted system calls go on, and a small stack is spared.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: the handler is async-signal-safe: it copies bytes and sets a flag.
            if unsafe { libc::sigaction(number, &ours, ptr::null_mut()) } == 0 {
                return Ok(Handler { number, previous });
            }
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy))
    }

    /// Queues the signal to one thread; false if it has ended. The kernel may have no room for it
    /// (EAGAIN: RLIMIT_SIGPENDING).
    fn send(&self, task: i32, answer: &'static AtomicBool) -> io::Result<bool> {
        /// `siginfo_t` of a queued signal (sigqueue(3)): number, errno, code, padding, sender's
        /// process and user, value.
        #[repr(C)]
        struct Information {
            number: c_int,
            errno: c_int,
            code: c_int,
            padding: c_int,
            process: c_int,
            user: u32,
            value: usize,
            rest: [u64; 12],
        }
        const SI_QUEUE: c_int = -1;
        // SAFETY: no arguments.
        let process = unsafe { libc::getpid() };
        let information = Information {
            number: self.number,
            errno: 0,
            code: SI_QUEUE,
            padding: 0,
            process,
            // SAFETY: no arguments.
            user: unsafe { libc::getuid() },
            value: ptr::from_ref(answer) as usize,
            rest: [0; 12],
        };
        SENT.fetch_add(1, Ordering::Release);
        // SAFETY: the record has the kernel's size of siginfo_t (128 bytes).
        let status = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                task,
                self.number,
                &raw const information,
            )
        };
        match io::Error::last_os_error() {
            _ if status == 0 => Ok(true),
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            error => Err(error),
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: restores what `install` found; every signal that was sent has been handled.
        unsafe { libc::sigaction(self.number, &self.previous, ptr::null_mut()) };
    }
}

extern "C" fn on_signal(_number: c_int, information: *mut libc::siginfo_t, _context: *mut c_void) {
    SENT.load(Ordering::Acquire);
    let source = SOURCE.load(Ordering::Acquire);
    if !source.is_null() {
        copy_here(OFFSET.load(Ordering::Relaxed), source, LENGTH.load(Ordering::Relaxed));
    }
    // SAFETY: the kernel passes the record of `send`, whose value is the flag's address; a signal
    // of another origin carries none (si_code) and is passed over.
    unsafe {
        if (*information).si_code == -1
            && let Some(answer) = (*information).si_value().sival_ptr.cast::<AtomicBool>().as_ref()
        {
            answer.store(true, Ordering::Release);
        }
    }
}
