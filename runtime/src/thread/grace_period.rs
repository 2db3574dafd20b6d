//! The moment between the look at a mark and the deed: threads that were stopped in it go on.
//!
//! A thread that wants the GIL looks whether Python ends, and then reads its own state and the interpreter's GIL
//! (`take_gil`, Python/ceval_gil.c). The thread that ends Python sets that mark, and frees the states of all other threads a
//! few instructions later (`Py_FinalizeEx`, Python/pylifecycle.c). A thread that got no processor between the two would
//! read a state that is gone. So the end waits after the mark until each other thread has been elsewhere.

use super::reaction_time::ReactionTime;
use hydrozoa_loader::{current, threads_of};
use std::time::{Duration, Instant};

/// How long the end waits at most, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(200);

/// Waits until each other thread that code of the calling thread's domain has created sleeps, or has run since this began.
/// After [`PATIENCE`] it returns in any case.
pub(crate) fn wait() {
    let Some(domain) = current::domain() else { return };
    let until = Instant::now() + PATIENCE;
    // One that begins is not in the list yet.
    let threads = loop {
        match threads_of(domain) {
            Some(threads) => break threads,
            None if Instant::now() > until => return,
            None => std::thread::sleep(PAUSE),
        }
    };
    let mut chances: Vec<ReactionTime> = threads.into_iter().map(ReactionTime::begin).collect();
    loop {
        chances.retain(|chance| !chance.was_taken());
        if chances.is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
