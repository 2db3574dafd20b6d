//! Interrupts, deadlines and calls that react to neither.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hydrozoa::{Error, Object};

use super::Turn;
use super::calls::works;
use super::errands::at_thread_end;
use super::world::{World, lock, stress};

/// The result of `churn` for each round: modules, squares of 0 and 1, numbers of threads, and a finalizer's.
const ROUND: i64 = 3 + 1 + 1 + 8;

pub fn interrupts(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let handle = session.interrupt_handle();
    let module = stress(&session)?;
    let pause = Duration::from_micros(turn.random.u64(..10_000));
    let (outcome, sent) = thread::scope(|scope| {
        let interrupter = scope.spawn(move || {
            thread::sleep(pause);
            while !handle.interrupt() {
                thread::yield_now();
            }
            Instant::now()
        });
        let outcome = module.call_method("loop", ()).map(drop);
        let now = Instant::now();
        (outcome, interrupter.join().map(|sent| now - sent))
    });
    ensure!(matches!(outcome, Err(Error::Interrupted { .. })), "an interrupt became {outcome:?}");
    let Ok(took) = sent else { bail!("the interrupter panicked") };
    lock(&world.interrupts).push(took.as_secs_f64() * 1000.0);
    works(&session, 5)
}

/// An interrupt at any instruction of imports, starts of threads, queues and finalizers.
pub fn interrupts_anywhere(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let module = stress(&session)?;
    let handle = session.interrupt_handle();
    let (is_over, pauses) = (AtomicBool::new(false), turn.random.fork());
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            let mut pauses = pauses;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(pauses.u64(..3000)));
                handle.interrupt();
            }
        });
        let outcome = churn(&module, turn);
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    if let Err(error) = outcome {
        ensure!(matches!(error.downcast_ref(), Some(Error::Interrupted { .. })), error);
        world.anywhere.fetch_add(1, Ordering::Relaxed);
    }
    works(&session, 5)
}

pub fn deadlines_anywhere(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let module = stress(&session)?;
    let limit = Duration::from_micros(turn.random.u64(..6000));
    let outcome = session.with_deadline(limit, || churn(&module, turn));
    if let Err(error) = outcome {
        ensure!(matches!(error.downcast_ref(), Some(Error::Deadline { .. })), error);
        world.anywhere.fetch_add(1, Ordering::Relaxed);
    }
    works(&session, 5)
}

/// The module was imported before. An import that fails in one thread leaves half a module to another one that waits for it
/// (CPython, `import_ensure_initialized`).
fn churn(module: &Object<'_>, turn: &mut Turn) -> Result<()> {
    let rounds = turn.random.i64(1..4);
    let answer: i64 = module.call_method("churn", (turn.thread, rounds))?.extract()?;
    ensure!(answer == rounds * ROUND, "{rounds} rounds are {answer}");
    Ok(())
}

pub fn deadlines(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let module = stress(&session)?;
    let limit = Duration::from_micros(turn.random.u64(..80_000));
    let begin = Instant::now();
    let outcome = session.with_deadline(limit, || module.call_method("loop", ()).map(drop));
    ensure!(matches!(outcome, Err(Error::Deadline { .. })), "a deadline became {outcome:?}");
    lock(&world.deadlines).push(begin.elapsed().saturating_sub(limit).as_secs_f64() * 1000.0);
    works(&session, 5)
}

/// A call without any time does not begin.
pub fn deadlines_of_nothing(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let outcome = session.with_deadline(Duration::ZERO, || session.eval("1 + 1").map(drop));
    let Err(Error::Deadline { traceback }) = outcome else {
        bail!("a deadline of nothing became {outcome:?}")
    };
    ensure!(traceback.is_empty(), "a call has begun after its deadline:\n{traceback}");
    // A call with plenty of time is not disturbed, even inside a distant deadline.
    let far = Duration::from_secs(turn.random.u64(600..1 << 40));
    session.with_deadline(Duration::MAX, || session.with_deadline(far, || works(&session, 7)))
}

pub fn deadlines_at_thread_ends(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    at_thread_end(move || {
        session.with_deadline(Duration::from_secs(600), || works(&session, 9))?;
        let outcome = session.with_deadline(Duration::ZERO, || session.eval("1").map(drop));
        ensure!(matches!(outcome, Err(Error::Deadline { .. })), "it became {outcome:?}");
        Ok(())
    })
}

/// A call that no interrupt reaches at once: it is reported, and its interpreter replaced.
pub fn stuck(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let limit = Duration::from_millis(50);
    let outcome = match turn.random.bool() {
        true => {
            let time = session.import("time")?;
            session.with_deadline(limit, || time.call_method("sleep", (0.4,)).map(drop))
        }
        false => {
            let module = stress(&session)?;
            let call = || module.call_method("keep_the_gil", (400_000,)).map(drop);
            session.with_deadline(limit, call)
        }
    };
    ensure!(matches!(outcome, Ok(()) | Err(Error::Deadline { .. })), "it became {outcome:?}");
    Ok(())
}
