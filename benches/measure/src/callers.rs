//! Threads that call a function for a given time whenever they are told to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::effort::Own;
use crate::samples::Samples;

/// Prepares the function that a thread calls, given an order and the thread's number.
pub(crate) trait Prepare<T, C, E>: Fn(&T, usize) -> Result<C, E> + Sync {}
impl<T, C, E, F: Fn(&T, usize) -> Result<C, E> + Sync> Prepare<T, C, E> for F {}

/// Threads that stay between orders. They end when this is dropped.
pub(crate) struct Callers<T, E>(Vec<Caller<T, E>>);

struct Caller<T, E> {
    orders: Sender<Turn<T>>,
    samples: Receiver<Result<Samples, E>>,
}

/// An order, and what its threads wait for to begin at once.
struct Turn<T> {
    order: Arc<T>,
    duration: Duration,
    start: Arc<Barrier>,
}

impl<T: Send + Sync, E: Send> Callers<T, E> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Has so many threads call at once until `duration` is over.
    ///
    /// # Errors
    ///
    /// The first error of a call or of `prepare`. The other threads run to the end of their time.
    pub(crate) fn call<'scope, C>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        prepare: &'scope impl Prepare<T, C, E>,
        order: T,
        threads: usize,
        duration: Duration,
    ) -> Result<Samples, E>
    where
        T: 'scope,
        E: 'scope,
        C: FnMut(usize) -> Result<bool, E>,
    {
        while self.0.len() < threads {
            self.0.push(Caller::start(scope, self.0.len(), prepare));
        }
        let (order, start) = (Arc::new(order), Arc::new(Barrier::new(threads)));
        let own = Own::now();
        for caller in &self.0[..threads] {
            let turn = Turn { order: order.clone(), duration, start: start.clone() };
            caller.orders.send(turn).expect("a call panicked");
        }
        let mut total = Samples::default();
        for caller in &self.0[..threads] {
            total.merge(caller.samples.recv().expect("a call panicked")?);
        }
        // With those of the preparation, which are few.
        total.effort = own.since();
        Ok(total)
    }
}

impl<T: Send + Sync, E: Send> Caller<T, E> {
    fn start<'scope, C>(
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        prepare: &'scope impl Prepare<T, C, E>,
    ) -> Self
    where
        T: 'scope,
        E: 'scope,
        C: FnMut(usize) -> Result<bool, E>,
    {
        let (orders, turns) = channel::<Turn<T>>();
        let (answers, samples) = channel();
        scope.spawn(move || {
            for Turn { order, duration, start } in turns {
                let prepared = prepare(&order, number);
                start.wait();
                let part = prepared.and_then(|call| one_thread(duration, call));
                if answers.send(part).is_err() {
                    return;
                }
            }
        });
        Self { orders, samples }
    }
}

fn one_thread<E>(
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
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread;

    #[test]
    fn threads_stay_between_orders_and_each_has_its_number() {
        let seen = Mutex::new(HashSet::new());
        let prepare = |order: &usize, number: usize| {
            seen.lock().unwrap().insert((number, thread::current().id()));
            let order = *order;
            Ok::<_, ()>(move |index| Ok(index >= order))
        };
        thread::scope(|scope| {
            let mut callers = Callers::new();
            for threads in [1, 2, 1, 2] {
                let samples =
                    callers.call(scope, &prepare, 1, threads, Duration::from_millis(2)).unwrap();
                // The first call of each thread: its number is below the order.
                assert_eq!(samples.wrong, threads);
            }
        });
        assert_eq!(seen.lock().unwrap().len(), 2);
    }
}
