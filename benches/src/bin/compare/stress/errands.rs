//! Errands that one thread begins and another ends: the other checks an answer and drops Python objects.

use std::cell::RefCell;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, anyhow};

use super::Turn;
use super::world::{World, lock};

pub type Errand = Box<dyn FnOnce() -> Result<()> + Send>;

/// More are not left.
const MOST: usize = 64;

thread_local! {
    static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Runs an errand when its thread ends.
struct AtEnd(Option<Errand>, Sender<Result<()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(errand) = self.0.take() {
            // Nobody waits if the waiting thread has failed.
            let _ = self.1.send(errand());
        }
    }
}

impl World {
    /// Has an errand run: by whichever thread takes it, by a new one, by the destructors of a new one, or at once under the GIL
    /// of another interpreter.
    pub fn leave(
        &self,
        turn: &mut Turn,
        errand: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        match turn.random.u8(..10) {
            0 => match thread::spawn(errand).join() {
                Ok(done) => done,
                Err(_) => Err(anyhow!("an errand panicked")),
            },
            1 | 2 => at_thread_end(errand),
            3 => self.session(turn)?.with_gil(errand),
            _ => {
                let mut errands = lock(&self.errands);
                if errands.len() < MOST {
                    errands.push(Box::new(errand));
                    return Ok(());
                }
                drop(errands);
                errand()
            }
        }
    }
}

/// Runs an errand in a destructor of a thread's variables.
pub fn at_thread_end(errand: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || LAST.set(Some(AtEnd(Some(Box::new(errand)), sender))));
    thread.join().map_err(|_| anyhow!("a thread panicked"))?;
    receiver.recv().context("a thread's destructor has not run")?
}

pub fn run_one(world: &World, turn: &mut Turn) -> Result<()> {
    let errand = {
        let mut errands = lock(&world.errands);
        match errands.len() {
            0 => return Ok(()),
            count => errands.swap_remove(turn.random.usize(..count)),
        }
    };
    errand()
}
