//! The thread that starts an interpreter and ends it.
//!
//! CPython takes the thread that initializes it for its main thread, and wants to be finalized
//! there: 3.13's `Py_FinalizeEx` (`resolve_final_tstate`, Python/pylifecycle.c) goes on with that
//! thread's state whichever thread calls it, and up to 3.12 `threading._shutdown` waits for it. An
//! application's thread may be anywhere when the last handle is dropped. So each interpreter has a
//! thread of its own for the two, which sleeps in between and runs nobody's code.

use super::start::{Configuration, run};
use super::thread::Thread;
use crate::payload::{Sink, table::PayloadTable};
use crate::{Error, Result};
use hydrozoa_loader::Domain;
use std::sync::mpsc;

/// Size of the stack: that of a process's first thread, for which programs are written. Pages that
/// are not touched cost nothing.
pub(crate) const STACK: usize = 8 << 20;

/// A started interpreter's main thread.
pub(super) struct MainThread {
    /// Dropped to have the interpreter finalized.
    end: mpsc::Sender<()>,
    thread: Thread<Result<()>>,
    /// The process that it belongs to: a forked child has no threads but the one that forked.
    process: u32,
}

impl MainThread {
    /// Starts the interpreter whose payload is loaded.
    pub(super) fn start(
        name: &str,
        domain: &Domain,
        table: PayloadTable,
        configuration: &Configuration,
    ) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let (own_name, domain, configuration) =
            (name.to_owned(), domain.clone(), configuration.clone());
        let thread = Thread::start(name, STACK, move || {
            let started = run(&own_name, &domain, &table, &configuration);
            let failed = started.is_err();
            // Both ends live until the thread has been joined.
            let _ = tell.send(started);
            if failed {
                return Ok(());
            }
            // Nothing is ever sent: the sender is dropped.
            let _ = wait.recv();
            let _entered = hydrozoa_loader::current::enter(domain.id());
            let mut sink = Sink::default();
            // SAFETY: the thread is the one that has started the interpreter, and no other is
            // attached or can attach any more (see `Drop for Inner`).
            let status = unsafe { (table.finalize)(sink.pointer()) };
            sink.check(status)
        })
        .map_err(|error| Error::Start {
            interpreter: name.to_owned(),
            message: format!("no thread for it: {error}"),
        })?;
        let main = Self { end, thread, process: std::process::id() };
        match told.recv() {
            Ok(Ok(())) => Ok(main),
            Ok(Err(error)) => {
                // It ends by itself, without a result.
                let _ = main.end();
                Err(error)
            }
            Err(_) => Err(main.end().err().unwrap_or_else(|| Error::Start {
                interpreter: name.to_owned(),
                message: "its main thread ended".to_owned(),
            })),
        }
    }

    /// Finalizes the interpreter and waits for it.
    pub(super) fn end(self) -> Result<()> {
        drop(self.end);
        if self.process != std::process::id() {
            return Ok(());
        }
        self.thread
            .join()
            .unwrap_or_else(|panic| Err(Error::Panic(crate::function::panic_message(&*panic))))
    }
}
