//! Calls into Python and back.

use std::cell::RefCell;
use std::ffi::c_long;

use anyhow::{Result, bail, ensure};
use hydrozoa::{Error, Interpreter, Session, Value, WeakPool};

use super::Turn;
use super::world::{World, stress};

/// The result of `work(n)`.
fn right_answer(n: i64) -> i64 {
    let cells = n * n;
    let digits: i64 = (0..n).map(|i| i.to_string().len() as i64).sum();
    cells * (cells - 1) + digits + 2 * n
}

pub fn work(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    works(&session, turn.random.i64(1..60))?;
    world.check_digest(&session, turn)
}

/// That an interpreter computes.
pub fn works(session: &Session, n: i64) -> Result<()> {
    let answer: i64 = stress(session)?.call_method("work", (n,))?.extract()?;
    ensure!(answer == right_answer(n), "work({n}) is {answer}");
    Ok(())
}

pub fn exceptions(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let n = turn.random.i64(0..1000);
    let Err(error) = stress(&session)?.call_method("fail", (n,)) else {
        bail!("fail({n}) has not raised")
    };
    let expected = format!("ValueError: fails with {n}");
    ensure!(error.to_string() == expected, "{error}");
    ensure!(error.traceback().is_some_and(|text| text.contains("in fail")), "the frame is missing");
    // Another thread looks at the exception, if its interpreter still exists.
    let interpreter = session.interpreter().downgrade();
    world.leave(turn, move || {
        let Some(interpreter) = interpreter.upgrade() else { return Ok(()) };
        let Some(exception) = error.exception() else { bail!("an error without exception") };
        let text: String = match &exception.args(&interpreter.session())?[..] {
            [text] => text.extract()?,
            others => bail!("{} arguments", others.len()),
        };
        ensure!(text == format!("fails with {n}"), "{text}, and n is {n}");
        Ok(())
    })
}

pub fn values(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let value = value(turn, 3);
    let object = session.object_from(&value)?;
    let back: Value = object.extract()?;
    ensure!(back == value, "{value:?} came back as {back:?}");
    let twice: Value = session.eval("lambda x: [x, x]")?.call((&object,))?.extract()?;
    ensure!(twice == Value::List(vec![value.clone(), value]), "{twice:?}");
    Ok(())
}

/// A value with others in it.
fn value(turn: &mut Turn, depth: usize) -> Value {
    let count = turn.random.usize(..5);
    match turn.random.u8(..if depth == 0 { 4 } else { 7 }) {
        0 => Value::None,
        1 => Value::Bool(turn.random.bool()),
        2 => Value::Int(turn.random.i128(..).into()),
        3 => Value::Str((0..count).map(|_| turn.random.char(..)).collect()),
        4 => Value::List((0..count).map(|_| value(turn, depth - 1)).collect()),
        5 => Value::Tuple((0..count).map(|_| value(turn, depth - 1)).collect()),
        _ => {
            let key = |i: usize| Value::Int((i as i64).into());
            Value::Dict((0..count).map(|i| (key(i), value(turn, depth - 1))).collect())
        }
    }
}

/// Python calls the host, which calls another interpreter, and so on, and each adds one.
pub fn nested(world: &World, turn: &mut Turn) -> Result<()> {
    let (n, depth) = (turn.random.i64(0..1000), turn.random.i64(1..6));
    let session = world.session(turn)?;
    // The function belongs to an interpreter of the pool, and must not keep the pool.
    let answer = deeper(&session, world.pool.downgrade(), depth, n)?;
    ensure!(answer == n + depth, "{n} and {depth} are {answer}");
    works(&session, 3)
}

fn deeper(session: &Session, pool: WeakPool, depth: i64, n: i64) -> hydrozoa::Result<i64> {
    let function = session.function("deeper", move |session, arguments| {
        let (depth, n): (i64, i64) = (arguments.extract(0)?, arguments.extract(1)?);
        let answer = match depth {
            0 => n,
            _ => {
                let all = pool.upgrade().ok_or_else(|| Error::raise("LookupError", "no pool"))?;
                let other = all.acquire()?;
                deeper(&other, pool.clone(), depth - 1, n)? + 1
            }
        };
        session.object_from(&answer)
    })?;
    session.eval("lambda f, depth, n: f(depth, n)")?.call((&function, depth, n))?.extract()
}

pub fn callbacks(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let mut numbers: Vec<i64> =
        (0..turn.random.usize(2..20)).map(|_| turn.random.i64(0..100)).collect();
    let token = world.token();
    let compare = session.function("compare", move |session, arguments| {
        let _ = &token;
        let (a, b): (i64, i64) = (arguments.extract(0)?, arguments.extract(1)?);
        session.object_from(&(a.cmp(&b) as i64))
    })?;
    let sorted: Vec<i64> =
        stress(&session)?.call_method("sort", (&compare, &numbers))?.extract()?;
    numbers.sort_unstable();
    ensure!(sorted == numbers, "{sorted:?} is not sorted");
    Ok(())
}

thread_local! {
    /// The interpreter whose Python calls [`native`].
    static CALLER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// A function of C for Python, which knows nothing of the GIL. Returns n + 1, or -1.
extern "C" fn native(n: c_long) -> c_long {
    let caller = CALLER.with_borrow(Clone::clone);
    let answer = caller.map(|interpreter| {
        let session = interpreter.session();
        session.eval("lambda n: [n + 1]").and_then(|f| f.call((n,))?.get_item(0)?.extract())
    });
    answer.and_then(Result::ok).unwrap_or(-1)
}

pub fn native_callbacks(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let address = native as extern "C" fn(c_long) -> c_long as usize;
    CALLER.set(Some(session.interpreter().clone()));
    for _ in 0..turn.random.usize(1..8) {
        let (n, keeps_the_gil) = (turn.random.i64(0..1000), turn.random.bool());
        let answer: i64 = stress(&session)?
            .call_method("call_address", (address, n, keeps_the_gil))?
            .extract()?;
        ensure!(answer == n + 1, "{n} became {answer}, while C keeps the GIL: {keeps_the_gil}");
    }
    CALLER.set(None);
    Ok(())
}
