//! For the loader's own test tools: the phases before publication, on real files and, in [`specimen`], on
//! untrusted bytes.
//!
//! Not part of the crate's promises.

pub mod specimen;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arch;
use crate::dl;
use crate::domain::Domain;
use crate::error::Result;
use crate::flags::OpenFlags;
use crate::image::IMAGES;
use crate::load;
use crate::policy::Class;
use crate::replica::Replica;

/// The calling thread's thread pointer.
pub fn thread_pointer() -> usize {
    arch::thread_pointer()
}

/// A file and the replicas it needs, relocated but not published; unmapped when dropped.
#[derive(Debug)]
pub struct Relocated {
    replicas: Vec<Arc<Replica>>,
}

/// One relocated replica.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its file.
    pub path: PathBuf,
    /// Address of its lowest page.
    pub base: usize,
    /// The offset to add to the file's addresses.
    pub bias: usize,
    /// Bytes of address space.
    pub size: usize,
    /// The module word of its TLS block and the base of its offset words.
    pub tls: Option<(u64, u64)>,
    /// The offset of its TLS block from the thread pointer, if that is the same in all threads.
    pub tls_block: Option<u64>,
    /// The address of the calling thread's TLS block.
    pub block: Option<usize>,
}

/// Relocates `path` in `domain` like [`Domain::open`], and stops before publication. Libraries that the
/// policy leaves to the system are loaded.
///
/// # Errors
/// As for [`Domain::open`].
///
/// # Safety
/// As for [`Domain::open`]: resolvers of indirect functions and libraries that the system loads run.
pub unsafe fn relocate(domain: &Domain, path: &Path, flags: OpenFlags) -> Result<Relocated> {
    let image = IMAGES.open(path)?;
    let mut closure = load::discover(domain, image, Some(Class::Replicate))?;
    load::open_system_nodes(&mut closure)?;
    let group = load::prepare_group(domain, &closure, Class::Replicate, flags)?;
    Ok(Relocated { replicas: group.map(|group| group.replicas).unwrap_or_default() })
}

impl Relocated {
    /// The replicas, the file's own first.
    pub fn members(&self) -> Vec<Member> {
        self.replicas.iter().map(|replica| member(replica)).collect()
    }
}

/// The published replicas of a domain.
pub fn members(domain: &Domain) -> Vec<Member> {
    domain.0.state.lock().entries.replicas().map(|replica| member(replica)).collect()
}

/// Whether references to `name` are bound to `address` because the domain interposes it.
pub fn is_interposition(domain: &Domain, name: &str, address: usize) -> bool {
    let of_the_c_library = || domain.0.interposed.of_the_c_library(name.as_bytes());
    let bound = domain.interposed(name.as_bytes()).or_else(of_the_c_library);
    let bound = bound.and_then(|binding| domain.hand_out(binding));
    bound.is_some_and(|function| {
        // References to this one are bound to a form that is short for the object.
        let forms = [vec![], vec![0], vec![1 << 63]]
            .map(|modules: Vec<u64>| arch::tls_get_addr_for(modules.into_iter()));
        function == address || forms.contains(&function) && forms.contains(&address)
    })
}

fn member(replica: &Replica) -> Member {
    Member {
        path: replica.image.path.clone(),
        base: replica.base,
        bias: replica.bias,
        size: replica.memory.length(),
        tls_block: replica.tls_block().and_then(|block| block.thread_pointer_offset(0).ok()),
        tls: replica.tls_block().map(|block| (block.module_word(), block.offset_word(0))),
        block: replica.tls_block().map(|block| block.address(0)),
    }
}

/// The page of the C library's functions with state of the process, `docs/c-library.md`.
pub fn c_library_page() -> String {
    dl::c_library_page()
}

/// Those functions and variables, and whether each domain has its own state for them, or one at a time uses it.
pub fn c_library_names() -> Vec<(&'static str, bool)> {
    dl::c_library_names()
}

/// Whether code of `domain` gets a replacement for a name of the C library.
pub fn is_answered(domain: &Domain, name: &str) -> bool {
    let own = domain.0.interposed.of_the_c_library(name.as_bytes());
    domain.interposed(name.as_bytes()).or(own).is_some()
}

/// The names of the C library that a domain replaces.
pub fn c_library_answers(domain: &Domain) -> &'static [&'static str] {
    domain.0.interposed.c_library.names
}
