//! A replica: one copy of an image.

pub(crate) mod link_map;
pub(crate) mod map;
pub(crate) mod registered;
pub(crate) mod thunk;
pub(crate) mod words;

use std::sync::Arc;

use crate::id::DomainId;
use crate::image::Image;
use crate::image::symbols::Symbol;
use crate::replica::link_map::{LinkMap, Range};
use crate::replica::registered::Registered;
use crate::replica::thunk::Thunks;
use crate::sys::memory::Reservation;
use crate::system::search::Level;
use crate::tls::{Block, Placed};

/// One copy of an image: its own data, its image's text.
///
/// It does not change after relocation. The facts that its domain adds are in the domain's entry for it
/// (`domain/replica_entry.rs`).
///
/// Invariant: from publication until the domain is closed, `base..base + span` is mapped.
pub(crate) struct Replica {
    pub image: Arc<Image>,
    pub domain: DomainId,
    /// Address of the lowest page.
    pub base: usize,
    /// The offset to add to the file's addresses.
    pub bias: usize,
    pub memory: Reservation,
    tls: Option<Placed>,
    pub link_map: Box<LinkMap>,
    /// The images that led to it in its load: the one that needs it, the one that needs that, and so on.
    pub brought_by: Vec<Arc<Image>>,
    /// The functions that its code has registered with the C library to be called later.
    pub registered: Arc<Registered>,
    /// The thunks that its references to undefined functions are bound to, if it has some.
    pub late: Option<Thunks>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Replica")
            .field("path", &self.image.path)
            .field("domain", &self.domain)
            .field("base", &format_args!("{:#x}", self.base))
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// The replica of `image` that was mapped into `memory`, not yet relocated.
    pub(crate) fn new(
        image: &Arc<Image>,
        domain: DomainId,
        memory: Reservation,
        tls: Option<Placed>,
        brought_by: Vec<Arc<Image>>,
        late: Option<Thunks>,
    ) -> Replica {
        let base = memory.base();
        let bias = base.wrapping_sub(image.first);
        let dynamic = image
            .program_headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)
            .map_or(0, |header| bias.wrapping_add(header.p_vaddr as usize));
        Replica {
            image: image.clone(),
            domain,
            base,
            bias,
            memory,
            tls,
            link_map: LinkMap::new(&image.public_path(), bias, dynamic),
            brought_by,
            registered: Arc::new(Registered::nothing()),
            late,
        }
    }

    /// Its place, for the next replica of the image.
    pub(crate) fn into_place(self) -> (Reservation, Option<Placed>) {
        (self.memory, self.tls)
    }

    /// The places of its thread-local blocks, if it has some.
    pub(crate) fn tls_block(&self) -> Option<Block> {
        self.tls.as_ref().map(|placed| placed.block)
    }

    /// Its thread-local data, if it has some.
    pub(crate) fn tls(&self) -> Option<&Placed> {
        self.tls.as_ref()
    }

    /// The id by which its TLS is known outside; 0 if it has none.
    pub(crate) fn tls_module(&self) -> usize {
        self.tls_block().map_or(0, |block| block.public_id() as usize)
    }

    /// Its block in the calling thread, if the thread has it already.
    pub(crate) fn tls_data(&self) -> Option<usize> {
        self.tls_block()?.existing_address()
    }

    /// The address in this replica of the file's `address`.
    pub(crate) fn address(&self, address: u64) -> usize {
        self.bias.wrapping_add(address as usize)
    }

    /// The images whose search paths count for names that it asks for.
    pub(crate) fn search_chain(&self) -> Vec<Level<'_>> {
        std::iter::once(&self.image).chain(&self.brought_by).map(|image| Level::of(image)).collect()
    }

    /// The address of a symbol that is not thread-local.
    pub(crate) fn symbol_address(&self, symbol: &Symbol) -> usize {
        if symbol.is_absolute() { symbol.value as usize } else { self.address(symbol.value) }
    }

    pub(crate) fn range(&self) -> Range {
        Range {
            start: self.base,
            end: self.base + self.memory.length(),
            unwind_header: self.image.unwind_header.map_or(0, |header| self.base + header),
            link_map: std::ptr::from_ref(&*self.link_map) as usize,
            domain: self.domain,
        }
    }
}
