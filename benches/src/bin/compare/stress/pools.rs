//! Pools that begin and end beside the others, and changes of the common one.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hydrozoa::{Error, Pool};

use super::Turn;
use super::calls::works;
use super::world::{INTERPRETERS, World, directory, lock};

/// A pool ends within this time on a busy machine.
pub const END: Duration = Duration::from_secs(120);
/// A low ceiling for Python code: less than it asks for.
const CEILING: usize = 96 << 20;

/// An interpreter's output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0)).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Less than everything, as writers may.
        let count = bytes.len().min(100);
        lock(&self.0).extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pool that prints to logs, one of each interpreter.
fn printing(world: &World, count: usize) -> Result<(Pool, Vec<Log>)> {
    let logs: Vec<Log> = (0..count).map(|_| Log::default()).collect();
    let outputs = logs.clone();
    let builder = world.beside().interpreters(count);
    Ok((builder.stdout(move |index| Box::new(outputs[index].clone())).build()?, logs))
}

fn end(world: &World, pool: Pool) -> Result<()> {
    let count = pool.interpreters().len();
    pool.close(END)?;
    world.ended.fetch_add(count as u64, Ordering::Relaxed);
    Ok(())
}

/// Several threads of the host and of Python print.
pub fn pools(world: &World, turn: &mut Turn) -> Result<()> {
    const CODE: &str = "
import atexit, threading
atexit.register(print, 'last words')
def lines(n):
    threads = [threading.Thread(target=lambda i=i: print(f'line {i}\\n', end=''), daemon=False) for i in range(n)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sum(range(n))
";
    let (count, n) = (turn.random.usize(1..3), turn.random.i64(1..8));
    let (pool, logs) = printing(world, count)?;
    pool.register_module("prints", CODE)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let pool = &pool;
                scope.spawn(move || {
                    let session = pool.acquire_on(index)?;
                    session.import("prints")?.call_method("lines", (n,))?.extract::<i64>()
                })
            })
            .collect();
        for thread in threads {
            let Ok(sum) = thread.join() else { bail!("a thread panicked") };
            ensure!(sum? == n * (n - 1) / 2, "not every thread has run");
        }
        Ok(())
    })?;
    if turn.random.bool() {
        for settled in pool.settle()? {
            ensure!(settled.written > 0, "{settled:?}");
            world.settled.fetch_add(1, Ordering::Relaxed);
        }
        let sum: i64 = pool.acquire()?.import("prints")?.call_method("lines", (1,))?.extract()?;
        ensure!(sum == 0, "a settled interpreter returned {sum}");
    }
    end(world, pool)?;
    for log in &logs {
        let text = log.text();
        let mut lines: Vec<&str> = text.lines().collect();
        ensure!(lines.pop() == Some("last words"), "an interpreter printed {text:?}");
        lines.sort_unstable();
        lines.dedup();
        let expected: Vec<String> = (0..n).map(|i| format!("line {i}")).collect();
        ensure!(lines == expected, "{n} threads printed {text:?}");
    }
    Ok(())
}

/// Daemons that print while their interpreter ends.
pub fn printing_daemons(world: &World, turn: &mut Turn) -> Result<()> {
    const CODE: &str = "
import threading
begun = threading.Semaphore(0)
def tell():
    begun.release()
    while True:
        print('a line', flush=True)
for _ in range(2): threading.Thread(target=tell, daemon=True).start()
for _ in range(2): begun.acquire()
";
    let (pool, logs) = printing(world, 1)?;
    pool.acquire()?.run(CODE, "daemons.py")?;
    thread::sleep(Duration::from_micros(turn.random.u64(..20_000)));
    end(world, pool)?;
    let text = logs[0].text();
    let whole =
        text.lines().rev().skip(1).all(|line| ["a line", "a linea line", ""].contains(&line));
    ensure!(whole, "daemons printed {text:?}");
    Ok(())
}

/// Code that asks for more memory than it may have, and its neighbour.
pub fn ceilings(world: &World, turn: &mut Turn) -> Result<()> {
    let pool = world.beside().interpreters(1).memory_limit(CEILING).build()?;
    for _ in 0..turn.random.usize(1..4) {
        let session = pool.acquire()?;
        let outcome = session.eval("len([bytearray(1 << 20) for _ in range(200)])").map(drop);
        let Err(Error::Python { type_name, .. }) = &outcome else {
            bail!("a ceiling became {outcome:?}")
        };
        ensure!(type_name == "MemoryError", "{type_name} at the ceiling");
        let answer: i64 = session.eval("sum(range(1000))")?.extract()?;
        ensure!(answer == 499_500, "the sum is {answer}");
    }
    end(world, pool)
}

pub fn replacements(world: &World, turn: &mut Turn) -> Result<()> {
    let index = turn.random.usize(..INTERPRETERS);
    // The thread may be in the interpreter that it replaces.
    let session = turn.random.bool().then(|| world.session(turn)).transpose()?;
    let old = match world.pool.replace(index) {
        // Another thread has made the pool smaller.
        Err(Error::NoSuchInterpreter { .. }) => return Ok(()),
        old => old?,
    };
    world.note_older(&old);
    if let Some(session) = &session {
        works(session, 11)?;
    }
    drop(session);
    match turn.random.bool() {
        true => drop(old),
        // Others may use it for as long as they like.
        false => match old.close(Duration::from_millis(turn.random.u64(..200))) {
            Ok(()) | Err(Error::InUse { .. }) => {}
            Err(error) => return Err(error.into()),
        },
    }
    works(&world.pool.acquire_timeout(END)?, 4)
}

pub fn sizes(world: &World, turn: &mut Turn) -> Result<()> {
    world.pool.resize(INTERPRETERS - 1)?;
    works(&world.session(turn)?, 6)?;
    world.pool.resize(INTERPRETERS)?;
    world.ended.fetch_add(1, Ordering::Relaxed);
    works(&world.session(turn)?, 6)?;
    // Those without threads of Python can be settled, if no thread is inside.
    match world.interpreter(0).settle(directory()?) {
        Ok(_) => drop(world.settled.fetch_add(1, Ordering::Relaxed)),
        Err(Error::Settle { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
