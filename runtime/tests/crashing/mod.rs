//! Processes that crash in an interpreter's code.

use crate::pythons::pythons;
use hydrozoa::{Function, Pool, on_crash};
use hydrozoa_testkit::libraries::Workshop;
use std::ffi::{c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::{mem, ptr, thread};

const KIND: &str = "HYDROZOA_TEST_CRASH";
const LIBRARY_PATH: &str = "HYDROZOA_TEST_CRASH_LIBRARY";
const MINOR: &str = "HYDROZOA_TEST_CRASH_ON";

/// How a process has ended.
pub struct Crashed {
    pub signal: Option<i32>,
    pub status: Option<i32>,
    /// Its standard error.
    pub errors: String,
}

/// The library that the process was given.
fn library() -> String {
    std::env::var(LIBRARY_PATH).unwrap()
}

/// Has a process crash, with the first Python of the machine.
pub fn crash(kind: &str) -> Crashed {
    crash_on(*pythons().keys().next().unwrap(), kind)
}

/// The same with Python 3.`minor`.
pub fn crash_on(minor: u8, kind: &str) -> Crashed {
    let workshop = Workshop::new(&format!("crashes-{kind}-{minor}"));
    let library = workshop.build("crashing++.so", LIBRARY, &FLAGS);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["inside", "--exact", "--nocapture"])
        .env(LIBRARY_PATH, library)
        .env(KIND, kind)
        .env(MINOR, minor.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Crashed {
        signal: output.status.signal(),
        status: output.status.code(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

const CODE: &str = "
import ctypes, faulthandler, os, signal, threading
def reads_nothing(): ctypes.string_at(0)
def aborts(): os.abort()
def calls_the_host(): host()
def reads_nothing_on_a_thread():
    thread = threading.Thread(target=reads_nothing)
    thread.start()
    thread.join()
def reads_nothing_with_faulthandler():
    faulthandler.enable()
    faulthandler.disable()
    faulthandler.enable()
    reads_nothing()
def looks_at_signals():
    assert signal.getsignal(signal.SIGFPE) is signal.SIG_DFL
    faulthandler.enable()
    faulthandler.disable()
    read = ctypes.CDLL(None).sigaction
    before, after = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    for action in [1, 0]:
        assert read(signal.SIGFPE, int(action).to_bytes(256, 'little'), before) == 0
        assert read(signal.SIGFPE, None, after) == 0
        assert int.from_bytes(after[:8], 'little') == action
library = ctypes.CDLL(LIBRARY)
";

const LIBRARY: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <stdexcept>
static __attribute__((noinline)) void writes(int *place) { *(volatile int *)place = 1; }
extern "C" {
__attribute__((noinline)) int overflows(int depth) {
    volatile char room[512];
    room[0] = (char)depth;
    return overflows(depth + 1) + room[0];
}
static void *overflow_thread(void *) { return (void *)(long)overflows(0); }
void overflows_on_a_thread() {
    pthread_t thread;
    pthread_create(&thread, 0, overflow_thread, 0);
    pthread_join(thread, 0);
}
void crashes() { writes((int *)16); __asm__ volatile(""); }
void throws() { throw std::runtime_error("nobody"); }
void calls_null() { void (*volatile none)() = 0; none(); __asm__ volatile(""); }
__attribute__((noinline)) void smashes() {
    volatile long room[4];
    for (int i = 0; i < 64; i++) ((volatile long *)room)[i] = 0x4141414141414141;
}
int divides(int by) { volatile int zero = by; return 7 / zero; }
void illegal() { __builtin_trap(); }
void bus() {
    char name[] = "/tmp/hydrozoa-crash-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    char *page = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    *(volatile char *)page;
}
// Freed blocks point to what cannot be read.
void breaks_malloc() {
    void *blocks[64];
    for (int size = 16; size < 4096; size += 16) {
        for (int i = 0; i < 64; i++) blocks[i] = malloc(size);
        for (int i = 0; i < 64; i++) { memset(blocks[i], 0x41, size); free(blocks[i]); }
        for (int i = 0; i < 64; i++) memset((char *)blocks[i], 0x41, size);
    }
    // The compiler leaves out a malloc whose result nobody uses.
    static void *volatile kept;
    for (int size = 16; size < 4096; size += 16) for (int i = 0; i < 80; i++) kept = malloc(size);
}
}
"#;

/// Frames stay as they are written.
const FLAGS: [&str; 2] = ["-fno-stack-protector", "-fno-optimize-sibling-calls"];

/// Crashes, in a process that was made for it.
pub fn inside() {
    let Ok(kind) = std::env::var(KIND) else { return };
    // SAFETY: core files have no use here.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let minor: u8 = std::env::var(MINOR).unwrap().parse().unwrap();
    if kind == "own_handler_before" {
        handle_by_the_program();
    }
    let pool = Pool::builder().interpreters(3).python(&pythons()[&minor]).build().unwrap();
    let session = pool.acquire_on(1).unwrap();
    let code = format!("LIBRARY = {:?}\n{CODE}", library());
    let module = session.run(&code, "crash.py").unwrap();
    let python = |name: &str| module.call_method(name, ()).map(drop).unwrap();
    let native = |name: &str| {
        module.getattr("library").unwrap().call_method(name, (0,)).map(drop).unwrap();
    };
    match &*kind {
        "string_at" => python("reads_nothing"),
        "on_crash" => {
            on_crash(|report| {
                let text = format!(
                    "\non_crash: signal {} code {} address {:?} in {:?}, index {:?}\non_crash has the text: {}\n",
                    report.signal,
                    report.code,
                    report.address,
                    report.interpreter,
                    report.index,
                    report.text.contains("Python stacks of interpreter 1")
                );
                // SAFETY: the bytes are valid.
                unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
            });
            python("reads_nothing");
        }
        "bad_on_crash" => {
            // SAFETY: none: it faults.
            on_crash(|_| unsafe { ptr::without_provenance_mut::<c_int>(8).write_volatile(1) });
            python("reads_nothing");
        }
        "abort" => python("aborts"),
        // This thread is the test's, of Rust's standard library.
        "overflow" => native("overflows"),
        "overflow_on_a_thread_of_c" => on_a_thread_of_c(&pool),
        "overflow_on_a_thread_of_python" => native("overflows_on_a_thread"),
        "python_thread" => python("reads_nothing_on_a_thread"),
        "cxx" => native("crashes"),
        "throw" => native("throws"),
        "null_call" => native("calls_null"),
        "smashed" => native("smashes"),
        "divide" => native("divides"),
        "illegal" => native("illegal"),
        "bus" => native("bus"),
        "malloc" => native("breaks_malloc"),
        "host_function" => {
            let host = Function::new("host", |session, _| {
                fault();
                session.eval("None")
            });
            module.setattr("host", host.make(&session).unwrap()).unwrap();
            python("calls_the_host");
        }
        "outside" => fault(),
        "own_handler_before" => python("reads_nothing"),
        "own_handler_after" => {
            handle_by_the_program();
            python("reads_nothing");
        }
        "faulthandler" => python("reads_nothing_with_faulthandler"),
        "signals" => python("looks_at_signals"),
        "two" => {
            let barrier = std::sync::Barrier::new(2);
            thread::scope(|scope| {
                for index in [0, 2] {
                    let (pool, code, barrier) = (&pool, &code, &barrier);
                    scope.spawn(move || {
                        let session = pool.acquire_on(index).unwrap();
                        let module = session.run(code, "crash.py").unwrap();
                        barrier.wait();
                        module.call_method("reads_nothing", ()).map(drop).unwrap();
                    });
                }
            });
        }
        _ => panic!("there is no crash {kind}"),
    }
}

fn fault() {
    // SAFETY: none: it faults.
    unsafe { ptr::without_provenance_mut::<c_int>(8).write_volatile(1) };
}

/// Overflows the stack of a thread that has no stack for signals of its own.
fn on_a_thread_of_c(pool: &Pool) {
    extern "C" fn begin(pool: *mut c_void) -> *mut c_void {
        // SAFETY: `on_a_thread_of_c` waits for this thread.
        let pool = unsafe { &*pool.cast::<Pool>() };
        let session = pool.acquire_on(1).unwrap();
        let code = format!("import ctypes\nctypes.CDLL({:?}).overflows(0)", library());
        session.run(&code, "overflow.py").map(drop).unwrap();
        ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: the pool outlives the thread.
    unsafe {
        libc::pthread_create(
            &mut thread,
            ptr::null(),
            begin,
            ptr::from_ref(pool).cast_mut().cast(),
        );
        libc::pthread_join(thread, ptr::null_mut());
    }
}

/// Installs a handler of the program for the signals of crashes.
fn handle_by_the_program() {
    extern "C" fn handle(_: c_int) {
        let text = "the program's handler\n";
        // SAFETY: the bytes are valid.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(7);
        }
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: zero is a value of every field, and the handler ends the process.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}
