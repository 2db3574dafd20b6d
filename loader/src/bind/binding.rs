//! Bindings: the definitions of symbols that relocations name, without addresses that differ between
//! domains.

use crate::image::symbols::Symbol;
use crate::image::versions::Version;
use crate::tls::Block;

/// The definition that a symbol is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    /// No relocation names the symbol.
    Unreferenced,
    /// A weak reference without a definition.
    Absent,
    /// A symbol of the domain's replica of an image, given by its index in [`crate::bind::plan::Plan::images`].
    Image { image: u32, symbol: Symbol },
    /// An address that is the same in all domains, and the size of the definition.
    Fixed { address: usize, size: u64 },
    /// Thread-local data that is the same in all domains.
    FixedTls { block: Block, offset: u64 },
    /// Entry of the domain's interposition table.
    Interposed(u32),
    /// A function without a definition: its index in [`crate::bind::plan::Plan::missing`].
    Missing(u32),
}

/// A function for which a plan found no definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    pub name: &'static [u8],
    pub version: Option<Version<'static>>,
}
