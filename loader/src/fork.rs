//! Fork: the child finds every lock of this crate free, whatever other threads did.
//!
//! The locks are taken before the fork and given back after it on both sides. The lock of a domain
//! in which another thread loads is not waited for (its constructors may wait for the forking
//! thread): in the child, where that thread is gone, it is free, as glibc frees its own.

use std::{mem, ptr};

use parking_lot::lock_api::{RawMutex as _, RawRwLock as _};
use parking_lot::{Mutex, RawMutex, RawRwLock, ReentrantMutex, RwLock};

use crate::dl;
use crate::domain;
use crate::image::provided;
use crate::sys;
use crate::tls;
use crate::visible::publish;

/// A lock that is held over a fork.
pub(crate) trait Held: Sync {
    /// Takes it.
    fn hold(&self);
    /// Gives it back.
    ///
    /// # Safety
    /// `hold` was called before, by this thread or by the one that it is the copy of.
    unsafe fn release(&self);
    /// Makes it free in the child. Not by giving it back, which would wake threads that waited:
    /// they are not there, and what their waiting has locked stays locked.
    ///
    /// # Safety
    /// The calling thread is the only one of the process.
    unsafe fn reset(&self);
}

impl<T: Send> Held for Mutex<T> {
    fn hold(&self) {
        mem::forget(self.lock());
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.force_unlock() }
    }

    unsafe fn reset(&self) {
        // SAFETY: nobody else refers to the raw lock, which consists of atomics.
        unsafe { ptr::from_ref(self.raw()).cast_mut().write(RawMutex::INIT) }
    }
}

impl<T: Send + Sync> Held for RwLock<T> {
    fn hold(&self) {
        mem::forget(self.write());
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.force_unlock_write() }
    }

    unsafe fn reset(&self) {
        // SAFETY: nobody else refers to the raw lock, which consists of atomics.
        unsafe { ptr::from_ref(self.raw()).cast_mut().write(RawRwLock::INIT) }
    }
}

/// Makes a lock free unless the calling thread has it, and without waiters either way.
///
/// # Safety
/// The calling thread is the only one of the process.
pub(crate) unsafe fn reset_unless_own(lock: &ReentrantMutex<()>) {
    if lock.is_owned_by_current_thread() {
        // SAFETY: the mutex consists of atomics, and is taken again at once; the owner and the
        // count of its uses are beside it and stay.
        unsafe {
            let mutex = lock.raw();
            ptr::from_ref(mutex).cast_mut().write(RawMutex::INIT);
            mutex.try_lock();
        }
    } else {
        // Not by unlocking it: its owner may have been anywhere within lock or unlock, with the
        // mutex taken and the count of uses still, or again, 0.
        // SAFETY: if it has an owner, that does not exist. It consists of atomics and a cell, and
        // what it guards is no value of its own.
        unsafe { ptr::from_ref(lock).cast_mut().write(ReentrantMutex::new(())) };
    }
}

/// All locks but those of domains, in an order in which no code takes them the other way round.
fn locks() -> Vec<&'static dyn Held> {
    let mut locks: Vec<&'static dyn Held> =
        vec![provided::lock(), crate::image::IMAGES.lock(), crate::system::SYSTEM.lock()];
    locks.extend(dl::locks());
    locks.push(publish::lock());
    locks.extend(tls::locks());
    locks.extend(sys::locks());
    locks
}

/// Registers the handlers, once per process.
pub(crate) fn prepare() {
    extern "C" fn before() {
        domain::hold_all();
        locks().into_iter().for_each(Held::hold);
    }
    extern "C" fn in_parent() {
        // SAFETY: held by `before`, on this thread.
        locks().into_iter().rev().for_each(|lock| unsafe { lock.release() });
        // SAFETY: as above.
        unsafe { domain::release_all() };
    }
    extern "C" fn in_child() {
        // SAFETY: this thread is the only one of the process.
        unsafe {
            locks().into_iter().for_each(|lock| lock.reset());
            domain::reset_all();
        }
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Err(error) = sys::thread::at_fork(before, in_parent, in_child) {
            tracing::warn!(%error, "children of a fork may find the loader locked");
        }
    });
}
