//! Timers of connections that are put off with each request.

use hyper::rt::{Sleep, Timer};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// tokio's timers for hyper. One that is put off is set anew when it goes off, and not with each request: tokio wakes its thread for
/// each setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct LazyTimer;

impl Timer for LazyTimer {
    fn sleep(&self, duration: std::time::Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let set = Box::pin(tokio::time::sleep_until(deadline.into()));
        Box::pin(LazySleep { deadline, set })
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
    /// At the deadline, or earlier.
    set: Pin<Box<tokio::time::Sleep>>,
}

impl LazySleep {
    fn put_off(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.set.is_elapsed() || deadline < self.set.deadline().into_std() {
            self.set.as_mut().reset(deadline.into());
        }
    }
}

impl Sleep for LazySleep {}

impl Future for LazySleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.set.as_mut().poll(context));
            let deadline = self.deadline;
            if self.set.deadline().into_std() >= deadline {
                return Poll::Ready(());
            }
            self.set.as_mut().reset(deadline.into());
        }
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
        let mut sleep = LazyTimer.sleep_until(at(10));
        LazyTimer.reset(&mut sleep, at(30));
        sleep.as_mut().await;
        assert_eq!(begin.elapsed().as_secs(), 30);

        // Again, and sooner than it was set.
        LazyTimer.reset(&mut sleep, at(100));
        LazyTimer.reset(&mut sleep, at(40));
        sleep.as_mut().await;
        assert_eq!(begin.elapsed().as_secs(), 40);
    }
}
