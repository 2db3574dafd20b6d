//! The Python stacks of an interpreter's threads: of one under the GIL, and of all while one of them keeps the GIL.
//!
//! CPython's own function reads them without a lock, for a process that is about to die (`faulthandler`). Here the
//! threads run on, so what it reads may change and lead it astray. So it runs in a child with a copy of the memory, in
//! which nothing changes any more ([`crate::crash::stacks`]).

use crate::crash::stacks::{ChildMemory, read};
use crate::interpreter::Inner;
use crate::payload::Sink;
use crate::payload::table::{PayloadTable, Text};
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};

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
    let outcome = read(table.stacks, file.as_raw_fd(), ChildMemory::Copied);
    outcome.map_err(io::Error::from_raw_os_error)?;
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
