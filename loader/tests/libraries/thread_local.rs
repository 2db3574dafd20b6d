//! Initialised thread-local data that initial-exec code reaches: each thread that runs is given it by the load.

use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hydrozoa_loader::OpenFlags;

use crate::replicas::domains;
use hydrozoa_testkit::libraries::{Workshop, function, open};

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

#[test]
fn a_load_lets_calls_go_on_that_wait_in_the_kernel() {
    let shop = Workshop::new("waiting");
    let with_data = initialised(&shop, "libwithdata.so");
    let without = shop.build(
        "libwithout.so",
        "static __thread int zero __attribute__((tls_model(\"initial-exec\")));
         static __thread int lazy = 3; int value(void) { return zero + lazy; }",
        &[],
    );
    let domains = &domains(20);
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written to the array, which are nobody else's.
    let [mut reading, writing] = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        ends.map(|end| File::from_raw_fd(end))
    };
    thread::scope(|scope| {
        // Closed if the test fails: the reader ends then.
        let mut writing = writing;
        // Not interrupted by any load: SA_RESTART covers it.
        let reader =
            scope.spawn(move || reading.read(&mut [0; 1]).map_err(|error| error.to_string()));
        // Not interrupted by a load that brings no such data: no thread is sent a signal.
        let (tell, told) = mpsc::channel();
        let sleeper = scope.spawn(move || {
            let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            tell.send(()).unwrap();
            // SAFETY: the record is valid.
            unsafe { libc::nanosleep(&second, std::ptr::null_mut()) }
        });
        told.recv().unwrap();
        for domain in domains {
            let library = open(domain, &without, OpenFlags::NOW).unwrap();
            // SAFETY: declared as `int value(void)`.
            let value: extern "C" fn() -> c_int = unsafe { function(&library, "value") };
            assert_eq!(value(), 3);
        }
        assert_eq!(sleeper.join().unwrap(), 0);
        for domain in domains {
            open(domain, &with_data, OpenFlags::NOW).unwrap();
        }
        writing.write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), Ok(1));
    });
}
