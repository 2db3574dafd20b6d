//! Thread-specific data of domains: keys and their values, as in pthread_key_create(3).
//!
//! glibc offers `PTHREAD_KEYS_MAX` (1,024) keys for a process, and a replicated library makes its keys once for each
//! replica. So domains have [`MOST`] keys of their own, with numbers that glibc gives to nobody. A lower number is glibc's,
//! and goes to glibc.
//!
//! ```text
//!   PLACES:   [ sequence, destructor ] ...            one for each key; the sequence is odd while the key exists
//!   a thread: [ block, block, ... ] -> [ sequence, value ] ...
//! ```
//!
//! A value counts if it was set under the current sequence of its key's place. So a deleted key takes its values along
//! in all threads, and the next key in its place begins without any. (glibc, nptl/pthread_key_delete.c, does the same.)

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::lock::Once;
use crate::sys::thread;

/// The number of the first key.
const FIRST: libc::pthread_key_t = 1 << 20;

/// Keys that may exist at the same time.
pub(crate) const MOST: usize = 1 << 16;

/// The number of values in a block.
const LENGTH: usize = 32;

/// The limit on rounds of destructors of a thread's values, while they set values again
/// (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: u32 = 4;

/// The function called with a thread's value at the thread's end.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

/// The place of a key, used or free.
struct KeySlot {
    sequence: AtomicUsize,
    /// The destructor's address, or 0.
    destructor: AtomicUsize,
}

/// Its pages take no memory until a key uses them.
static PLACES: [KeySlot; MOST] =
    [const { KeySlot { sequence: AtomicUsize::new(0), destructor: AtomicUsize::new(0) } }; MOST];

/// glibc's key whose destructor ends a thread's values.
static END: Once<libc::pthread_key_t> = Once::new();

fn exists(sequence: usize) -> bool {
    sequence % 2 == 1
}

/// A thread's value of a key.
#[derive(Clone, Copy)]
struct Value {
    sequence: usize,
    value: *mut c_void,
}

/// A thread's entry for a key whose value it has not set. No key has sequence 0.
const NONE: Value = Value { sequence: 0, value: ptr::null_mut() };

type Block = [Cell<Value>; LENGTH];

/// The values of a thread.
struct Values {
    /// By the place's index. A block that was allocated stays where it is.
    blocks: Vec<Option<NonNull<Block>>>,
    /// How often [`at_end`] has run for the thread.
    rounds: u32,
}

thread_local! {
    // Never dropped by Rust, whose thread-local destructors run before those of keys.
    static VALUES: Cell<*mut Values> = const { Cell::new(ptr::null_mut()) };
}

/// The index of a domain's key; none for a number of glibc's.
fn index_of(key: libc::pthread_key_t) -> Option<usize> {
    Some(key.checked_sub(FIRST)? as usize)
}

/// `pthread_key_create`.
///
/// # Errors
/// `EAGAIN` if too many keys exist, as POSIX requires.
pub(crate) fn create(destructor: Option<Destructor>) -> Result<libc::pthread_key_t, i32> {
    END.get_or_try_init(|| thread::key(at_end))
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
    for (place, key) in PLACES.iter().zip(FIRST..) {
        let sequence = place.sequence.load(Ordering::Relaxed);
        if exists(sequence) {
            continue;
        }
        let taken = place.sequence.compare_exchange(
            sequence,
            sequence + 1,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if taken.is_ok() {
            let address = destructor.map_or(0, |destructor| destructor as usize);
            place.destructor.store(address, Ordering::Release);
            return Ok(key);
        }
    }
    Err(libc::EAGAIN)
}

/// `pthread_key_delete`: no destructor is called for the key any more.
pub(crate) fn delete(key: libc::pthread_key_t) -> i32 {
    let Some(index) = index_of(key) else {
        return thread::delete(key);
    };
    let Some(place) = PLACES.get(index) else {
        return libc::EINVAL;
    };
    let sequence = place.sequence.load(Ordering::Relaxed);
    let is_deleted = exists(sequence)
        && place
            .sequence
            .compare_exchange(sequence, sequence + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if is_deleted { 0 } else { libc::EINVAL }
}

/// Has no destructor called for the key any more, which keeps its values.
pub(crate) fn silence(key: libc::pthread_key_t) {
    if let Some(place) = index_of(key).and_then(|index| PLACES.get(index)) {
        place.destructor.store(0, Ordering::Release);
    }
}

/// `pthread_getspecific`: null if the thread has set none.
pub(crate) fn get(key: libc::pthread_key_t) -> *mut c_void {
    let Some(index) = index_of(key) else {
        return thread::get(key);
    };
    let (Some(place), Some(block)) = (PLACES.get(index), block(index / LENGTH)) else {
        return ptr::null_mut();
    };
    // SAFETY: only this thread uses its blocks, and frees them when it ends.
    let Value { sequence, value } = unsafe { entry(block, index).as_ref() }.get();
    if sequence == place.sequence.load(Ordering::Relaxed) { value } else { ptr::null_mut() }
}

/// `pthread_setspecific`. The error is `EINVAL` for an unknown key, or `ENOMEM`.
pub(crate) fn set(key: libc::pthread_key_t, value: *mut c_void) -> i32 {
    let Some(index) = index_of(key) else {
        return thread::try_set(key, value);
    };
    let sequence = PLACES.get(index).map_or(0, |place| place.sequence.load(Ordering::Relaxed));
    if !exists(sequence) {
        return libc::EINVAL;
    }
    let block = match block(index / LENGTH) {
        Some(block) => block,
        // As good as never set.
        None if value.is_null() => return 0,
        None => match new_block(index / LENGTH) {
            Some(block) => block,
            None => return libc::ENOMEM,
        },
    };
    // SAFETY: as in `get`.
    unsafe { entry(block, index).as_ref() }.set(Value { sequence, value });
    0
}

/// A block of the calling thread.
fn block(number: usize) -> Option<NonNull<Block>> {
    // SAFETY: only this thread changes and frees its values, and nothing does while this runs.
    let values = unsafe { VALUES.get().as_ref() }?;
    *values.blocks.get(number)?
}

/// Gives the calling thread a block that it lacks; none if memory is exhausted.
///
/// A signal handler may ask for values at any point of this function. So the thread's old list stays in use until the
/// new one is whole.
#[cold]
fn new_block(number: usize) -> Option<NonNull<Block>> {
    // SAFETY: the layout's size is not zero. A block of zeroes is one of `NONE`.
    let block = NonNull::new(unsafe { alloc_zeroed(Layout::new::<Block>()) })?.cast::<Block>();
    let old = VALUES.get();
    // SAFETY: as in `block`.
    let (had, rounds) =
        unsafe { old.as_ref() }.map_or((&[][..], 0), |values| (&values.blocks[..], values.rounds));
    let mut blocks = Vec::new();
    let length = had.len().max(number + 1);
    if blocks.try_reserve_exact(length).is_err() {
        // SAFETY: allocated above, and nobody knows it.
        unsafe { dealloc(block.as_ptr().cast(), Layout::new::<Block>()) };
        return None;
    }
    blocks.extend_from_slice(had);
    blocks.resize(length, None);
    blocks[number] = Some(block);
    VALUES.set(Box::into_raw(Box::new(Values { blocks, rounds })));
    if old.is_null() {
        end_later();
    } else {
        // SAFETY: made by `into_raw` here, and no longer used.
        drop(unsafe { Box::from_raw(old) });
    }
    Some(block)
}

/// Makes glibc call [`at_end`] when the thread ends.
fn end_later() {
    if let Some(&key) = END.get() {
        thread::set(key, ptr::without_provenance_mut(1));
    }
}

/// Calls the destructors of the thread's values, each once. glibc calls this at the thread's end, and again while values
/// are left.
extern "C" fn at_end(_value: *mut c_void) {
    let mut number = 0;
    while let Some(values) = mine() {
        let Some(&block) = values.blocks.get(number) else { break };
        if let Some(block) = block {
            let places = PLACES.iter().enumerate().skip(number * LENGTH).take(LENGTH);
            for (index, place) in places {
                // SAFETY: as in `get`. A destructor may set values, which leaves the block where it is.
                let entry = unsafe { entry(block, index).as_ref() };
                end_value(place, entry.replace(NONE));
            }
        }
        number += 1;
    }
    let Some(values) = mine() else { return };
    values.rounds += 1;
    let has_values = |block: NonNull<Block>| {
        // SAFETY: as in `get`.
        unsafe { block.as_ref() }.iter().any(|entry| !entry.get().value.is_null())
    };
    if values.rounds < ROUNDS && values.blocks.iter().copied().flatten().any(has_values) {
        return end_later();
    }
    // SAFETY: made by `into_raw` in `new_block`, and no longer used.
    let values = unsafe { Box::from_raw(VALUES.replace(ptr::null_mut())) };
    for block in values.blocks.into_iter().flatten() {
        // SAFETY: allocated in `new_block`, and no longer used.
        unsafe { dealloc(block.as_ptr().cast(), Layout::new::<Block>()) };
    }
}

/// Calls the destructor for a value that the thread had, if the value counts.
fn end_value(place: &KeySlot, Value { sequence, value }: Value) {
    let destructor = place.destructor.load(Ordering::Acquire);
    let counts = exists(sequence) && sequence == place.sequence.load(Ordering::Acquire);
    if counts && !value.is_null() && destructor != 0 {
        // SAFETY: `create` was given it, for values of this key.
        unsafe {
            let destructor = ptr::with_exposed_provenance::<c_void>(destructor);
            std::mem::transmute::<*const c_void, Destructor>(destructor)(value);
        }
    }
}

/// The values of the calling thread.
fn mine() -> Option<&'static mut Values> {
    // SAFETY: as in `block`; `at_end` keeps no reference while it calls others.
    unsafe { VALUES.get().as_mut() }
}

/// The entry of the key with this index, in its block.
fn entry(block: NonNull<Block>, index: usize) -> NonNull<Cell<Value>> {
    // SAFETY: inside of the block.
    unsafe { block.cast().add(index % LENGTH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A deleted key's number may be that of another test's next one.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(value: usize) -> *mut c_void {
        ptr::without_provenance_mut(value)
    }

    #[test]
    fn each_thread_has_its_value_and_a_deleted_key_takes_all_along() {
        let _alone = alone();
        let key = create(None).unwrap();
        assert_eq!(set(key, word(5)), 0);
        std::thread::spawn(move || {
            assert!(get(key).is_null());
            assert_eq!((set(key, word(6)), get(key)), (0, word(6)));
        })
        .join()
        .unwrap();
        assert_eq!(get(key), word(5));
        assert_eq!((delete(key), delete(key)), (0, libc::EINVAL));
        assert_eq!((get(key), set(key, word(7))), (ptr::null_mut(), libc::EINVAL));
        // The next one in its place.
        let keys: Vec<_> = (0..200).map(|_| create(None).unwrap()).collect();
        assert!(keys.iter().all(|&key| get(key).is_null()));
        assert!(keys.iter().all(|&key| delete(key) == 0));
        assert_eq!(delete(FIRST + MOST as u32), libc::EINVAL);
        assert!(get(libc::pthread_key_t::MAX).is_null());
    }

    #[test]
    fn a_number_of_glibc_s_is_glibc_s() {
        let _alone = alone();
        let key = thread::key(nothing).unwrap();
        assert!(key < FIRST);
        assert_eq!((set(key, word(3)), get(key)), (0, word(3)));
        assert_eq!(thread::get(key), word(3));
        assert_eq!((set(key, ptr::null_mut()), delete(key)), (0, 0));
        assert_eq!(set(key, word(3)), libc::EINVAL);
    }

    extern "C" fn nothing(_: *mut c_void) {}

    /// Values that are set again by the destructor, the key of both, and how often it was called.
    static AGAIN: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn again(value: *mut c_void) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        let key = AGAIN.load(Ordering::Relaxed) as libc::pthread_key_t;
        assert!(get(key).is_null(), "the value is gone while its destructor runs");
        assert_eq!(set(key, word(value.addr() - 1)), 0);
    }

    #[test]
    fn destructors_run_while_values_are_set_again_and_at_most_four_times() {
        let _alone = alone();
        for (first, calls) in [(0, 0), (1, 1), (3, 3), (100, ROUNDS)] {
            let key = create(Some(again)).unwrap();
            AGAIN.store(key as usize, Ordering::Relaxed);
            CALLS.store(0, Ordering::Relaxed);
            std::thread::spawn(move || {
                // Far apart: the thread has blocks in several places.
                let others: Vec<_> = (0..3 * LENGTH).map(|_| create(None).unwrap()).collect();
                assert!(others.iter().all(|&other| set(other, word(1)) == 0));
                assert_eq!(set(key, word(first)), 0);
                assert!(others.iter().all(|&other| (get(other), delete(other)) == (word(1), 0)));
            })
            .join()
            .unwrap();
            assert_eq!(CALLS.load(Ordering::Relaxed), calls, "{first}");
            assert_eq!(delete(key), 0);
        }
    }

    #[test]
    fn there_are_more_keys_than_glibc_has() {
        let _alone = alone();
        let keys: Vec<_> = (0..3_000).map(|_| create(None).unwrap()).collect();
        for (&key, value) in keys.iter().zip(1..) {
            assert_eq!(set(key, word(value)), 0);
        }
        assert!(keys.iter().zip(1..).all(|(&key, value)| get(key) == word(value)));
        assert!(keys.iter().all(|&key| delete(key) == 0));
    }
}
