//! Interpreters that are replaced, added and given up while others run.

mod ending;
mod pythons;

use ending::{assert_ends, ends};
use hydrozoa::{Error, Pool};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, each_pool_alone};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn value(pool: &Pool, index: usize, expression: &str) -> String {
    let session = pool.acquire_on(index).unwrap();
    session.eval(expression).unwrap().str().unwrap()
}

#[test]
fn an_interpreter_is_replaced_while_its_sessions_and_movables_go_on() {
    each_pool_alone(2, |pool| {
        pool.register_module("known", "VALUE = 'of the module'").unwrap();
        let old = pool.acquire_on(0).unwrap();
        let list = old.run("items = [1, 2, 3]", "items.py").unwrap().getattr("items").unwrap();
        let movable = pool.create_movable(&list).unwrap();
        let sum = |session: &hydrozoa::Session| -> i64 {
            let items = movable.to_object(session).unwrap();
            let builtins = session.import("builtins").unwrap();
            builtins.call_method("sum", (items,)).unwrap().extract().unwrap()
        };
        assert_eq!(sum(&old), 6);
        assert!(movable.is_loaded(old.interpreter()));
        let ended = ends(&old);
        let before = pool.interpreters();
        let replaced = pool.replace(0).unwrap();
        assert_eq!(replaced.name(), "interpreter 0");
        assert_eq!(before[0].name(), "interpreter 0");
        drop((before, replaced));
        let now = &pool.interpreters()[0];
        assert_eq!((now.index(), now.name()), (0, "interpreter 0 (replacement 1)"));
        assert_eq!(now.generation(), 1);
        assert!(!movable.is_loaded(now) && movable.is_loaded(old.interpreter()));
        // The old one goes on for those who have it.
        assert_eq!(list.len().unwrap(), 3);
        assert_eq!(sum(&old), 6);
        let new = pool.acquire_on(0).unwrap();
        assert_eq!(new.interpreter().name(), "interpreter 0 (replacement 1)");
        assert_eq!(sum(&new), 6);
        assert!(movable.is_loaded(now));
        assert_eq!(value(&pool, 0, "__import__('known').VALUE"), "of the module");
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        drop(list);
        drop(old);
        // Although the movable lives.
        assert_ends(&ended);
        assert_eq!(sum(&new), 6);
        assert!(matches!(pool.replace(2), Err(Error::NoSuchInterpreter { index: 2, count: 2 })));
        assert_eq!(now.pool().interpreters().len(), 2);
    });
}

#[test]
fn a_pool_grows_and_shrinks() {
    each_pool_alone(1, |pool| {
        pool.register_module("known", "VALUE = 7").unwrap();
        let clone = pool.clone();
        pool.resize(3).unwrap();
        assert_eq!(clone.interpreters().len(), 3);
        let known: Vec<_> =
            (0..3).map(|index| value(&clone, index, "__import__('known').VALUE")).collect();
        assert_eq!(known, ["7"; 3]);
        let last = clone.acquire_on(2).unwrap();
        let ended = ends(&last);
        pool.resize(1).unwrap();
        assert!(matches!(clone.acquire_on(1), Err(Error::NoSuchInterpreter { .. })));
        assert_eq!(last.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
        drop(last);
        assert_ends(&ended);
        let error = pool.resize(0).unwrap_err();
        assert_eq!(error.to_string(), "a pool needs at least one interpreter: ask for 1 or more");
        pool.resize(2).unwrap();
        assert_eq!(pool.interpreters()[1].name(), "interpreter 1 (replacement 1)");
    });
}

#[test]
fn a_stuck_interpreter_is_replaced_and_ends_with_its_call() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let reported = Arc::new(AtomicUsize::new(0));
            let count = reported.clone();
            let pool = builder
                .replace_stuck(true)
                .on_stuck(move |_| {
                    count.fetch_add(1, Ordering::SeqCst);
                })
                .build()
                .unwrap();
            let session = pool.acquire_on(0).unwrap();
            let ended = ends(&session);
            let caller = thread::spawn(move || {
                session.import("ctypes").unwrap();
                let code = "import ctypes; usleep = ctypes.PyDLL(None).usleep; usleep(3_000_000)";
                let begin = Instant::now();
                let limit = Duration::from_millis(300);
                let outcome =
                    session.with_deadline(limit, || session.run(code, "stuck.py").map(drop));
                (begin.elapsed(), outcome)
            });
            let begin = Instant::now();
            while pool.interpreters()[0].name() == "interpreter 0" {
                assert!(begin.elapsed() < PATIENCE);
                thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(reported.load(Ordering::SeqCst), 1);
            assert_eq!(ended.load(Ordering::SeqCst), 0);
            assert_eq!(value(&pool, 0, "6 * 7"), "42");
            let (took, outcome) = caller.join().unwrap();
            assert!(took >= Duration::from_millis(2900), "{took:?}");
            assert!(matches!(outcome, Ok(()) | Err(Error::Deadline { .. })), "{outcome:?}");
            assert_ends(&ended);
        }
    });
}

#[test]
fn calls_are_right_while_interpreters_are_replaced_under_them() {
    each_pool_alone(3, |pool| {
        let session = pool.acquire().unwrap();
        let list = session.eval("list(range(100))").unwrap();
        let movable = pool.create_movable(&list).unwrap();
        drop(list);
        drop(session);
        let (over, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let length = movable.call_method("__len__", ()).unwrap();
                        assert_eq!(length.extract::<i64>().unwrap(), 100);
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for round in 0..12 {
                drop(pool.replace(round % 3).unwrap());
            }
            pool.resize(5).unwrap();
            pool.resize(2).unwrap();
            over.store(true, Ordering::Relaxed);
        });
        assert!(calls.load(Ordering::Relaxed) > 100);
    });
}
