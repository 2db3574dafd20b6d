//! Several interpreters at once: separate, parallel, free of deadlocks, and orderly in the end.

mod ending;
mod pythons;

use ending::ends;
use hydrozoa::{Error, Pool, Session};
use pythons::{builders, each_pool_alone, pools};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn interpreters_share_no_objects() {
    for pool in pools(2) {
        let (one, other) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
        one.import("sys").unwrap().setattr("mark", "one").unwrap();
        assert!(other.import("sys").unwrap().getattr("mark").is_err());
        one.import("builtins").unwrap().setattr("len", one.eval("lambda _: 42").unwrap()).unwrap();
        assert_eq!(one.eval("len([])").unwrap().extract::<i32>().unwrap(), 42);
        assert_eq!(other.eval("len([])").unwrap().extract::<i32>().unwrap(), 0);
        // Even immortal and interned objects are each interpreter's own.
        let id = |session: &Session, expression| -> usize {
            session.eval(expression).unwrap().extract().unwrap()
        };
        for expression in ["id(None)", "id(int)", "id('a')", "id(7)"] {
            assert_ne!(id(&one, expression), id(&other, expression), "{expression}");
        }
    }
}

#[test]
fn each_interpreter_has_a_gil_of_its_own() {
    for pool in pools(2) {
        let both_inside = Arc::new(Barrier::new(2));
        thread::scope(|scope| {
            for index in 0..2 {
                let (pool, both_inside) = (&pool, both_inside.clone());
                scope.spawn(move || {
                    let session = pool.acquire_on(index).unwrap();
                    // Waits under the GIL: both threads get here only if there are two GILs.
                    let meet = session
                        .function("meet", move |session, _| {
                            both_inside.wait();
                            session.none()
                        })
                        .unwrap();
                    session
                        .eval("lambda f: [f() for _ in range(10)]")
                        .unwrap()
                        .call((&meet,))
                        .unwrap();
                });
            }
        });
    }
}

#[test]
fn threads_of_one_interpreter_take_turns() {
    for pool in pools(1) {
        thread::scope(|scope| {
            for number in 0..8_i64 {
                let pool = &pool;
                scope.spawn(move || {
                    let session = pool.acquire().unwrap();
                    let double = session.eval("lambda x: 2 * x").unwrap();
                    for _ in 0..200 {
                        assert_eq!(
                            double.call((number,)).unwrap().extract::<i64>().unwrap(),
                            2 * number
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn interpreters_that_call_into_each_other_do_not_deadlock() {
    for pool in pools(2) {
        let both_inside = Arc::new(Barrier::new(2));
        thread::scope(|scope| {
            for index in 0..2 {
                let (pool, both_inside) = (&pool, both_inside.clone());
                scope.spawn(move || {
                    let session = pool.acquire_on(index).unwrap();
                    let other = pool.clone();
                    let cross = session
                        .function("cross", move |session, arguments| {
                            let x: i64 = arguments.extract(0)?;
                            if x == 0 {
                                // Both are inside their own, and now enter the other's.
                                both_inside.wait();
                            }
                            let other = other.acquire_on(1 - index)?;
                            let y: i64 = other.eval("lambda x: x + 1")?.call((x,))?.extract()?;
                            session.object_from(&y)
                        })
                        .unwrap();
                    let apply = session.eval("lambda f, x: f(x) * 10").unwrap();
                    for x in 0..50 {
                        let y: i64 = apply.call((&cross, x)).unwrap().extract().unwrap();
                        assert_eq!(y, (x + 1) * 10);
                    }
                });
            }
        });
    }
}

#[test]
fn references_dropped_by_strangers_are_freed_by_the_next_visitor() {
    for pool in pools(2) {
        let session = pool.acquire_on(0).unwrap();
        let freed = Arc::new(AtomicUsize::new(0));
        let count = freed.clone();
        let note = session
            .function("note", move |session, _| {
                count.fetch_add(1, Ordering::SeqCst);
                session.none()
            })
            .unwrap();
        let code = "
class Noted:
    def __init__(self, note): self.note = note
    def __del__(self): self.note()
";
        let class = session.run(code, "noted.py").unwrap().getattr("Noted").unwrap();
        let objects: Vec<_> = (0..3).map(|_| class.call((&note,)).unwrap()).collect();
        thread::scope(|scope| {
            // On a thread that is inside another interpreter.
            let pool = &pool;
            scope.spawn(move || {
                let other = pool.acquire_on(1).unwrap();
                other.with_gil(|| drop(objects));
            });
        });
        assert_eq!(freed.load(Ordering::SeqCst), 0);
        pool.interpreters()[0].drain();
        assert_eq!(freed.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_thread_that_ends_leaves_no_state_behind() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let code = "
import threading, weakref
local = threading.local()
class Kept: pass
def keep():
    local.kept = Kept()
    return weakref.ref(local.kept)
";
        let keep = session.run(code, "keep.py").unwrap().getattr("keep").unwrap();
        let reference = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let reference = keep.call(()).unwrap();
                    // Kept from call to call, as long as the thread lives.
                    assert!(!reference.call(()).unwrap().is_none());
                    reference
                })
                .join()
                .unwrap()
        });
        // A scope ends before its threads' destructors have: wait for them.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !reference.call(()).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the thread's state still exists");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn the_least_loaded_interpreter_is_chosen() {
    for pool in pools(3) {
        let sessions: Vec<Session> = (0..3).map(|_| pool.acquire().unwrap()).collect();
        let mut used: Vec<usize> = sessions.iter().map(|s| s.interpreter().index()).collect();
        used.sort_unstable();
        assert_eq!(used, [0, 1, 2]);
        let more: Vec<Session> = (0..3).map(|_| pool.acquire().unwrap()).collect();
        assert!(pool.interpreters().iter().all(|interpreter| interpreter.leases() == 2));
        drop((sessions, more));
        assert!(pool.interpreters().iter().all(|interpreter| interpreter.leases() == 0));
        let preferred = pool.acquire_preferring(|interpreter| interpreter.index() == 2).unwrap();
        assert_eq!(preferred.interpreter().index(), 2);
        // Load counts before preference.
        let other = pool.acquire_preferring(|interpreter| interpreter.index() == 2).unwrap();
        assert_ne!(other.interpreter().index(), 2);
        let error = pool.acquire_on(3).unwrap_err();
        assert!(matches!(error, Error::NoSuchInterpreter { index: 3, count: 3 }), "{error}");
    }
}

#[test]
fn the_end_of_a_pool_runs_exit_functions_once_on_whatever_thread() {
    for pool in pools(2) {
        let exits = [0, 1].map(|index| ends(&pool.acquire_on(index).unwrap()));
        let counts = || exits.each_ref().map(|count| count.load(Ordering::SeqCst));
        let session = pool.acquire_on(1).unwrap();
        // The second one lives as long as its session.
        thread::spawn(move || drop(pool)).join().unwrap();
        assert_eq!(counts(), [1, 0]);
        drop(session);
        assert_eq!(counts(), [1, 1]);
        // The interpreters are gone, and have returned the memory that was lent to them.
        assert!(exits.iter().all(|exits| Arc::strong_count(exits) == 1));
    }
}

#[test]
fn a_host_function_called_at_the_very_end_raises() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let function = session.function("f", |session, _| session.none()).unwrap();
        session.import("atexit").unwrap().call_method("register", (&function,)).unwrap();
        // It says so on standard error.
        drop(function);
        drop((session, pool));
    }
}

#[test]
fn pythons_main_thread_is_none_of_the_applications() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let threading = session.import("threading").unwrap();
        let main = threading.call_method("main_thread", ()).unwrap();
        assert!(main.call_method("is_alive", ()).unwrap().extract::<bool>().unwrap());
        assert!(!main.is(&threading.call_method("current_thread", ()).unwrap()));
    }
}

const IMPORTED: &str = "
import sys
from given import path, was_imported
assert was_imported or 'threading' not in sys.modules
import threading, _thread, time
main, own = threading.main_thread(), threading.current_thread()
assert main.is_alive() and main is not own and main.ident != own.ident == _thread.get_ident()
assert main.native_id != _thread.get_native_id() and threading._active[main.ident] is main
assert threading.__loader__ is threading.__spec__.loader and type(threading.__loader__).__name__ != 'Threading'
def work():
    # Python waits for it at its end, and for no thread of the application.
    while main.is_alive(): time.sleep(0.001)
    open(path, 'w').close()
threading.Thread(target=work, daemon=False).start()
";

#[test]
fn whoever_imports_threading_first_is_not_the_main_thread() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let plain = Command::new(pool.python().executable().unwrap())
            .args(["-I", "-c", "import sys; print('threading' in sys.modules)"])
            .output()
            .unwrap();
        let was_imported = plain.stdout == b"True\n";
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("waited-for");
        let _ = fs::remove_file(&path);
        let given = session.eval("type(__import__('sys'))('given')").unwrap();
        given.setattr("path", path.to_str().unwrap()).unwrap();
        given.setattr("was_imported", was_imported).unwrap();
        let modules = session.import("sys").unwrap().getattr("modules").unwrap();
        modules.call_method("__setitem__", ("given", &given)).unwrap();
        // On a thread of the application that ends before the interpreter does.
        thread::scope(|scope| {
            scope.spawn(|| drop(session.run(IMPORTED, "imported.py").unwrap()));
        });
        assert!(!path.exists());
        drop((given, modules));
        drop((session, pool));
        assert!(path.exists(), "Python has not waited for its thread");
    });
}

#[test]
fn what_replicas_cost_is_measured() {
    for pool in pools(2) {
        for interpreter in pool.interpreters() {
            let private = interpreter.memory().unwrap().replicas();
            // Its data and bss have been written, and its text has not.
            assert!((100_000..10_000_000).contains(&private), "{private} bytes");
        }
    }
}

/// A pool of one whose interpreter counts what is reported as unraisable.
fn reporting(pool: &Pool) -> Arc<AtomicU8> {
    let session = pool.acquire().unwrap();
    let reports = Arc::new(AtomicU8::new(0));
    // SAFETY: one byte that the owner keeps alive and that Rust only accesses atomically.
    let count = unsafe { session.lend_raw(reports.as_ptr(), 1, false, reports.clone()) }.unwrap();
    let code = "
import sys
def report(count):
    def hook(_): count[0] += 1
    sys.unraisablehook = hook
";
    let report = session.run(code, "report.py").unwrap().getattr("report").unwrap();
    report.call((count,)).unwrap();
    reports
}

#[test]
fn an_interpreter_ends_although_threading_was_imported_by_a_thread_that_lives_on() {
    for pool in pools(1) {
        let reports = reporting(&pool);
        let (imported, wait) = mpsc::channel();
        let (leave, stay) = mpsc::channel::<()>();
        let visitor = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.acquire().unwrap().import("threading").unwrap();
                drop(pool);
                imported.send(()).unwrap();
                let _ = stay.recv();
            })
        };
        wait.recv().unwrap();
        drop(pool);
        assert_eq!(reports.load(Ordering::SeqCst), 0);
        drop(leave);
        visitor.join().unwrap();
    }
}

#[test]
fn an_interpreter_ends_on_a_thread_that_takes_over_an_identifier() {
    for pool in pools(1) {
        let reports = reporting(&pool);
        let importer = {
            let pool = pool.clone();
            thread::spawn(move || drop(pool.acquire().unwrap().import("threading").unwrap()))
        };
        importer.join().unwrap();
        // The new thread most likely has the stack, and so the identifier, of the thread that has ended.
        thread::spawn(move || drop(pool)).join().unwrap();
        assert_eq!(reports.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn many_pools_one_after_the_other() {
    for _ in 0..3 {
        for pool in pools(2) {
            let session = pool.acquire().unwrap();
            for module in ["json", "decimal", "threading", "sqlite3", "ctypes", "asyncio"] {
                if let Err(error) = session.import(module) {
                    assert!(error.to_string().contains("No module named"), "{module}: {error}");
                }
            }
        }
    }
}

#[test]
fn settings_reach_the_interpreter() {
    for builder in builders(1) {
        let pool = builder.arguments(["prog", "x"]).path("/some/where").build().unwrap();
        let session = pool.acquire().unwrap();
        let sys = session.import("sys").unwrap();
        assert_eq!(sys.getattr("argv").unwrap().extract::<Vec<String>>().unwrap(), ["prog", "x"]);
        let path: Vec<String> = sys.getattr("path").unwrap().extract().unwrap();
        assert_eq!(path[0], "/some/where");
        assert_eq!(session.eval("__import__('sys').flags.isolated").unwrap().str().unwrap(), "1");
        assert_eq!(session.eval("__import__('sys').flags.utf8_mode").unwrap().str().unwrap(), "1");
        assert_eq!(sys.call_method("getfilesystemencoding", ()).unwrap().str().unwrap(), "utf-8");
        let executable: String = sys.getattr("executable").unwrap().extract().unwrap();
        assert_eq!(Some(executable.as_ref()), pool.python().executable());
    }
    let error = Pool::builder().interpreters(0).build().unwrap_err();
    assert!(matches!(error, Error::Configuration(_)), "{error}");
}
