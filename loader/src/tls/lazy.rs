//! Blocks that a thread gets at its first access.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::{ARENA, OURS, TlsIndex, arena};
use crate::image::Tls;
use crate::sys::lock::{Mutex, Once, Rank};
use crate::sys::thread;

/// A module's template. It stays while a thread may hold a block, also after the module was unloaded.
#[derive(Clone, Copy)]
struct Template {
    address: usize,
    file_size: usize,
    memory_size: usize,
    alignment: usize,
    /// p_vaddr modulo the alignment: what the block's address is congruent to.
    skew: usize,
    /// Where a thread keeps the address of its block: a word of the arena.
    slot: Option<isize>,
}

impl Template {
    fn layout(&self) -> Layout {
        Layout::from_size_align(self.memory_size + self.skew, self.alignment.max(16))
            .expect("sizes and alignments are validated with the image")
    }

    /// Gives a block its initial bytes.
    ///
    /// # Safety
    /// The block has the template's size, and nobody else uses it. The template's file part is mapped.
    unsafe fn write_to(&self, block: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(self.address as *const u8, block, self.file_size);
            ptr::write_bytes(block.add(self.file_size), 0, self.memory_size - self.file_size);
        }
    }
}

struct Module {
    template: Template,
    /// Whether threads may have blocks of it.
    touched: AtomicBool,
    /// The threads' blocks.
    blocks: Vec<Allocated>,
}

/// A thread's block. Only that thread uses it, except in [`renew`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct Allocated(*mut u8);

// SAFETY: an address. The contract of `renew` says when another thread may write there.
unsafe impl Send for Allocated {}

struct Modules {
    /// By index.
    all: Vec<Module>,
    /// Indices free for other modules.
    free: Vec<usize>,
}

static MODULES: Mutex<Modules> =
    Mutex::new(Rank::Modules, Modules { all: Vec::new(), free: Vec::new() });
/// The key whose destructor frees a thread's blocks. (Two threads may make one at once: the other stays unused.)
static KEY: Once<libc::pthread_key_t> = Once::new();

/// Registers a module.
pub(super) fn register(tls: Tls, template: usize, slot: Option<isize>) -> io::Result<Registration> {
    KEY.get_or_try_init(|| thread::key(release_blocks))?;
    let template = Template {
        address: template,
        file_size: tls.file_size,
        memory_size: tls.memory_size,
        alignment: tls.alignment,
        skew: tls.address % tls.alignment,
        slot,
    };
    let module = Module { template, touched: AtomicBool::new(false), blocks: Vec::new() };
    let Modules { all, free } = &mut *MODULES.lock();
    let index = free.pop().unwrap_or(all.len());
    match all.get_mut(index) {
        Some(place) => *place = module,
        None => all.push(module),
    }
    Ok(Registration { index: index as u32 })
}

/// A registered module. After this is dropped nobody asks for its blocks any more. Existing blocks end
/// with their threads. Another module may get its word of the arena, and its index if no thread has
/// a block.
#[derive(Debug)]
pub(super) struct Registration {
    pub index: u32,
}

impl Registration {
    /// Bytes of the threads' blocks.
    pub(super) fn allocated(&self) -> usize {
        let module = &MODULES.lock().all[self.index as usize];
        module.blocks.len() * module.template.layout().size()
    }

    /// Gives all threads' blocks their initial bytes again, for the next replica to use them.
    ///
    /// # Safety
    /// No thread runs the module's code, and the template is mapped and relocated.
    pub(super) unsafe fn renew(&self) {
        // A thread that ends frees its block under this lock.
        let module = &MODULES.lock().all[self.index as usize];
        for block in &module.blocks {
            // SAFETY: the block is allocated as long as it is listed. Nobody uses it, by contract.
            unsafe { module.template.write_to(block.0) };
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Modules { all, free } = &mut *MODULES.lock();
        let module = &mut all[self.index as usize];
        module.template.slot = None;
        if !*module.touched.get_mut() {
            free.push(self.index as usize);
        }
    }
}

/// The blocks of one thread.
struct Blocks {
    /// By module index; null before the first. Only this thread changes what it points to.
    table: AtomicPtr<Table>,
    /// The number of times that the key's destructor has run for this thread.
    rounds: Cell<u32>,
}

type Table = Vec<AtomicPtr<u8>>;

thread_local! {
    // Never dropped by Rust, whose thread-local destructors run before the key's.
    static BLOCKS: Blocks =
        const { Blocks { table: AtomicPtr::new(ptr::null_mut()), rounds: Cell::new(0) } };
}

/// The calling thread's table.
fn table() -> &'static [AtomicPtr<u8>] {
    // SAFETY: a table is freed by its thread alone: when it has another one, or ends.
    let table = unsafe { BLOCKS.with(|blocks| blocks.table.load(Ordering::Acquire)).as_ref() };
    table.map_or(&[], Vec::as_slice)
}

/// The calling thread's table, long enough for module `index`.
///
/// A signal handler may use blocks of the thread at any point of this function. So the old table stays in
/// use until the new one is whole.
fn table_for(index: usize) -> &'static [AtomicPtr<u8>] {
    let old = table();
    if index < old.len() {
        return old;
    }
    let place = |index: usize| {
        AtomicPtr::new(
            old.get(index).map_or(ptr::null_mut(), |place| place.load(Ordering::Relaxed)),
        )
    };
    let longer: Table = (0..(index + 1).max(2 * old.len())).map(place).collect();
    let (address, length) = (longer.as_ptr() as usize, longer.len());
    let longer = Box::into_raw(Box::new(longer));
    let old = BLOCKS.with(|blocks| blocks.table.swap(longer, Ordering::AcqRel));
    arena::set_table(address, length);
    if !old.is_null() {
        // SAFETY: made by `into_raw` here, and no longer used.
        drop(unsafe { Box::from_raw(old) });
    }
    table()
}

/// The part of `__tls_get_addr` for blocks that the thread may not have yet.
///
/// # Safety
/// `index` must hold words that [`super::Block`] made for a block that is not the system's.
pub(crate) unsafe extern "C" fn lazy_block_address(index: *const TlsIndex) -> *mut c_void {
    // SAFETY: the caller's promise.
    let TlsIndex { module, offset } = unsafe { index.read() };
    if module == ARENA {
        return arena::word(offset as isize).cast();
    }
    let module = if module as i64 > 0 {
        // Block::module_word of a block without a slot, or Block::public_id of one in the arena.
        let value = (module & !OURS) >> 1;
        if module & 1 == 0 {
            let start = isize::try_from(value as i32).expect("it has at least 32 bits");
            return arena::word(start).wrapping_byte_add(offset as usize).cast();
        }
        value as usize
    } else {
        // Once per thread and module.
        let slot = Some(module as isize);
        let has_it = |module: &Module| module.template.slot == slot;
        MODULES.lock().all.iter().rposition(has_it).expect("a slot has a module")
    };
    let known = table().get(module).map(|block| block.load(Ordering::Relaxed));
    let block = known.filter(|block| !block.is_null()).unwrap_or_else(|| first_access(module));
    block.wrapping_add(offset as usize).cast()
}

/// The address of the thread's block of module `index`, if it has one.
pub(super) fn existing(index: u32) -> Option<usize> {
    let block = table().get(index as usize)?.load(Ordering::Relaxed);
    (!block.is_null()).then_some(block as usize)
}

/// Gives the thread its block. Out of line: it runs once per thread and module.
#[cold]
fn first_access(module: usize) -> *mut u8 {
    let template = {
        let module = &MODULES.lock().all[module];
        module.touched.store(true, Ordering::Relaxed);
        module.template
    };
    let layout = template.layout();
    // SAFETY: the layout's size is greater than zero, since a PT_TLS with p_memsz 0 counts as none.
    let allocation = unsafe { alloc(layout) };
    if allocation.is_null() {
        handle_alloc_error(layout);
    }
    let block = allocation.wrapping_add(template.skew);
    // SAFETY: the allocation holds skew + memory_size bytes; the template's file part is mapped
    // for as long as the module is loaded, and code that runs here belongs to it.
    unsafe { template.write_to(block) };
    MODULES.lock().all[module].blocks.push(Allocated(block));
    table_for(module)[module].store(block, Ordering::Release);
    if let Some(slot) = template.slot {
        // SAFETY: the slot is this module's, in this thread.
        unsafe { arena::word(slot).write_volatile(block as usize) };
    }
    BLOCKS.with(|blocks| blocks.rounds.set(0));
    if let Some(&key) = KEY.get() {
        thread::set(key, ptr::without_provenance_mut(1));
    }
    block
}

/// glibc runs key destructors PTHREAD_DESTRUCTOR_ITERATIONS (4) times while keys are set again. Other
/// keys' destructors may still use these blocks, so the last round frees them.
const LAST_ROUND: u32 = 3;

extern "C" fn release_blocks(_value: *mut c_void) {
    // At the thread's exit, after C++ destructors (glibc runs those before the keys').
    let round = BLOCKS.with(|blocks| blocks.rounds.get()) + 1;
    BLOCKS.with(|blocks| blocks.rounds.set(round));
    if round < LAST_ROUND {
        if let Some(&key) = KEY.get() {
            thread::set(key, ptr::without_provenance_mut(1));
        }
        return;
    }
    arena::set_table(0, 0);
    let table = BLOCKS.with(|blocks| blocks.table.swap(ptr::null_mut(), Ordering::AcqRel));
    if table.is_null() {
        return;
    }
    // SAFETY: made by `into_raw` in `table_for`, and no longer used.
    let table = unsafe { Box::from_raw(table) };
    let mut modules = MODULES.lock();
    for (block, module) in table.into_iter().zip(&mut modules.all) {
        let block = block.into_inner();
        if !block.is_null() {
            let template = module.template;
            if let Some(place) = module.blocks.iter().position(|other| other.0 == block) {
                module.blocks.swap_remove(place);
            }
            if let Some(slot) = template.slot {
                // SAFETY: the slot is this module's, in this thread.
                unsafe { arena::word(slot).write_volatile(0) };
            }
            // SAFETY: allocated in `first_access` with this template's layout.
            unsafe { dealloc(block.sub(template.skew), template.layout()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_given_out_again_if_no_thread_has_a_block() {
        let tls = Tls { address: 0, memory_size: 8, file_size: 0, alignment: 8 };
        let index = || register(tls, 0, None).unwrap().index;
        let first = index();
        assert_eq!(index(), first);
        let used = register(tls, 0, None).unwrap();
        let block = super::super::Block::Lazy { index: used.index, slot: None };
        assert_ne!(block.address(0), 0);
        drop(used);
        assert_ne!(index(), first);
    }
}
