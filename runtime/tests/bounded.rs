//! Pools whose interpreters have no more sessions than a bound.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::alone;
use pythons::builders;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for another thread to begin to wait.
const A_WHILE: Duration = Duration::from_millis(50);

/// What is tested here does not depend on the version of Python.
fn pool(interpreters: usize, sessions: usize) -> Pool {
    builders(interpreters).next().unwrap().max_sessions(sessions).build().unwrap()
}

fn works(session: &Session) {
    assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
}

#[track_caller]
fn is_busy(outcome: hydrozoa::Result<Session>) {
    assert!(matches!(outcome, Err(Error::Busy { .. })), "{outcome:?}");
}

#[test]
fn a_bounded_pool_spreads_its_sessions_and_is_busy_at_its_bound() {
    alone(PATIENCE, || {
        let pool = pool(2, 2);
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
    let pool = pool(1, 0);
    let sessions: Vec<Session> = (0..5).map(|_| pool.acquire().unwrap()).collect();
    assert_eq!(pool.interpreters()[0].leases(), 5);
    is_busy(pool.try_acquire());
    drop(sessions);
    works(&pool.try_acquire().unwrap());
}

#[test]
fn those_who_acquire_wait_in_the_order_in_which_they_came() {
    alone(PATIENCE, || {
        let pool = pool(1, 2);
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
    alone(PATIENCE, || {
        const BOUND: usize = 2;
        let pool = pool(2, BOUND);
        let inside = [const { AtomicUsize::new(0) }; 2];
        let served = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let session = pool.acquire().unwrap();
                        let inside = &inside[session.interpreter().index()];
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < BOUND);
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
    });
}

#[test]
fn who_waits_in_acquire_keeps_no_gil_and_is_served_by_a_new_interpreter() {
    alone(PATIENCE, || {
        let pool = pool(1, 1);
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
        let pool = pool(1, 2);
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
