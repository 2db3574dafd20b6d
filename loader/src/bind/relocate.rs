//! Relocation: applies the part of a plan that mapping has not written (see [`crate::bind::prepared`]).
//!
//! Only pages that hold a relocation are written (see [`crate::image::Targets`]); mapping has made
//! them private before. If the linker left a part of a word in its place, that part is read from the file: the place
//! may still hold an ended replica's word.

use std::ptr;

use crate::arch::{self, Action};
use crate::bind::binding::{Binding, call_resolver};
use crate::bind::plan::Plan;
use crate::bind::prepared::Prepared;
use crate::error::{Error, Result};
use crate::image::ImageId;
use crate::image::relocations::{Rela, relr_addresses};
use crate::replica::Replica;
use crate::replica::map;
use crate::tls::Block;

/// The definitions of one domain that a plan's bindings refer to.
pub(crate) struct Definitions<'a> {
    /// The domain's replicas of [`Plan::images`].
    pub replicas: Vec<&'a Replica>,
    /// The addresses of the interposition table.
    pub interpositions: &'a [usize],
    /// Which of them is the loader's own `__tls_get_addr`.
    pub tls_get_addr: Option<u32>,
}

impl Definitions<'_> {
    fn replica(&self, image: ImageId) -> Result<&Replica, String> {
        // Most plans have definitions in a handful of images.
        let mut replicas = self.replicas.iter().copied();
        let found = replicas.find(|replica| replica.image.id == image);
        found.ok_or_else(|| "its definition is in an image that the domain lost".into())
    }
}

/// A relocation whose value a resolver computes, to be applied after all others.
pub(crate) struct Deferred {
    target: usize,
    resolver: usize,
    addend: i64,
}

/// Applies all relocations except those of indirect functions, and returns these. Their resolvers may run
/// only when all objects that they call into are relocated (gABI extension; glibc defers in the same way
/// within one object).
pub(crate) fn relocate(
    replica: &Replica,
    plan: &Plan,
    definitions: &Definitions<'_>,
) -> Result<Vec<Deferred>> {
    let mut relocator = Relocator { replica, plan, definitions, tls_get_addr: 0 };
    // Checks all targets, once for an image.
    replica.image.targets()?;
    relocator.tls_get_addr = relocator.shortest_tls_get_addr();
    let bias = replica.bias;
    let Prepared { relative, others, .. } = &plan.prepared;
    let left = if *relative { replica.image.dynamic.relative } else { &[] };
    for address in relr_addresses(left) {
        // SAFETY: `targets` has checked that this is a writable word of the image.
        unsafe { write_word(relocator.target(address), replica.image.initial_word(address)) };
    }
    // The bias is added as often as the table names a word.
    for address in relr_addresses(left) {
        let target = relocator.target(address) as *mut usize;
        // SAFETY: as above.
        unsafe { ptr::write_unaligned(target, ptr::read_unaligned(target).wrapping_add(bias)) };
    }
    let mut deferred = Vec::new();
    for &index in others {
        let index = index as usize;
        let rela = replica.image.dynamic.rela_at(index).expect("the plan is this image's");
        relocator
            .apply(rela, &mut deferred)
            .map_err(|reason| Error::relocation(&replica.image.path, index, &rela, reason))?;
    }
    Ok(deferred)
}

/// Calls the resolvers that [`relocate`] left for `replica`.
pub(crate) fn apply_deferred(replica: &Replica, deferred: &[Deferred]) -> Result<()> {
    for entry in deferred {
        let value = call_resolver(entry.resolver).wrapping_add(entry.addend as usize);
        map::while_written(replica, entry.target, size_of::<u64>(), || {
            // SAFETY: the target was checked when the entry was made, and RELRO is not yet protected.
            unsafe { write_word(entry.target, value as u64) };
        })?;
    }
    Ok(())
}

struct Relocator<'a> {
    replica: &'a Replica,
    plan: &'a Plan,
    definitions: &'a Definitions<'a>,
    /// The function to which its references to the loader's own `__tls_get_addr` are bound.
    tls_get_addr: usize,
}

impl Relocator<'_> {
    /// The form of the loader's `__tls_get_addr` for the module words that the replica's code passes.
    fn shortest_tls_get_addr(&self) -> usize {
        if self.plan.learns_module_ids {
            return arch::tls_get_addr as *const () as usize;
        }
        let modules = self.plan.prepared.modules.iter().filter_map(|&index| {
            let rela = self.replica.image.dynamic.rela_at(index as usize)?;
            // The words of an undefined weak symbol are never passed, and an error stops the load.
            let (block, _) = self.tls_block(Action::TlsModule, rela.symbol).ok()??;
            Some(block.module_word())
        });
        arch::tls_get_addr_for(modules)
    }

    /// The block that a relocation of thread-local data names, and the offset in it; none for an
    /// undefined weak symbol.
    fn tls_block(&self, action: Action, symbol: u32) -> Result<Option<(Block, u64)>, String> {
        let own = || Ok(Some((self.replica.tls_block().ok_or("its object has no PT_TLS")?, 0)));
        if symbol == 0 {
            return own();
        }
        let symbols = &self.replica.image.symbols;
        let is_local = || symbols.symbol(symbol).is_some_and(|symbol| symbol.is_local());
        match self.plan.binding(symbol) {
            Binding::Image { image, symbol } if symbol.is_tls() => {
                let block = self.definitions.replica(image)?.tls_block();
                let block =
                    block.ok_or("it names a thread-local symbol of an object without PT_TLS")?;
                Ok(Some((block, symbol.value)))
            }
            Binding::FixedTls { block, offset } => Ok(Some((block, offset))),
            Binding::Absent => Ok(None),
            // For a local symbol gold names its section. Local symbols belong to the object's own module
            // (glibc, elf/dl-reloc.c, RESOLVE_MAP).
            _ if action == Action::TlsModule && is_local() => own(),
            _ => Err("it names no thread-local symbol".into()),
        }
    }

    fn apply(&self, rela: Rela, deferred: &mut Vec<Deferred>) -> Result<(), String> {
        let Some(action) = arch::action(rela.kind) else { return Ok(()) };
        let target = self.target(rela.offset);
        let addend = rela.addend as u64;
        let bias = self.replica.bias as u64;
        let word = match action {
            Action::None => return Ok(()),
            Action::Relative => bias.wrapping_add(addend),
            Action::IndirectRelative => {
                deferred.push(Deferred {
                    target,
                    resolver: bias.wrapping_add(addend) as usize,
                    addend: 0,
                });
                return Ok(());
            }
            Action::TlsModule
            | Action::TlsOffset
            | Action::ThreadPointerOffset
            | Action::TlsDescriptor => {
                return self.apply_tls(action, rela, target);
            }
            Action::Copy => return Err("copy relocations belong in executables".into()),
            Action::Size32 | Action::Size64 => {
                self.plan.binding(rela.symbol).size()?.wrapping_add(addend)
            }
            Action::Absolute
            | Action::Slot
            | Action::Absolute32
            | Action::Relative32
            | Action::Relative64 => {
                let counts = action != Action::Slot || arch::SLOT_HAS_ADDEND;
                let addend = if counts { addend } else { 0 };
                let binding = self.plan.binding(rela.symbol);
                let address = self.address(binding)?;
                if binding.is_indirect_function() {
                    if !matches!(action, Action::Absolute | Action::Slot) {
                        return Err("it names an indirect function".into());
                    }
                    deferred.push(Deferred { target, resolver: address, addend: addend as i64 });
                    return Ok(());
                }
                let symbol = address as u64;
                match action {
                    Action::Relative32 | Action::Relative64 => {
                        symbol.wrapping_add(addend).wrapping_sub(target as u64)
                    }
                    _ => symbol.wrapping_add(addend),
                }
            }
        };
        if action.size() == 4 {
            let fits = match action {
                Action::Relative32 => word as i64 == i64::from(word as i32),
                _ => word == u64::from(word as u32),
            };
            if !fits {
                return Err(format!("the value {word:#x} does not fit into 32 bits"));
            }
            // SAFETY: `target` is a writable place of four bytes in this replica.
            unsafe { ptr::write_unaligned(target as *mut u32, word as u32) };
        } else {
            // SAFETY: `target` is a writable word of this replica.
            unsafe { write_word(target, word) };
        }
        Ok(())
    }

    fn apply_tls(&self, action: Action, rela: Rela, target: usize) -> Result<(), String> {
        let Some((block, offset)) = self.tls_block(action, rela.symbol)? else {
            // glibc leaves the other words of an undefined weak symbol as they are in the file.
            // SAFETY: `target` is a writable place of the relocation's size in this replica.
            unsafe {
                if action == Action::TlsDescriptor {
                    write_descriptor(target, arch::undefined_weak_descriptor(rela.addend as u64));
                } else {
                    write_word(target, self.replica.image.initial_word(rela.offset));
                }
            }
            return Ok(());
        };
        let offset = offset.wrapping_add(rela.addend as u64);
        // SAFETY: `target` is a writable place of the relocation's size in this replica.
        unsafe {
            match action {
                Action::TlsModule => {
                    write_word(target, block.module_word());
                    // References to the object's own symbols have no DTPOFF64: the linker wrote the
                    // offset (zero for local-dynamic code) into the second word.
                    if self.plan.prepared.own_modules.contains(&rela.offset) {
                        let second = self.replica.image.initial_word(rela.offset + 8);
                        write_word(target + 8, block.offset_word(second));
                    }
                }
                Action::TlsOffset => write_word(target, block.offset_word(offset)),
                Action::ThreadPointerOffset => {
                    write_word(target, block.thread_pointer_offset(offset)?);
                }
                _ => {
                    let words = arch::descriptor(block, offset)
                        .ok_or("the offset that its TLS descriptor names is out of all bounds")?;
                    write_descriptor(target, words);
                }
            }
        }
        Ok(())
    }

    /// The address that a symbol is bound to; of an indirect function, that of its resolver.
    fn address(&self, binding: Binding) -> Result<usize, String> {
        match binding {
            Binding::Image { image, symbol } if !symbol.is_tls() => {
                Ok(self.definitions.replica(image)?.symbol_address(&symbol))
            }
            Binding::Image { .. } | Binding::FixedTls { .. } => {
                Err("it names a thread-local symbol".into())
            }
            Binding::Fixed { address, .. } => Ok(address),
            Binding::Interposed(entry) if self.definitions.tls_get_addr == Some(entry) => {
                Ok(self.tls_get_addr)
            }
            Binding::Interposed(entry) => Ok(self.definitions.interpositions[entry as usize]),
            Binding::Missing(index) => {
                let late = self.replica.late.as_ref().expect("a replica has its plan's late calls");
                Ok(late.addresses[index as usize])
            }
            Binding::Absent => Ok(0),
        }
    }

    /// The address in this replica of the file's `offset`.
    fn target(&self, offset: u64) -> usize {
        self.replica.address(offset)
    }
}

/// Writes the words of a TLS descriptor.
///
/// # Safety
/// `target` must be the address of sixteen mapped, writable bytes.
unsafe fn write_descriptor(target: usize, [resolver, argument]: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        write_word(target, resolver);
        write_word(target + 8, argument);
    }
}

/// Writes `value`.
///
/// # Safety
/// `target` must be the address of eight mapped, writable bytes.
unsafe fn write_word(target: usize, value: u64) {
    // SAFETY: the caller's promise; relocation targets need not be aligned.
    unsafe { ptr::write_unaligned(target as *mut u64, value) };
}
