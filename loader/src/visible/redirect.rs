//! Redirects calls that system objects make through their tables of slots to our functions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use goblin::elf::dynamic::{DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ};

use crate::arch::{self, Action};
use crate::error::{Error, Result, remedy};
use crate::image::relocations::Rela;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::memory::while_writable;
use crate::system::{SYSTEM, SystemId, SystemObject};

/// A replacement for a symbol's definitions in all code.
#[derive(Clone, Debug)]
pub(crate) struct Everywhere {
    pub symbol: String,
    pub address: usize,
}

/// Objects whose calls are redirected.
static REDIRECTED: Mutex<BTreeSet<SystemId>> = Mutex::new(Rank::Redirected, BTreeSet::new());

/// Redirects the calls that `definer` and the objects that it needs make to these functions. The C library is among them: its own
/// calls of malloc's functions go through its table, so that a program may replace these (glibc, sysdeps/generic/localplt.data).
pub(crate) fn everywhere(definer: &Arc<SystemObject>, functions: &[Everywhere]) -> Result<()> {
    if functions.is_empty() || REDIRECTED.lock().contains(&definer.id) {
        return Ok(());
    }
    let mut objects = SYSTEM.closure(definer).into_iter();
    objects.try_for_each(|object| match is_dynamic_linker(&object) {
        true => Ok(()),
        false => once(&object, functions),
    })
}

/// Whether an object is ld.so. It frees what it has taken itself, in the middle of its work on thread-local storage. In older glibcs, as 2.31, these calls go
/// through its table too, and a function that has such storage would call it again (`_dl_update_slotinfo` in elf/dl-tls.c).
fn is_dynamic_linker(object: &SystemObject) -> bool {
    // The name is the ABI's (psABI, 5.2.1, "Program Interpreter").
    object.soname.starts_with("ld-linux")
}

/// Redirects the calls that `object` makes to these functions, once. The object stays loaded from then on.
fn once(object: &SystemObject, functions: &[Everywhere]) -> Result<()> {
    if REDIRECTED.lock().contains(&object.id) || !SYSTEM.pin(object) {
        return Ok(());
    }
    // Two threads may do the same at once: each writes the same.
    redirect(object, |name| {
        let known = functions.iter().find(|known| known.symbol.as_bytes() == name);
        known.map(|known| known.address)
    })?;
    REDIRECTED.lock().insert(object.id);
    Ok(())
}

/// Writes an address into each slot of `object`'s procedure linkage table whose symbol `replacement` knows, and
/// returns the number of those slots. The object is never unloaded.
pub(crate) fn redirect(
    object: &SystemObject,
    replacement: impl Fn(&[u8]) -> Option<usize>,
) -> Result<usize> {
    let mut redirected = 0;
    for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
        let (Some(address), Some(size)) = (object.table(table), object.value(size)) else {
            continue;
        };
        // SAFETY: the table belongs to a loaded object that is never unloaded.
        let table = unsafe { std::slice::from_raw_parts(address as *const u8, size as usize) };
        for rela in Rela::all(table).filter(|rela| arch::action(rela.kind) == Some(Action::Slot)) {
            let name =
                object.symbols.symbol(rela.symbol).and_then(|symbol| object.symbols.name(&symbol));
            let Some(ours) = name.and_then(&replacement) else { continue };
            let slot = object.base + rela.offset as usize;
            write_slot(slot, ours).map_err(|error| {
                Error::Unsupported(format!(
                    "{}: its table cannot be written: {error}{}",
                    object.path.display(),
                    remedy(&error)
                ))
            })?;
            redirected += 1;
        }
    }
    Ok(redirected)
}

fn write_slot(slot: usize, value: usize) -> std::io::Result<()> {
    while_writable(slot, size_of::<usize>(), || {
        // SAFETY: the slot is an aligned word of the object's table, writable now, that only atomically
        // read jumps use.
        unsafe { &*(slot as *const AtomicUsize) }.store(value, Ordering::Release);
    })
}
