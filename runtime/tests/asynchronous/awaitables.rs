//! Rust futures that coroutines await.

use crate::pythons::each_pool_alone;
use crate::{AWAIT, awaiting, block_on, each};
use hydrozoa::{Error, Task};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::future::{pending, poll_fn, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

#[test]
fn a_coroutine_awaits_rust_futures() {
    alone(PATIENCE, || {
        each(|_, _, events| {
            let at_once = awaiting(events, AWAIT, || ready(Ok(vec![1, 2])));
            assert_eq!(block_on(at_once).unwrap(), "[1, 2]");
            let later = awaiting(events, AWAIT, || async {
                let (send, receive) = oneshot::channel();
                thread::spawn(move || send.send("later"));
                receive.await.map_err(Error::host)
            });
            assert_eq!(block_on(later).unwrap(), "'later'");
            let yields = awaiting(events, AWAIT, || {
                let mut left = 100;
                poll_fn(move |context| {
                    left -= 1;
                    context.waker().wake_by_ref();
                    if left > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
                })
            });
            assert_eq!(block_on(yields).unwrap(), "None");
            let many = "
import asyncio, sys
async def await_it(make):
    results = await asyncio.gather(*(make() for _ in range(1000)))
    results.append(await asyncio.wait_for(make(), 1000))
    results.append(await asyncio.shield(make()))
    results.append(await asyncio.create_task(make()))
    if sys.version_info >= (3, 11):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(make())
        results.append(task.result())
    return str(set(results))
";
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
            let handle = runtime.handle().clone();
            let sleeps = awaiting(events, many, move || {
                let handle = handle.clone();
                let mut sleep = Box::pin(async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Ok(1)
                });
                poll_fn(move |context| {
                    let _entered = handle.enter();
                    sleep.as_mut().poll(context)
                })
            });
            assert_eq!(block_on(sleeps).unwrap(), "{1}");
        });
    });
}

#[test]
fn an_error_and_a_panic_of_a_rust_future_are_raised_in_python() {
    alone(PATIENCE, || {
        each(|_, _, events| {
            let caught = "
async def await_it(make):
    try:
        await make()
    except Exception as error:
        return f'{type(error).__name__}: {error}'
";
            let raises = |error: fn() -> Error| {
                block_on(awaiting(events, caught, move || async move { Err::<(), _>(error()) }))
            };
            assert_eq!(raises(|| Error::raise("KeyError", "k")).unwrap(), "KeyError: 'k'");
            let host = raises(|| Error::host("no connection")).unwrap();
            assert_eq!(host, "RuntimeError: no connection");
            let panics = awaiting(events, caught, || async {
                if true {
                    panic!("oh");
                }
                Ok(())
            });
            assert_eq!(
                block_on(panics).unwrap(),
                "RuntimeError: a future that Python awaits panicked: oh"
            );
            // An error of the application comes out again.
            let host = awaiting(events, AWAIT, || async { Err::<(), _>(Error::host("gone")) });
            assert!(matches!(block_on(host).unwrap_err(), Error::Host(_)));
        });
    });
}

/// Counts when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_cancelled_or_forgotten_awaitable_drops_its_future() {
    alone(PATIENCE, || {
        each(|_, _, events| {
            let dropped = Arc::new(AtomicUsize::new(0));
            let own = dropped.clone();
            let never = move || {
                let counted = Counted(own.clone());
                async move {
                    let _counted = counted;
                    pending::<hydrozoa::Result<()>>().await
                }
            };
            let code = "
import asyncio, warnings
async def await_it(make):
    task = asyncio.create_task(make())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        kept = error  # and its frames
    try:
        await asyncio.wait_for(make(), 0.01)
    except asyncio.TimeoutError:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        make()
    make().close()
    return str(task.cancelled())
";
            assert_eq!(block_on(awaiting(events, code, never)).unwrap(), "True");
            assert_eq!(dropped.load(Ordering::SeqCst), 4);
        });
    });
}

#[test]
fn an_awaitable_is_awaited_once() {
    alone(PATIENCE, || {
        each(|_, _, events| {
            let code = "
async def await_it(make):
    awaitable = make()
    first = await awaitable
    try:
        await awaitable
    except RuntimeError as error:
        return f'{first}: {error}'
";
            let twice = awaiting(events, code, || ready(Ok(1)));
            assert_eq!(block_on(twice).unwrap(), "1: cannot reuse already awaited coroutine");
        });
    });
}

#[test]
fn loops_that_python_code_runs_await_rust_futures_too() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let later = session
            .function("later", |session, _| {
                let (send, receive) = oneshot::channel();
                thread::spawn(move || send.send(3));
                session.awaitable(async { receive.await.map_err(Error::host) })
            })
            .unwrap();
        let code = "
import asyncio
async def add(later):
    return await later() + sum(await asyncio.gather(later(), later()))
def run(later):
    return asyncio.run(add(later))
def outside(later):
    later().send(None)
";
        let module = session.run(code, "loops.py").unwrap();
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut before = 0;
        for round in 0..20 {
            let sum: i64 = module.call_method("run", (&later,)).unwrap().extract().unwrap();
            assert_eq!(sum, 9);
            session.import("gc").unwrap().call_method("collect", ()).unwrap();
            match round {
                0 => before = descriptors(),
                // A thread that wakes a future has the descriptor for a moment.
                _ => {
                    while descriptors() > before {
                        thread::yield_now();
                    }
                }
            }
        }
        let error = module.call_method("outside", (&later,)).unwrap_err();
        assert_eq!(error.to_string(), "RuntimeError: no running event loop");
    });
}

#[test]
fn a_task_that_nobody_keeps_lives_as_long_as_its_loop_while_it_waits_for_a_rust_future() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let code = "
import asyncio, gc, weakref
done = []
async def wait(later):
    done.append(await later())
async def forget(later, wake):
    asyncio.get_running_loop().create_task(wait(later))
    await asyncio.sleep(0)
    gc.collect()
    if not wake():
        return 'the task is gone'
    while not done:
        await asyncio.sleep(0.001)
    return done
async def leave(later):
    asyncio.get_running_loop().create_task(wait(later))
    await asyncio.sleep(0)
def run(later, wake):
    return asyncio.run(forget(later, wake))
def abandon(later):
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    loop.run_until_complete(leave(later))
    kept = weakref.ref(loop)
    del loop
    gc.collect()
    return kept() is None
";
        let module = session.run(code, "forgotten.py").unwrap();
        let (send, receive) = oneshot::channel();
        let (send, receive) = (Mutex::new(Some(send)), Mutex::new(Some(receive)));
        let later = session
            .function("later", move |session, _| {
                let receive = receive.lock().unwrap().take();
                session.awaitable(async {
                    match receive {
                        Some(receive) => receive.await.map_err(Error::host),
                        None => pending().await,
                    }
                })
            })
            .unwrap();
        let wake = session
            .function("wake", move |session, _| {
                let send = send.lock().unwrap().take().unwrap();
                session.object_from(&send.send(3).is_ok())
            })
            .unwrap();
        let done = module.call_method("run", (&later, &wake)).unwrap();
        assert_eq!(done.repr().unwrap(), "[3]");
        // A loop that nobody has goes with what its tasks wait for.
        assert!(module.call_method("abandon", (&later,)).unwrap().truth().unwrap());
    });
}

#[test]
fn coroutines_of_two_interpreters_wait_for_each_other() {
    each_pool_alone(2, |pool| {
        let (send, receive) = oneshot::channel::<i64>();
        let (send, receive) = (Arc::new(Mutex::new(Some(send))), Mutex::new(Some(receive)));
        let receives: Task<i64> =
            pool.interpreters()[0].event_loop().unwrap().spawn(move |session| {
                let receive = receive.lock().unwrap().take().unwrap();
                session.awaitable(async { receive.await.map_err(Error::host) })
            });
        let sends: Task<()> = pool.interpreters()[1].event_loop().unwrap().spawn(move |session| {
            let send = session.function("send", move |session, arguments| {
                let send = send.lock().unwrap().take().unwrap();
                send.send(arguments.extract(0)?).unwrap();
                session.none()
            })?;
            let code = "
import asyncio
async def send_later(send):
    await asyncio.sleep(0.01)
    send(42)
";
            session.run(code, "sends.py")?.call_method("send_later", (send,))
        });
        block_on(sends).unwrap();
        assert_eq!(block_on(receives).unwrap(), 42);
    });
}
