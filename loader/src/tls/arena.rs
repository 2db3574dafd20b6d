//! The arena: thread-local bytes of this crate's own object, given out to replicas.
//!
//! ```text
//!   thread's static TLS:  [ ... | ARENA: head blockA blockB ...free... | ... ] thread pointer
//!                               same (negative) offset in every thread
//!   template of that TLS: [ ... | ARENA: head blockA blockB ...free... | ... ]
//!                               what glibc copies into each new thread
//! ```
//!
//! A block that does not begin as zeroes is written into the template, for threads to come, and into every
//! running thread ([`broadcast::Turn::write_everywhere`]).
//!
//! Invariant: a byte that was never given out is zero in every thread, whenever the thread was
//! created, and so is a byte given back by a load that failed before any of its code ran. Any other returned
//! byte holds whatever its user left: it is given out again to blocks that can be nowhere else, once
//! it is zero in every thread and in the template.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use super::TlsIndex;
use crate::arch;
use crate::sys::broadcast::First;
use crate::sys::lock::{Mutex, Once, Rank};
use crate::sys::{self, broadcast, dynamic, memory};

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

/// The arena's location.
#[derive(Clone, Copy, Debug)]
struct Location {
    /// Its offset from the thread pointer, in all threads.
    start: isize,
    /// The address of its bytes in the template; none if they were not found.
    template: Option<usize>,
}

/// Holds `None` if the arena is not at one offset in all threads, which happens when this crate is part
/// of a library that was itself loaded by `dlopen`.
static LOCATION: Once<Option<Location>> = Once::new();

/// Finds the arena. An error says only that it cannot be found now.
fn find() -> io::Result<Option<Location>> {
    let found = LOCATION.get_or_try_init(|| {
        let start = offset_in_this_thread();
        if sys::thread::elsewhere(offset_in_this_thread)? != start {
            return Ok(None);
        }
        TABLE_OFFSET.store(start + TABLE as isize, Ordering::Release);
        Ok::<_, io::Error>(Some(Location { start, template: find_template() }))
    });
    found.copied()
}

/// The offset from the thread pointer of the thread's table of lazy blocks (address, length), for
/// code that cannot be Rust; 0 while no table exists.
pub(crate) static TABLE_OFFSET: AtomicIsize = AtomicIsize::new(0);

fn offset_in_this_thread() -> isize {
    address_in_this_thread().wrapping_sub(arch::thread_pointer()) as isize
}

fn address_in_this_thread() -> usize {
    ARENA.with(|arena| arena.0.get() as usize)
}

/// Notes where the calling thread's table of lazy blocks is.
pub(super) fn set_table(address: usize, length: usize) {
    if LOCATION.get().is_some_and(Option::is_some) {
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

/// The allocated ranges, as offsets from the arena's start.
struct Space {
    /// Bytes from here on were never given out.
    used: usize,
    /// Ranges that were given back unwritten.
    untouched: Holes,
    /// Ranges that were given back after use.
    returned: Holes,
}

static SPACE: Mutex<Space> =
    Mutex::new(Rank::Arena, Space { used: HEAD, untouched: Holes::new(), returned: Holes::new() });

impl Space {
    /// Takes bytes below `limit` that nobody has written.
    fn take_fresh(&mut self, limit: usize, shape: Shape) -> Option<Range<usize>> {
        if let Some(range) = self.untouched.take(limit, shape) {
            return Some(range);
        }
        let range = shape.at(self.used);
        if range.end > limit {
            return None;
        }
        self.used = range.end;
        Some(range)
    }

    /// The length of the longest free range.
    fn largest(&self) -> usize {
        self.returned.largest().max(self.untouched.largest()).max(SIZE - self.used)
    }
}

/// Ranges, start to end; no two touch.
#[derive(Debug, PartialEq, Eq)]
struct Holes(BTreeMap<usize, usize>);

impl Holes {
    const fn new() -> Holes {
        Holes(BTreeMap::new())
    }

    /// Takes bytes below `limit` out of one.
    fn take(&mut self, limit: usize, shape: Shape) -> Option<Range<usize>> {
        let fits = |(&start, &end): (&usize, &usize)| {
            let range = shape.at(start);
            (range.end <= end.min(limit)).then_some((start..end, range))
        };
        let (hole, range) = self.0.iter().find_map(fits)?;
        self.0.remove(&hole.start);
        self.put(hole.start..range.start);
        self.put(range.end..hole.end);
        Some(range)
    }

    fn put(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let before = self.0.range(..range.start).next_back();
        let start = match before {
            Some((&start, &end)) if end == range.start => start,
            _ => range.start,
        };
        let end = self.0.remove(&range.end).unwrap_or(range.end);
        self.0.insert(start, end);
    }

    fn largest(&self) -> usize {
        self.0.iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }
}

/// The shape of a block: its address is congruent to `skew` modulo `alignment`.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub size: usize,
    pub alignment: usize,
    pub skew: usize,
}

impl Shape {
    /// A word that holds an address.
    pub(super) const WORD: Shape =
        Shape { size: size_of::<usize>(), alignment: align_of::<usize>(), skew: 0 };

    /// The first such place from `start` on.
    fn at(self, start: usize) -> Range<usize> {
        // The arena's start is aligned to ALIGNMENT, so offsets into it are aligned as addresses are.
        let begin = start.next_multiple_of(self.alignment) + self.skew % self.alignment;
        begin..begin + self.size
    }
}

/// Bytes of the arena, given back when dropped.
#[derive(Debug)]
pub(super) struct Extent {
    /// Their offset from the thread pointer.
    pub offset: isize,
    range: Range<usize>,
    /// Whether they may be non-zero in some thread.
    touched: AtomicBool,
}

impl Extent {
    /// Notes that they may be written from now on.
    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        let mut space = SPACE.lock();
        let touched = *self.touched.get_mut();
        let holes = if touched { &mut space.returned } else { &mut space.untouched };
        holes.put(self.range.clone());
    }
}

/// The part of the arena that is reserved for blocks that can be nowhere else.
const RESERVE: usize = SIZE / 4;

/// Takes bytes for a block that can be nowhere else. The error says why none are left.
pub(super) fn allocate(shape: Shape) -> Result<Extent, String> {
    let arena = location_for(shape)?;
    let returned = SPACE.lock().returned.take(SIZE, shape);
    let mut reason = String::new();
    if let Some(range) = returned {
        let extent = extent(arena, range);
        extent.touch();
        match write(arena, extent.offset, &vec![0; shape.size], First::Signal) {
            Ok(()) => return Ok(extent),
            Err(error) => reason = format!("; those that were used before cannot be: {error}"),
        }
    }
    let mut space = SPACE.lock();
    match space.take_fresh(SIZE, shape) {
        Some(range) => Ok(extent(arena, range)),
        None => Err(format!(
            "it asks for {} bytes of static TLS, and {} of {SIZE} are free in a row{reason}; a rule \
             that shares it needs them once for all domains",
            shape.size,
            space.largest()
        )),
    }
}

/// Takes bytes for a block that is only faster here.
pub(super) fn allocate_spare(shape: Shape) -> Option<Extent> {
    let arena = location_for(shape).ok()?;
    Some(extent(arena, SPACE.lock().take_fresh(SIZE - RESERVE, shape)?))
}

fn extent(arena: Location, range: Range<usize>) -> Extent {
    let offset = arena.start + range.start as isize;
    Extent { offset, range, touched: AtomicBool::new(false) }
}

fn location_for(shape: Shape) -> Result<Location, String> {
    let found = find().map_err(|error| {
        format!("no thread can be made, to see where static TLS is in another one: {error}")
    })?;
    let Some(arena) = found else {
        return Err(
            "there is no static TLS to place it in: the loader is not part of the executable \
                    or of a library that it was linked with"
                .into(),
        );
    };
    if shape.alignment > ALIGNMENT {
        return Err(format!(
            "it asks for static TLS with an alignment of {} bytes, the arena has {ALIGNMENT}",
            shape.alignment
        ));
    }
    Ok(arena)
}

/// The word of the calling thread at `offset` from its thread pointer.
pub(super) fn word(offset: isize) -> *mut usize {
    arch::thread_pointer().wrapping_add_signed(offset) as *mut usize
}

/// Writes `image` as the initial bytes of the block at `offset` in every thread, running and to come.
pub(super) fn initialise(offset: isize, image: &[u8], first: First) -> Result<(), String> {
    let arena = LOCATION.get().copied().flatten().expect("a block was given out");
    if arena.template.is_none() {
        return Err(
            "it has initialised thread-local data that initial-exec code reaches, and the \
                    template of new threads was not found; build it with -ftls-model=global-dynamic"
                .into(),
        );
    }
    write(arena, offset, image, first)
}

/// Makes a block of `size` bytes zero in every thread, for a module that is the next one to use it.
pub(super) fn clear(offset: isize, size: usize) -> Result<(), String> {
    let arena = LOCATION.get().copied().flatten().expect("a block was given out");
    write(arena, offset, &vec![0; size], First::Outside)
}

/// How many times the template was changed.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// The state of the template that a thread is created from. The creator takes it before it creates the thread.
#[derive(Clone, Copy)]
pub(crate) struct Pattern(usize);

impl Pattern {
    pub(crate) fn now() -> Pattern {
        Pattern(CHANGES.load(Ordering::Acquire))
    }

    /// Makes the calling thread as if it were created now. It has run no code of a replica yet.
    ///
    /// glibc copies the template before the kernel knows of the thread (nptl/pthread_create.c: `allocate_stack`, then
    /// `create_thread`). A template that is changed in between reaches the thread by neither way. glibc's own
    /// initial-exec data has the same gap, as a thread enters glibc's list behind that copy too
    /// (nptl/allocatestack.c). Here it is closed for threads that replicas create.
    pub(crate) fn refresh(self) {
        if self.0 == CHANGES.load(Ordering::Acquire) {
            return;
        }
        let Some(Location { start, template: Some(template) }) = LOCATION.get().copied().flatten()
        else {
            return;
        };
        let _turn = broadcast::turn();
        let (from, to) = (template + HEAD, word(start + HEAD as isize).cast::<u8>());
        // SAFETY: the template has SIZE bytes, which nobody changes without a turn. The thread's own arena is
        // as large, and nothing of it behind the head was used on this thread.
        unsafe { ptr::copy_nonoverlapping(from as *const u8, to, SIZE - HEAD) };
    }
}

/// Writes bytes that nobody uses yet, in the template, if it was found, and in every thread. (Without a
/// template only the threads themselves ever wrote, and new ones begin with zeroes.)
fn write(arena: Location, offset: isize, bytes: &[u8], first: First) -> Result<(), String> {
    let turn = broadcast::turn();
    let template = arena.template.map(|template| template + (offset - arena.start) as usize);
    // SAFETY: bytes of the template, which change only in a turn.
    let differs =
        |at: &usize| unsafe { std::slice::from_raw_parts(*at as *const u8, bytes.len()) } != bytes;
    if let Some(at) = template.filter(differs) {
        // First the template: a thread that is created from here on has the bytes already.
        let write = || {
            // SAFETY: the template's bytes of a block that was given out, which nobody reads as yet.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        };
        memory::while_writable(at, bytes.len(), write).map_err(|error| {
            format!("the template of new threads' data cannot be written: {error}")
        })?;
        // Before threads are listed: a thread that is not among them sees the change when it begins.
        CHANGES.fetch_add(1, Ordering::Release);
    }
    turn.write_everywhere(offset, bytes, first)
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
        let extent = allocate(Shape { size: 4, alignment: 4, skew: 0 }).unwrap();
        let offset = extent.offset;
        initialise(offset, &[1, 2, 3, 4], First::Signal).unwrap();
        send.send(offset).unwrap();
        assert_eq!(running.join().unwrap(), [1, 2, 3, 4]);
        assert_eq!(std::thread::spawn(move || read(offset)).join().unwrap(), [1, 2, 3, 4]);
        assert_eq!(read(offset), [1, 2, 3, 4]);
    }

    #[test]
    fn an_exhausted_arena_says_what_is_free() {
        let bytes = |size| Shape { size, alignment: 1, skew: 0 };
        let error = allocate(bytes(SIZE)).unwrap_err();
        assert!(error.contains("are free"), "{error}");
        let wide = Shape { size: 1, alignment: 128, skew: 0 };
        assert!(allocate(wide).unwrap_err().contains("alignment of 128"));
    }

    #[test]
    fn what_is_given_back_is_joined_and_given_out_by_shape() {
        let shape = |size, alignment, skew| Shape { size, alignment, skew };
        let mut space = Space { used: HEAD, untouched: Holes::new(), returned: Holes::new() };
        let [a, b, c] = [16, 8, 40].map(|size| space.take_fresh(SIZE, shape(size, 8, 0)).unwrap());
        let holes = &mut space.returned;
        assert!(holes.take(SIZE, shape(1, 1, 0)).is_none());
        holes.put(a.clone());
        holes.put(c.clone());
        assert_eq!(holes.0.len(), 2);
        holes.put(b);
        assert_eq!(holes.0, BTreeMap::from([(a.start, c.end)]));
        // Around a place in the middle both ends are kept.
        let middle = holes.take(SIZE, shape(8, 32, 4)).unwrap();
        assert_eq!(middle, 68..76);
        assert_eq!(holes.0, BTreeMap::from([(64, 68), (76, 128)]));
        assert!(holes.take(SIZE, shape(64, 1, 0)).is_none());
        assert!(holes.take(80, shape(8, 8, 0)).is_none());
        assert_eq!(space.largest(), SIZE - 128);
        space.untouched.put(middle);
        assert_eq!(space.take_fresh(SIZE, shape(8, 4, 0)), Some(68..76));
        assert_eq!(space.take_fresh(SIZE, shape(8, 8, 0)), Some(128..136));
    }
}
