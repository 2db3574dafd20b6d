//! The Python stacks of an interpreter's threads: of one under the GIL, and of all while one of them keeps the GIL.
//!
//! CPython's own function reads them without a lock, for a process that is about to die (`faulthandler`). Here the
//! threads run on, so what it reads may change and lead it astray. So it runs in a child with a copy of the memory, in
//! which nothing changes any more. A fault ends the child alone. The child is made by the system call: handlers of
//! pthread_atfork(3) wait for locks, which a stuck thread may hold.

use crate::interpreter::Inner;
use crate::payload::Sink;
use crate::payload::table::{PayloadTable, Text};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

/// A child takes less than a millisecond, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// The stacks as `faulthandler` writes them, or as much of them as could be read.
///
/// # Errors
///
/// The kernel's refusal of a memory file or of a process.
pub(super) fn of(table: &PayloadTable) -> io::Result<String> {
    // The thread-local data of libpython that is read there exists from here on.
    // SAFETY: any thread may ask.
    unsafe { (table.attached)() };
    // SAFETY: a name and a flag; the descriptor is new, and nobody else owns it.
    let mut file = unsafe {
        match libc::memfd_create(c"stacks".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    wait(child(table.stacks, file.as_raw_fd())?);
    file.rewind()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The frames of one thread, as [`of_thread`] has them, if it runs Python code. The caller is attached to `inner`, so nothing
/// changes meanwhile.
pub(super) fn of_attached(inner: &Inner, thread: u64) -> Option<String> {
    unsafe extern "C" fn line(context: *mut c_void, text: Text) {
        // SAFETY: the list of the caller, and a text that lives during the call.
        let (lines, text) = unsafe { (&mut *context.cast::<Vec<String>>(), text.bytes()) };
        lines.push(String::from_utf8_lossy(text).into_owned());
    }
    let (mut lines, mut sink) = (Vec::<String>::new(), Sink::default());
    let context = (&raw mut lines).cast();
    // SAFETY: attached; the function takes the context that goes with it.
    let status = unsafe { (inner.table().stack)(thread, line, context, sink.pointer()) };
    if let Err(error) = sink.check(status) {
        tracing::debug!(interpreter = inner.name(), %error, "frames cannot be read under the GIL");
    }
    // As a traceback has them.
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A child that calls `write` with `output` as descriptor 2.
fn child(write: unsafe extern "C" fn(), output: c_int) -> io::Result<libc::pid_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are valid. The child calls functions of signal-safety(7) and `write`, which takes no lock, and ends
    // without a return. Handlers of signals do not run in it: all signals are blocked until then.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        // As fork(2), but for the handlers, and without a signal when it ends.
        let process = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if process == 0 {
            apart(write, output);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if process < 0 { Err(error) } else { Ok(process as libc::pid_t) }
    }
}

/// Waits for a child's end, and ends it if that takes long.
fn wait(child: libc::pid_t) {
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    // SAFETY: a child of this process that nobody else waits for. It sends no signal, so only __WCLONE finds it.
    unsafe {
        while libc::waitpid(child, ptr::null_mut(), libc::__WCLONE | libc::WNOHANG) == 0 {
            if Instant::now() >= end {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), libc::__WCLONE);
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}

/// What the child does.
///
/// # Safety
///
/// The process is a child with one thread, which ends here.
unsafe fn apart(write: unsafe extern "C" fn(), output: c_int) -> ! {
    // SAFETY: each call is one of signal-safety(7), except `write`, which faults at worst.
    unsafe {
        let mut ending: libc::sigaction = std::mem::zeroed();
        ending.sa_sigaction = end as *const () as usize;
        let mut faults: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut faults);
        // The default action would write a core file.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
            libc::sigaction(signal, &ending, ptr::null_mut());
            libc::sigaddset(&mut faults, signal);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &faults, ptr::null_mut());
        if libc::dup2(output, 2) == 2 {
            write();
        }
        libc::_exit(0)
    }
}

/// Ends the child.
extern "C" fn end(_signal: c_int) {
    // SAFETY: one of signal-safety(7).
    unsafe { libc::_exit(1) };
}

/// The part of a text of `faulthandler` that is about one thread.
pub(super) fn of_thread(text: &str, thread: u64) -> Option<String> {
    let name = format!("0x{thread:016x}");
    let mut parts = text.split("\n\n");
    let part = parts.find(|part| part.lines().next().is_some_and(|line| line.contains(&name)))?;
    let mut lines: Vec<_> = part.lines().skip(1).map(str::to_owned).collect();
    // As a traceback has them.
    lines.reverse();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::of_thread;

    #[test]
    fn the_frames_of_one_thread_are_in_the_order_of_a_traceback() {
        let text = "Thread 0x00007f0000000001 (most recent call first):\n  File \"a.py\", line 1 in f\n\n\
                    Current thread 0x00007f0000000002 [name] (most recent call first):\n  File \"b.py\", line 2 in inner\n  \
                    File \"b.py\", line 9 in outer\n";
        let frames = "  File \"b.py\", line 9 in outer\n  File \"b.py\", line 2 in inner";
        assert_eq!(of_thread(text, 0x7f00_0000_0002).as_deref(), Some(frames));
        assert_eq!(of_thread(text, 3), None);
    }
}
