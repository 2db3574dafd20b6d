//! The thread that starts an interpreter and ends it.
//!
//! CPython's main thread is the thread that initializes it, and CPython wants to be finalized there.
//! 3.13's `Py_FinalizeEx` (`resolve_final_tstate`, Python/pylifecycle.c) continues with that thread's
//! state, whatever thread calls it; up to 3.12 `threading._shutdown` waits for that thread. An
//! application's thread may be anywhere when the last handle is dropped. So each interpreter has a thread
//! of its own that starts it and ends it. In between the thread sleeps.
//!
//! It wakes up for an interpreter that has left its pool and is still referred to. Objects that other threads have dropped
//! are freed when a thread enters (`release` in payload/src/threads/mod.rs), and cycles when Python code runs. If nobody enters
//! again, the dead objects of two interpreters could keep each other for ever, each by a tensor or a handle of the other.

use super::attach::{Outside, tidy};
use super::close::Ending;
use super::start::{Configuration, run};
use super::visitors::Visitors;
use crate::crash::Listed;
use crate::crash::contain::{Contained, Guarded};
use crate::domain::InterpreterDomain;
use crate::payload::{Sink, table::PayloadTable};
use crate::thread::signals::Mask;
use crate::thread::{Thread, stack};
use crate::{Error, Result};
use hydrozoa_loader::{HeldExit, Process};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long an interpreter that is in no pool any more is left alone before its garbage is collected. It is the double each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long threads may take to leave an interpreter that has crashed, and how often the end looks.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// An action for the end of an interpreter.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// The actions for the end of an interpreter, before and after its Python is finalized.
#[derive(Default)]
struct Actions {
    before: Vec<Action>,
    after: Vec<Action>,
}

/// A message to the thread.
enum Message {
    /// The interpreter is in no pool any more.
    Retire,
    /// To do this before it is finalized.
    #[cfg(feature = "async")]
    BeforeEnd(Action),
    /// To do this when it is finalized.
    AtEnd(Action),
    /// To finalize it, with the signals blocked that the sender blocks: the thread works for it. In between it blocks all.
    End(Mask),
}

/// A started interpreter's main thread.
pub(super) struct MainThread {
    tell: Sender<Message>,
    thread: Thread<()>,
    /// Where its stack is, if that is known.
    stack: Option<Range<usize>>,
    /// The process that it belongs to: a forked child has only the thread that forked.
    process: Process,
}

impl MainThread {
    /// Starts the interpreter whose payload is loaded in `place`, which the thread keeps until it has
    /// finalized the interpreter. It drops `ending` when what the interpreter had is given back.
    pub(super) fn start(
        index: usize,
        name: &str,
        place: InterpreterDomain,
        (table, guarded): (PayloadTable, Option<Arc<Guarded>>),
        configuration: &Configuration,
        visitors: Arc<Visitors>,
        ending: Ending,
    ) -> Result<Self> {
        let (started, told) = channel();
        let (tell, messages) = channel();
        let (own_name, configuration) = (name.to_owned(), configuration.clone());
        let thread = Thread::start(name, move || {
            let _ending = ending;
            let _listed = Listed::new(place.domain.id(), index, &own_name, table.stacks);
            place.signals.close();
            let outcome = {
                let _outside = Outside::entering(place.domain.id());
                run(&own_name, &table, &configuration, place.heap)
            };
            let failed = outcome.is_err();
            if !failed {
                Mask::block_all();
            }
            // The receiver lives until it has this.
            let _ = started.send(outcome.map(|()| stack::bounds()));
            // An interpreter that has not started, or only partly, returns its resources at once.
            let Actions { before, after: actions } = match failed {
                true => Actions::default(),
                false => wait_for_the_end(&messages, &place, &table, &visitors),
            };
            // Its libraries are not taken away meanwhile. After an exit nothing is worth an end any more.
            let Some(_held) = HeldExit::begin() else { return };
            before.into_iter().for_each(|action| action());
            let contained = guarded.as_ref().map(|guarded| guarded.contained());
            match finalize(&place, &table) {
                Ok(()) => {
                    contained.inspect(|contained| contained.forget());
                    place.departures.end();
                    actions.into_iter().for_each(|action| action());
                    // SAFETY: the interpreter is finalized if it has started, and no session is attached or can attach
                    // any more. Threads that its code has created are the loader's business.
                    unsafe { place.end() };
                }
                Err(Error::Crashed { .. }) => abandon(&own_name, place, contained, actions),
                Err(error) => {
                    tracing::warn!(interpreter = %own_name, %error, "finalization failed");
                }
            }
        })
        .map_err(|error| Error::no_thread(name, &error))?;
        let main = Self { tell, thread, stack: None, process: Process::current() };
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

    /// Has something done before the interpreter is finalized, when nobody refers to it any more.
    #[cfg(feature = "async")]
    pub(super) fn before_end(&self, action: Action) {
        let _ = self.tell.send(Message::BeforeEnd(action));
    }

    /// Has something done when the interpreter is finalized.
    pub(super) fn at_end(&self, action: Action) {
        let _ = self.tell.send(Message::AtEnd(action));
    }

    /// The interpreter is in no pool any more.
    pub(super) fn retire(&self) {
        let _ = self.tell.send(Message::Retire);
    }

    /// Where its stack is, if that is known.
    pub(super) fn stack(&self) -> Option<Range<usize>> {
        self.stack.clone()
    }

    /// Finalizes the interpreter on its thread, and waits for that.
    pub(super) fn end(self) {
        // The thread waits for it, unless this is a forked child.
        let _ = self.tell.send(Message::End(Mask::current()));
        if !self.process.is_current() {
            return;
        }
        if let Err(panic) = self.thread.join() {
            tracing::warn!(error = %Error::panicked(&*panic), "an interpreter's main thread ended");
        }
    }

    /// Finalizes the interpreter on its thread when its other threads have released it. Does not wait.
    pub(super) fn end_alone(self) {
        let _ = self.tell.send(Message::End(Mask::current()));
        if self.process.is_current() {
            self.thread.detach();
        }
    }
}

/// Takes from an interpreter that has crashed what it had. None of its code runs any more.
fn abandon(
    name: &str,
    place: InterpreterDomain,
    contained: Option<&Arc<Contained>>,
    actions: Vec<Action>,
) {
    let Some(contained) = contained else { return };
    place.domain.silence();
    actions.into_iter().for_each(|action| action());
    let until = Instant::now() + PATIENCE;
    while place.domain.has_threads() || !contained.is_empty() {
        if Instant::now() > until {
            tracing::error!(
                interpreter = name,
                "threads do not leave an interpreter that has crashed: it keeps its memory"
            );
            // They may use all of it.
            std::mem::forget(place);
            return;
        }
        std::thread::sleep(LOOK);
    }
    contained.forget();
    // SAFETY: the interpreter has crashed, and nobody is inside, nor are there threads of its own. No session is attached or can
    // attach any more.
    unsafe {
        contained.take_all_back();
        place.abandon();
    }
}

/// Waits until the interpreter is to be finalized. If it is in no pool meanwhile, it is tidied now and then. Returns what is to be done
/// then.
fn wait_for_the_end(
    messages: &Receiver<Message>,
    place: &InterpreterDomain,
    table: &PayloadTable,
    visitors: &Visitors,
) -> Actions {
    let (mut pause, mut actions) = (None, Actions::default());
    loop {
        let message = match pause {
            None => messages.recv().map_err(RecvTimeoutError::from),
            Some(pause) => messages.recv_timeout(pause),
        };
        match message {
            Ok(Message::Retire) => pause = Some(PAUSE),
            #[cfg(feature = "async")]
            Ok(Message::BeforeEnd(action)) => actions.before.push(action),
            Ok(Message::AtEnd(action)) => actions.after.push(action),
            Ok(Message::End(mask)) => {
                mask.set();
                return actions;
            }
            Err(RecvTimeoutError::Disconnected) => return actions,
            Err(RecvTimeoutError::Timeout) => {
                pause = pause.map(|pause| LONGEST_PAUSE.min(2 * pause));
                if let Err(error) = tidy(place.domain.id(), table, visitors)
                    && !matches!(error, Error::Crashed { .. })
                {
                    tracing::warn!(%error, "garbage could not be collected");
                }
            }
        }
    }
}

/// Finalizes the interpreter, on the thread that has started it.
fn finalize(place: &InterpreterDomain, table: &PayloadTable) -> Result<()> {
    // SAFETY: until the guard's end only code of this domain runs.
    let _entered = unsafe { hydrozoa_loader::current::enter(place.domain.id()) };
    place.departures.begin();
    let mut sink = Sink::default();
    // SAFETY: the thread is the one that has started the interpreter. No session is attached or can
    // attach any more (see `Drop for Inner`); Python's own threads are its own business.
    let status = unsafe { (table.finalize)(sink.pointer()) };
    sink.check(status)
}
