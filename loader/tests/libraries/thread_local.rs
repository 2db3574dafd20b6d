//! Initialised thread-local data that initial-exec code reaches: the load writes it into each running thread.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hydrozoa_loader::OpenFlags;

use crate::replicas::domains;
use hydrozoa_testkit::alone::{PATIENCE, alone};
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

/// Set when the thread of [`without_the_c_library`] must end, and when it has begun.
static END: AtomicBool = AtomicBool::new(false);

/// A thread that the C library does not know and that blocks all signals, as some runtimes start them.
fn without_the_c_library() -> Box<[u8]> {
    extern "C" fn sleep(_: *mut c_void) -> c_int {
        while !END.load(Ordering::Acquire) {
            let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            // SAFETY: the record is valid. The thread has no data of the C library's, and the call needs none.
            unsafe { libc::syscall(libc::SYS_nanosleep, &raw const pause, 0) };
        }
        // SAFETY: ends this thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        0
    }
    let mut stack = vec![0_u8; 64 << 10].into_boxed_slice();
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the sets are initialized; the stack outlives the thread, and its end is aligned as the ABI asks.
    unsafe {
        let (mut all, mut own) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut own);
        let end = stack.as_mut_ptr_range().end.map_addr(|end| end & !15);
        let thread = libc::clone(sleep, end.cast(), flags, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &own, std::ptr::null_mut());
        assert!(thread > 0);
    }
    stack
}

#[test]
fn a_thread_that_cannot_be_given_initialised_data_is_named() {
    alone(PATIENCE, || {
        let shop = Workshop::new("unreachable");
        let path = initialised(&shop, "libunreachable.so");
        let stack = without_the_c_library();
        let domain = &domains(1)[0];
        let error = open(domain, &path, OpenFlags::NOW).unwrap_err().to_string();
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        for words in [name.trim_end(), "the C library did not start it", "unblock the signal"] {
            assert!(error.contains(words), "{words:?} is not in {error:?}");
        }
        END.store(true, Ordering::Release);
        // It has ended when the kernel does not list it any more.
        thread::sleep(Duration::from_millis(100));
        let library = open(domain, &path, OpenFlags::NOW).unwrap();
        assert_eq!(value(library.symbol("value").unwrap() as usize), 42);
        drop(stack);
    });
}
