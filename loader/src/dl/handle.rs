//! Handles. The handle of a replica is the address of its link map, which some programs read as glibc's.
//! The handle of the domain itself (`dlopen(NULL)`) is the address of a link map too, since glibc's is the
//! executable's (ROOT walks the list of libraries from it). A library of the system loader has glibc's own handle.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::domain::{self, Domain};
use crate::load::library::Library;
use crate::replica::Replica;
use crate::visible::publish;

/// The object of a handle.
pub(super) enum Handle {
    /// A whole domain.
    Domain(Domain),
    Replica(Domain, Arc<Replica>),
    System,
}

pub(super) fn of_domain(domain: &Domain) -> *mut c_void {
    ptr::from_ref(&*domain.0.handle).cast_mut().cast()
}

pub(super) fn of_library(library: &Library) -> *mut c_void {
    match library.replica() {
        Some(replica) => of_replica(replica),
        None => library.system_handle().unwrap_or(0) as *mut c_void,
    }
}

fn of_replica(replica: &Replica) -> *mut c_void {
    ptr::from_ref(&*replica.link_map).cast_mut().cast()
}

/// The object of `handle`, which code of `domain` passes. glibc decides about a handle that is not ours.
///
/// Code passes handles on: a domain's to a library that domains share, and back. So a handle of another domain
/// means what it means there.
pub(super) fn resolve(domain: &Domain, handle: *mut c_void) -> Handle {
    if handle == of_domain(domain) {
        return Handle::Domain(domain.clone());
    }
    let find = |domain: &Domain| {
        let state = domain.0.state.lock();
        state.entries.replicas().find(|replica| of_replica(replica) == handle).cloned()
    };
    if let Some(replica) = find(domain) {
        return Handle::Replica(domain.clone(), replica);
    }
    if let Some(commons) = domain.0.commons.clone().map(Domain)
        && let Some(replica) = find(&commons)
    {
        return Handle::Replica(commons, replica);
    }
    if let Some(owner) = domain::find(|domain| handle == of_domain(domain)) {
        return Handle::Domain(owner);
    }
    if let Some(replica) = publish::find_by_link_map(handle as usize)
        && let Some(owner) = domain::by_id(replica.domain)
    {
        return Handle::Replica(owner, replica);
    }
    Handle::System
}
