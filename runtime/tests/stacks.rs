//! Deep recursion on threads whose stacks are smaller than those for which CPython has its limits.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone_with};
use pythons::{pools, pythons};
use std::ffi::OsString;
use std::thread;

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
