//! The room that is left on the calling thread's stack.

use crate::{Error, Result};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;

/// The room without which a thread does not call Python, in bytes. An import of a package such as asyncio takes some
/// 100 KiB of it, and C code that has no limit needs a rest.
const LEAST: usize = 192 << 10;

thread_local! {
    /// The stack's lowest usable address and its end; zeroes if they are not known yet.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The bytes between the caller's frame and the end of the thread's stack. `usize::MAX` if the thread runs on a stack that
/// is not its own, as some coroutines do, or if its end is not known.
#[inline]
pub(crate) fn room() -> usize {
    let (mut low, mut high) = BOUNDS.get();
    if high == 0 {
        (low, high) = bounds().unwrap_or((usize::MAX, usize::MAX));
        BOUNDS.set((low, high));
    }
    let here = ptr::from_ref(&low).addr();
    if (low..high).contains(&here) { here - low } else { usize::MAX }
}

/// Whether there is room to call Python.
///
/// # Errors
///
/// [`Error::Stack`].
#[inline]
pub(crate) fn check() -> Result<()> {
    match room() {
        room if room < LEAST => Err(too_small(room)),
        _ => Ok(()),
    }
}

#[cold]
fn too_small(room: usize) -> Error {
    Error::Stack { room, least: LEAST }
}

/// The lowest usable address of the thread's stack, and its end. For the first thread the C library reads
/// `/proc/self/maps`.
pub(crate) fn bounds() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are initialized by the first call, read then, and destroyed.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let (mut start, mut size, mut guard) = (ptr::null_mut(), 0, 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0
            && libc::pthread_attr_getguardsize(&attributes, &mut guard) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        // The guard may be a part of that (pthread_attr_setguardsize(3), "Bugs").
        known.then(|| (start.addr() + guard, start.addr() + size))
    }
}

#[cfg(test)]
mod tests {
    use super::{check, room};
    use crate::Error;
    use std::thread;

    #[test]
    fn the_room_is_that_of_the_thread_s_own_stack() {
        for size in [256 << 10, 1 << 20, 8 << 20] {
            let thread = thread::Builder::new().stack_size(size);
            let left = thread.spawn(room).unwrap().join().unwrap();
            // Less thread-local data. The C library may give it a greater stack that another thread has left.
            assert!(size - (64 << 10) < left && left < 16 << 20, "{left} of {size}");
        }
    }

    #[test]
    fn a_thread_with_too_little_is_refused_in_words() {
        let thread = thread::Builder::new().stack_size(128 << 10);
        let error = thread.spawn(check).unwrap().join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Stack { room, .. } if room < 128 << 10));
        assert!(error.to_string().contains("stack_size"), "{error}");
    }
}
