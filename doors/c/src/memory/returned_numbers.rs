//! Memory on its way back to a runtime that threads of interpreters cannot enter, or no longer.

use crate::boundary::free;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{process, ptr};

/// The numbers of memory that was given back. A thread of the program's takes them by hz_returns_collect, and no thread of an
/// interpreter calls the program: for runtimes with a lock of their own, such as a Python, and for those that end before the
/// process does. Any thread may use it.
pub struct hz_returns(Arc<Returns>);

struct Returns {
    numbers: Mutex<VecDeque<u64>>,
    arrived: Condvar,
    /// In a forked child, a thread that only the parent has may hold the lock.
    process: u32,
}

/// A piece of lent memory, as the context of hz_returns_release.
struct NumberedMemory {
    returns: Arc<Returns>,
    number: u64,
}

impl Returns {
    fn numbers(&self) -> MutexGuard<'_, VecDeque<u64>> {
        // Each change is one call.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for numbers. The caller owns the result.
#[unsafe(no_mangle)]
pub extern "C" fn hz_returns_new() -> Box<hz_returns> {
    let (numbers, arrived) = (Mutex::new(VecDeque::new()), Condvar::new());
    let returns = Returns { numbers, arrived, process: process::id() };
    Box::new(hz_returns(Arc::new(returns)))
}

/// A context for hz_returns_release, which is to be called with it once. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_returns_context(returns: Option<&hz_returns>, number: u64) -> *mut c_void {
    let context = |returns: &hz_returns| {
        let lent = NumberedMemory { returns: returns.0.clone(), number };
        Box::into_raw(Box::new(lent)).cast()
    };
    returns.map_or(ptr::null_mut(), context)
}

/// An hz_release: hz_returns_collect names the number of the context. NULL is allowed. In a forked child of the process that
/// has made the context it does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_returns_release(context: *mut c_void) {
    if context.is_null() {
        return;
    }
    // SAFETY: a context comes from `hz_returns_context`, and is used once.
    let NumberedMemory { returns, number } =
        *unsafe { Box::from_raw(context.cast::<NumberedMemory>()) };
    if returns.process == process::id() {
        returns.numbers().push_back(number);
        returns.arrived.notify_one();
    }
}

/// Waits until memory was given back, and writes the numbers of at most `capacity` pieces to `numbers`. How many. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_returns_collect(
    returns: Option<&hz_returns>,
    numbers: *mut u64,
    capacity: usize,
) -> usize {
    if numbers.is_null() || capacity == 0 {
        return 0;
    }
    // SAFETY: the caller keeps the rules of the header.
    let out = unsafe { std::slice::from_raw_parts_mut(numbers, capacity) };
    let collect = |returns: &hz_returns| {
        let is_empty = |numbers: &mut VecDeque<u64>| numbers.is_empty();
        let guard = returns.0.arrived.wait_while(returns.0.numbers(), is_empty);
        let mut numbers = guard.unwrap_or_else(PoisonError::into_inner);
        let count = numbers.len().min(capacity);
        for (place, number) in out.iter_mut().zip(numbers.drain(..count)) {
            *place = number;
        }
        count
    };
    returns.map_or(0, collect)
}

/// Frees it. NULL is allowed. Memory given back later is forgotten. No thread may be waiting in hz_returns_collect.
#[unsafe(no_mangle)]
pub extern "C" fn hz_returns_free(returns: Option<Box<hz_returns>>) {
    free(returns);
}

#[cfg(test)]
mod tests {
    use super::{
        hz_returns_collect, hz_returns_context, hz_returns_free, hz_returns_new, hz_returns_release,
    };
    use std::{ptr, thread};

    #[test]
    fn what_other_threads_give_back_is_collected_by_its_number() {
        const COUNT: u64 = 1000;
        let returns = hz_returns_new();
        let contexts = (0..COUNT).map(|number| hz_returns_context(Some(&returns), number));
        let contexts: Vec<_> = contexts.map(|context| context.expose_provenance()).collect();
        let thread = thread::spawn(move || {
            for context in contexts {
                // SAFETY: each context is used once.
                unsafe { hz_returns_release(ptr::with_exposed_provenance_mut(context)) };
            }
        });
        let (mut seen, mut numbers) = (Vec::new(), [0; 7]);
        while seen.len() < COUNT as usize {
            // SAFETY: the places are this function's own.
            let count =
                unsafe { hz_returns_collect(Some(&returns), numbers.as_mut_ptr(), numbers.len()) };
            seen.extend_from_slice(&numbers[..count]);
        }
        assert!(seen.iter().copied().eq(0..COUNT));
        thread.join().unwrap();
        // SAFETY: each context is used once. NULL is allowed everywhere.
        unsafe {
            hz_returns_release(hz_returns_context(Some(&returns), 1));
            hz_returns_free(Some(returns));
            hz_returns_release(hz_returns_context(None, 1));
            assert_eq!(hz_returns_collect(None, numbers.as_mut_ptr(), 1), 0);
        }
    }
}
