//! The replica that an address belongs to, for callers that must interpret addresses from replicas' code.

use std::ffi::c_void;
use std::sync::Arc;

use crate::current;
use crate::domain::{self, Domain};
use crate::image::ImageId;
use crate::replica::Replica;
use crate::visible::publish;

/// The replica that an address lies in. While it lives, nobody inherits the replica's place: hold it for moments.
#[derive(Debug)]
pub struct Located {
    domain: Domain,
    replica: Arc<Replica>,
    address: usize,
}

impl Located {
    /// The replica that `address` lies in, unless it is in none or its domain has ended.
    pub fn at(address: *const c_void) -> Option<Located> {
        let address = address.addr();
        let replica = publish::find(address)?;
        let domain = domain::by_id(replica.domain)?;
        Some(Located { domain, replica, address })
    }

    /// Whether the replica exists once for all domains.
    pub fn is_shared(&self) -> bool {
        !self.domain.is_one_of_many()
    }

    /// The replica's image, which all of the file's replicas share.
    pub fn image(&self) -> ImageId {
        self.replica.image.id
    }

    /// Where the replica begins. From there on its constant pages stay mapped for the life of the process, wherever the domain
    /// is one of many and its code has run: at its end the place goes to another replica of the same image.
    pub fn base(&self) -> usize {
        self.replica.base
    }

    /// How far behind the base the address lies.
    pub fn offset(&self) -> usize {
        self.address - self.replica.base
    }

    /// Whether `address` lies in this replica where nobody ever writes: in a segment mapped without write access.
    pub fn has_constant(&self, address: *const c_void) -> bool {
        self.replica.image.segments.iter().filter(|segment| !segment.write).any(|segment| {
            let start = self.replica.address(segment.address as u64);
            (start..start + segment.memory_size).contains(&address.addr())
        })
    }

    /// The definition that a reference of the replica to `name` is bound to where nothing is interposed.
    pub fn definition(&self, name: &str) -> Option<*const c_void> {
        self.domain.definition_for(&self.replica, name)
    }
}

impl Domain {
    /// The domain whose code the calling thread runs, unless it has ended.
    pub fn current() -> Option<Domain> {
        domain::by_id(current::domain()?)
    }

    /// The definition that the first of the domain's replicas whose scope has `name` would be bound to where nothing is
    /// interposed. It is found while destructors run, too.
    pub fn definition(&self, name: &str) -> Option<*const c_void> {
        let replicas: Vec<_> = self.0.state.lock().entries.with_leaving().cloned().collect();
        replicas.iter().find_map(|replica| self.definition_for(replica, name))
    }

    fn definition_for(&self, replica: &Replica, name: &str) -> Option<*const c_void> {
        let scopes = self.scopes_of(replica);
        let address = scopes.iter().find_map(|scope| self.lookup(scope, name))?;
        Some(address as *const c_void)
    }
}
