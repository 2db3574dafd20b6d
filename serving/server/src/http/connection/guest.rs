//! A thread that serves connections while it waits for something else.

use super::lane::Lane;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A thread that serves a lane's connections while it waits. It belongs to the thread that waits.
#[derive(Debug)]
pub struct Guest {
    lane: Lane,
    awaited: AsyncFd<OwnedFd>,
    /// Exact, as tokio's timers are to the millisecond.
    timer: AsyncFd<OwnedFd>,
    /// When the timer is due.
    due: Option<Instant>,
    bell: Bell,
}

/// Ends the wait of a guest, or the next one.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Ends it.
    pub fn ring(&self) {
        self.0.notify_one();
    }
}

impl Guest {
    pub(super) fn new(lane: Lane, descriptor: OwnedFd) -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let (awaited, timer) = {
            let _runtime = lane.runtime().enter();
            (readable(descriptor)?, readable(timer)?)
        };
        Ok(Self { lane, awaited, timer, due: None, bell: Bell::default() })
    }

    /// The bell that ends its wait.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Serves until the descriptor becomes readable, the bell is rung, or `limit` has passed; `None` is for ever. Without any time it serves
    /// what is ready.
    ///
    /// # Errors
    ///
    /// Those of the system, and where the lane has ended.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        if limit == Some(Duration::ZERO) {
            self.lane.serve_until(tokio::task::yield_now());
            return Ok(());
        }
        self.arm(limit)?;
        let (awaited, timer, bell) = (&self.awaited, &self.timer, &self.bell.0);
        let is_due = self.lane.serve_until(async {
            tokio::select! {
                biased;
                () = bell.notified() => Ok(false),
                ready = awaited.readable() => ready.map(|mut ready| { ready.clear_ready(); false }),
                due = timer.readable() => due.map(|mut due| { due.clear_ready(); true }),
            }
        })?;
        if is_due {
            self.due = None;
        }
        Ok(())
    }

    /// Sets the timer. One that is due too early stays: the wait ends too early then, and the next one sets it.
    fn arm(&mut self, limit: Option<Duration>) -> io::Result<()> {
        // Too far away for the clock is never.
        let Some(limit) = limit else { return Ok(()) };
        let Some(due) = Instant::now().checked_add(limit) else { return Ok(()) };
        if self.due.is_some_and(|armed| armed <= due) {
            return Ok(());
        }
        // Nothing would take the timer back.
        let limit = limit.max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, ..zero });
        let setting = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        self.due = Some(due);
        Ok(())
    }
}

fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open and of one file as long as it is owned, and it is owned by the result.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}
