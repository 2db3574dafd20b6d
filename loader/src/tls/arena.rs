//! The arena: thread-local bytes of this crate's own object, given out to replicas.
//!
//! ```text
//!   thread's static TLS:  [ ... | ARENA: head blockA blockB ...free... | ... ] thread pointer
//!                               same (negative) offset in every thread
//!   template of that TLS: [ ... | ARENA: head blockA blockB ...free... | ... ]
//!                               what glibc copies into each new thread
//! ```
//!
//! A block that begins with other bytes than zeroes is written into the template, for threads to
//! come, and into every thread that runs ([`broadcast::write_everywhere`]).
//!
//! Invariant: a byte is given out once and never again, so a new block reads as zero in every
//! thread, whenever the thread was created.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicIsize, Ordering};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use super::TlsIndex;
use crate::arch;
use crate::fork::Held;
use crate::sys::{broadcast, dynamic, memory};

/// Bytes of the arena. Every thread of the process pays for it once (glibc copies the template at
/// thread creation), so it is kept small.
const SIZE: usize = 16 * 1024;

/// Greatest alignment that a block in the arena may ask for.
const ALIGNMENT: usize = 64;

/// The first bytes: a mark that puts the arena into the initialised part of the object's TLS
/// (.tdata), which alone has a template; and at [`TABLE`] the thread's table of lazy blocks.
const MARK: u8 = 0xa7;
const TABLE: usize = 16;
const HEAD: usize = ALIGNMENT;

#[repr(C, align(64))]
struct Arena(UnsafeCell<[u8; SIZE]>);

thread_local! {
    static ARENA: Arena = const {
        let mut bytes = [0; SIZE];
        bytes[0] = MARK;
        Arena(UnsafeCell::new(bytes))
    };
}

/// Where the arena is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its offset from the thread pointer, in all threads.
    start: isize,
    /// The address of its bytes in the template; none if they were not found.
    template: Option<usize>,
}

/// `None` if the arena is not at one offset in all threads, which happens when this crate is part
/// of a library that was itself loaded by `dlopen`.
static PLACE: Lazy<Option<Place>> = Lazy::new(|| {
    let start = offset_in_this_thread();
    let elsewhere = std::thread::spawn(offset_in_this_thread).join();
    if elsewhere.ok() != Some(start) {
        return None;
    }
    TABLE_OFFSET.store(start + TABLE as isize, Ordering::Release);
    Some(Place { start, template: find_template() })
});

/// The offset from the thread pointer of the thread's table of lazy blocks (address, length), for
/// code that cannot be Rust; 0 while there is none.
pub(crate) static TABLE_OFFSET: AtomicIsize = AtomicIsize::new(0);

fn offset_in_this_thread() -> isize {
    address_in_this_thread().wrapping_sub(arch::thread_pointer()) as isize
}

fn address_in_this_thread() -> usize {
    ARENA.with(|arena| arena.0.get() as usize)
}

/// Notes where the calling thread's table of lazy blocks is.
pub(super) fn set_table(address: usize, length: usize) {
    if PLACE.is_some() {
        let table = (address_in_this_thread() + TABLE) as *mut usize;
        // SAFETY: the head of the arena is this thread's and aligned; nobody else writes it.
        unsafe {
            // A signal handler's access must not see the new length with the old address.
            table.add(1).write_volatile(0);
            table.write_volatile(address);
            table.add(1).write_volatile(length);
        }
    }
}

/// The arena's bytes in the template of the object that holds this crate.
fn find_template() -> Option<usize> {
    let code = find_template as *const () as usize;
    let object = dynamic::objects().into_iter().find(|object| object.holds(code))?;
    let tls = object.program_headers().iter().find(|header| header.p_type == libc::PT_TLS)?;
    let index = TlsIndex { module: object.tls_module as u64, offset: 0 };
    // SAFETY: the id is that of the object, which is loaded.
    let block = unsafe { arch::tls_get_addr(&index) } as usize;
    let inside = address_in_this_thread().checked_sub(block)?;
    if inside + SIZE > tls.p_filesz as usize {
        return None;
    }
    let template = object.base + tls.p_vaddr as usize + inside;
    // SAFETY: the object's PT_TLS says that its template has p_filesz bytes here.
    (unsafe { *(template as *const u8) } == MARK).then_some(template)
}

static USED: Mutex<usize> = Mutex::new(HEAD);

pub(super) fn lock() -> &'static dyn Held {
    &USED
}

/// What is left of the arena to blocks that can be nowhere else.
const RESERVE: usize = SIZE / 4;

/// Takes `size` bytes whose address is congruent to `skew` modulo `alignment`; returns their
/// offset from the thread pointer, or why there are none.
pub(super) fn allocate(size: usize, alignment: usize, skew: usize) -> Result<isize, String> {
    allocate_up_to(SIZE, size, alignment, skew)
}

/// As [`allocate`], for what is only faster here.
pub(super) fn allocate_spare(size: usize, alignment: usize, skew: usize) -> Result<isize, String> {
    allocate_up_to(SIZE - RESERVE, size, alignment, skew)
}

fn allocate_up_to(
    limit: usize,
    size: usize,
    alignment: usize,
    skew: usize,
) -> Result<isize, String> {
    let Some(Place { start, .. }) = *PLACE else {
        return Err(
            "there is no static TLS to place it in: the loader is not part of the executable \
                    or of a library that it was linked with"
                .into(),
        );
    };
    if alignment > ALIGNMENT {
        return Err(format!(
            "it asks for static TLS with an alignment of {alignment} bytes, the arena has {ALIGNMENT}"
        ));
    }
    let mut used = USED.lock();
    // The arena's start is aligned to ALIGNMENT, so offsets into it are aligned as addresses are.
    let begin = used.next_multiple_of(alignment) + skew % alignment;
    if begin + size > limit {
        return Err(format!(
            "it asks for {size} bytes of static TLS, and {} of {SIZE} are free",
            SIZE - *used
        ));
    }
    *used = begin + size;
    Ok(start + begin as isize)
}

/// The word of the calling thread at `offset` from its thread pointer.
pub(super) fn word(offset: isize) -> *mut usize {
    arch::thread_pointer().wrapping_add_signed(offset) as *mut usize
}

/// Has the block at `offset` begin with `image` in every thread, those that run and those to come.
pub(super) fn initialise(offset: isize, image: &[u8]) -> Result<(), String> {
    let place = PLACE.expect("a block was given out");
    let template = place.template.ok_or(
        "it has initialised thread-local data that initial-exec code reaches, and the template of \
         new threads was not found; build it with -ftls-model=global-dynamic",
    )?;
    let at = template + (offset - place.start) as usize;
    // First the template: a thread that is created from here on has the bytes already.
    memory::write_protected(at, image)
        .map_err(|error| format!("the template of new threads' data cannot be written: {error}"))?;
    broadcast::write_everywhere(offset, image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_with_its_image_in_running_and_in_new_threads() {
        let (send, receive) = std::sync::mpsc::channel::<isize>();
        let (ready, started) = std::sync::mpsc::channel();
        let read = |offset: isize| {
            let address = arch::thread_pointer().wrapping_add_signed(offset);
            // SAFETY: the offset is that of a block of four bytes in the arena.
            unsafe { *(address as *const [u8; 4]) }
        };
        let running = std::thread::spawn(move || {
            ready.send(()).unwrap();
            read(receive.recv().unwrap())
        });
        started.recv().unwrap();
        let offset = allocate(4, 4, 0).unwrap();
        initialise(offset, &[1, 2, 3, 4]).unwrap();
        send.send(offset).unwrap();
        assert_eq!(running.join().unwrap(), [1, 2, 3, 4]);
        assert_eq!(std::thread::spawn(move || read(offset)).join().unwrap(), [1, 2, 3, 4]);
        assert_eq!(read(offset), [1, 2, 3, 4]);
    }

    #[test]
    fn an_exhausted_arena_says_what_is_free() {
        let error = allocate(SIZE, 1, 0).unwrap_err();
        assert!(error.contains("are free"), "{error}");
        assert!(allocate(1, 128, 0).unwrap_err().contains("alignment of 128"));
    }
}
