//! The heap of an interpreter's C++ objects: what its libraries take by `operator new`.
//!
//! malloc's heap is the process's. An interpreter that has ended leaves in it what Python objects own that CPython never
//! frees, and nobody can say whose a block is. So C++ code of replicas takes small blocks from a heap of its interpreter's
//! own: Doug Lea's malloc in one window of addresses, which is given back as a whole. libtorch's registrations alone are
//! 270,000 blocks, 60 MiB.
//!
//! Anybody may free a block ([`operators`]): it is recognised by its address. Blocks of other functions of the C library
//! are malloc's as ever, and so are large blocks, which storages of tensors are.
//!
//! Nobody waits for the heap. Who finds it taken gets a block from malloc, and leaves a free one to the next who has it. So
//! threads of one interpreter do not hold up each other, and a forked child goes on whatever other threads did.

mod cache;
mod operators;
mod window;

pub(crate) use operators::{functions, references};

use dlmalloc::Dlmalloc;
use hydrozoa_loader::Leaf;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use window::Window;

/// Larger blocks are malloc's: from this size on it gives a block a mapping of its own (`DEFAULT_MMAP_THRESHOLD`).
const LARGEST: usize = 128 << 10;

/// So large are the blocks at most that a library keeps for good. MKL's buffer of a thread has 70 KiB or 805 KiB, as the
/// processor is.
const LARGEST_KEPT: usize = 16 << 20;

/// A heap. It is never freed: the next interpreter gets it.
#[derive(Debug)]
pub(crate) struct Heap {
    window: &'static Window,
    taken: AtomicBool,
    blocks: Blocks,
    /// Blocks that were freed while the heap was taken, linked by their first words.
    left: AtomicPtr<Left>,
    /// The number of interpreters that have given it back.
    turn: AtomicU64,
}

/// How often, and after which time, a thread tries to take the heap if it must: a tenth of a second.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

struct Left {
    next: *mut Left,
}

struct Blocks(UnsafeCell<Dlmalloc<&'static Window>>);

impl std::fmt::Debug for Blocks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Blocks")
    }
}

// SAFETY: the blocks are used only by who has taken the heap.
unsafe impl Sync for Heap {}

/// Heaps that no interpreter has.
static SPARE: Leaf<Vec<&'static Heap>> = Leaf::new(Vec::new());

/// A heap that was taken. Nothing changes in it by its allocator until this is dropped.
pub(crate) struct Still<'a>(&'a Heap);

impl Still<'_> {
    /// The addresses that are in use.
    pub(crate) fn used(&self) -> Range<usize> {
        self.0.used()
    }

    fn blocks(&mut self) -> &mut Dlmalloc<&'static Window> {
        // SAFETY: nobody else has taken the heap.
        unsafe { &mut *self.0.blocks.0.get() }
    }

    /// Frees a list of blocks.
    ///
    /// # Safety
    /// They are free blocks of this heap, which are in no other list.
    unsafe fn free_all(&mut self, mut left: *mut Left) {
        while !left.is_null() {
            // SAFETY: by contract.
            unsafe {
                let next = (*left).next;
                self.blocks().c_free(left.cast());
                left = next;
            }
        }
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

impl Heap {
    /// Whether interpreters have heaps. In a program with `panic = "abort"` they have none: no C++ exception passes through
    /// our functions there, std::bad_alloc included.
    const CAN_BE: bool = cfg!(panic = "unwind");

    /// An empty heap; `None` where there can be none, or where there are no addresses for it.
    pub(crate) fn of_an_interpreter() -> Option<&'static Self> {
        if !Self::CAN_BE {
            return None;
        }
        SPARE.with(Vec::pop).or_else(|| {
            let window = Window::reserve()?;
            let heap: &'static Self = Box::leak(Box::new(Self {
                window,
                taken: AtomicBool::new(false),
                blocks: Blocks(UnsafeCell::new(Dlmalloc::new_with_allocator(window))),
                left: AtomicPtr::new(ptr::null_mut()),
                turn: AtomicU64::new(0),
            }));
            window.note(heap);
            Some(heap)
        })
    }

    /// The heap of the block at `address`, if it is one of a heap.
    fn of(address: *mut c_void) -> Option<&'static Self> {
        Window::owner(address.addr())
    }

    /// The addresses that are in use.
    pub(crate) fn used(&self) -> Range<usize> {
        self.window.used()
    }

    /// Leaves the empty heap to the next interpreter.
    ///
    /// # Safety
    /// No code of the interpreter runs, and nobody uses its blocks. Threads may give back free ones.
    pub(crate) unsafe fn give_back(&'static self) {
        // A forked child may not get it. Then it keeps what it has.
        let Some(mut still) = self.taken() else { return };
        self.turn.fetch_add(1, Ordering::Relaxed);
        // What the old value refers to lies in the window.
        *still.blocks() = Dlmalloc::new_with_allocator(self.window);
        self.left.store(ptr::null_mut(), Ordering::Relaxed);
        self.window.empty();
        drop(still);
        SPARE.with(|spare| spare.push(self));
    }

    /// Takes the heap as it is, with nothing free at its end; `None` if somebody has it. Until the result is dropped others take
    /// blocks from malloc, and leave free ones.
    pub(crate) fn still(&self) -> Option<Still<'_>> {
        let mut still = self.take()?;
        // SAFETY: no precondition.
        unsafe { still.blocks().trim(0) };
        Some(still)
    }

    /// Takes the heap, unless somebody has it.
    fn take(&self) -> Option<Still<'_>> {
        (!self.taken.swap(true, Ordering::Acquire)).then(|| Still(self))
    }

    /// Takes the heap when nobody has it any more; `None` if that takes too long. In a forked child it may be for ever.
    fn taken(&self) -> Option<Still<'_>> {
        (0..TRIES).find_map(|attempt| {
            match attempt {
                0 => {}
                1..100 => thread::yield_now(),
                _ => thread::sleep(PAUSE),
            }
            self.take()
        })
    }

    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Does something with the blocks, unless somebody else does.
    fn with<T>(&self, action: impl FnOnce(&mut Dlmalloc<&'static Window>) -> T) -> Option<T> {
        let mut still = self.take()?;
        if !self.left.load(Ordering::Relaxed).is_null() {
            // SAFETY: blocks of this heap that others have freed.
            unsafe { still.free_all(self.left.swap(ptr::null_mut(), Ordering::Acquire)) };
        }
        Some(action(still.blocks()))
    }

    /// Frees lists of blocks that a thread has kept since that turn, unless the heap was given back meanwhile.
    ///
    /// # Safety
    /// They were free blocks of this heap in that turn, and are in no other list.
    unsafe fn put_back_all(&self, turn: u64, lists: impl IntoIterator<Item = *mut Left>) {
        // Who does not get it leaves some blocks unused.
        let Some(mut still) = self.taken() else { return };
        if self.turn() == turn {
            for list in lists {
                // SAFETY: by contract. Whoever gives the heap back takes it for that.
                unsafe { still.free_all(list) };
            }
        }
    }

    /// A block of at least `size` bytes, aligned for every type (`__STDCPP_DEFAULT_NEW_ALIGNMENT__`); null if malloc shall
    /// give it.
    pub(crate) fn allocate(&'static self, size: usize) -> *mut c_void {
        self.allocate_up_to(LARGEST, size)
    }

    /// A block that this thread has freed.
    #[inline]
    fn kept(&'static self, size: usize) -> Option<*mut c_void> {
        cache::take(self, size)
    }

    /// As [`Heap::allocate`], and malloc gives blocks of more than `largest` bytes.
    fn allocate_up_to(&'static self, largest: usize, size: usize) -> *mut c_void {
        self.kept(size).unwrap_or_else(|| self.new_block(largest, size))
    }

    /// A block that no thread has kept.
    fn new_block(&self, largest: usize, size: usize) -> *mut c_void {
        if size > largest {
            return ptr::null_mut();
        }
        // SAFETY: no precondition.
        let block = self.with(|blocks| unsafe { blocks.c_malloc(size.max(1)) });
        block.map_or(ptr::null_mut(), |block| block.cast())
    }

    /// Frees a block.
    ///
    /// # Safety
    /// It is one of this heap, and nobody uses it from now on.
    #[inline]
    unsafe fn free(&'static self, block: *mut c_void) {
        // SAFETY: by contract.
        if !unsafe { cache::keep(self, block) } {
            // SAFETY: by contract.
            unsafe { self.put_back(block) };
        }
    }

    /// Frees a block that the thread does not keep as a matter of course.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    #[inline(never)]
    unsafe fn put_back(&'static self, block: *mut c_void) {
        // SAFETY: by contract.
        if cache::turn_to(self) && unsafe { cache::keep(self, block) } {
            return;
        }
        // SAFETY: by contract.
        if self.with(|blocks| unsafe { blocks.c_free(block.cast()) }).is_some() {
            return;
        }
        let left: *mut Left = block.cast();
        let mut next = self.left.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is free, aligned, and at least as long as its head.
            unsafe { (*left).next = next };
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.left.compare_exchange_weak(next, left, order.0, order.1) {
                Ok(_) => return,
                Err(other) => next = other,
            }
        }
    }

    /// A block of malloc's with the bytes of `block`, which is freed; null, without a change, where there is no memory.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    unsafe fn moved(&'static self, block: *mut c_void, size: usize) -> *mut c_void {
        // The next block may begin right behind it, so that no more than its own bytes may be read.
        // SAFETY: by contract; the function reads the block's head.
        let length = unsafe { window::length_of(block) };
        // SAFETY: no precondition.
        let new = unsafe { libc::malloc(size) };
        if !new.is_null() {
            // SAFETY: both have so many bytes, and they are not the same.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), length.min(size));
                self.free(block);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests;
