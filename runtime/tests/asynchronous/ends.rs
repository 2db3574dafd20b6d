//! Ends of interpreters whose event loops have work.

use crate::cycling::{Taken, cycles, patience};
use crate::pythons::{builders, each_pool_alone};
use crate::{AWAIT, LONG, awaiting, block_on};
use hydrozoa::{Error, Task};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::future::{pending, ready};
use std::sync::mpsc;
use std::thread;

#[test]
fn an_interpreter_that_ends_cancels_its_coroutines_and_resolves_their_futures() {
    each_pool_alone(1, |pool| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ended");
        let code = "
import asyncio, functools
async def wait(path):
    try:
        await asyncio.Event().wait()
    finally:
        # The loop and its executor still run.
        await asyncio.sleep(0)
        with await asyncio.to_thread(functools.partial(open, path, 'a')) as file:
            file.write('x')
";
        let session = pool.acquire().unwrap();
        let waits = session.run(code, "waits.py").unwrap().getattr("wait").unwrap().keep();
        drop(session);
        let events = pool.interpreters()[0].event_loop().unwrap();
        let spawn = || {
            let (waits, path) = (waits.clone(), path.clone());
            events.spawn::<(), _>(move |session| waits.attach(session)?.call((path,)))
        };
        let tasks: Vec<_> = (0..20).map(|_| spawn()).collect();
        let begun: Task<()> =
            events.spawn(|session| session.import("asyncio")?.call_method("sleep", (0,)));
        block_on(begun).unwrap();
        let waiting = thread::spawn(move || tasks.into_iter().map(block_on).collect::<Vec<_>>());
        pool.close(LONG).unwrap();
        for result in waiting.join().unwrap() {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Ended { .. }), "{error:?}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x".repeat(20));
        let (sender, called) = mpsc::channel();
        events.call_soon(move |_| sender.send(()).unwrap());
        assert!(called.recv().is_err(), "a function that is not called is dropped");
        let error = block_on(spawn()).unwrap_err();
        assert!(error.to_string().starts_with("interpreter 0 has ended"), "{error}");
    });
}

/// Rounds of a race: a task is cancelled while the loop stops.
const ROUNDS: usize = 12;

#[test]
fn tasks_that_end_with_their_interpreter_let_its_generators_end_too() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ended");
            let code = "
import asyncio
async def numbers(path):
    try:
        while True:
            yield 1
    finally:
        with open(path, 'a') as file:
            file.write('x')
generators = []
async def begin(path):
    generators.append(numbers(path))
    await generators[0].__anext__()
async def wait():
    await asyncio.Event().wait()
";
            for _ in 0..ROUNDS {
                let pool = builder.clone().build().unwrap();
                let session = pool.acquire().unwrap();
                let module = session.run(code, "generators.py").unwrap().keep();
                drop(session);
                let events = pool.interpreters()[0].event_loop().unwrap();
                let (begin, path) = (module.clone(), path.clone());
                let begun: Task<()> = events
                    .spawn(move |session| begin.attach(session)?.call_method("begin", (path,)));
                block_on(begun).unwrap();
                let wait = || {
                    let module = module.clone();
                    events.spawn(move |session| module.attach(session)?.call_method("wait", ()))
                };
                let tasks: Vec<Task<()>> = (0..8).map(|_| wait()).collect();
                let cancelling = thread::spawn(move || drop(tasks));
                pool.close(LONG).unwrap();
                cancelling.join().unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "x".repeat(ROUNDS));
        }
    });
}

#[test]
fn the_last_session_may_end_on_the_loop_s_thread() {
    each_pool_alone(1, |pool| {
        let events = pool.interpreters()[0].event_loop().unwrap();
        let (begin, begun) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let task: Task<()> = events.spawn(move |session| {
            begin.send(()).unwrap();
            session.without_gil(|| goes_on.recv().unwrap());
            session.import("asyncio")?.call_method("sleep", (1000,))
        });
        begun.recv().unwrap();
        drop(pool);
        go_on.send(()).unwrap();
        assert!(matches!(block_on(task), Err(Error::Ended { .. })));
    });
}

#[test]
fn event_loops_of_ended_interpreters_leave_nothing() {
    alone(patience(), || {
        let cycles = cycles(6);
        let builder = builders(1).last().unwrap();
        let cycle = || {
            let pool = builder.clone().build().unwrap();
            let events = pool.interpreters()[0].event_loop().unwrap();
            let results: Vec<Task<String>> =
                (0..100).map(|_| awaiting(&events, AWAIT, || ready(Ok(1)))).collect();
            let never: Vec<Task<String>> = (0..100)
                .map(|_| awaiting(&events, AWAIT, pending::<hydrozoa::Result<()>>))
                .collect();
            for result in results {
                assert_eq!(block_on(result).unwrap(), "1");
            }
            pool.close(LONG).unwrap();
            for never in never {
                assert!(matches!(block_on(never), Err(Error::Ended { .. })));
            }
        };
        for _ in 0..3 {
            cycle();
        }
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let (before, threads_before) = (Taken::now(), threads());
        for _ in 0..cycles {
            cycle();
        }
        // Python does not wait until the kernel has ended a thread.
        while threads() > threads_before {
            thread::yield_now();
        }
        Taken::now().assert_bounded(before, cycles, 1 << 20);
    });
}
