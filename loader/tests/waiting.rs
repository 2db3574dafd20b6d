//! Calls that wait in the kernel while other threads load. The test has a process of its own: a load of another test would
//! interrupt the wait.

use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::mpsc;
use std::thread;

use hydrozoa_loader::{Domain, Loader, OpenFlags};
use hydrozoa_testkit::libraries::{Workshop, function, open};

#[test]
fn a_load_lets_calls_go_on_that_wait_in_the_kernel() {
    let shop = Workshop::new("waiting");
    let with_data = shop.build(
        "libwithdata.so",
        "static __thread int number __attribute__((tls_model(\"initial-exec\"))) = 42;
         int *value(void) { return &number; }",
        &[],
    );
    let without = shop.build(
        "libwithout.so",
        "static __thread int zero __attribute__((tls_model(\"initial-exec\")));
         static __thread int lazy = 3; int value(void) { return zero + lazy; }",
        &[],
    );
    let loader = Loader::builder().build().unwrap();
    let domains: &Vec<Domain> =
        &(0..20).map(|number| loader.domain(&number.to_string()).build().unwrap()).collect();
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors to the array. Nothing else owns them.
    let [mut reading, writing] = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        ends.map(|end| File::from_raw_fd(end))
    };
    thread::scope(|scope| {
        // It is closed if the test fails, and the reader then ends.
        let mut writing = writing;
        // No load interrupts this call: SA_RESTART covers it.
        let reader =
            scope.spawn(move || reading.read(&mut [0; 1]).map_err(|error| error.to_string()));
        // A load without such data does not interrupt this call: it sends no signal to threads.
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
