//! The end of a thread that interpreters keep states for.

use crate::crash;
use crate::payload::table::PayloadTable;
use hydrozoa_loader::thread_number;
use std::cell::RefCell;
use std::sync::{Arc, PoisonError, RwLock};

thread_local! {
    /// The interpreters that keep a state for this thread.
    static STATES: States = const { States(RefCell::new(Vec::new())) };
}

/// Has an interpreter's state for the calling thread handed over when the thread ends. The thread has entered for the first
/// time.
pub(super) fn hand_over_state(gate: &Arc<Gate>) {
    crash::prepare_thread();
    // Fails only while the thread's own destructors run; the state then lives as long as the interpreter.
    let _ = STATES.try_with(|states| states.add(gate));
}

/// Lets an ending thread have its state in an interpreter freed. It does not keep the interpreter
/// itself, which shall end with its last handle, not when some thread gets round to letting go of it.
pub(super) struct Gate {
    table: PayloadTable,
    /// Whether the interpreter has not begun to end. Held for reading while a state is handed over.
    open: RwLock<bool>,
}

impl Gate {
    pub(super) fn new(table: PayloadTable) -> Arc<Self> {
        Arc::new(Self { table, open: RwLock::new(true) })
    }

    /// From now on no ending thread calls the payload; waits for those that do, which wait for
    /// nothing themselves.
    pub(super) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn is_open(&self) -> bool {
        *self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_thread(&self) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if *open {
            // SAFETY: the interpreter lives while the gate is held open, and a thread that runs its
            // destructors is attached to nothing.
            unsafe { (self.table.forget_thread)() };
        }
    }
}

/// Hands this thread's state in each interpreter over when the thread ends: the interpreter frees
/// it at its next entry. The thread waits for no GIL, since a thread that joins it may hold that.
struct States(RefCell<Vec<Arc<Gate>>>);

impl States {
    fn add(&self, gate: &Arc<Gate>) {
        let mut gates = self.0.borrow_mut();
        // A thread that lives on may see many interpreters come and go.
        gates.retain(|gate| gate.is_open());
        gates.push(gate.clone());
    }
}

impl Drop for States {
    fn drop(&mut self) {
        // The process's first thread ends with the process: destructors of the libraries in an
        // interpreter that is still alive run behind this one, and enter it on this thread (those
        // of libtorch_python do, to let go of what it has registered).
        // SAFETY: neither call has a precondition.
        if unsafe { thread_number() == libc::getpid() } {
            return;
        }
        for gate in self.0.take() {
            gate.forget_thread();
        }
    }
}
