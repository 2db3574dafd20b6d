//! Coroutines and futures.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::{Result, ensure};
use hydrozoa::{Handle, Task};

use super::Turn;
use super::world::{Token, World, lock, stress};

/// An executor of one future.
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

pub fn coroutines(world: &World, turn: &mut Turn) -> Result<()> {
    let n = turn.random.i64(0..1000);
    let session = world.busy(turn)?.session();
    let task: Task<i64> =
        session.spawn(move |session| session.import("stress")?.call_method("double", (n,)))?;
    let answer = block_on(task)?;
    ensure!(answer == 2 * n, "twice {n} is {answer}");
    Ok(())
}

/// Coroutines that never end by themselves.
pub fn cancelled(world: &World, turn: &mut Turn) -> Result<()> {
    let interpreter = world.busy(turn)?;
    let events = interpreter.event_loop()?;
    let tasks: Vec<Task<Handle>> = (0..turn.random.usize(1..8))
        .map(|_| {
            let token = world.token();
            events.spawn(move |session| {
                let _ = &token;
                session.import("stress")?.call_method("wait", ())
            })
        })
        .collect();
    thread::sleep(Duration::from_micros(turn.random.u64(..2000)));
    ensure!(tasks.iter().all(|task| !task.is_finished()), "a task has ended before its event");
    world.leave(turn, move || {
        drop((tasks, interpreter));
        Ok(())
    })
}

/// A future that another thread makes ready, for all who await it.
#[derive(Clone)]
struct Later(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Later {
    fn now(&self) {
        let wakers = {
            let mut state = lock(&self.0);
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for Later {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(context.waker().clone());
        Poll::Pending
    }
}

/// A coroutine that awaits futures of Rust. A third of them is cancelled.
pub fn awaitables(world: &World, turn: &mut Turn) -> Result<()> {
    let (n, cancelled) = (turn.random.i64(1..20), turn.random.u8(..3) == 0);
    let interpreter = world.busy(turn)?;
    let events = interpreter.event_loop()?;
    let later = Later(Arc::default());
    let (awaited, alive): (_, Vec<Token>) =
        (later.clone(), (0..n).map(|_| world.token()).collect());
    let alive = Arc::new(Mutex::new(alive));
    let task: Task<i64> = events.spawn(move |session| {
        let make = session.function("make", move |session, arguments| {
            let (later, token, i) =
                (awaited.clone(), lock(&alive).pop(), arguments.extract::<i64>(0)?);
            session.awaitable(async move {
                later.await;
                drop(token);
                Ok(i)
            })
        })?;
        session.import("stress")?.call_method("gather", (make, n))
    });
    thread::sleep(Duration::from_micros(turn.random.u64(..2000)));
    if cancelled {
        return world.leave(turn, move || {
            drop((task, interpreter));
            later.now();
            Ok(())
        });
    }
    thread::scope(|scope| {
        scope.spawn(|| later.now());
        let answer = block_on(task)?;
        ensure!(answer == n * (n - 1) / 2, "the sum up to {n} is {answer}");
        let session = interpreter.session();
        let found: i64 = stress(&session)?.call_method("start_threads", (3,))?.extract()?;
        ensure!(found == 3, "three threads have left {found}");
        Ok(())
    })
}
