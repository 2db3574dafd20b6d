//! The arena: thread-local bytes of this crate's own object, given out to replicas.
//!
//! ```text
//!   thread's static TLS:  [ ... | ARENA: blockA blockB ...free... | ... ] thread pointer
//!                               same (negative) offset in every thread
//! ```
//!
//! Invariant: a byte is given out once and never again, so a new block reads as zero in every
//! thread, whenever the thread was created.

use std::cell::UnsafeCell;

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::arch;

/// Bytes of the arena. Every thread of the process pays for it once (glibc clears static TLS at
/// thread creation), so it is kept small.
const SIZE: usize = 16 * 1024;

/// Greatest alignment that a block in the arena may ask for.
const ALIGNMENT: usize = 64;

#[repr(C, align(64))]
struct Arena(UnsafeCell<[u8; SIZE]>);

thread_local! {
    static ARENA: Arena = const { Arena(UnsafeCell::new([0; SIZE])) };
}

/// Offset of the arena from the thread pointer; `None` if it is not the same in all threads,
/// which happens when this crate is part of a library that was itself loaded by `dlopen`.
static START: Lazy<Option<isize>> = Lazy::new(|| {
    let here = offset_in_this_thread();
    let elsewhere = std::thread::spawn(offset_in_this_thread).join();
    (elsewhere.ok() == Some(here)).then_some(here)
});

fn offset_in_this_thread() -> isize {
    let address = ARENA.with(|arena| arena.0.get() as usize);
    address.wrapping_sub(arch::thread_pointer()) as isize
}

static USED: Mutex<usize> = Mutex::new(0);

/// Takes `size` bytes whose address is congruent to `skew` modulo `alignment`; returns their
/// offset from the thread pointer, or why there are none.
pub(super) fn allocate(size: usize, alignment: usize, skew: usize) -> Result<isize, String> {
    let Some(start) = *START else {
        return Err(
            "there is no static TLS to place it in: the loader is not part of the executable \
                    or of a library that it was linked with"
                .into(),
        );
    };
    if alignment > ALIGNMENT {
        return Err(format!(
            "it asks for an alignment of {alignment} bytes, the arena has {ALIGNMENT}"
        ));
    }
    let mut used = USED.lock();
    // The arena's start is aligned to ALIGNMENT, so offsets into it are aligned as addresses are.
    let begin = used.next_multiple_of(alignment) + skew % alignment;
    if begin + size > SIZE {
        return Err(format!(
            "it asks for {size} bytes of static TLS, and {} of {SIZE} are free",
            SIZE - *used
        ));
    }
    *used = begin + size;
    Ok(start + begin as isize)
}
