//! Coroutines as Rust futures and Rust futures as awaitables, on every Python of the machine.

mod awaitables;
mod coroutines;
#[path = "../cycling/mod.rs"]
#[expect(dead_code, reason = "nothing is served meanwhile")]
mod cycling;
mod driven;
mod ends;
#[path = "../pythons/mod.rs"]
mod pythons;
mod reactors;
mod settled;

use hydrozoa::{EventLoop, FromPython, Handle, Pool, Task};
use pythons::pools;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

/// For ends that a test waits for.
const LONG: Duration = Duration::from_secs(120);

/// An executor without anything but a thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Coroutines that tests run. `ended` is how many `finally:` blocks of `wait` have run.
const CODE: &str = "
import asyncio, contextvars
begun = ended = 0
name = contextvars.ContextVar('name', default='none')

async def double(number):
    await asyncio.sleep(0)
    return 2 * number

async def wait():
    global begun, ended
    begun += 1
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        ended += 1

async def counted(what, at_least):
    while globals()[what] < at_least:
        await asyncio.sleep(0.001)
    return globals()[what]

async def refuse():
    raise LookupError('refused')

async def leave():
    raise SystemExit(3)

async def cancel():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)

async def stop():
    asyncio.get_running_loop().stop()

async def tasks():
    return len(asyncio.all_tasks()) - 1

async def current():
    return name.get()
";

/// A pool of each version with one interpreter, its module of [`CODE`], and its loop.
fn each(test: impl Fn(&Pool, &Handle, &EventLoop)) {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let code = session.run(CODE, "coroutines.py").unwrap().keep();
        drop(session);
        let events = pool.interpreters()[0].event_loop().unwrap();
        test(&pool, &code, &events);
    }
}

/// Runs a function of [`CODE`] without arguments.
fn run<T>(events: &EventLoop, code: &Handle, function: &'static str) -> Task<T>
where
    T: for<'s> FromPython<'s> + Send + 'static,
{
    let code = code.clone();
    events.spawn(move |session| code.attach(session)?.call_method(function, ()))
}

fn double(events: &EventLoop, code: &Handle, number: i64) -> Task<i64> {
    let code = code.clone();
    events.spawn(move |session| code.attach(session)?.call_method("double", (number,)))
}

/// Waits until a count of [`CODE`] has come that far.
fn wait_for(events: &EventLoop, code: &Handle, count: &'static str, at_least: usize) -> usize {
    let code = code.clone();
    let counted: Task<usize> = events
        .spawn(move |session| code.attach(session)?.call_method("counted", (count, at_least)));
    block_on(counted).unwrap()
}

/// Awaits what a Rust function makes, in a coroutine of this code: `await_it(make)`.
fn awaiting<F, R>(
    events: &EventLoop,
    code: &'static str,
    make: impl Fn() -> F + Send + Sync + 'static,
) -> Task<String>
where
    F: Future<Output = hydrozoa::Result<R>> + Send + 'static,
    R: hydrozoa::ToPython + 'static,
{
    events.spawn(move |session| {
        let make = session.function("make", move |session, _| session.awaitable(make()))?;
        session.run(code, "awaiting.py")?.call_method("await_it", (make,))
    })
}

const AWAIT: &str = "
async def await_it(make):
    return repr(await make())
";
