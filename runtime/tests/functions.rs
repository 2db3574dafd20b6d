//! Functions of the host that Python code calls: with signatures, and by their addresses.

mod pythons;

use hydrozoa::{Error, Function, Object, Result, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{each, each_pool_alone, pools};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{thread, time};

/// A host function that returns its arguments as a tuple.
fn echo<'s>(session: &'s Session, signature: &str) -> Result<Object<'s>> {
    let function = Function::new("f", |session, arguments| {
        let items: Vec<Object<'_>> = arguments.iter().collect();
        session.import("builtins")?.call_method("tuple", (items,))
    });
    function.signature(signature).doc("Returns its arguments.").module("echoes").make(session)
}

/// Compares a host function with a `def` of the same signature, by result or by the error's text.
const COMPARE: &str = "
import inspect
def outcome(f, args, kwargs):
    try:
        return f(*args, **kwargs)
    except TypeError as error:
        return str(error)
def compare(host, signature, names, calls):
    scope = {}
    exec(f'def f{signature}: return ({names})', scope)
    own = scope['f']
    assert inspect.signature(host) == inspect.signature(own), inspect.signature(host)
    for args, kwargs in calls:
        expected, seen = outcome(own, args, kwargs), outcome(host, args, kwargs)
        assert seen == expected, (signature, args, kwargs, seen, expected)
    return len(calls)
";

#[test]
fn a_signature_binds_arguments_as_a_def_does() {
    each(|session| {
        let compare = session.run(COMPARE, "compare.py").unwrap().getattr("compare").unwrap();
        let check = |signature: &str, names: &str, calls: &str| {
            let calls = session.eval(calls).unwrap();
            let count = calls.len().unwrap();
            let host = echo(session, signature).unwrap();
            let compared = compare.call((&host, signature, names, &calls)).unwrap();
            assert_eq!(compared.extract::<usize>().unwrap(), count);
        };
        check("()", "", "[((), {}), ((1,), {}), ((1, 2), {}), ((), {'zzz': 1})]");
        check(
            "(x, y)",
            "x, y",
            "[((1, 2), {}), ((1,), {'y': 2}), ((), {'y': 2, 'x': 1}), ((), {}), ((1,), {}), ((1, 2, 3), {}), \
              ((1,), {'x': 2}), ((1, 2), {'zzz': 3}), ((), {'y': 1})]",
        );
        check("(x, y, z)", "x, y, z", "[((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3, 4), {})]");
        check(
            "(x, /, by=2.0, *, flag=None)",
            "x, by, flag",
            "[((1,), {}), ((1, 3), {}), ((1,), {'by': 4}), ((1,), {'flag': True}), ((), {}), ((), {'x': 1}), \
              ((1, 2, 3), {}), ((1, 2, 3), {'flag': 1}), ((1, 2), {'by': 3}), ((1,), {'zzz': 3})]",
        );
        check(
            "(a, b=1, *rest, c, d='d', **names)",
            "a, b, rest, c, d, names",
            "[((1,), {'c': 2}), ((1, 2, 3, 4), {'c': 5}), ((1,), {'c': 2, 'e': 3, 'f': 4}), ((1,), {}), ((), {}), \
              ((1,), {'a': 1, 'c': 2}), ((1, 2, 3), {'d': 1, 'c': 0, 'é': 1})]",
        );
        check(
            "(x, /, **names)",
            "x, names",
            "[((1,), {'x': 2}), ((), {'x': 2}), ((1, 2), {}), ((1, 2), {'y': 3})]",
        );
        check(
            "(*, key, other)",
            "key, other",
            "[((), {}), ((1,), {'key': 1}), ((1,), {}), ((), {'key': 1})]",
        );
        check(
            "(a, b, c, d, e, g, h, i, j, k, l, m, n, o=15)",
            "a, b, c, d, e, g, h, i, j, k, l, m, n, o",
            "[(tuple(range(13)), {}), (tuple(range(14)), {}), (tuple(range(12)), {'o': 1, 'n': 2}), ((), {})]",
        );
    });
}

#[test]
fn a_name_that_code_made_up_is_compared_by_its_text() {
    each(|session| {
        let host = echo(session, "(left, right=0)").unwrap();
        let call =
            session.eval("lambda f: f(**{''.join(['ri', 'ght']): 1, ''.join(['le', 'ft']): 2})");
        assert_eq!(call.unwrap().call((&host,)).unwrap().repr().unwrap(), "(2, 1)");
    });
}

#[test]
fn python_shows_the_signature_and_the_documentation() {
    each(|session| {
        let host = echo(session, "(x, /, by=2.0, *rest, flag='a(b', **names)").unwrap();
        let code = "
import contextlib, inspect, io
def seen(f):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        help(f)
    return str(inspect.signature(f)), inspect.getdoc(f), f.__module__, f.__name__, f.__qualname__, text.getvalue()
";
        let seen = session.run(code, "seen.py").unwrap().getattr("seen").unwrap();
        type Seen = (String, String, String, String, String, String);
        let (signature, doc, module, name, qualified, help): Seen =
            seen.call((&host,)).unwrap().extract().unwrap();
        assert_eq!(signature, "(x, /, by=2.0, *rest, flag='a(b', **names)");
        assert_eq!(doc, "Returns its arguments.");
        assert_eq!((&*module, &*name, &*qualified), ("echoes", "f", "f"));
        assert!(help.contains("f(x, /, by=2.0"), "{help}");
        assert!(help.contains("Returns its arguments."), "{help}");
        // A host function without a signature has no `__text_signature__`, and is not a method.
        let code = "
def check(f):
    class Has: attribute = f
    assert f.__doc__ is None and f.__module__ is None and f.__text_signature__ is None
    assert Has().attribute is f and Has.attribute is f
    return f(1, 2, z=3)
";
        let plain = session.function("plain", |session, arguments| {
            session.object_from(&(arguments.len(), arguments.named()?.len()))
        });
        let check = session.run(code, "check.py").unwrap().getattr("check").unwrap();
        assert_eq!(check.call((&plain.unwrap(),)).unwrap().repr().unwrap(), "(2, 1)");
    });
}

#[test]
fn a_signature_that_is_none_is_refused() {
    each(|session| {
        let refused = |signature: &str| match echo(session, signature).unwrap_err() {
            Error::Python { type_name, .. } => type_name,
            other => panic!("{other}"),
        };
        assert_eq!(refused("(x, x)"), "SyntaxError");
        assert_eq!(refused("(x=1, y)"), "SyntaxError");
        assert_eq!(refused("x"), "SyntaxError");
        assert_eq!(refused("(x=open)"), "NameError");
    });
}

#[test]
fn an_argument_of_another_type_is_a_type_error_that_names_it() {
    each(|session| {
        let double = Function::new("double", |session, arguments| {
            session.object_from(&(2 * arguments.parameter::<i64>(0, "number")?))
        });
        let double = double.signature("(number)").make(session).unwrap();
        assert_eq!(double.call((4,)).unwrap().extract::<i64>().unwrap(), 8);
        let error = double.call(("four",)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "TypeError: argument 'number': cannot convert str to int: it is of another type"
        );
    });
}

#[test]
fn defaults_and_arguments_are_released() {
    each(|session| {
        let code = "
import sys
class Thing: pass
def check(f):
    thing = Thing()
    before = sys.getrefcount(thing)
    for _ in range(100):
        f(thing, thing, thing, k=thing, other=thing)
        f(thing)
        try:
            f(thing, a=thing)
        except TypeError:
            pass
    return sys.getrefcount(thing) - before
";
        let host = echo(session, "(a, b=None, *rest, k=[], **names)").unwrap();
        let check = session.run(code, "references.py").unwrap().getattr("check").unwrap();
        assert_eq!(check.call((&host,)).unwrap().extract::<i64>().unwrap(), 0);
    });
}

#[test]
fn a_destructor_that_panics_leaves_python_unharmed() {
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("in a destructor");
        }
    }
    each(|session| {
        let drops = Arc::new(AtomicUsize::new(0));
        let bomb = Bomb(drops.clone());
        let function = session.function("f", move |session, _| {
            let _owned = &bomb;
            session.none()
        });
        // It is dropped while an exception is on its way, which goes on.
        let code = "
def fail(holder):
    f = holder.pop()
    f()
    raise KeyError('kept')
";
        let fail = session.run(code, "fail.py").unwrap().getattr("fail").unwrap();
        let holder = session.eval("[]").unwrap();
        holder.call_method("append", (&function.unwrap(),)).unwrap();
        let error = fail.call((&holder,)).unwrap_err();
        assert_eq!(error.to_string(), "KeyError: 'kept'");
        drop(error);
        session.interpreter().drain();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert_eq!(session.eval("1 + 1").unwrap().extract::<i64>().unwrap(), 2);
    });
}

/// The session that [`visit`] uses.
static VISITED: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// Uses a session in each way that finds out for itself who holds the GIL. Calls `again(levels - 1)` of Python. Returns the
/// levels, or -1.
extern "C" fn visit(levels: c_int) -> c_int {
    let session = VISITED.lock().unwrap().clone().unwrap();
    let visited = catch_unwind(AssertUnwindSafe(|| -> Result<c_int> {
        let list = session.eval("list(range(1000))")?;
        let copies: Vec<Object<'_>> = (0..100).map(|_| list.clone()).collect();
        let sum: i64 = session.import("builtins")?.call_method("sum", (&list,))?.extract()?;
        assert_eq!(sum, 499_500);
        assert!(list.get_item(5000).is_err());
        let text = session.object_from(&"text")?;
        assert_eq!((text.extract::<String>()?, text.len()?), ("text".into(), 4));
        assert_eq!(list.iter()?.count(), 1000);
        session.with_gil(|| drop(copies));
        session.without_gil(|| drop(list));
        match levels {
            0 => Ok(0),
            _ => Ok(session
                .import("__main__")?
                .call_method("again", (levels - 1,))?
                .extract::<c_int>()?
                + 1),
        }
    }));
    match visited {
        Ok(Ok(levels)) => levels,
        failed => {
            eprintln!("{failed:?}");
            -1
        }
    }
}

/// `again` calls the host by an address: without the GIL, with it, and from a callback of Python's in between.
const BY_ADDRESS: &str = "
import __main__, ctypes, sys, threading, time
# The other threads give the GIL back after this. At the 5 ms that are usual, thousands of calls take minutes on some machines.
sys.setswitchinterval(0.0001)
letting_go = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(ADDRESS)
holding = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)(ADDRESS)
back = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda levels: holding(levels))
ways = [letting_go, holding, back, lambda levels: host(levels)]
def again(levels):
    return ways[levels % len(ways)](levels)
__main__.again = again
def run():
    over = []
    def disturb():
        while not over: [object() for _ in range(100)]
    threads = [threading.Thread(target=disturb, daemon=False) for _ in range(2)]
    for thread in threads: thread.start()
    try:
        for way in ways:
            for levels in 0, 1, 5:
                assert way(levels) == levels, (way, levels)
    finally:
        over.append(True)
        for thread in threads: thread.join()
def elsewhere():
    seen = []
    def own():
        run()
        seen.append(True)
    thread = threading.Thread(target=own, daemon=False)
    thread.start()
    thread.join()
    assert seen
";

#[test]
fn a_function_that_is_called_by_its_address_uses_the_session_with_the_gil_and_without() {
    each_pool_alone(2, |pool| {
        let session = Arc::new(pool.acquire_on(0).unwrap());
        *VISITED.lock().unwrap() = Some(session.clone());
        let code = BY_ADDRESS.replace("ADDRESS", &(visit as *const () as usize).to_string());
        let names = session.run(&code, "by_address.py").unwrap();
        let host = session.function("host", |session, arguments| {
            session.object_from(&visit(arguments.extract(0)?))
        });
        names.setattr("host", host.unwrap()).unwrap();
        let [run, elsewhere] = ["run", "elsewhere"].map(|name| names.getattr(name).unwrap());
        run.call(()).unwrap();
        session.with_gil(|| run.call(())).unwrap();
        elsewhere.call(()).unwrap();
        // From the code of another interpreter, and on other threads.
        let other = pool.acquire_on(1).unwrap();
        other.with_gil(|| run.call(())).unwrap();
        thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| run.call(()).map(drop)));
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        // Calls that are watched.
        let _handle = session.interrupt_handle();
        session.with_deadline(time::Duration::from_secs(100), || run.call(())).unwrap();
        // The other interpreter's code calls.
        let code = format!(
            "import ctypes\nletting_go = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)({})\n\
                 for levels in 0, 1, 5: assert letting_go(levels) == levels",
            visit as *const () as usize
        );
        other.run(&code, "other.py").unwrap();
        *VISITED.lock().unwrap() = None;
    });
}

/// A library with a thread that Python does not know. It takes the GIL by Python's own function, and calls.
const FOREIGN: &str = "
#include <pthread.h>
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
static void *run(void *call) {
    int state = PyGILState_Ensure();
    int levels = ((int (*)(int))call)(1);
    PyGILState_Release(state);
    return (void *)(long)levels;
}
int on_a_thread(void *call) {
    pthread_t thread;
    void *levels;
    if (pthread_create(&thread, 0, run, call) != 0) return -1;
    pthread_join(thread, &levels);
    return (int)(long)levels;
}
";

#[test]
fn a_thread_that_took_the_gil_by_itself_uses_the_session() {
    alone(PATIENCE, || {
        let shop = Workshop::new("foreign");
        let library = shop.build("libforeign.so", FOREIGN, &[]);
        for pool in pools(1) {
            let session = Arc::new(pool.acquire().unwrap());
            *VISITED.lock().unwrap() = Some(session.clone());
            let address = visit as *const () as usize;
            let code = format!(
                "import __main__, ctypes\n\
                 on_a_thread = ctypes.CDLL({library:?}).on_a_thread\n\
                 on_a_thread.argtypes = [ctypes.c_void_p]\n\
                 __main__.again = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)({address})\n\
                 for _ in range(20): assert on_a_thread({address}) == 1"
            );
            session.run(&code, "foreign.py").unwrap();
            *VISITED.lock().unwrap() = None;
        }
    });
}
