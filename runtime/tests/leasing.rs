//! Leases on an interpreter of one's own, pools whose interpreters have no more sessions than a bound, and waits for either.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, pool, works};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for another thread to begin to wait.
const A_WHILE: Duration = Duration::from_millis(50);

/// A pool of one version with so many interpreters, each with no more than so many sessions.
fn bounded(interpreters: usize, sessions: usize) -> Pool {
    builders(interpreters).next().unwrap().max_sessions(sessions).build().unwrap()
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
        // A thread that has given up is in nobody's way.
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

/// Eight threads lease interpreters again and again. None of these ever has more sessions than `bound`.
fn threads_lease_at_once(pool: &Pool, bound: usize, lease: impl Fn(&Pool) -> Session + Sync) {
    let inside: Vec<AtomicUsize> =
        pool.interpreters().iter().map(|_| AtomicUsize::new(0)).collect();
    let served = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let session = lease(pool);
                    let inside = &inside[session.interpreter().index()];
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < bound);
                    works(&session);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(session);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(served.into_inner(), 4000);
    assert!(pool.interpreters().iter().all(|interpreter| interpreter.leases() == 0));
}

#[test]
fn threads_that_take_turns_are_alone_and_none_is_forgotten() {
    let lease = |pool: &Pool| pool.acquire_timeout(PATIENCE / 2).unwrap();
    alone(PATIENCE, || threads_lease_at_once(&pool(3), 1, lease));
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

#[test]
fn a_bounded_pool_spreads_its_sessions_and_is_busy_at_its_bound() {
    alone(PATIENCE, || {
        let pool = bounded(2, 2);
        let mut sessions: Vec<Session> = (0..4).map(|_| pool.acquire().unwrap()).collect();
        let leases: Vec<_> =
            pool.interpreters().iter().map(hydrozoa::Interpreter::leases).collect();
        assert_eq!(leases, [2, 2]);
        is_busy(pool.try_acquire());
        let begin = Instant::now();
        is_busy(pool.acquire_timeout(A_WHILE));
        assert!(begin.elapsed() >= A_WHILE);
        drop(sessions.swap_remove(1));
        works(&pool.try_acquire().unwrap());
        // Leases of one interpreter do not wait, but count.
        drop(sessions);
        let own: Vec<Session> = (0..3).map(|_| pool.acquire_on(0).unwrap()).collect();
        let others = [pool.acquire().unwrap(), pool.acquire().unwrap()];
        assert!(others.iter().all(|session| session.interpreter().index() == 1));
        is_busy(pool.try_acquire());
        drop(own);
        assert_eq!(pool.acquire().unwrap().interpreter().index(), 0);
    });
}

#[test]
fn a_pool_without_a_bound_does_not_wait_in_acquire() {
    let pool = bounded(1, 0);
    let sessions: Vec<Session> = (0..5).map(|_| pool.acquire().unwrap()).collect();
    assert_eq!(pool.interpreters()[0].leases(), 5);
    is_busy(pool.try_acquire());
    drop(sessions);
    works(&pool.try_acquire().unwrap());
}

#[test]
fn those_who_acquire_wait_in_the_order_in_which_they_came() {
    alone(PATIENCE, || {
        let pool = bounded(1, 2);
        let held = [pool.acquire().unwrap(), pool.acquire().unwrap()];
        let movable = {
            let session = pool.acquire_on(0).unwrap();
            let object = session.import("operator").unwrap().getattr("not_").unwrap();
            pool.create_movable(&object).unwrap()
        };
        let served = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..4 {
                let (pool, movable, served) = (&pool, &movable, &served);
                let (tell, told) = mpsc::channel();
                scope.spawn(move || {
                    tell.send(()).unwrap();
                    // A call on a movable waits in the same queue as a lease.
                    if number == 2 {
                        let reply = movable.call((1,)).unwrap();
                        served.lock().unwrap().push(number);
                        drop(reply);
                        return;
                    }
                    let session = pool.acquire().unwrap();
                    served.lock().unwrap().push(number);
                    works(&session);
                });
                told.recv().unwrap();
                thread::sleep(A_WHILE);
            }
            assert!(served.lock().unwrap().is_empty());
            // One place is free for all of them, one after the other.
            let [one, _other] = held;
            drop(one);
            while served.lock().unwrap().len() < 4 {
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(served.into_inner().unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn threads_that_share_interpreters_exceed_no_bound_and_none_is_forgotten() {
    alone(PATIENCE, || threads_lease_at_once(&bounded(2, 2), 2, |pool| pool.acquire().unwrap()));
}

#[test]
fn who_waits_in_acquire_keeps_no_gil_and_is_served_by_a_new_interpreter() {
    alone(PATIENCE, || {
        let pool = bounded(1, 1);
        let own = pool.acquire().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(A_WHILE);
                works(&pool.acquire_on(0).unwrap());
                pool.resize(2).unwrap();
            });
            let session = own.with_gil(|| pool.acquire()).unwrap();
            assert_eq!(session.interpreter().index(), 1);
        });
        works(&own);
    });
}

#[test]
fn the_end_of_a_stuck_call_serves_those_who_wait() {
    alone(PATIENCE, || {
        let pool = bounded(1, 2);
        let stuck = pool.acquire().unwrap();
        let sleep = stuck.import("time").unwrap().getattr("sleep").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while !pool.interpreters()[0].is_stuck() {
                    thread::sleep(Duration::from_millis(1));
                }
                is_busy(pool.try_acquire());
                works(&pool.acquire().unwrap());
            });
            let limit = Duration::from_millis(20);
            let sleep = || stuck.with_deadline(limit, || sleep.call((0.5,)));
            // No bytecode runs behind the native call, so nothing raises the exception. On a busy machine the
            // limit may pass before the call has begun, which is an error.
            let outcome = std::iter::repeat_with(sleep).find(|outcome| match outcome {
                Err(Error::Deadline { traceback }) => !traceback.is_empty(),
                _ => true,
            });
            outcome.unwrap().unwrap();
            // This session stays open.
            waiting.join().unwrap();
        });
    });
}
