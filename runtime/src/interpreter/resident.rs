//! Residents: threads of the runtime that enter one interpreter again and again, until it ends.
//!
//! A resident has no reference to its interpreter, which would keep it. So the drop of the last handle waits for the end as ever, whatever the
//! resident does. The interpreter's main thread waits for the resident before it finalizes Python: until then the resident may enter.

use super::Interpreter;
use super::attach::{NEW_THREAD, Outside};
use super::thread_end::{Gate, hand_over_state};
use super::visitors::Visitors;
use crate::crash::contain::Guarded;
use crate::payload::table::PayloadTable;
use crate::settled_pages::Settling;
use crate::thread::{Thread, stack};
use crate::{Error, Result};
use hydrozoa_loader::{DomainId, current};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long the end of an interpreter that has crashed waits for a resident: the crash has sent it out. And how long any end waits
/// between two looks for a crash.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(100);

/// A resident's way into its interpreter.
pub(crate) struct Residence {
    domain: DomainId,
    table: PayloadTable,
    /// The functions of the table are there as long as this.
    guarded: Option<Arc<Guarded>>,
    visitors: Arc<Visitors>,
    settling: Arc<Settling>,
    gate: Arc<Gate>,
}

impl Residence {
    /// Waits for the GIL, calls `action` with it and the payload's functions, and leaves. The resident's thread alone calls this, outside
    /// of all interpreters. Settings of the thread that code of the interpreter changes stay: the thread is the interpreter's own.
    pub(crate) fn visit<R>(&self, action: impl FnOnce(&PayloadTable) -> R) -> R {
        let _outside = Outside::entering(self.domain);
        let _visitor = self.visitors.enter(|| false);
        self.settling.prefetch();
        // SAFETY: the interpreter is started, and not finalized before this thread has ended. The thread runs in its domain.
        let token = unsafe { (self.table.enter)(stack::room()) };
        if token & NEW_THREAD != 0 {
            hand_over_state(&self.gate);
        }
        let _inside = Inside { table: &self.table, token };
        action(&self.table)
    }

    /// Has the resident step out of a visit for the time of `action`, which a function does that code of the interpreter has called without the
    /// GIL. Meanwhile the interpreter can be settled. `None` under the GIL.
    pub(crate) fn outside<R>(&self, action: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: any thread may ask.
        if unsafe { (self.table.attached)() } != 0 {
            return None;
        }
        struct Back<'a>(&'a Residence);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.settling.prefetch();
                // SAFETY: the thread goes on in code of this domain.
                unsafe { current::replace(Some(self.0.domain)) };
            }
        }
        let _back = Back(self);
        // SAFETY: the thread runs none of the domain's code until this is dropped.
        unsafe { current::replace(None) };
        Some(self.visitors.without(action))
    }
}

/// The calling thread holds the GIL until this is dropped.
struct Inside<'a> {
    table: &'a PayloadTable,
    token: c_int,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // SAFETY: the token is that of this thread's `enter`, and visits of residents do not nest.
        unsafe { (self.table.leave)(self.token) };
    }
}

impl Interpreter {
    /// Starts a resident: a thread that runs `work`, with the signals blocked that the calling thread blocks. The end of the interpreter waits until
    /// `work` has returned; the caller tells it when to.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if the system refuses a thread.
    pub(crate) fn start_resident(
        &self,
        name: &str,
        work: impl FnOnce(&Residence) + Send + 'static,
    ) -> Result<()> {
        let Some(main) = &self.0.main else {
            return Err(Error::defect("an interpreter that ends has got a resident"));
        };
        let residence = Residence {
            domain: self.0.domain().id(),
            table: self.0.table,
            guarded: self.0.guarded.clone(),
            visitors: self.0.visitors.clone(),
            settling: self.0.settling.clone(),
            gate: self.0.gate.clone(),
        };
        let guarded = residence.guarded.clone();
        let (running, ended) = channel::<()>();
        let thread = Thread::start(name, move || {
            let _running = running;
            work(&residence);
        })
        .map_err(|error| Error::no_thread(self.name(), &error))?;
        main.before_end(Box::new(move || wait(thread, &ended, guarded.as_deref())));
        Ok(())
    }
}

/// Waits until a resident has ended. One that does not leave an interpreter which has crashed is left to itself: none of its calls into
/// the interpreter is let through any more.
fn wait(thread: Thread<()>, ended: &Receiver<()>, guarded: Option<&Guarded>) {
    let has_crashed = || guarded.is_some_and(|guarded| guarded.contained().has_crashed());
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if has_crashed() && ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(
                "a thread of the runtime does not leave an interpreter that has crashed"
            );
            thread.detach();
            return;
        }
    }
    if let Err(panic) = thread.join() {
        tracing::warn!(error = %Error::panicked(&*panic), "a thread in an interpreter ended");
    }
}
