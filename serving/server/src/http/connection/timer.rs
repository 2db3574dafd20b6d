//! Timers of connections that are put off with each request.

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

type Set = Pin<Box<tokio::time::Sleep>>;

/// tokio's timers for hyper, of one connection. One that is put off is set anew when it goes off, and not with each request: tokio wakes its
/// thread for each setting.
#[derive(Clone, Debug, Default)]
pub(super) struct LazyTimer {
    /// One that hyper has dropped, as it does with each request's head. It is set still, and the next one is made of it.
    spare: Arc<Mutex<Option<Set>>>,
}

impl Timer for LazyTimer {
    fn sleep(&self, duration: std::time::Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let spare = self.spare.lock().take();
        let set = spare
            .filter(|set| !set.is_elapsed() && set.deadline().into_std() <= deadline)
            .unwrap_or_else(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        Box::pin(LazySleep { deadline, set: Some(set), spare: Arc::clone(&self.spare) })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<LazySleep>() {
            Some(mut sleep) => sleep.put_off(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

struct LazySleep {
    deadline: Instant,
    /// At the deadline, or earlier. `None` once it is dropped.
    set: Option<Set>,
    spare: Arc<Mutex<Option<Set>>>,
}

impl LazySleep {
    fn put_off(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if let Some(set) = &mut self.set
            && (set.is_elapsed() || deadline < set.deadline().into_std())
        {
            set.as_mut().reset(deadline.into());
        }
    }
}

impl Drop for LazySleep {
    fn drop(&mut self) {
        *self.spare.lock() = self.set.take();
    }
}

impl Sleep for LazySleep {}

impl Future for LazySleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        while let Some(set) = &mut self.set {
            ready!(set.as_mut().poll(context));
            if set.deadline().into_std() >= deadline {
                break;
            }
            set.as_mut().reset(deadline.into());
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_is_put_off_goes_off_at_its_last_deadline() {
        let begin = tokio::time::Instant::now();
        let at = |seconds| begin.into_std() + Duration::from_secs(seconds);
        let timer = LazyTimer::default();
        let mut sleep = timer.sleep_until(at(10));
        timer.reset(&mut sleep, at(30));
        sleep.as_mut().await;
        assert_eq!(begin.elapsed().as_secs(), 30);

        // Again, and sooner than it was set.
        timer.reset(&mut sleep, at(100));
        timer.reset(&mut sleep, at(40));
        sleep.as_mut().await;
        assert_eq!(begin.elapsed().as_secs(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_one_that_was_dropped_goes_off_at_its_own_deadline() {
        let begin = tokio::time::Instant::now();
        let at = |seconds| begin.into_std() + Duration::from_secs(seconds);
        let timer = LazyTimer::default();
        for (first, second) in [(10, 30), (60, 50), (51, 52)] {
            drop(timer.sleep_until(at(first)));
            timer.sleep_until(at(second)).await;
            assert_eq!(begin.elapsed().as_secs(), second);
        }
    }
}
