//! Operations of Python code on its own: threads, processes, imports, finalizers.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Result, ensure};

use super::world::{World, stress};
use super::{Turn, fault};

pub fn threads(world: &World, turn: &mut Turn) -> Result<()> {
    let n = turn.random.i64(1..8);
    let session = world.session(turn)?;
    let sum: i64 = stress(&session)?.call_method("start_threads", (n,))?.extract()?;
    ensure!(sum == n * (n - 1) / 2, "{n} threads have left {sum}");
    Ok(())
}

pub fn queues(world: &World, turn: &mut Turn) -> Result<()> {
    let n = turn.random.i64(1..20);
    let session = world.session(turn)?;
    let arguments = (n, turn.random.bool());
    let sum: i64 = stress(&session)?.call_method("through_queues", arguments)?.extract()?;
    ensure!(sum == (0..n).map(|i| i * i).sum::<i64>(), "{n} squares have the sum {sum}");
    Ok(())
}

pub fn daemons(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.busy(turn)?.session();
    let alive: usize = stress(&session)?.call_method("linger", ())?.extract()?;
    ensure!((1..=2).contains(&alive), "{alive} daemons are alive");
    Ok(())
}

pub fn children(world: &World, turn: &mut Turn) -> Result<()> {
    let n = turn.random.i64(0..200);
    let session = world.session(turn)?;
    if turn.random.u8(..4) == 0 {
        let status = session
            .without_gil(|| Command::new("sh").args(["-c", &format!("exit {n}")]).status())?;
        ensure!(status.code() == Some(n as i32), "a child of Rust has {status} instead of {n}");
    }
    let found: i64 = stress(&session)?.call_method("run_child", (n,))?.extract()?;
    ensure!(found == n * 1001, "a child of Python said {found} instead of {}", n * 1001);
    Ok(())
}

pub fn forks(world: &World, turn: &mut Turn) -> Result<()> {
    let (n, execute) = (turn.random.i64(0..90), turn.random.bool());
    let session = world.session(turn)?;
    let found: i64 = stress(&session)?.call_method("fork", (n, execute))?.extract()?;
    ensure!(found == n, "a forked child has the status {found} instead of {n}");
    Ok(())
}

pub fn signals(_: &World, _: &mut Turn) -> Result<()> {
    let before = fault::signals();
    // SAFETY: the signal is handled.
    ensure!(unsafe { libc::raise(libc::SIGUSR2) } == 0, "a signal cannot be sent");
    ensure!(fault::signals() > before, "the program's handler was not called");
    Ok(())
}

pub fn imports(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let count: i64 = stress(&session)?.call_method("import_again", (turn.thread,))?.extract()?;
    ensure!(count == 3, "{count} modules were imported");
    let answer: String = session
        .run("import sqlite3, decimal\nanswer = str(decimal.Decimal(1) / 3)", "imports.py")?
        .getattr("answer")?
        .extract()?;
    ensure!(answer == format!("0.{}", "3".repeat(28)), "a third is {answer}");
    Ok(())
}

pub fn finalizers(world: &World, turn: &mut Turn) -> Result<()> {
    let n = turn.random.i64(1..20);
    let session = world.session(turn)?;
    let (noted, token) = (Arc::new(AtomicI64::new(0)), world.token());
    let sum = noted.clone();
    let note = session.function("note", move |session, arguments| {
        let _ = &token;
        sum.fetch_add(arguments.extract(0)?, Ordering::Relaxed);
        session.none()
    })?;
    let seen: i64 = stress(&session)?.call_method("finalize", (&note, n))?.extract()?;
    let expected = (0..3 * n).sum::<i64>();
    let noted = noted.load(Ordering::Relaxed);
    ensure!(seen == expected && noted == expected, "{expected}, {seen} and {noted} differ");
    Ok(())
}
