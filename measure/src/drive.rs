//! Calls a function from several threads for a given time.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::effort::Own;
use crate::samples::Samples;

/// Calls `call(thread, index)` from `threads` threads at once until `duration` is over.
///
/// `index` counts the calls of a thread from 0. The call returns whether its result was right. `prepare` runs first
/// on each thread, outside of the measured time, and returns the function to call.
///
/// # Errors
///
/// The first error of a call or of `prepare`. The other threads run to the end of their time.
pub fn drive<E, C>(
    threads: usize,
    duration: Duration,
    prepare: impl Fn(usize) -> Result<C, E> + Sync,
) -> Result<Samples, E>
where
    E: Send,
    C: FnMut(usize) -> Result<bool, E>,
{
    let barrier = Barrier::new(threads);
    let own = Own::now();
    let parts = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, prepare) = (&barrier, &prepare);
                scope.spawn(move || {
                    let prepared = prepare(thread);
                    barrier.wait();
                    one_thread(duration, prepared?)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a call panicked"))
            .collect::<Vec<_>>()
    });
    let mut total = Samples::default();
    for part in parts {
        total.merge(part?);
    }
    // With those of the preparation, which are few.
    total.effort = own.since();
    Ok(total)
}

pub(crate) fn one_thread<E>(
    duration: Duration,
    mut call: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Samples, E> {
    let mut samples = Samples::default();
    let begin = Instant::now();
    let mut index = 0;
    while begin.elapsed() < duration {
        let start = Instant::now();
        let right = call(index)?;
        samples.record(start.elapsed(), right);
        index += 1;
    }
    samples.seconds = begin.elapsed().as_secs_f64();
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_calls_of_all_threads_and_wrong_results() {
        let samples = drive::<(), _>(2, Duration::from_millis(20), |thread| {
            Ok(move |index: usize| {
                thread::sleep(Duration::from_millis(1));
                Ok(!(thread == 1 && index == 0))
            })
        })
        .unwrap();
        assert_eq!(samples.wrong, 1);
        assert!(samples.latencies_us.len() >= 4);
        assert!(samples.seconds >= 0.02);
    }

    #[test]
    fn an_error_is_returned() {
        let result = drive(1, Duration::from_millis(5), |_| Ok(|_| Err::<bool, _>("refused")));
        assert_eq!(result.unwrap_err(), "refused");
    }
}
