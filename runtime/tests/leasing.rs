//! Leases on an interpreter of one's own, and waits for one that end.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::alone;
use pythons::pools;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for another thread to begin to wait.
const A_WHILE: Duration = Duration::from_millis(50);

/// What is tested here does not depend on the version of Python.
fn pool(interpreters: usize) -> Pool {
    pools(interpreters).next().unwrap()
}

fn works(session: &Session) {
    assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
}

#[track_caller]
fn is_busy(outcome: hydrozoa::Result<Session>) -> Duration {
    match outcome {
        Err(Error::Busy { waited, .. }) => waited,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_interpreter_is_leased_alone_or_the_pool_is_busy() {
    let pool = pool(2);
    let one = pool.try_acquire().unwrap();
    let other = pool.try_acquire().unwrap();
    assert_ne!(one.interpreter().index(), other.interpreter().index());
    works(&one);
    works(&other);
    is_busy(pool.try_acquire());
    let index = other.interpreter().index();
    drop(other);
    let again = pool.try_acquire().unwrap();
    assert_eq!(again.interpreter().index(), index);
    // A lease that does not look at sessions counts as well.
    drop(again);
    let shared = pool.acquire_on(index).unwrap();
    is_busy(pool.try_acquire());
    drop(shared);
    works(&pool.try_acquire().unwrap());
}

#[test]
fn a_wait_for_an_interpreter_ends_at_its_limit() {
    alone(PATIENCE, || {
        let pool = pool(1);
        let session = pool.try_acquire().unwrap();
        let begin = Instant::now();
        let waited = is_busy(pool.acquire_timeout(A_WHILE));
        assert!((A_WHILE..PATIENCE / 10).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        assert!((A_WHILE..=begin.elapsed()).contains(&waited), "{waited:?}");
        // Who has given up stands in nobody's way.
        drop(session);
        works(&pool.acquire_timeout(A_WHILE).unwrap());
        works(&pool.acquire_timeout(Duration::MAX).unwrap());
    });
}

#[test]
fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    alone(PATIENCE, || {
        let pool = pool(1);
        let held = pool.try_acquire().unwrap();
        let served = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..4 {
                let (pool, served) = (&pool, &served);
                let (told, tell) = mpsc::channel();
                scope.spawn(move || {
                    told.send(()).unwrap();
                    // The second one gives up, and the third does not wait for that.
                    let limit = if number == 1 { A_WHILE } else { PATIENCE };
                    let session = pool.acquire_timeout(limit);
                    served.lock().unwrap().push((number, session.is_ok()));
                    if let Ok(session) = session {
                        // Nobody overtakes those who wait.
                        is_busy(pool.try_acquire());
                        works(&session);
                    }
                });
                tell.recv().unwrap();
                thread::sleep(A_WHILE * 2);
            }
            drop(held);
        });
        let served = served.into_inner().unwrap();
        assert_eq!(served, [(1, false), (0, true), (2, true), (3, true)]);
    });
}

#[test]
fn who_waits_for_an_interpreter_keeps_no_gil() {
    alone(PATIENCE, || {
        let pool = pool(2);
        let (own, others) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(A_WHILE);
                // It ends its session after a call on the interpreter whose GIL the other thread has.
                works(&pool.acquire_on(0).unwrap());
                drop(others);
            });
            let session = own.with_gil(|| pool.acquire_timeout(PATIENCE / 2)).unwrap();
            assert_eq!(session.interpreter().index(), 1);
        });
        works(&own);
    });
}

#[test]
fn interpreters_that_a_pool_gets_serve_those_who_wait() {
    alone(PATIENCE, || {
        let pool = pool(1);
        let held = pool.try_acquire().unwrap();
        let changes: [fn(&Pool); 2] =
            [|pool| drop(pool.replace(0).unwrap()), |pool| pool.resize(2).unwrap()];
        let mut sessions = Vec::new();
        for change in changes {
            let session = thread::scope(|scope| {
                let waiting = scope.spawn(|| pool.acquire_timeout(PATIENCE / 2).unwrap());
                thread::sleep(A_WHILE);
                change(&pool);
                waiting.join().unwrap()
            });
            works(&session);
            sessions.push(session);
        }
        let names: Vec<_> = sessions.iter().map(|session| session.interpreter().name()).collect();
        assert_eq!(names, ["interpreter 0 (replacement 1)", "interpreter 1"]);
        works(&held);
    });
}

#[test]
fn threads_that_take_turns_are_alone_and_none_is_forgotten() {
    alone(PATIENCE, || {
        let pool = pool(3);
        let inside = [const { AtomicUsize::new(0) }; 3];
        let served = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let session = pool.acquire_timeout(PATIENCE / 2).unwrap();
                        let inside = &inside[session.interpreter().index()];
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        works(&session);
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(session);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(served.into_inner(), 4000);
        assert!(pool.interpreters().iter().all(|interpreter| interpreter.leases() == 0));
    });
}

#[test]
fn a_forked_child_waits_for_no_thread_that_it_does_not_have() {
    alone(PATIENCE, || {
        let pool = pool(2);
        let session = pool.acquire_on(0).unwrap();
        let held = Arc::new(Mutex::new(Some(pool.acquire_on(1).unwrap())));
        let kept = held.clone();
        let lease = session.function("lease", move |session, _| {
            drop(kept.lock().unwrap().take());
            let leased = session.interpreter().pool().try_acquire()?;
            session.object_from(&leased.interpreter().index())
        });
        let code = "
import os
def fork(lease):
    child = os.fork()
    if child == 0:
        try:
            os._exit(10 + lease())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
";
        let fork = session.run(code, "fork.py").unwrap().getattr("fork").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.acquire_timeout(PATIENCE / 2).map(drop));
            thread::sleep(A_WHILE);
            let status = fork.call((lease.unwrap(),)).unwrap().extract::<i32>().unwrap();
            assert_eq!(status, 11);
            assert!(!waiting.is_finished());
            drop(held.lock().unwrap().take());
            waiting.join().unwrap().unwrap();
        });
    });
}
