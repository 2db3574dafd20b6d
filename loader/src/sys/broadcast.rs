//! Writes bytes into the static TLS of every running thread.
//!
//! glibc does not export its list of threads. The kernel lists them in `/proc/self/task`, and a signal
//! handler that runs in each thread finds the thread's own memory.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, mem, ptr, thread};

use crate::arch;
use crate::sys::lock::{Mutex, Rank};

/// A thread that has not answered after this long keeps the signal blocked.
const PATIENCE: Duration = Duration::from_secs(2);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(Rank::Broadcast, ());

/// What the handler copies; the source is null between broadcasts.
static SOURCE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Copies `bytes` to `offset` from the thread pointer, in every thread of the process. The error names the
/// thread that prevents it. Nobody may use the bytes at that place yet.
pub(crate) fn write_everywhere(offset: isize, bytes: &[u8]) -> Result<(), String> {
    let _guard = ONE_AT_A_TIME.lock();
    copy_here(offset, bytes.as_ptr(), bytes.len());
    // SAFETY: no arguments.
    let mut done = HashSet::from([unsafe { libc::gettid() }]);
    if tasks()?.iter().all(|task| done.contains(task)) {
        return Ok(());
    }
    OFFSET.store(offset, Ordering::Relaxed);
    LENGTH.store(bytes.len(), Ordering::Relaxed);
    SOURCE.store(bytes.as_ptr().cast_mut(), Ordering::Release);
    let signal = Handler::install().map_err(|error| format!("no signal is free: {error}"))?;
    let outcome = deliver(&signal, &mut done);
    SOURCE.store(ptr::null_mut(), Ordering::Release);
    if outcome.is_err() {
        // A late delivery must find the handler, which does nothing then.
        mem::forget(signal);
    }
    outcome
}

/// Signals every task that has not answered, until the kernel lists no other. A thread that is
/// created meanwhile has copied its TLS from the template, which holds the bytes already.
fn deliver(signal: &Handler, done: &mut HashSet<i32>) -> Result<(), String> {
    loop {
        let mut waiting: Vec<(i32, &'static AtomicBool)> = Vec::new();
        for task in tasks()?.into_iter().filter(|task| !done.contains(task)) {
            // Leaked, a byte each: a late handler may still write to it.
            let answer = &*Box::leak(Box::new(AtomicBool::new(false)));
            let sent = signal.send(task, answer).map_err(|error| {
                format!("thread {task} cannot be sent a signal, by which its data is initialised: {error}")
            })?;
            if sent {
                waiting.push((task, answer));
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        for (task, answer) in waiting {
            while !answer.load(Ordering::Acquire) && is_alive(task) {
                if started.elapsed() > PATIENCE {
                    return Err(format!(
                        "it has initialised thread-local data that initial-exec code reaches, and thread \
                         {task} keeps signal {} blocked, by which it would be given to running threads",
                        signal.number
                    ));
                }
                thread::sleep(Duration::from_micros(50));
            }
            done.insert(task);
        }
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

/// A real-time signal that nobody handles, handled by us until dropped.
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
