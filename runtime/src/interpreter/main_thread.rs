//! The thread that starts an interpreter and ends it.
//!
//! CPython's main thread is the thread that initializes it, and CPython wants to be finalized there.
//! 3.13's `Py_FinalizeEx` (`resolve_final_tstate`, Python/pylifecycle.c) continues with that thread's
//! state, whatever thread calls it; up to 3.12 `threading._shutdown` waits for that thread. An
//! application's thread may be anywhere when the last handle is dropped. So each interpreter has a thread
//! of its own that starts it and ends it. In between the thread sleeps and runs no other code.

use super::close::Ending;
use super::start::{Configuration, run};
use crate::payload::{Sink, table::PayloadTable};
use crate::thread::signals::Mask;
use crate::thread::{Thread, stack};
use crate::torch_policy::Place;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::mpsc;

/// A started interpreter's main thread.
pub(super) struct MainThread {
    /// Has the thread finalize the interpreter, with the signals blocked that the sender blocks: the thread works for
    /// it. In between it blocks all.
    end: mpsc::Sender<Mask>,
    thread: Thread<()>,
    /// Where its stack is, if that is known.
    stack: Option<Range<usize>>,
    /// The process that it belongs to: a forked child has only the thread that forked.
    process: u32,
}

impl MainThread {
    /// Starts the interpreter whose payload is loaded in `place`, which the thread keeps until it has
    /// finalized the interpreter. It drops `ending` when what the interpreter had is given back.
    pub(super) fn start(
        name: &str,
        place: Place,
        table: PayloadTable,
        configuration: &Configuration,
        ending: Ending,
    ) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let (end, wait) = mpsc::channel::<Mask>();
        let (own_name, configuration) = (name.to_owned(), configuration.clone());
        let thread = Thread::start(name, move || {
            let _ending = ending;
            crate::torch::note_new_thread();
            place.signals.close();
            let started = run(&own_name, &place.domain, &table, &configuration);
            let failed = started.is_err();
            if !failed {
                Mask::block_all();
            }
            // The receiver lives until it has this.
            let _ = tell.send(started.map(|()| stack::bounds()));
            // What has not started, or only partly, gives back what it has at once.
            if !failed && let Ok(mask) = wait.recv() {
                mask.set();
            }
            match finalize(&place, &table) {
                // SAFETY: the interpreter is finalized if it has started, and no session is attached or can attach any
                // more. Threads that its code has created are the loader's business.
                Ok(()) => unsafe { place.end() },
                Err(error) => {
                    tracing::warn!(interpreter = %own_name, %error, "finalization failed");
                }
            }
        })
        .map_err(|error| Error::no_thread(name, &error))?;
        let main = Self { end, thread, stack: None, process: std::process::id() };
        match told.recv() {
            Ok(Ok(bounds)) => Ok(Self { stack: bounds.map(|(low, high)| low..high), ..main }),
            Ok(Err(error)) => {
                // It ends by itself.
                main.end();
                Err(error)
            }
            Err(_) => match main.thread.join() {
                Err(panic) => Err(Error::panicked(&*panic)),
                Ok(()) => Err(Error::defect(format_args!("the main thread of {name} ended"))),
            },
        }
    }

    /// Where its stack is, if that is known.
    pub(super) fn stack(&self) -> Option<Range<usize>> {
        self.stack.clone()
    }

    /// Finalizes the interpreter on its thread, and waits for that.
    pub(super) fn end(self) {
        // The thread waits for it, unless this is a forked child.
        let _ = self.end.send(Mask::current());
        if self.process != std::process::id() {
            return;
        }
        if let Err(panic) = self.thread.join() {
            tracing::warn!(error = %Error::panicked(&*panic), "an interpreter's main thread ended");
        }
    }

    /// Finalizes the interpreter on its thread when its other threads have released it. Does not wait.
    pub(super) fn end_alone(self) {
        let _ = self.end.send(Mask::current());
        if self.process == std::process::id() {
            self.thread.detach();
        }
    }
}

/// Finalizes the interpreter, on the thread that has started it.
fn finalize(place: &Place, table: &PayloadTable) -> Result<()> {
    // SAFETY: until the guard's end only code of this domain runs.
    let _entered = unsafe { hydrozoa_loader::current::enter(place.domain.id()) };
    let mut sink = Sink::default();
    // SAFETY: the thread is the one that has started the interpreter. No session is attached or can
    // attach any more (see `Drop for Inner`); Python's own threads are its own business.
    let status = unsafe { (table.finalize)(place.has_its_own_libtorch(), sink.pointer()) };
    sink.check(status)
}
