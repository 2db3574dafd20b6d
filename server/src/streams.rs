//! The C library's streams at the end of a process that runs no exit handlers.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Writes what native code of models has left in streams of the C library (`printf`), as `exit(3)` does. At most for so long: a thread that
/// is inside of a stream, or a reader that does not read, would hold it up. False if it was not done.
pub fn flush_streams_within(limit: Duration) -> bool {
    let (sender, done) = channel();
    let flush = move || {
        // SAFETY: a null pointer stands for all streams (fflush(3)).
        unsafe { libc::fflush(std::ptr::null_mut()) };
        // Nobody may wait any more.
        let _ = sender.send(());
    };
    let started = thread::Builder::new().name("streams".to_owned()).spawn(flush);
    started.is_ok() && done.recv_timeout(limit).is_ok()
}
