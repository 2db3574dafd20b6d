//! Work on all processors.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

/// Does `work` for each item, on as many threads as there are processors. After an error no further item is begun.
///
/// # Errors
///
/// The first error of the first thread that had one; a panic.
pub fn each<T>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let items = Mutex::new(items.into_iter());
    let failed = AtomicBool::new(false);
    let next = || items.lock().expect("no panic holds it").next();
    let worker = || {
        while !failed.load(Ordering::Relaxed)
            && let Some(item) = next()
        {
            work(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let count = thread::available_parallelism().map_or(2, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_item_is_worked_on_once_and_an_error_ends_the_work() {
        let sum = AtomicUsize::new(0);
        let add = |item| {
            sum.fetch_add(item, Ordering::Relaxed);
            Ok(())
        };
        each(1..=100, add).unwrap();
        assert_eq!(sum.into_inner(), 5050);
        let error = each(0.., |item| if item == 7 { Err(anyhow!("seven")) } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "seven");
    }
}
