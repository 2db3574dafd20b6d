//! The end of an interpreter, as a test sees it.

use hydrozoa::Session;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the session's interpreter has ended: 0 or 1. An exit function of Python counts.
pub fn ends(session: &Session) -> Arc<AtomicU8> {
    let ends = Arc::new(AtomicU8::new(0));
    // SAFETY: one byte that the owner keeps alive and that Rust only accesses atomically.
    let count = unsafe { session.lend_raw(ends.as_ptr(), 1, false, ends.clone()) }.unwrap();
    let code = "
import atexit
def register(count):
    @atexit.register
    def exit(): count[0] += 1
";
    let register = session.run(code, "exit.py").unwrap().getattr("register").unwrap();
    register.call((&count,)).unwrap();
    ends
}

/// Waits until the interpreter has run its exit functions and returned the memory that was lent to it.
#[allow(dead_code, reason = "not every test has to wait")]
pub fn assert_ends(ends: &Arc<AtomicU8>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while ends.load(Ordering::SeqCst) != 1 || Arc::strong_count(ends) != 1 {
        assert!(Instant::now() < deadline, "the interpreter has not ended");
        thread::sleep(Duration::from_millis(5));
    }
}
