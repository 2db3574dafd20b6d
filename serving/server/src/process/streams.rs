//! The C library's streams at the end of a process that runs no exit handlers.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Writes the text that native code of models left in streams of the C library (`printf`), as `exit(3)` does. It takes at most
/// `limit`: a thread inside a stream, or a reader that does not read, would hold it up. False if it was not done.
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
