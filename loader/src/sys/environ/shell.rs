//! `system`, `popen` and `pclose` for an environment that is not the process's.
//!
//! glibc's functions pass the process's environment on (sysdeps/posix/system.c, libio/iopopen.c), and cannot pass
//! another one.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Environment;
use crate::id::DomainId;
use crate::sys::errno::{failed, set_errno};
use crate::sys::lock::{Mutex, Rank};
use crate::sys::{children, descriptors};

/// The waiting calls of `system`, and the actions, before the first of them, of the signals that it ignores.
struct Waiting {
    calls: usize,
    before: Option<[libc::sigaction; 2]>,
}

static WAITING: Mutex<Waiting> = Mutex::new(Rank::Shells, Waiting { calls: 0, before: None });

/// The processes behind the streams of [`popen`], by the stream's address.
static STREAMS: Mutex<BTreeMap<usize, Child>> = Mutex::new(Rank::Shells, BTreeMap::new());

/// How many there are.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A process, and the domain whose child it is.
type Child = (libc::pid_t, Option<DomainId>);

/// The signals that a program ignores while `system` waits (POSIX).
const IGNORED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// `system(command)`. The calling thread is not cancelled while it waits.
pub(crate) fn run_shell(environment: &Environment, command: Option<&CStr>) -> c_int {
    // A call without a command asks whether a shell exists.
    let Some(command) = command else {
        return c_int::from(run_shell(environment, Some(c"exit 0")) == 0);
    };
    let _not_cancelled = NotCancelled::begin();
    let before = begin_to_ignore();
    let mask = mask_of(&[libc::SIGCHLD]);
    let mut mask_before = mask_of(&[]);
    // SAFETY: valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &mask, &mut mask_before) };
    // The shell gets the signals as they were.
    let reset: Vec<c_int> = IGNORED
        .into_iter()
        .zip(before)
        .filter(|(_, action)| action.sa_sigaction != libc::SIG_IGN)
        .map(|(signal, _)| signal)
        .collect();
    let mut attributes = Attributes::new();
    attributes.set_signals(&mask_of(&reset), &mask_before);
    let outcome = spawn(environment, command, &Actions::new(), &attributes).and_then(wait_for);
    end_to_ignore();
    // SAFETY: the set that the first call has filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask_before, ptr::null_mut()) };
    match outcome {
        Ok(status) => status,
        // As if the shell could not be executed: exit status 127.
        Err(Failure::Spawn(code)) => {
            set_errno(code);
            127 << 8
        }
        Err(Failure::Wait(code)) => failed(code),
    }
}

/// Whether a stream is one that [`popen`] has made.
pub(crate) fn is_pipe(stream: *mut libc::FILE) -> bool {
    OPEN.load(Ordering::Relaxed) > 0 && STREAMS.lock().contains_key(&(stream as usize))
}

/// `popen(command, mode)`, for code of `domain`, whose child the command is. Programs that the process executes later do not inherit the stream.
pub(crate) fn popen(
    environment: &Environment,
    command: &CStr,
    mode: &CStr,
    domain: Option<DomainId>,
) -> *mut libc::FILE {
    let reads = match mode.to_bytes() {
        b"r" | b"re" | b"er" => true,
        b"w" | b"we" | b"ew" => false,
        _ => {
            set_errno(libc::EINVAL);
            return ptr::null_mut();
        }
    };
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return ptr::null_mut();
    }
    let [read, write] = ends;
    let (own, theirs, standard) = if reads { (read, write, 1) } else { (write, read, 0) };
    let close = |descriptor| {
        // SAFETY: a descriptor that only this function knows.
        unsafe { libc::close(descriptor) }
    };
    let mode = if reads { c"r" } else { c"w" };
    // SAFETY: a descriptor of this function, which the stream takes over.
    let stream = unsafe { libc::fdopen(own, mode.as_ptr()) };
    if stream.is_null() {
        close(own);
        close(theirs);
        return stream;
    }
    let mut actions = Actions::new();
    let child = actions
        .duplicate(theirs, standard)
        .and_then(|()| spawn(environment, command, &actions, &Attributes::new()));
    close(theirs);
    match child {
        Ok(child) => {
            if let Some(domain) = domain {
                children::note(child, domain);
                descriptors::note(own, domain);
            }
            OPEN.fetch_add(1, Ordering::Relaxed);
            STREAMS.lock().insert(stream as usize, (child, domain));
            stream
        }
        Err(Failure::Spawn(code) | Failure::Wait(code)) => {
            // SAFETY: the stream made above, which nobody else has seen.
            unsafe { libc::fclose(stream) };
            set_errno(code);
            ptr::null_mut()
        }
    }
}

/// `pclose(stream)`, of a stream that [`popen`] or glibc's has made.
///
/// # Safety
/// As pclose(3).
pub(crate) unsafe fn pclose(stream: *mut libc::FILE) -> c_int {
    let child = STREAMS.lock().remove(&(stream as usize));
    let Some((child, domain)) = child else {
        // SAFETY: the caller's promise.
        return unsafe { libc::pclose(stream) };
    };
    OPEN.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { libc::fclose(stream) };
    let outcome = wait_for(child);
    domain.into_iter().for_each(|domain| children::forget(child, domain));
    match outcome {
        Ok(status) => status,
        Err(Failure::Spawn(code) | Failure::Wait(code)) => failed(code),
    }
}

/// An error number, and the step that failed.
enum Failure {
    Spawn(c_int),
    Wait(c_int),
}

/// Starts `/bin/sh -c command`.
fn spawn(
    environment: &Environment,
    command: &CStr,
    actions: &Actions,
    attributes: &Attributes,
) -> Result<libc::pid_t, Failure> {
    // The command may begin with `-`.
    let words = [c"sh", c"-c", c"--", command].map(CStr::as_ptr);
    let mut arguments = [ptr::null(); 5];
    arguments[..4].copy_from_slice(&words);
    let mut child = 0;
    // SAFETY: initialized actions and attributes, and arrays of strings that end with a null pointer.
    let code = unsafe {
        libc::posix_spawn(
            &mut child,
            c"/bin/sh".as_ptr(),
            &actions.0,
            &attributes.0,
            arguments.as_ptr().cast(),
            environment.pointers().cast(),
        )
    };
    if code == 0 { Ok(child) } else { Err(Failure::Spawn(code)) }
}

/// Waits for the end of a child, and returns its status.
fn wait_for(child: libc::pid_t) -> Result<c_int, Failure> {
    let mut status = 0;
    loop {
        // SAFETY: a place for the status.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Failure::Wait(error.raw_os_error().unwrap_or(libc::ECHILD)));
        }
    }
}

/// Ignores [`IGNORED`] until the last call of `system` has ended. Returns their actions before the first.
fn begin_to_ignore() -> [libc::sigaction; 2] {
    let mut waiting = WAITING.lock();
    waiting.calls += 1;
    *waiting.before.get_or_insert_with(|| IGNORED.map(ignore))
}

fn ignore(signal: c_int) -> libc::sigaction {
    // SAFETY: a structure of integers, for which zeroes mean no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = libc::SIG_IGN;
    let mut before = action;
    // SAFETY: valid structures; to ignore a signal runs no code.
    unsafe { libc::sigaction(signal, &action, &mut before) };
    before
}

fn end_to_ignore() {
    let mut waiting = WAITING.lock();
    waiting.calls -= 1;
    if waiting.calls == 0
        && let Some(before) = waiting.before.take()
    {
        for (signal, action) in IGNORED.into_iter().zip(before) {
            // SAFETY: the action that the program had installed.
            unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
        }
    }
}

fn mask_of(signals: &[c_int]) -> libc::sigset_t {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the set; the numbers are those of signals.
    unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(mask.as_mut_ptr(), signal);
        }
        mask.assume_init()
    }
}

/// Attributes of a new process.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> Attributes {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: it fills the place (glibc's never fails).
        unsafe {
            libc::posix_spawnattr_init(attributes.as_mut_ptr());
            Attributes(attributes.assume_init())
        }
    }

    /// The signals that get their default action, and those that are blocked.
    fn set_signals(&mut self, default: &libc::sigset_t, blocked: &libc::sigset_t) {
        let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: initialized by `new`, and valid sets.
        unsafe {
            libc::posix_spawnattr_setsigdefault(&mut self.0, default);
            libc::posix_spawnattr_setsigmask(&mut self.0, blocked);
            libc::posix_spawnattr_setflags(&mut self.0, flags as libc::c_short);
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialized by `new`.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

/// The actions of a new process before it executes its program.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> Actions {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: it fills the place (glibc's never fails).
        unsafe {
            libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
            Actions(actions.assume_init())
        }
    }

    /// `descriptor` becomes `standard`. Where they are equal, the child inherits it (glibc 2.29).
    fn duplicate(&mut self, descriptor: c_int, standard: c_int) -> Result<(), Failure> {
        // SAFETY: initialized by `new`.
        match unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, descriptor, standard) } {
            0 => Ok(()),
            code => Err(Failure::Spawn(code)),
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialized by `new`.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// The calling thread is not cancelled until this is dropped: it could not release what it holds.
struct NotCancelled {
    before: c_int,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl NotCancelled {
    fn begin() -> NotCancelled {
        const PTHREAD_CANCEL_DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: a state that <pthread.h> names, and a place for the one before.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        NotCancelled { before }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: the state that the thread had.
        unsafe { pthread_setcancelstate(self.before, &mut ignored) };
    }
}
