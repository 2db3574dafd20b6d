//! Calls a function from several threads for a given time.

use std::thread;
use std::time::Duration;

use crate::callers::Callers;
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
    let prepare = |(): &(), thread| prepare(thread);
    thread::scope(|scope| Callers::new().call(scope, &prepare, (), threads, duration))
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
