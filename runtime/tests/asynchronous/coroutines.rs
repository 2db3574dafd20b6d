//! Coroutines that Rust awaits.

use crate::pythons::each_pool_alone;
use crate::{block_on, double, each, run, wait_for};
use hydrozoa::{Error, Handle, Session, Task};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

#[test]
fn coroutines_of_many_threads_and_of_tokio_give_their_results() {
    alone(PATIENCE, || {
        each(|_, code, events| {
            thread::scope(|scope| {
                for first in 0..8 {
                    scope.spawn(move || {
                        let tasks: Vec<_> =
                            (first..first + 50).map(|n| (n, double(events, code, n))).collect();
                        for (number, task) in tasks {
                            assert_eq!(block_on(task).unwrap(), 2 * number);
                        }
                    });
                }
            });
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            runtime.block_on(async {
                let spawned: Vec<_> =
                    (0..200).map(|n| (n, tokio::spawn(double(events, code, n)))).collect();
                for (number, task) in spawned {
                    assert_eq!(task.await.unwrap().unwrap(), 2 * number);
                }
            });
            let task = double(events, code, 4);
            assert_eq!(format!("{events:?}"), "<the event loop of interpreter 0>");
            block_on(async {
                while !task.is_finished() {
                    double(events, code, 0).await.unwrap();
                }
            });
            assert_eq!(format!("{task:?}"), "<a finished task of interpreter 0>");
            assert_eq!(block_on(task).unwrap(), 8);
        });
    });
}

#[test]
fn a_result_may_be_an_object_and_nothing() {
    alone(PATIENCE, || {
        each(|pool, _, events| {
            let object: Task<Handle> = events.spawn(|session| {
                session.import("asyncio")?.call_method("sleep", (0, session.eval("{'a': 1}")?))
            });
            let object = block_on(object).unwrap();
            let session = pool.acquire().unwrap();
            assert_eq!(object.attach(&session).unwrap().repr().unwrap(), "{'a': 1}");
            let nothing: Task<()> =
                events.spawn(|session| session.import("asyncio")?.call_method("sleep", (0,)));
            block_on(nothing).unwrap();
            // Any awaitable will do.
            let future: Task<i64> = events.spawn(|session| {
                let events = session.import("asyncio")?.call_method("get_running_loop", ())?;
                let future = events.call_method("create_future", ())?;
                future.call_method("set_result", (5,))?;
                Ok(future)
            });
            assert_eq!(block_on(future).unwrap(), 5);
        });
    });
}

#[test]
fn what_a_coroutine_raises_is_the_error_of_its_future() {
    alone(PATIENCE, || {
        each(|pool, code, events| {
            let error = block_on(run::<i64>(events, code, "refuse")).unwrap_err();
            assert_eq!(error.to_string(), "LookupError: refused");
            assert!(error.traceback().unwrap().contains("in refuse"), "{error:?}");
            let session = pool.acquire().unwrap();
            let class = session.eval("LookupError").unwrap();
            assert!(error.exception().unwrap().is_instance_of(&class).unwrap());
            let error = block_on(run::<i64>(events, code, "cancel")).unwrap_err();
            let cancelled = session.import("asyncio").unwrap().getattr("CancelledError").unwrap();
            assert!(error.exception().unwrap().is_instance_of(&cancelled).unwrap());
            let error = block_on(run::<i64>(events, code, "leave")).unwrap_err();
            assert_eq!(error.to_string(), "SystemExit: 3");
            let error = block_on(run::<i64>(events, code, "current")).unwrap_err();
            assert!(matches!(error, Error::Convert { .. }), "{error:?}");
            let error = block_on(events.spawn::<i64, _>(|session| session.eval("7"))).unwrap_err();
            assert!(error.to_string().starts_with("TypeError: "), "{error:?}");
            let error = block_on(events.spawn::<i64, _>(|session| session.eval("1 / 0")));
            assert_eq!(error.unwrap_err().to_string(), "ZeroDivisionError: division by zero");
            let error = block_on(events.spawn::<i64, _>(|_| panic!("oh"))).unwrap_err();
            assert_eq!(error.to_string(), "the function that makes a coroutine panicked: oh");
            let own = code.clone();
            let take = events.spawn_with(
                move |session| own.attach(session)?.call_method("double", (1,)),
                |_| -> hydrozoa::Result<()> { panic!("oh") },
            );
            let error = block_on(take).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the function that takes a coroutine's result panicked: oh"
            );
            // None of these, nor a stop of the loop by Python code, has ended the loop.
            block_on(run::<()>(events, code, "stop")).unwrap();
            assert_eq!(block_on(double(events, code, 4)).unwrap(), 8);
        });
    });
}

#[test]
fn the_drop_of_a_task_cancels_its_coroutine() {
    alone(PATIENCE, || {
        each(|_, code, events| {
            let task = run::<()>(events, code, "wait");
            wait_for(events, code, "begun", 1);
            drop(task);
            assert_eq!(wait_for(events, code, "ended", 1), 1);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async {
                let waits = run::<()>(events, code, "wait");
                tokio::time::timeout(Duration::from_millis(50), waits).await.unwrap_err();
            });
            wait_for(events, code, "ended", 2);
        });
    });
}

#[test]
fn ten_thousand_dropped_tasks_leave_nothing() {
    const COUNT: usize = 10_000;
    alone(PATIENCE, || {
        each(|pool, code, events| {
            let owned = Arc::new(());
            let waits = || {
                let (code, owned) = (code.clone(), owned.clone());
                events.spawn::<(), _>(move |session| {
                    let _owned = owned;
                    code.attach(session)?.call_method("wait", ())
                })
            };
            // Dropped at once: most have not begun.
            drop((0..COUNT).map(|_| waits()).collect::<Vec<_>>());
            // Dropped while they run, without a wait for the GIL that this thread's session has.
            let begun = wait_for(events, code, "begun", 0);
            let tasks: Vec<_> = (0..COUNT).map(|_| waits()).collect();
            wait_for(events, code, "begun", begun + COUNT);
            let session = pool.acquire().unwrap();
            session.with_gil(|| thread::scope(|scope| scope.spawn(|| drop(tasks)).join().unwrap()));
            let begun = wait_for(events, code, "begun", 0);
            assert_eq!(wait_for(events, code, "ended", begun), begun);
            while block_on(run::<usize>(events, code, "tasks")).unwrap() > 0 {}
            assert_eq!(Arc::strong_count(&owned), 1);
        });
    });
}

#[test]
fn a_lease_lasts_until_its_task_has_ended() {
    each_pool_alone(2, |pool| {
        let sleep = |session: Session, pause: f64| {
            session.spawn::<(), _>(move |session| {
                session.import("asyncio")?.call_method("sleep", (pause,))
            })
        };
        let task = sleep(pool.acquire().unwrap(), 1000.0).unwrap();
        let interpreters = pool.interpreters();
        let busy = interpreters.iter().position(|one| one.leases() > 0).unwrap();
        // The pool prefers the other one.
        assert_ne!(pool.acquire().unwrap().interpreter().index(), busy);
        drop(task);
        // The loop's thread has a session while it makes a coroutine.
        let is_free = |index: usize| {
            while interpreters[index].leases() > 0 {
                thread::yield_now();
            }
        };
        is_free(busy);
        let mut task = sleep(pool.acquire_on(0).unwrap(), 0.0).unwrap();
        block_on(&mut task).unwrap();
        is_free(0);
    });
}

#[test]
fn each_coroutine_has_a_context_of_its_own() {
    alone(PATIENCE, || {
        each(|_, code, events| {
            let own = code.clone();
            let named: Task<String> = events.spawn(move |session| {
                let code = own.attach(session)?;
                code.getattr("name")?.call_method("set", ("mine",))?;
                code.call_method("current", ())
            });
            assert_eq!(block_on(named).unwrap(), "mine");
            assert_eq!(block_on(run::<String>(events, code, "current")).unwrap(), "none");
        });
    });
}

#[test]
fn functions_that_the_loop_is_to_call_run_on_its_thread_in_their_order_and_start_tasks() {
    each(|_, code, events| {
        let (sender, called) = mpsc::channel();
        for number in 0..100_usize {
            let (sender, code) = (sender.clone(), code.clone());
            events.call_soon(move |session| {
                assert!(number != 50, "on purpose");
                let call = || {
                    let asyncio = session.import("asyncio")?;
                    let coroutine = code.attach(session)?.call_method("double", (number,))?;
                    let task = asyncio.call_method("ensure_future", (coroutine,))?;
                    asyncio.call_method("get_running_loop", ())?;
                    Ok::<_, hydrozoa::Error>((
                        asyncio.call_method("current_task", ())?.is_none(),
                        task.keep(),
                    ))
                };
                sender.send((number, std::thread::current().id(), call().unwrap())).unwrap();
            });
        }
        drop(sender);
        let called: Vec<_> = called.iter().collect();
        // The panic of one is its own.
        assert_eq!(
            called.iter().map(|it| it.0).collect::<Vec<_>>(),
            (0..50).chain(51..100).collect::<Vec<_>>()
        );
        assert!(called.iter().all(|it| it.1 == called[0].1 && it.2.0));
        let task = called[98].2.1.clone();
        let doubled: i64 = block_on(events.spawn(move |session| task.attach(session))).unwrap();
        assert_eq!(doubled, 198);
    });
}
