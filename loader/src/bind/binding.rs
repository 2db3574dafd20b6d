//! Bindings: the definitions that symbols are bound to, without addresses that differ between domains.

use crate::arch;
use crate::image::ImageId;
use crate::image::symbols::Symbol;
use crate::image::versions::Version;
use crate::replica::Replica;
use crate::sys;
use crate::sys::guard;
use crate::system::SystemObject;
use crate::tls::Block;

/// The definition that a symbol is bound to. A look-up in a scope finds the first three kinds only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    /// A symbol of an image, relative to the domain's replica of it.
    Image { image: ImageId, symbol: Symbol },
    /// An address that is the same in all domains, and the size of the definition.
    Fixed { address: usize, size: u64 },
    /// Thread-local data of a module that exists once in the process.
    FixedTls { block: Block, offset: u64 },
    /// Entry of the domain's interposition table.
    Interposed(u32),
    /// A function without a definition: its index in [`crate::bind::plan::Plan::missing`].
    Missing(u32),
    /// A weak reference without a definition.
    Absent,
}

// A plan has one for each symbol that relocations name, tens of thousands for a large library.
const _: () = assert!(size_of::<Option<Binding>>() <= 40);

impl Binding {
    /// Whether the definition is an indirect function (gABI extension STT_GNU_IFUNC) of a replica, whose
    /// resolver may run only when the replica is relocated.
    pub(crate) fn is_indirect_function(&self) -> bool {
        matches!(self, Binding::Image { symbol, .. } if symbol.is_indirect_function())
    }

    /// The size of the definition, which R_X86_64_SIZE64 asks for.
    pub(crate) fn size(&self) -> Result<u64, String> {
        match self {
            Binding::Image { symbol, .. } => Ok(symbol.size),
            Binding::Fixed { size, .. } => Ok(*size),
            Binding::FixedTls { .. } => {
                Err("the sizes of the system's thread-local symbols are not known".into())
            }
            Binding::Interposed(_) | Binding::Missing(_) | Binding::Absent => Ok(0),
        }
    }
}

/// A function for which a plan found no definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    pub name: &'static [u8],
    pub version: Option<Version<'static>>,
}

/// Asks the resolver of an indirect function (gABI extension STT_GNU_IFUNC) at `address`, which is the address of
/// one in a relocated object. It must not throw: unwinders do not know its object before the load is done, as
/// under glibc (elf/dl-open.c, _dl_find_object_update).
pub(crate) fn call_resolver(address: usize) -> usize {
    arch::call_resolver(sys::hardware_capabilities, |arguments| {
        // SAFETY: the caller's promise; these are a resolver's arguments on this machine.
        unsafe { guard::call_or_end("the resolver of an indirect function", address, arguments) }
    })
}

impl Replica {
    /// The binding to a symbol of a replica that exists once in the process.
    pub(crate) fn binding(&self, symbol: &Symbol) -> Binding {
        match self.tls_block().filter(|_| symbol.is_tls()) {
            Some(block) => Binding::FixedTls { block, offset: symbol.value },
            None => fixed(self.symbol_address(symbol), symbol),
        }
    }
}

impl SystemObject {
    /// The binding to one of its symbols.
    pub(crate) fn binding(&self, symbol: &Symbol) -> Binding {
        if symbol.is_tls() {
            let block = Block::System { module: self.tls_module as u64 };
            return Binding::FixedTls { block, offset: symbol.value };
        }
        // Of all definitions of a unique symbol the first that anything referred to counts, in any
        // object (glibc, do_lookup_unique).
        let unique = symbol.is_unique().then(|| self.symbols.name(symbol)).flatten();
        let address = unique.and_then(|name| self.ask(name)).unwrap_or_else(|| {
            let base = if symbol.is_absolute() { 0 } else { self.base };
            base.wrapping_add(symbol.value as usize)
        });
        fixed(address, symbol)
    }
}

/// The binding to `symbol`, which lies at `address`.
fn fixed(address: usize, symbol: &Symbol) -> Binding {
    let address = if symbol.is_indirect_function() { call_resolver(address) } else { address };
    Binding::Fixed { address, size: symbol.size }
}
