//! Signal handlers that unwind. `backtrace` asks `_dl_find_object`, which glibc promises to be
//! async-signal-safe (glibc manual, "Dynamic Linker Introspection").

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use hydrozoa_loader::{Loader, OpenFlags};

use crate::rounds::rounds;
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, function, open};

unsafe extern "C" {
    /// glibc's `backtrace(3)` (`<execinfo.h>`).
    fn backtrace(frames: *mut *mut c_void, size: c_int) -> c_int;
}

/// Nanoseconds from the end of one handler to the next.
const PERIOD: i64 = 20_000;

static TIMER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The code that every frame list passes through.
static RESIDENT: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// A function of the resident library that uses data of the thread.
static LOCAL: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static PASSED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: c_int) {
    let mut frames = [ptr::null_mut(); 128];
    // SAFETY: the array has room for `len` frames.
    let count = unsafe { backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let [start, end] = [0, 1].map(|index: usize| RESIDENT[index].load(Ordering::Relaxed));
    let resident = |frame: &*mut c_void| (start..end).contains(&(*frame as usize));
    HANDLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the function of this type that the test has stored before it started the timer.
    let local =
        unsafe { mem::transmute::<usize, extern "C" fn() -> c_int>(LOCAL.load(Ordering::Relaxed)) };
    WRONG.fetch_add((local() != 5).into(), Ordering::Relaxed);
    PASSED.fetch_add(frames[..count as usize].iter().any(resident).into(), Ordering::Relaxed);
    // The timer does not repeat: if a handler took longer than the period, nothing else would run.
    set_timer(PERIOD);
}

/// Lets the timer expire once, after so many nanoseconds. 0 stops it.
fn set_timer(nanoseconds: i64) {
    // SAFETY: zero is a value of every field; the timer was made by `start_timer`.
    unsafe {
        let mut time: libc::itimerspec = mem::zeroed();
        time.it_value.tv_nsec = nanoseconds;
        libc::timer_settime(TIMER.load(Ordering::Relaxed), 0, &time, ptr::null_mut());
    }
}

/// Makes a timer whose signal the calling thread handles.
fn start_timer() {
    // SAFETY: zero is a value of every field that is not set. The handler calls functions that are
    // async-signal-safe and stores to atomics.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGRTMIN(), &action, ptr::null_mut()), 0);
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGRTMIN();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = ptr::null_mut();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        TIMER.store(timer, Ordering::Relaxed);
    }
    set_timer(PERIOD);
}

/// With HYDROZOA_TEST_LOADS=100000 it takes some minutes.
///
/// No handler interrupts the exception that the library throws: libgcc's `_Unwind_RaiseException` changes its own frame in
/// place before it jumps (`uw_install_context` in unwind-dw2.c), and nobody can unwind it then, under any loader.
#[test]
fn a_handler_that_unwinds_may_interrupt_a_load_anywhere() {
    let (loads, patience) = rounds("HYDROZOA_TEST_LOADS", 4000);
    alone(patience, || {
        let shop = Workshop::new("interrupted");
        let resident = shop.build(
            "libresident.so",
            "static __thread int many[1000] = {5};
             int local(void) { return many[0]; }
             void run(void (*body)(void *), void *argument) { body(argument); __asm__ volatile(\"\"); }",
            &[],
        );
        let loaded = shop.build(
            "libloaded++.so",
            r#"
                #include <signal.h>
                static thread_local int local = 3;
                static int thrown() {
                    sigset_t timer, before;
                    sigemptyset(&timer);
                    sigaddset(&timer, SIGRTMIN);
                    pthread_sigmask(SIG_BLOCK, &timer, &before);
                    int value = 0;
                    try { throw 4; } catch (int thrown) { value = thrown; }
                    pthread_sigmask(SIG_SETMASK, &before, nullptr);
                    return value;
                }
                static int value = thrown() + local;
                extern "C" int get() { return value; }
            "#,
            &[],
        );
        let loader = Loader::builder().build().unwrap();
        let domain = loader.domain("resident").build().unwrap();
        let resident = open(&domain, &resident, OpenFlags::NOW).unwrap();
        let [(start, size)] =
            domain.replicas().iter().map(|r| (r.base, r.size)).collect::<Vec<_>>()[..]
        else {
            panic!("one replica was loaded")
        };
        RESIDENT[0].store(start, Ordering::Relaxed);
        RESIDENT[1].store(start + size, Ordering::Relaxed);
        // SAFETY: the library declares it so.
        let run: extern "C-unwind" fn(extern "C-unwind" fn(*mut c_void), *mut c_void) =
            unsafe { function(&resident, "run") };

        struct Work<'a> {
            loader: &'a Loader,
            loaded: &'a std::path::Path,
            loads: u64,
        }
        extern "C-unwind" fn load_all(work: *mut c_void) {
            // SAFETY: the value that is passed to `run` below.
            let work = unsafe { &*work.cast::<Work<'_>>() };
            // Its first call loads the unwinder.
            let mut frame = ptr::null_mut();
            // SAFETY: there is room for one frame.
            unsafe { backtrace(&mut frame, 1) };
            start_timer();
            for _ in 0..work.loads {
                let domain = work.loader.domain("short").build().unwrap();
                let library = open(&domain, work.loaded, OpenFlags::NOW).unwrap();
                // SAFETY: the library declares it so.
                let get: extern "C-unwind" fn() -> c_int = unsafe { function(&library, "get") };
                assert_eq!(get(), 7);
                // SAFETY: nothing of the library is used any more.
                unsafe { domain.close() };
            }
            set_timer(0);
        }
        // SAFETY: the library declares it so.
        let local: extern "C" fn() -> c_int = unsafe { function(&resident, "local") };
        assert_eq!(local(), 5, "the thread has its block from here on");
        LOCAL.store(local as usize, Ordering::Relaxed);
        let mut work = Work { loader: &loader, loaded: &loaded, loads };
        run(load_all, (&raw mut work).cast());
        let [handled, passed] = [&HANDLED, &PASSED].map(|count| count.load(Ordering::Relaxed));
        println!("{handled} handlers during {loads} loads, {passed} saw who loads");
        assert_eq!(WRONG.load(Ordering::Relaxed), 0, "of {handled} uses of thread-local data");
        assert!(handled > loads, "too few handlers to interrupt every part of a load: {handled}");
        assert!(passed * 10 > handled * 9, "of {handled} frame lists {passed} hold the replica");
    });
}
