//! Executions under a time limit, and the steps taken once the limit has passed.
//!
//! The executing thread runs under a deadline in the runtime ([`Session::with_deadline`]), at which Python code raises an
//! exception. This module adds the parts that the runtime cannot know: waits in Rust end ([`crate::execution`]), a coroutine on
//! another thread is interrupted, and an instance that does not react is given up. [`watchdog`] keeps the clock.

mod crash;
mod mailbox;
pub(crate) mod watchdog;

pub(crate) use crash::{Crash, Crashes, summary};
pub(crate) use mailbox::{Mailbox, Taken, Wake};

use crate::request::{Code, Failure};
use hydrozoa::Session;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes of an instance's stack, as main threads have.
pub(crate) const STACK: usize = 8 << 20;

/// The owner of the executing instance.
pub(crate) trait Keeper: Send + Sync {
    /// Whether the runtime knows of a call in the interpreter that ignores its interrupt.
    fn is_stuck(&self) -> bool;

    /// Interrupts the coroutine that the instance's event loop runs now. It must not wait.
    fn interrupt_loop(&self);

    /// The instance does not react. Called once, on the thread of the clock. It must not wait.
    fn give_up(&self, late: &Late);

    /// The interpreter has crashed, with this report. Called on any thread. It must not wait.
    fn crashed(&self, report: &str);
}

/// An execution that has exceeded its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// The model.
    pub(crate) model: String,
    /// The instance's name, or the model's.
    pub(crate) instance: String,
    /// `execute`, `initialize` and their kin.
    pub(crate) what: &'static str,
    pub(crate) limit: Duration,
}

impl fmt::Display for Late {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, instance, what, limit } = self;
        write!(
            formatter,
            "`{what}` of model '{model}' (instance '{instance}') has exceeded its limit of {limit:?}"
        )
    }
}

impl Late {
    /// For requests of an execution that was interrupted.
    pub(crate) fn interrupted(&self) -> Failure {
        Failure::new(Code::Internal, format!("{self}, and was interrupted"))
    }

    /// For requests of an instance that has not reacted.
    pub(crate) fn given_up(&self) -> Failure {
        Failure::new(Code::Internal, self.stuck())
    }

    /// The same as text.
    pub(crate) fn stuck(&self) -> String {
        format!("{self}, and does not react to the interrupt; the instance is replaced")
    }
}

/// One operation of an instance under a limit.
pub(crate) struct Execution {
    late: Late,
    /// When the limit passes.
    pub(crate) end: Instant,
    keeper: Arc<dyn Keeper>,
    phase: Mutex<Phase>,
    is_late: AtomicBool,
    /// Waits that end with it.
    waits: Mutex<Vec<Weak<dyn Wake>>>,
    /// Whether it is a coroutine on the instance's event loop.
    is_coroutine: AtomicBool,
    /// Whether it goes on when the call has returned.
    is_kept: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Over,
    GivenUp,
}

thread_local! {
    /// The calling thread's execution.
    static CURRENT: RefCell<Option<Arc<Execution>>> = const { RefCell::new(None) };
}

/// While it lives, waits of the calling thread end with the execution.
struct Current;

impl Drop for Current {
    fn drop(&mut self) {
        let former = CURRENT.with(|current| current.borrow_mut().take());
        drop(former);
    }
}

impl Execution {
    /// Calls `action` on the calling thread, under a limit if there is one.
    pub(crate) fn run<R>(
        session: &Session,
        limit: Option<Duration>,
        keeper: impl FnOnce() -> Arc<dyn Keeper>,
        late: impl FnOnce(Duration) -> Late,
        action: impl FnOnce(Option<&Arc<Self>>) -> R,
    ) -> R {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        // Too far away for a clock is never.
        let (Some(limit), Some(end)) = (limit, end) else { return action(None) };
        let execution = Arc::new(Self {
            late: late(limit),
            end,
            keeper: keeper(),
            phase: Mutex::new(Phase::Running),
            is_late: AtomicBool::new(false),
            waits: Mutex::default(),
            is_coroutine: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
        });
        watchdog::add(&execution);
        CURRENT.with(|current| current.borrow_mut().replace(execution.clone()));
        let _current = Current;
        let result = session.with_deadline(limit, || action(Some(&execution)));
        if !execution.is_kept.load(Ordering::SeqCst) {
            execution.over();
        }
        result
    }

    /// The calling thread's execution.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    pub(crate) fn late(&self) -> &Late {
        &self.late
    }

    /// Whether the limit has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::SeqCst)
    }

    /// Time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// A wait ends with it, one that has begun already included.
    pub(crate) fn waits(&self, wait: &Arc<dyn Wake>) {
        let mut waits = self.waits.lock();
        waits.retain(|known| known.strong_count() > 0);
        if !waits.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(wait))) {
            waits.push(Arc::downgrade(wait));
        }
    }

    /// Whether it is a coroutine on the instance's event loop.
    pub(crate) fn is_in_loop(&self) -> bool {
        self.is_coroutine.load(Ordering::SeqCst)
    }

    /// It is a coroutine on the instance's event loop from now on. `goes_on` if the call returns before its end.
    pub(crate) fn becomes_coroutine(&self, goes_on: bool) {
        self.is_coroutine.store(true, Ordering::SeqCst);
        self.is_kept.store(goes_on, Ordering::SeqCst);
    }

    /// It has ended.
    pub(crate) fn over(&self) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Running {
            *phase = Phase::Over;
            drop(phase);
            watchdog::remove(self);
        }
    }

    /// The limit has passed: waits end.
    pub(crate) fn pass(&self) {
        self.is_late.store(true, Ordering::SeqCst);
        let waits = std::mem::take(&mut *self.waits.lock());
        waits.iter().filter_map(Weak::upgrade).for_each(|wait| wait.wake());
    }

    /// A coroutine has not come to an end by itself.
    pub(crate) fn interrupt(&self) {
        if self.is_in_loop() {
            self.keeper.interrupt_loop();
        }
    }

    /// Whether it goes on although it was interrupted, as far as is known.
    pub(crate) fn is_stuck(&self) -> bool {
        self.keeper.is_stuck()
    }

    /// Gives the instance up, unless it has ended meanwhile.
    pub(crate) fn give_up(&self) {
        {
            let mut phase = self.phase.lock();
            if *phase != Phase::Running {
                return;
            }
            *phase = Phase::GivenUp;
        }
        self.keeper.give_up(&self.late);
    }
}
