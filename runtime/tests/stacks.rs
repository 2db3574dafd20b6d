//! Threads of the application: deep recursion on stacks that are smaller than those for which CPython has its limits, and
//! what a thread has after code of an interpreter has run on it.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone, alone_with};
use hydrozoa_testkit::libraries::Workshop;
use hydrozoa_testkit::process::in_child;
use pythons::{pools, pythons};
use std::ffi::{CStr, OsString, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{mem, ptr, thread};

/// Recursion through C code, in forms that use much stack and little.
const FORMS: [&str; 6] = [
    "return sorted([1], key=lambda x: f(n + 1))",
    "return re.sub('x', lambda match: f(n + 1), 'axb')",
    "return repr([Representing(n)])",
    "return struct.pack('i', Representing(n))",
    "return Representing(n).missing",
    "exec('f(n + 1)', globals(), {'n': n})",
];

/// Runs `f` until it raises, and returns how deep it came. On a stack that is too short for the parser, CPython raises
/// MemoryError from 3.14 on (`_PyPegen_run_parser`, Parser/pegen.c), also in plain python.
const PROGRAM: &str = "
import re, struct, sys
class Representing:
    def __init__(self, n): self.n = n
    def __repr__(self): return f(self.n + 1)
    def __index__(self): return f(self.n + 1)
    def __getattr__(self, name): return f(self.n + 1)
def f(n):
    global depth
    depth = n
    FORM
def run():
    try:
        f(0)
    except RecursionError:
        return depth
    except MemoryError as error:
        assert sys.version_info >= (3, 14) and 'Parser' in str(error)
        return depth
";

/// A thread gets a stack of the size that it asks for, not a greater one that another thread has left.
fn fresh() -> [(&'static str, OsString); 1] {
    [("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0".into())]
}

/// Runs `action` on a thread with a stack of `size` bytes.
fn on_stack<T: Send>(size: usize, action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(size);
        thread.spawn_scoped(scope, action).unwrap().join().unwrap()
    })
}

fn depth(session: &Session, form: &str) -> i64 {
    let namespace = session.run(&PROGRAM.replace("FORM", form), "deep").unwrap();
    namespace.getattr("run").unwrap().call(()).unwrap().extract().unwrap()
}

#[test]
fn recursion_in_c_is_an_exception_on_threads_with_small_stacks() {
    alone_with(PATIENCE, &fresh(), || {
        for pool in pools(1) {
            for size in [256 << 10, 512 << 10, 1 << 20, 2 << 20, 3 << 20, 8 << 20] {
                for form in FORMS {
                    let depth = on_stack(size, || depth(&pool.acquire().unwrap(), form));
                    // The threads of Rust's standard library have 2 MiB.
                    let least = if size < 2 << 20 { 5 } else { 100 };
                    assert!(depth >= least, "{size} bytes: {form}: {depth}");
                }
            }
        }
    });
}

#[test]
fn what_a_thread_has_used_of_its_stack_counts() {
    /// Uses the stack from `top` on for `used` bytes, then calls `action`.
    #[inline(never)]
    fn beneath(top: usize, used: usize, action: &mut dyn FnMut()) {
        let block = std::hint::black_box([0_u8; 16 << 10]);
        match top - block.as_ptr().addr() < used {
            true => beneath(top, used, action),
            false => action(),
        }
        std::hint::black_box(block);
    }
    alone_with(PATIENCE, &fresh(), || {
        for pool in pools(1) {
            on_stack(8 << 20, || {
                let session = pool.acquire().unwrap();
                let plain = depth(&session, FORMS[0]);
                let mut deep = 0;
                let top = std::ptr::from_ref(&deep).addr();
                beneath(top, 7 << 20, &mut || deep = depth(&session, FORMS[0]));
                assert!(5 < deep && deep < plain, "{deep} and {plain}");
                // And again from above.
                assert_eq!(depth(&session, FORMS[0]), plain);
            });
        }
    });
}

#[test]
fn a_stack_as_python_has_it_keeps_python_s_limits() {
    alone_with(PATIENCE, &fresh(), || {
        for library in pythons().values() {
            let pool = Pool::builder().python(library).interpreters(1).build().unwrap();
            let nested = "
import threading
def deep(levels):
    nested = []
    for _ in range(levels): nested = [nested]
    try: return len(repr(nested))
    except RecursionError: return 0
def most():
    low, high = 10, 20_000
    while high - low > 1:
        middle = (low + high) // 2
        if deep(middle): low = middle
        else: high = middle
    return low
def on_a_thread_of_python():
    threading.stack_size(8 << 20)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(most()))
    thread.start()
    thread.join()
    return seen[0]
";
            let (own, theirs) = on_stack(8 << 20, || {
                let session = pool.acquire().unwrap();
                let namespace = session.run(nested, "nested").unwrap();
                let call = |name| -> i64 {
                    namespace.getattr(name).unwrap().call(()).unwrap().extract().unwrap()
                };
                (call("most"), call("on_a_thread_of_python"))
            });
            assert!(own.abs_diff(theirs) < 20, "{own} and {theirs}");
        }
    });
}

#[test]
fn a_call_on_a_stack_that_is_too_small_is_refused_in_words() {
    alone_with(PATIENCE, &fresh(), || {
        for pool in pools(1) {
            let session = pool.acquire().unwrap();
            on_stack(128 << 10, || {
                for refused in [session.eval("1").map(drop), session.import("json").map(drop)] {
                    let error = refused.unwrap_err();
                    assert!(matches!(error, Error::Stack { .. }), "{error:?}");
                    let text = error.to_string();
                    assert!(
                        text.contains("KiB of stack left") && text.contains("stack_size"),
                        "{text}"
                    );
                }
                // One that holds the GIL may not call either.
                assert!(session.with_gil(|| session.eval("1").is_err()));
            });
            let sum = on_stack(256 << 10, || session.eval("1 + 1").unwrap().extract::<i64>());
            assert_eq!(sum.unwrap(), 2);
        }
    });
}

#[test]
fn recursion_through_host_functions_ends_in_an_error() {
    alone_with(PATIENCE, &fresh(), || {
        for pool in pools(1) {
            for size in [512 << 10, 1 << 20, 2 << 20] {
                on_stack(size, || {
                    let session = pool.acquire().unwrap();
                    let again = session
                        .function("again", |_, arguments| {
                            let function = arguments.get(0).unwrap();
                            function.call((&function,))
                        })
                        .unwrap();
                    let namespace =
                        session.run("def f(own=None):\n    return again(f)", "host").unwrap();
                    namespace.setattr("again", again).unwrap();
                    let error = namespace.getattr("f").unwrap().call(()).unwrap_err();
                    let deep = match &error {
                        Error::Stack { .. } => true,
                        Error::Python { type_name, .. } => type_name == "RecursionError",
                        _ => false,
                    };
                    assert!(deep, "{error:?}");
                });
            }
        }
    });
}

/// The settings of a thread that code may change.
#[derive(Debug, PartialEq)]
struct Own {
    signal_stack: (usize, usize, c_int),
    blocked: u64,
    name: String,
    floating: [u64; 2],
}

impl Own {
    /// That of the calling thread.
    fn now() -> Self {
        // SAFETY: zero is a value of every field, the places are valid, and the instructions store to them.
        unsafe {
            let (mut stack, mut mask, mut name): (libc::stack_t, libc::sigset_t, [u8; 16]) =
                mem::zeroed();
            assert_eq!(libc::sigaltstack(ptr::null(), &mut stack), 0);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask), 0);
            assert_eq!(libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()), 0);
            Self {
                signal_stack: (stack.ss_sp.addr(), stack.ss_size, stack.ss_flags),
                blocked: ptr::from_ref(&mask).cast::<u64>().read(),
                name: CStr::from_bytes_until_nul(&name).unwrap().to_string_lossy().into_owned(),
                floating: floating(),
            }
        }
    }
}

/// MXCSR without the flags of what has happened, and the control word of x87.
#[cfg(target_arch = "x86_64")]
fn floating() -> [u64; 2] {
    let (mut sse, mut x87) = (0_u32, 0_u16);
    // SAFETY: the instructions store to the places.
    unsafe { std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &mut sse, in(reg) &mut x87) };
    [u64::from(sse & !0x3f), u64::from(x87)]
}

/// FPCR.
#[cfg(target_arch = "aarch64")]
fn floating() -> [u64; 2] {
    let control;
    // SAFETY: the instruction reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) control) };
    [control, 0]
}

/// A library that changes what its thread has.
const CHANGING: &str = "
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
int stack(void) {
    stack_t own = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    return sigaltstack(&own, 0);
}
int no_stack(void) { stack_t none = { .ss_flags = SS_DISABLE }; return sigaltstack(&none, 0); }
static sigset_t some(void) { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR2); return set; }
int block(void) { sigset_t set = some(); return pthread_sigmask(SIG_BLOCK, &set, 0); }
int block_all(void) { sigset_t set; sigfillset(&set); return sigprocmask(SIG_SETMASK, &set, 0); }
int hold(void) { return sighold(SIGUSR2) | sighold(SIGHUP) | sigrelse(SIGHUP); }
int hold_by_set(void) { return sigset(SIGUSR2, SIG_HOLD) == SIG_ERR; }
int by_prctl(void) { return prctl(PR_SET_NAME, \"renamed\"); }
int by_pthread(void) { return pthread_setname_np(pthread_self(), \"renamed\"); }
int is_named(void) { char name[16]; prctl(PR_GET_NAME, name); return name[0] == 'r' && name[1] == 'e'; }
int upwards(void) {
#ifdef __x86_64__
    unsigned sse = 0x1f80 | 0x4000 | 0x8040;
    unsigned short x87 = 0x37f | 0x800;
    __asm__ volatile (\"ldmxcsr %0; fldcw %1\" : : \"m\"(sse), \"m\"(x87));
#else
    unsigned long control = 1 << 22 | 1 << 24;
    __asm__ volatile (\"msr fpcr, %0\" : : \"r\"(control));
#endif
    return 0;
}
";

/// How code changes them: by the library above, by the C library as ctypes finds it, and by modules of Python.
const CHANGES: [&str; 16] = [
    "assert own.stack() == 0",
    "assert own.no_stack() == 0",
    "faulthandler.enable()",
    "faulthandler.register(signal.SIGUSR1)",
    "assert own.block() == 0",
    "assert own.block_all() == 0",
    "assert own.hold() == 0",
    "assert own.hold_by_set() == 0",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
    "assert own.by_prctl() == 0 and own.is_named()",
    "assert own.by_pthread() == 0 and own.is_named()",
    "assert ctypes.CDLL(None).prctl(15, b'renamed') == 0 and own.is_named()",
    "assert ctypes.CDLL('libc.so.6').prctl(15, b'renamed') == 0 and own.is_named()",
    "own.upwards()",
    "threading.current_thread().name = 'renamed'",
    "assert own.block() + own.by_prctl() + own.stack() + own.upwards() == 0\nassert 1 / 0",
];

const TOOLS: &str = "import ctypes, faulthandler, signal, threading\n";

#[test]
fn a_thread_gets_back_what_code_of_an_interpreter_has_changed_of_it() {
    alone(PATIENCE, || {
        let shop = Workshop::new("changing");
        let library = shop.build("libchanging.so", CHANGING, &["-Wno-deprecated-declarations"]);
        let tools = format!("{TOOLS}own = ctypes.CDLL({library:?})\n");
        for pool in pools(2) {
            let test = || {
                let before = Own::now();
                let [session, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
                for change in CHANGES {
                    let done = session.run(&format!("{tools}{change}"), "change.py");
                    assert_eq!(done.is_ok(), !change.ends_with("1 / 0"), "{change}: {done:?}");
                    drop(done);
                    assert_eq!(Own::now(), before, "{change}");
                }
                let _handle = session.interrupt_handle();
                assert_eq!(Own::now(), before);
                // Everything inside is one visit.
                session.with_gil(|| {
                    session.run(&format!("{tools}assert own.by_prctl() == 0"), "outer").unwrap();
                    let during = Own::now();
                    assert_eq!(during.name, "renamed");
                    for change in CHANGES {
                        drop(other.run(&format!("{tools}{change}"), "inner"));
                        assert_eq!(Own::now(), during, "{change}");
                    }
                    session.run(&format!("{tools}assert own.is_named()"), "outer").unwrap();
                });
                assert_eq!(Own::now(), before);
            };
            thread::scope(|scope| scope.spawn(test).join().unwrap());
            // And on a thread that has no stack for signals, and got one at its first entry.
            let bare = || {
                // SAFETY: zero is a value of every field, and the thread's own stack is put back before it ends.
                unsafe {
                    let mut own: libc::stack_t = mem::zeroed();
                    let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..own };
                    libc::sigaltstack(&none, &mut own);
                    for index in [0, 1] {
                        pool.acquire_on(index).unwrap().interpreter().drain();
                    }
                    assert_ne!(Own::now().signal_stack.1, 0);
                    test();
                    libc::sigaltstack(&own, ptr::null_mut());
                }
            };
            thread::scope(|scope| scope.spawn(bare).join().unwrap());
        }
    });
}

#[test]
fn a_handler_on_the_signal_stack_runs_when_interpreters_have_ended() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    alone(PATIENCE, || {
        for pool in pools(1) {
            let session = pool.acquire().unwrap();
            let _handle = session.interrupt_handle();
            session.run("import faulthandler\nfaulthandler.enable()", "enable").unwrap();
            drop((session, pool));
        }
        // SAFETY: zero is a value of every field, and the handler counts.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGINT, &action, ptr::null_mut()), 0);
            libc::raise(libc::SIGINT);
        }
        assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn an_overflow_of_the_stack_is_rust_s_to_report_when_an_interpreter_has_ended() {
    #[expect(unconditional_recursion, reason = "that is the test")]
    fn deep(levels: usize) -> usize {
        let block = std::hint::black_box([levels; 512]);
        deep(block[0] + 1) + block[1]
    }
    alone(PATIENCE, || {
        for library in pythons().values() {
            let outcome = in_child(120, || {
                let pool = Pool::builder().python(library).interpreters(1).build().unwrap();
                let session = pool.acquire().unwrap();
                let _handle = session.interrupt_handle();
                session.run("import faulthandler\nfaulthandler.enable()", "enable").unwrap();
                drop((session, pool));
                deep(0).to_string()
            });
            // Rust's handler ends the process by SIGABRT.
            assert_eq!(outcome, Err("it was ended by signal 6".into()), "{library:?}");
        }
    });
}
