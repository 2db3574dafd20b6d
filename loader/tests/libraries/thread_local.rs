//! Initialised thread-local data that initial-exec code reaches: the load writes it into each running thread.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hydrozoa_loader::OpenFlags;

use crate::replicas::domains;
use hydrozoa_testkit::libraries::{Workshop, open};

fn initialised(shop: &Workshop, name: &str) -> PathBuf {
    let source = "static __thread int number __attribute__((tls_model(\"initial-exec\"))) = 42;
                  int *value(void) { return &number; }";
    shop.build(name, source, &[])
}

/// `int value(void)`, given as an address so that it can go to another thread.
fn value(address: usize) -> c_int {
    // SAFETY: the address of `value` above, which returns that of the calling thread's variable.
    unsafe {
        let value: extern "C" fn() -> *const c_int = std::mem::transmute(address);
        *value()
    }
}

#[test]
fn a_thread_that_blocks_all_signals_is_given_initialised_data_at_once() {
    let shop = Workshop::new("blocked");
    let path = initialised(&shop, "libblocked.so");
    let (ready, is_ready) = mpsc::channel();
    let (send, receive) = mpsc::channel();
    let blocked = thread::spawn(move || {
        // SAFETY: the set is valid; the thread is this test's own.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        }
        ready.send(()).unwrap();
        value(receive.recv().unwrap())
    });
    is_ready.recv().unwrap();
    let started = Instant::now();
    let library = open(&domains(1)[0], &path, OpenFlags::NOW).unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    send.send(library.symbol("value").unwrap() as usize).unwrap();
    assert_eq!(blocked.join().unwrap(), 42);
    assert_eq!(value(library.symbol("value").unwrap() as usize), 42);
}
