//! The end of a domain whose places the next one takes over.
//!
//! Replicas of an ended domain are not unmapped: nobody has proven that no system object points into them. They are
//! recycled (see [`crate::domain::estate`]). This module calls or disarms the functions that the domain's code has
//! registered with the C library, and unmaps the code's mappings.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::domain::{self, Domain};
use crate::load::unload;
use crate::replica::map;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::{children, exit, handlers, thread};
use crate::visible::publish;

/// Ended domains with threads that still run.
static WAITING: Mutex<Vec<Retiring>> = Mutex::new(Rank::Estates, Vec::new());

/// A domain, and the action when it has ended.
struct Retiring {
    domain: Domain,
    /// Whether its code has crashed, and must not run any more.
    has_crashed: bool,
    afterwards: Box<dyn FnOnce() + Send>,
}

/// The number and interval of checks whether a domain's threads have ended. The kernel counts a thread
/// for a moment after `pthread_join` has returned.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

impl Domain {
    /// Ends the domain for good. Exit handlers and destructors of its replicas run, last constructed first. Destructors of
    /// threads' remaining thread-local objects do not run any more. Thread keys that its code has made are deleted, signals
    /// that its code handles get their default actions, and memory that its code has mapped is unmapped. The replicas'
    /// addresses stay mapped, and the next domain that loads the same files gets them, with fresh data.
    ///
    /// If threads that its code has created still run, all this happens after they have ended: when a domain is made
    /// next. Until then the domain stays as it is. An exit of the process on another thread waits up to ten seconds for the
    /// end meanwhile. `afterwards` is called when all is done: it may release other resources that code of the domain has
    /// used.
    ///
    /// # Safety
    /// No code of the replicas runs, except in threads that it has created itself. Nobody uses the data of the
    /// replicas, or memory that their code has mapped, from now on.
    pub unsafe fn retire(self, afterwards: impl FnOnce() + Send + 'static) {
        // SAFETY: the caller's promise.
        unsafe { self.leave(false, Box::new(afterwards)) };
    }

    /// As [`Domain::retire`], for a domain whose code has crashed: neither its exit handlers and destructors nor any other
    /// code of it runs. Frames of its code, and of this loader's calls of its constructors, may have been discarded.
    ///
    /// # Safety
    /// As for [`Domain::retire`]. No thread goes on in a frame of the domain's code or of a load for it.
    pub unsafe fn abandon(self, afterwards: impl FnOnce() + Send + 'static) {
        self.silence();
        // SAFETY: the caller's promise.
        unsafe { self.leave(true, Box::new(afterwards)) };
    }

    /// From now on the ends of threads call no code of the domain: neither destructors of thread-local objects nor those of
    /// thread keys. It is for a domain whose code has crashed.
    pub fn silence(&self) {
        let replicas: Vec<_> = self.0.state.lock().entries.replicas().cloned().collect();
        for replica in &replicas {
            replica.registered.disarm();
        }
        self.0.belongings.silence();
    }

    /// # Safety
    /// As for [`Domain::retire`], or [`Domain::abandon`] if it `has_crashed`.
    unsafe fn leave(self, has_crashed: bool, afterwards: Box<dyn FnOnce() + Send>) {
        let is_quiet = (0..TRIES).any(|attempt| {
            if attempt > 0 {
                thread::pause(PAUSE);
            }
            !self.0.belongings.has_threads()
        });
        let retiring = Retiring { domain: self, has_crashed, afterwards };
        if is_quiet {
            // SAFETY: the caller's promise, and no thread of its own is left.
            unsafe { retiring.end() };
        } else {
            let name = retiring.domain.name();
            tracing::debug!(domain = name, "waits for threads that its code has created");
            WAITING.lock().push(retiring);
        }
    }
}

impl Domain {
    /// Whether threads that its code has created still run. One that has just been joined may be among them.
    pub fn has_threads(&self) -> bool {
        self.0.belongings.has_threads()
    }
}

/// Ends the domains whose threads have ended meanwhile.
pub(crate) fn resume() {
    let is_quiet = |retiring: &mut Retiring| !retiring.domain.0.belongings.has_threads();
    let quiet: Vec<Retiring> = WAITING.lock().extract_if(.., is_quiet).collect();
    for retiring in quiet {
        // SAFETY: the caller that retired it has promised the rest.
        unsafe { retiring.end() };
    }
}

impl Retiring {
    /// # Safety
    /// No code of the domain runs, and nobody uses its resources.
    unsafe fn end(self) {
        let Some(_held) = exit::HeldExit::begin() else { return };
        // SAFETY: by contract.
        unsafe { end(&self.domain, self.has_crashed) };
        (self.afterwards)();
    }
}

/// # Safety
/// No code of the domain runs, and nobody uses its resources.
unsafe fn end(domain: &Domain, has_crashed: bool) {
    let serial = &domain.0.serial;
    let _turn = if has_crashed { serial.take_over() } else { serial.lock() };
    let replicas = if has_crashed { unload::forget_all(domain) } else { unload::end_all(domain) };
    domain.0.exits.end();
    for replica in &replicas {
        replica.registered.disarm();
    }
    let ranges: Vec<_> = replicas
        .iter()
        .map(|replica| replica.base..replica.base + replica.memory.length())
        .collect();
    handlers::forget(&ranges);
    let gone = domain.0.state.lock().entries.gone(&replicas);
    drop(gone);
    // SAFETY: the caller's promise.
    unsafe { domain.0.belongings.give_back() };
    domain.0.record_locks.end();
    children::leave(domain.id());
    publish::withdraw(&replicas);
    let was_replaced = domain.0.data_was_replaced.load(Ordering::Relaxed);
    for replica in &replicas {
        map::give_back(&replica.image, &replica.memory, was_replaced);
    }
    domain.leave_inheritance(replicas);
    domain::forget(domain.id());
}
