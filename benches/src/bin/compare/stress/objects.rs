//! Objects, memory and classes on both sides.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::{Buffer, Error, Instance, Tensor};

use super::Turn;
use super::world::{Token, World, lock, stress};

/// Bytes that Python may see.
struct Lent(Vec<u8>, #[expect(dead_code, reason = "counted")] Token);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn bytes(turn: &mut Turn) -> (Vec<u8>, i64) {
    let count = 1 << turn.random.u8(..16);
    let bytes: Vec<u8> = (0..count).map(|_| turn.random.u8(..)).collect();
    let sum = bytes.iter().map(|&byte| i64::from(byte)).sum();
    (bytes, sum)
}

pub fn lent(world: &World, turn: &mut Turn) -> Result<()> {
    let (bytes, sum) = bytes(turn);
    let session = world.session(turn)?;
    let view = match turn.random.bool() {
        true => session.lend(Lent(bytes, world.token()))?,
        false => session.give(bytes)?,
    };
    let found: i64 = stress(&session)?.call_method("take_views", (&view,))?.extract()?;
    ensure!(found == sum, "lent bytes have the sum {found} instead of {sum}");
    let kept = view.keep();
    world.leave(turn, move || {
        drop(kept);
        Ok(())
    })
}

pub fn buffers(world: &World, turn: &mut Turn) -> Result<()> {
    let (bytes, _) = bytes(turn);
    let session = world.session(turn)?;
    let buffer: Buffer =
        session.eval("bytearray")?.call((session.object_from(&bytes[..])?,))?.extract()?;
    let token = world.token();
    world.leave(turn, move || {
        let _ = &token;
        ensure!(buffer.to_vec::<u8>()? == bytes, "a buffer has other bytes");
        Ok(())
    })
}

pub fn tensors(world: &World, turn: &mut Turn) -> Result<()> {
    let (rows, columns) = (turn.random.i64(1..8), turn.random.i64(1..64));
    let numbers: Vec<i32> = (0..rows * columns).map(|_| turn.random.i32(..)).collect();
    let tensor = Tensor::from_vec(numbers.clone(), &[rows, columns])?;
    let (first, second) = (world.session(turn)?, world.session(turn)?);
    // From Rust to one interpreter, from there to another one, and back.
    let there: Tensor = first.lend_tensor(&tensor)?.extract()?;
    let back: Tensor = second.lend_tensor(&there)?.extract()?;
    drop((tensor, there, first, second));
    world.leave(turn, move || {
        ensure!(back.shape() == [rows, columns], "{:?}", back.shape());
        ensure!(back.to_vec::<i32>()? == numbers, "a tensor has other numbers");
        Ok(())
    })
}

/// A number that Python adds to.
struct Counter(AtomicI64, #[expect(dead_code, reason = "counted")] Token);

/// Counts.
#[hydrozoa::class]
impl Counter {
    /// Adds n, and returns the sum.
    fn add(&self, n: i64) -> i64 {
        self.0.fetch_add(n, Ordering::Relaxed) + n
    }

    #[getter]
    fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub fn classes(world: &World, turn: &mut Turn) -> Result<()> {
    let counter = Instance::new(Counter(AtomicI64::new(0), world.token()));
    let session = world.session(turn)?;
    let other = world.session(turn)?;
    let n = turn.random.i64(1..50);
    // Two interpreters have the same number.
    let code = "lambda counter, n: [counter.add(i) for i in range(n)][-1] - counter.value";
    for session in [&session, &other] {
        let left: i64 = session.eval(code)?.call((&counter, n))?.extract()?;
        ensure!(left == 0, "a counter is off by {left}");
    }
    let kept = session.object_from(&counter)?.keep();
    let sum = n * (n - 1);
    world.leave(turn, move || {
        drop(kept);
        let value = counter.value();
        ensure!(value == sum, "a counter is {value} instead of {sum}");
        Ok(())
    })
}

pub fn handles(world: &World, turn: &mut Turn) -> Result<()> {
    let session = world.session(turn)?;
    let value = turn.random.i64(..);
    let handle = stress(&session)?.call_method("Kept", (value,))?.keep();
    let other = world.interpreter(turn.random.usize(..super::world::INTERPRETERS));
    world.leave(turn, move || {
        match handle.attach(&other.session()) {
            Err(Error::Foreign { .. } | Error::Ended { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(object) => {
                let found: i64 = object.getattr("value")?.extract()?;
                ensure!(found == value, "an object has {found} instead of {value}");
            }
        }
        drop(other);
        let session = match handle.session() {
            Err(Error::Ended { .. }) => return Ok(()),
            session => session?,
        };
        let object = handle.attach(&session)?;
        let found: i64 = object.getattr("value")?.extract()?;
        ensure!(found == value, "an object has {found} instead of {value}");
        // Without its cycle the object ends here.
        object.setattr("itself", ())?;
        Ok(())
    })
}

pub fn movables(world: &World, turn: &mut Turn) -> Result<()> {
    let slot = &world.movables[turn.random.usize(..world.movables.len())];
    let held = lock(slot).clone();
    let Some(movable) = held else {
        let session = world.session(turn)?;
        let value = turn.random.i64(0..100) * 1000;
        let partial = session.import("functools")?.getattr("partial")?;
        let add = session.import("operator")?.getattr("add")?;
        let movable = session.create_movable(&partial.call((&add, value))?)?;
        drop(lock(slot).replace(movable));
        return Ok(());
    };
    let n = turn.random.i64(0..1000);
    let answer: i64 = match turn.random.u8(..8) {
        0 => {
            drop(lock(slot).take());
            return world.leave(turn, move || {
                drop(movable);
                Ok(())
            });
        }
        1 => {
            movable.unload(&world.session(turn)?);
            return Ok(());
        }
        2..4 => movable.call((n,))?.extract()?,
        4 => movable.call_extract((n,))?,
        5 => movable.with_object(|object| object.call((n,))?.extract())?,
        _ => movable.to_object(&world.session(turn)?)?.call((n,))?.extract()?,
    };
    ensure!(answer % 1000 == n, "a movable returned {answer} for {n}");
    if !movable.copied().is_empty() {
        bail!("{:?} were copied", movable.copied());
    }
    movable.misses().count.checked_sub(1).context("a movable that was called has a copy").map(drop)
}
