//! Thread-local storage of replicas.
//!
//! Each replica with a PT_TLS gets a block per thread, placed when it is loaded:
//!
//! - in the **arena**, a part of the static TLS of the object that holds this crate, at the same
//!   offset from the thread pointer in every thread: small blocks that begin as zeroes, and every
//!   block that initial-exec code reaches;
//! - **lazily**: allocated in each thread at its first access, freed after the thread's C++
//!   destructors have run.
//!
//! A reference to the TLS of a system object keeps glibc's own module id. Relocation knows which kinds an
//! object's code asks for, and binds its references to `__tls_get_addr` to the shortest form that serves
//! these kinds ([`crate::arch::tls_get_addr_for`]).

mod arena;
mod lazy;
pub(crate) mod specific;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::image::Tls;
use crate::sys;
use crate::sys::broadcast::First;
use crate::sys::lock::{Mutex, Rank};
use arena::{Extent, Shape};
use lazy::Registration;

pub(crate) use arena::{Pattern, TABLE_OFFSET};
pub(crate) use lazy::lazy_block_address;

/// The two words that general-dynamic code passes to `__tls_get_addr` (psABI, `tls_index`).
#[repr(C)]
pub(crate) struct TlsIndex {
    pub module: u64,
    pub offset: u64,
}

/// Marks a module word that [`lazy_block_address`] takes apart; glibc's ids are small numbers.
const OURS: u64 = 1 << 62;

/// The module word of all blocks in the arena. On x86-64 it is the place, relative to the thread
/// pointer, where every thread has the thread pointer's own value: see [`Block::module_word`].
pub(crate) const ARENA: u64 = 0;

/// The place of one module's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A system object's module id.
    System { module: u64 },
    /// Offset of the block's start from the thread pointer.
    Arena { offset: isize },
    /// Index of a lazily allocated block, and the offset from the thread pointer of the place where
    /// each thread keeps the address of its own, if there is such a place.
    Lazy { index: u32, slot: Option<isize> },
}

impl Block {
    /// The module word of a `tls_index` that points into this block. If not positive, it is the
    /// place, relative to the thread pointer, of the address to which the offset word is added: that
    /// of the thread's block, or the thread pointer itself.
    pub(crate) fn module_word(self) -> u64 {
        match self {
            Block::System { module } => module,
            Block::Arena { .. } => ARENA,
            Block::Lazy { slot: Some(slot), .. } => slot as u64,
            Block::Lazy { index, slot: None } => OURS | u64::from(index) << 1 | 1,
        }
    }

    /// The offset word for `offset` bytes into the block.
    pub(crate) fn offset_word(self, offset: u64) -> u64 {
        match self {
            Block::Arena { offset: start } => (start as u64).wrapping_add(offset),
            Block::System { .. } | Block::Lazy { .. } => offset,
        }
    }

    /// The module's id for programs (`dl_iterate_phdr`, `dlinfo`). It is never 0, which means an object without
    /// TLS. It serves as a module word for the block's start.
    pub(crate) fn public_id(self) -> u64 {
        match self {
            Block::Arena { offset } => OURS | u64::from(offset as u32) << 1,
            Block::System { .. } | Block::Lazy { .. } => self.module_word(),
        }
    }

    /// The offset from the thread pointer of `offset` bytes into the block, if it is known to be the
    /// same in all threads; else the reason.
    pub(crate) fn thread_pointer_offset(self, offset: u64) -> Result<u64, String> {
        let start = match self {
            Block::Arena { offset } => Some(offset),
            Block::System { module } => system_offset(module).map_err(|error| {
                format!("no thread can be made, to see where the data that it names is in another one: {error}")
            })?,
            Block::Lazy { .. } => None,
        };
        let start = start
            .ok_or("the thread-local data that it names is not at one offset in all threads")?;
        Ok((start as u64).wrapping_add(offset))
    }

    /// The argument of a TLS descriptor whose resolver asks for the block:
    /// [`arch::dynamic_descriptor_resolver`]. Bit 63: ours; then 31 bits of module, 32 of offset.
    pub(crate) fn descriptor_argument(self, offset: u64) -> Option<u64> {
        let (ours, module) = match self {
            Block::System { module } => (0, module),
            Block::Lazy { index, .. } => (DESCRIBES_OURS, u64::from(index)),
            Block::Arena { .. } => return None,
        };
        (module < 1 << 31 && offset < 1 << 32).then_some(ours | module << 32 | offset)
    }

    /// The address of the calling thread's block, unless the thread has yet to allocate it.
    pub(crate) fn existing_address(self) -> Option<usize> {
        match self {
            Block::Arena { .. } => Some(self.address(0)),
            Block::Lazy { index, .. } => lazy::existing(index),
            Block::System { .. } => None,
        }
    }

    /// The address of `offset` bytes into the calling thread's block.
    pub(crate) fn address(self, offset: u64) -> usize {
        let index = TlsIndex { module: self.module_word(), offset: self.offset_word(offset) };
        // SAFETY: the index names a block that was placed for a loaded module.
        unsafe { crate::arch::tls_get_addr(&index) as usize }
    }
}

/// A module's blocks while the module is loaded.
#[derive(Debug)]
pub(crate) struct Placed {
    pub block: Block,
    // Dropped in this order: a word of the arena is given back when nobody writes it any more.
    registration: Option<Registration>,
    extent: Option<Extent>,
    /// Whether an earlier replica used the blocks.
    recycled: bool,
}

impl Placed {
    /// A block treated as placed.
    pub(crate) fn assumed(block: Block) -> Placed {
        Placed { block, registration: None, extent: None, recycled: false }
    }

    /// The same blocks for the next replica of the module; none if `needs_static` says that its code wants them
    /// elsewhere. The threads' bytes are those of the last replica until [`initialise`].
    pub(crate) fn recycle(self, needs_static: bool) -> Option<Placed> {
        let serves = !needs_static || matches!(self.block, Block::Arena { .. });
        serves.then_some(Placed { recycled: true, ..self })
    }

    /// Bytes of the blocks that threads have allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.registration.as_ref().map_or(0, Registration::allocated)
    }

    /// Notes that the module's code may run from now on.
    pub(crate) fn touch(&self) {
        self.extent.iter().for_each(Extent::touch);
    }
}

/// Blocks of at most this many bytes, if they begin as zeroes, are worth a place in the arena.
const SMALL: usize = 256;

/// Places the blocks of a module whose template lies at `template` (the relocated segment).
///
/// `needs_static` says that code reaches it by an offset from the thread pointer.
pub(crate) fn place(
    object: &Path,
    tls: Tls,
    template: usize,
    needs_static: bool,
) -> Result<Placed> {
    let shape = Shape { size: tls.memory_size, alignment: tls.alignment, skew: tls.address };
    let in_arena = |extent: Extent| {
        let block = Block::Arena { offset: extent.offset };
        Placed { block, registration: None, extent: Some(extent), recycled: false }
    };
    if needs_static {
        return arena::allocate(shape)
            .map(in_arena)
            .map_err(|reason| Error::Tls { object: object.to_owned(), reason });
    }
    if tls.file_size == 0
        && tls.memory_size <= SMALL
        && let Some(extent) = arena::allocate_spare(shape)
    {
        return Ok(in_arena(extent));
    }
    // A positive module word is not a place (see Block::module_word). Static TLS lies before the thread
    // pointer on x86-64, and behind it on AArch64, where blocks are found without slots.
    let extent = arena::allocate_spare(Shape::WORD).filter(|extent| extent.offset < 0);
    let slot = extent.as_ref().map(|extent| extent.offset);
    let registration = lazy::register(tls, template, slot).map_err(|source| Error::Io {
        object: object.to_owned(),
        action: "create a thread key for",
        source,
    })?;
    let block = Block::Lazy { index: registration.index, slot };
    Ok(Placed { block, registration: Some(registration), extent, recycled: false })
}

/// Gives a placed block its initial bytes in every thread, now that the template is relocated.
/// (Lazy blocks copy theirs when a thread first asks.)
pub(crate) fn initialise(object: &Path, placed: &Placed, tls: Tls, template: usize) -> Result<()> {
    let failed = |reason| Error::Tls { object: object.to_owned(), reason };
    if let (true, Some(registration)) = (placed.recycled, &placed.registration) {
        // SAFETY: the replica before this one has ended, and no code of this one has run.
        unsafe { registration.renew() };
    }
    let Block::Arena { offset } = placed.block else { return Ok(()) };
    let initialised = tls.file_size;
    if placed.recycled && tls.memory_size > initialised {
        arena::clear(offset + initialised as isize, tls.memory_size - initialised)
            .map_err(failed)?;
    }
    if initialised == 0 {
        return Ok(());
    }
    placed.touch();
    // SAFETY: PT_TLS lies in a segment of the image (validated), which is mapped here.
    let image = unsafe { std::slice::from_raw_parts(template as *const u8, initialised) };
    let first = if placed.recycled { First::Outside } else { First::Signal };
    arena::initialise(offset, image, first).map_err(failed)
}

/// Offsets of the system modules that were asked for.
static KNOWN: Mutex<BTreeMap<u64, Option<isize>>> =
    Mutex::new(Rank::ThreadOffsets, BTreeMap::new());

/// Offset from the thread pointer of a system module's block, if it is the same in all threads:
/// the module is in glibc's static TLS then.
fn system_offset(module: u64) -> io::Result<Option<isize>> {
    if let Some(&known) = KNOWN.lock().get(&module) {
        return Ok(known);
    }
    let offset = move || {
        let block = Block::System { module }.address(0);
        block.wrapping_sub(crate::arch::thread_pointer()) as isize
    };
    // glibc allocates the blocks of other modules on the heap, never at equal distances.
    let here = offset();
    let known = (sys::thread::elsewhere(offset)? == here).then_some(here);
    KNOWN.lock().insert(module, known);
    Ok(known)
}

/// The mark of a descriptor's argument whose module is one of ours.
const DESCRIBES_OURS: u64 = 1 << 63;

/// The address in the calling thread that a descriptor's argument
/// ([`Block::descriptor_argument`]) stands for.
pub(crate) extern "C" fn descriptor_address(argument: u64) -> usize {
    let module = (argument & !DESCRIBES_OURS) >> 32;
    let block = if argument & DESCRIBES_OURS != 0 {
        Block::Lazy { index: module as u32, slot: None }
    } else {
        Block::System { module }
    };
    block.address(argument & 0xffff_ffff)
}
