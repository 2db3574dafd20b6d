//! The heap of an interpreter: all memory that its code takes from malloc, by `operator new`, and by Python's raw allocator.
//!
//! malloc's own heap belongs to the process. An interpreter's blocks there stay when it ends, nothing tells whose a block is, and
//! damage hits everyone. So replicas take their memory from a heap of their interpreter's own, in one window of addresses, which is
//! given back as a whole. Anybody may free a block ([`functions`]): it is recognised by its address.
//!
//! ```text
//!   window  | Python's arena | arena | arena | ... | arena | large blocks ... |
//! ```
//!
//! An arena is Doug Lea's malloc, from which glibc's descends, in a slice of the window ([`arena`]). Python's raw memory has one for
//! itself, since it is settled also when threads of libraries run ([`crate::settle`]). Large blocks have pages of their own ([`large`]).
//!
//! No thread waits for another one here, except for a heap that is kept still. A thread that finds an arena taken goes to another one, and
//! keeps to it, as with glibc's. It keeps a few free blocks itself ([`cache`]).
//!
//! The memory that the heap has from the system counts for the interpreter's limit ([`MemoryLimit`]). If the window is full, and there is no limit,
//! malloc gives the block.

mod arena;
mod blocks;
mod cache;
mod damage;
mod functions;
mod large;
mod slice;
mod stillness;
mod stock;
mod within;

pub(crate) use functions::{discardable, everywhere, interpositions};
pub(crate) use within::{leave, may_leave, note_crash};

use arena::{Arena, Taken};
use cache::Kept;
use damage::Damage;
use hydrozoa_loader::DomainId;
use hydrozoa_payload::limit::MemoryLimit;
use large::Large;
use slice::Slice;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use within::Within;

/// A heap. It is never freed: the next interpreter gets it.
pub(crate) struct Heap {
    /// The first address.
    start: usize,
    /// The number of addresses.
    length: usize,
    /// The length of a slice, as a power of two. A window is 32 of them.
    shift: u32,
    /// Python's first.
    arenas: [Arena; ARENAS],
    large: Large,
    /// Blocks of libraries of at least so many bytes are large.
    large_from: AtomicUsize,
    limit: &'static MemoryLimit,
    /// It counts interpreters that have given it back or have crashed. Threads forget blocks that they keep since an earlier turn.
    turn: AtomicU64,
    /// The number of its interpreter's domain, or [`NO_DOMAIN`].
    domain: AtomicU64,
    /// Its interpreter has crashed, and others leave the blocks alone: it goes as a whole.
    is_left: AtomicBool,
    /// The address of a damaged block that a thread has found which was not to blame; or 0. The interpreter's next call finds it here.
    damage: &'static AtomicUsize,
}

const NO_DOMAIN: u64 = u64::MAX;

/// Python's arena, and those of libraries.
const ARENAS: usize = 13;
const PYTHONS: usize = 0;

/// So many slices Python's arena has, and those of libraries one each. The others are for large blocks.
const SLICES: usize = 32;
const OF_PYTHON: usize = 8;
const OF_ARENAS: usize = OF_PYTHON + ARENAS - 1;

/// Blocks of so many bytes are always large: the size from which glibc never keeps a block in its heap (`DEFAULT_MMAP_THRESHOLD_MAX`).
const LARGE: usize = 32 << 20;

/// At first, blocks of libraries of so many bytes are large, as with glibc (`DEFAULT_MMAP_THRESHOLD`). Once a large block was freed, blocks
/// as long as that one come from arenas.
const LARGE_AT_FIRST: usize = 128 << 10;

/// Alignments beyond it are for large blocks only.
const WIDEST: usize = 64 << 10;

/// So much free memory the end of an arena of libraries keeps at most: twice the largest block, as with glibc.
const KEPT: usize = 2 * LARGE;

/// The alignment of all blocks (`MALLOC_ALIGNMENT`).
const ALIGNMENT: usize = 16;

thread_local! {
    /// The arena in which the thread has found memory last.
    static ARENA: Cell<usize> = const { Cell::new(1) };
}

/// Whose memory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Python's raw allocator.
    Python,
    /// All other code.
    Libraries,
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Heap").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Heaps that no interpreter has.
static SPARE: hydrozoa_loader::LeafLock<Vec<&'static Heap>> =
    hydrozoa_loader::LeafLock::new(Vec::new());

/// A heap in which nothing changes by its allocators until this is dropped. Threads that ask for memory wait, and freed blocks are left.
pub(crate) struct Still<'a> {
    heap: &'a Heap,
    /// The first is Python's.
    taken: Vec<Taken<'a>>,
    large: Option<large::Still<'a>>,
    _no_fork: stillness::NoFork,
}

impl Still<'_> {
    /// The addresses that are in use: Python's, and those of libraries if they are still too.
    pub(crate) fn used(&self) -> Vec<Range<usize>> {
        let arenas = self.taken.iter().map(Taken::used);
        arenas.chain(self.large.iter().flat_map(|_| self.heap.large.ranges())).collect()
    }
}

impl Heap {
    /// An empty heap; `None` if the addresses run out.
    pub(crate) fn of_an_interpreter() -> Option<&'static Self> {
        SPARE.with(Vec::pop).or_else(|| {
            let window = stock::take()?;
            // SAFETY: the stock has reserved the addresses, and gives them once.
            let heap: &'static Self = Box::leak(Box::new(unsafe { Self::new(window.clone()) }));
            stock::note(&window, heap);
            Some(heap)
        })
    }

    /// # Safety
    /// The addresses are reserved for it alone, and nobody can access them.
    unsafe fn new(window: Range<usize>) -> Self {
        let limit: &'static MemoryLimit = Box::leak(Box::default());
        let damage: &'static AtomicUsize = Box::leak(Box::default());
        let slice = window.len() / SLICES;
        let arena = |index| {
            let (first, count) =
                if index == PYTHONS { (0, OF_PYTHON) } else { (OF_PYTHON + index - 1, 1) };
            // SAFETY: a part of the window that no other one has.
            let slice = unsafe { Slice::new(window.start + first * slice, count * slice, limit) };
            let most_kept = if index == PYTHONS { 0 } else { KEPT };
            Arena::new(Box::leak(Box::new(slice)), most_kept, damage)
        };
        Self {
            start: window.start,
            length: window.len(),
            shift: slice.trailing_zeros(),
            arenas: std::array::from_fn(arena),
            // SAFETY: as above.
            large: unsafe { Large::new(window.start + OF_ARENAS * slice..window.end, limit) },
            large_from: AtomicUsize::new(LARGE_AT_FIRST),
            limit,
            turn: AtomicU64::new(0),
            domain: AtomicU64::new(NO_DOMAIN),
            is_left: AtomicBool::new(false),
            damage,
        }
    }

    /// Notes the domain of its interpreter.
    pub(crate) fn belongs_to(&self, domain: DomainId) {
        self.domain.store(domain.index().into(), Ordering::Relaxed);
    }

    fn is_of(&self, domain: DomainId) -> bool {
        self.domain.load(Ordering::Relaxed) == u64::from(domain.index())
    }

    /// The heap of the block at `address`, if it is one of a heap.
    #[inline]
    fn of(address: *mut c_void) -> Option<&'static Self> {
        stock::owner(address.addr()).filter(|heap| heap.owns(address))
    }

    /// Whether an address lies in the window.
    #[inline]
    pub(crate) fn owns(&self, address: *const c_void) -> bool {
        address.addr().wrapping_sub(self.start) < self.length
    }

    /// The arena whose slice has an address of the window; `None` for large blocks.
    #[inline]
    fn arena_of(&self, address: *mut c_void) -> Option<&Arena> {
        let slice = address.addr().wrapping_sub(self.start) >> self.shift;
        self.arenas.get((slice + 1).saturating_sub(OF_PYTHON))
    }

    /// Counts the interpreter's memory.
    pub(crate) fn limit(&self) -> &'static MemoryLimit {
        self.limit
    }

    /// The addresses of Python's raw memory, without large blocks, and those of all other blocks. Not all are in use.
    pub(crate) fn parts(&self) -> [Range<usize>; 2] {
        let middle = self.start + (OF_PYTHON << self.shift);
        [self.start..middle, middle..self.start + self.length]
    }

    /// Leaves the empty heap to the next interpreter.
    ///
    /// # Safety
    /// No code of the interpreter runs, and nobody uses its blocks. Threads may give back free ones.
    pub(crate) unsafe fn give_back(&'static self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        // A forked child may not get all arenas. Then the heap keeps their memory, and no interpreter gets it.
        // SAFETY: by contract.
        let is_lost = |arena: &&Arena| !unsafe { arena.clear() };
        // Each arena is cleared.
        let is_empty = self.arenas.iter().filter(is_lost).count() == 0;
        // SAFETY: as above.
        unsafe { self.large.clear() };
        self.large_from.store(LARGE_AT_FIRST, Ordering::Relaxed);
        self.domain.store(NO_DOMAIN, Ordering::Relaxed);
        self.is_left.store(false, Ordering::Relaxed);
        self.damage.store(0, Ordering::Relaxed);
        self.limit.reset();
        if is_empty {
            SPARE.with(|spare| spare.push(self));
        }
    }

    /// Keeps the heap as it is: Python's memory, and that of libraries if nobody else could change it. `None` if a thread has stopped in
    /// the middle of an allocation or a free.
    pub(crate) fn still(&self, with_libraries: bool) -> Option<Still<'_>> {
        let count = if with_libraries { ARENAS } else { 1 };
        let _no_fork = stillness::NoFork::begin();
        let taken = self.arenas[..count].iter().map(Arena::still).collect::<Option<_>>()?;
        let large = if with_libraries { Some(self.large.still()?) } else { None };
        Some(Still { heap: self, taken, large, _no_fork })
    }

    /// Gives the pages of free memory back to the system, and says whether there were any.
    pub(crate) fn trim(&self) -> bool {
        let _within = Within::arenas(self);
        let bytes = |arena: &Arena| arena.take().map_or(0, |mut taken| taken.give_back_pages());
        self.arenas.iter().map(bytes).sum::<usize>() > 0
    }

    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// A block that this thread has freed.
    #[inline]
    fn kept(&'static self, size: usize) -> Option<*mut c_void> {
        cache::take(self, size)
    }

    /// A block of at least `size` bytes, aligned for every type; null if the interpreter may not have more, or the system has none.
    pub(crate) fn allocate(&'static self, user: User, size: usize) -> *mut c_void {
        let kept = if user == User::Libraries { self.kept(size) } else { None };
        kept.unwrap_or_else(|| self.new_block(user, size, ALIGNMENT))
    }

    /// A block that no thread has kept, at a multiple of a power of two.
    #[inline(never)]
    fn new_block(&self, user: User, size: usize, alignment: usize) -> *mut c_void {
        if size > isize::MAX as usize {
            return ptr::null_mut();
        }
        let _within = Within::arenas(self);
        match self.damage.load(Ordering::Relaxed) {
            0 => {}
            block => self.has_damage(ptr::without_provenance_mut(block), Damage::Head),
        }
        let block = self.block(user, size, alignment);
        if !block.is_null() {
            return block;
        }
        // Free memory that other arenas keep counts for the limit too.
        if self.trim_ends() {
            let block = self.block(user, size, alignment);
            if !block.is_null() {
                return block;
            }
        }
        if self.limit.is_set() {
            return ptr::null_mut();
        }
        functions::from_the_program(size, alignment)
    }

    fn block(&self, user: User, size: usize, alignment: usize) -> *mut c_void {
        let large_from = match user {
            User::Python => LARGE,
            User::Libraries => self.large_from.load(Ordering::Relaxed),
        };
        let small = || self.small(user, size, alignment);
        let is_large = size >= large_from || alignment > WIDEST;
        let block = if is_large { ptr::null_mut() } else { small() };
        if !block.is_null() {
            return block;
        }
        let large = {
            let _within = Within::process();
            self.large.allocate(size, alignment)
        };
        match large {
            Some(block) => block,
            None if is_large && size < LARGE && alignment <= WIDEST => small(),
            None => ptr::null_mut(),
        }
    }

    /// A block of an arena: of the first that is not taken and has room.
    fn small(&self, user: User, size: usize, alignment: usize) -> *mut c_void {
        if user == User::Python
            && let Some(mut taken) = self.arenas[PYTHONS].taken()
        {
            let block = taken.allocate(size.max(1), alignment);
            if !block.is_null() {
                return block;
            }
        }
        let first = ARENA.get();
        loop {
            let mut was_taken = false;
            for turn in 0..ARENAS - 1 {
                let index = 1 + (first - 1 + turn) % (ARENAS - 1);
                let Some(mut taken) = self.arenas[index].take() else {
                    was_taken |= self.arenas[index].may_come_back();
                    continue;
                };
                let block = taken.allocate(size.max(1), alignment);
                if !block.is_null() {
                    ARENA.set(index);
                    return block;
                }
            }
            // One that was taken may have room.
            if !was_taken {
                return ptr::null_mut();
            }
            thread::yield_now();
        }
    }

    /// Gives free memory at the ends of arenas back.
    fn trim_ends(&self) -> bool {
        let trim = |arena: &Arena| arena.take().is_some_and(|mut taken| taken.trim());
        // Each arena is trimmed.
        self.arenas.iter().filter(|arena| trim(arena)).count() > 0
    }

    /// Frees a block.
    ///
    /// # Safety
    /// It is one of this heap, and nobody uses it from now on.
    #[inline]
    unsafe fn free(&'static self, block: *mut c_void) {
        let slice = (block.addr() - self.start) >> self.shift;
        let kept = match (OF_PYTHON..OF_ARENAS).contains(&slice) {
            // SAFETY: by contract.
            true => unsafe { cache::keep(self, block) },
            false => Kept::Not,
        };
        if kept != Kept::Yes {
            // SAFETY: by contract.
            unsafe { self.put_back(block, kept) };
        }
    }

    /// Frees a block that the thread does not keep as a matter of course.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    #[inline(never)]
    unsafe fn put_back(&'static self, block: *mut c_void, mut kept: Kept) {
        let _within = Within::arenas(self);
        if self.is_left.load(Ordering::Relaxed) {
            return;
        }
        let Some(arena) = self.arena_of(block) else {
            // SAFETY: by contract.
            match unsafe { self.free_large(block) } {
                Some(length) if length < LARGE => {
                    self.large_from.fetch_max(length + 1, Ordering::Relaxed);
                }
                Some(_) => {}
                None => self.has_damage(block, Damage::NoBlock),
            }
            return;
        };
        let is_pythons = ptr::eq(arena, &self.arenas[PYTHONS]);
        // SAFETY: by contract.
        unsafe {
            if kept == Kept::Not
                && !is_pythons
                && blocks::is_whole(block, arena.used())
                && cache::turn_to(self)
            {
                kept = cache::keep(self, block);
            }
            match kept {
                Kept::Damaged => self.has_damage(block, Damage::FreedTwice),
                Kept::Not if !arena.free(block) => self.has_damage(block, Damage::Head),
                _ => {}
            }
        }
    }

    /// # Safety
    /// As for [`Heap::free`].
    unsafe fn free_large(&self, block: *mut c_void) -> Option<usize> {
        let _within = Within::process();
        // SAFETY: by contract.
        unsafe { self.large.free(block) }
    }

    /// Frees lists of blocks that a thread has kept since that turn, unless the heap was given back meanwhile, or its interpreter
    /// has crashed. The thread, which ends or turns to another heap, has freed them earlier and is not to blame for a damaged one: the
    /// blocks behind that stay, and the interpreter's next call finds a note.
    ///
    /// # Safety
    /// They were free blocks of this heap in that turn, with this mark, and are in no other list.
    unsafe fn put_back_all(
        &self,
        turn: u64,
        mark: usize,
        lists: impl IntoIterator<Item = *mut blocks::Left>,
    ) {
        let _within = Within::arenas(self);
        for mut left in lists {
            while !left.is_null() && self.turn() == turn {
                let lies_in = |arena: &&Arena| arena.used().contains(&left.addr());
                let arena = self.arena_of(left.cast()).filter(|_| self.owns(left.cast()));
                let arena = arena.filter(lies_in).unwrap_or(&self.arenas[1]);
                // A thread that gives the heap back takes the arena for that. One that does not get it leaves some blocks unused.
                let Some(mut taken) = arena.taken() else { break };
                // At least once.
                while self.turn() == turn {
                    // SAFETY: by contract, as far as the block is whole.
                    unsafe {
                        let is_whole =
                            blocks::is_whole(left.cast(), taken.used()) && (*left).mark == mark;
                        let next = if is_whole { (*left).next } else { ptr::null_mut() };
                        if !is_whole || !taken.free(left.cast()) {
                            self.damage.store(left.addr(), Ordering::Relaxed);
                        }
                        left = next;
                    }
                    if left.is_null() || !taken.used().contains(&left.addr()) {
                        break;
                    }
                }
            }
        }
    }

    /// The number of bytes of a block that its user may use.
    ///
    /// # Safety
    /// It is one of this heap.
    unsafe fn length_of(&self, block: *mut c_void) -> usize {
        match self.arena_of(block) {
            // SAFETY: by contract.
            Some(_) => unsafe { blocks::length_of(block) },
            None => {
                let _within = Within::process();
                self.large.length_of(block).unwrap_or(0)
            }
        }
    }

    /// A block with the bytes of `block`, which is freed; null, without a change, when out of memory.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    unsafe fn resize(&'static self, block: *mut c_void, size: usize) -> *mut c_void {
        if self.is_left.load(Ordering::Relaxed) {
            // SAFETY: by contract.
            return unsafe { self.moved_out(block, size) };
        }
        let within = Within::arenas(self);
        let (arena, mut user) = (self.arena_of(block), User::Libraries);
        let is_sound = |arena: &Arena| {
            // SAFETY: by contract; a whole block is as long as its head.
            unsafe { blocks::is_whole(block, arena.used()) && !cache::has(self, block) }
        };
        if !arena.is_none_or(is_sound) {
            self.has_damage(block, Damage::Head);
        }
        // SAFETY: by contract.
        let length = unsafe { self.length_of(block) };
        match arena {
            Some(arena) => {
                if ptr::eq(arena, &self.arenas[PYTHONS]) {
                    user = User::Python;
                }
                if size < LARGE
                    && let Some(mut taken) = arena.take()
                {
                    // SAFETY: by contract.
                    unsafe {
                        if !blocks::is_sound(block, arena.used()) {
                            self.has_damage(block, Damage::Head);
                        }
                        let resized = taken.resize(block, size.max(1));
                        if !resized.is_null() {
                            return resized;
                        }
                    }
                }
            }
            None if length == 0 => self.has_damage(block, Damage::NoBlock),
            None if size >= LARGE_AT_FIRST => {
                let _within = Within::process();
                // SAFETY: by contract.
                if let Some(resized) = unsafe { self.large.resize(block, size) } {
                    return resized;
                }
            }
            None => {}
        }
        drop(within);
        let new = self.allocate(user, size);
        if !new.is_null() {
            // The next block may begin right behind it, so that no more than its own bytes may be read.
            // SAFETY: both have so many bytes, and they are not the same.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), length.min(size));
                self.free(block);
            }
        }
        new
    }

    /// A block of the program's with the bytes of one of a heap that is left.
    ///
    /// # Safety
    /// It is one of this heap.
    unsafe fn moved_out(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: by contract.
        let is_whole = |arena: &Arena| unsafe { blocks::is_whole(block, arena.used()) };
        if !self.arena_of(block).is_none_or(is_whole) {
            return ptr::null_mut();
        }
        let new = functions::from_the_program(size, ALIGNMENT);
        if !new.is_null() {
            // SAFETY: both have so many bytes, and they are not the same.
            unsafe {
                let length = self.length_of(block).min(size);
                ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), length);
            }
        }
        new
    }
}

/// Makes bytes zero. Those that are zero are not written: a page that nobody has written takes no memory, also when it is
/// read. CPython has 384 KiB of tables from its start on that it hardly uses.
fn clear(bytes: &mut [u8]) {
    /// A page, or a part of one.
    const PART: usize = 4096;
    static ZEROS: [u8; PART] = [0; PART];
    for part in bytes.chunks_mut(PART) {
        if part.len() < PART || part != ZEROS {
            part.fill(0);
        }
    }
}

#[cfg(test)]
mod tests;
