//! The interpreters that have not begun to end, by their domains.

use super::Inner;
use hydrozoa_loader::{DomainId, LeafLock};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

static LIVE: LeafLock<BTreeMap<u32, Weak<Inner>>> = LeafLock::new(BTreeMap::new());

/// Lists an interpreter that has started.
pub(super) fn add(inner: &Arc<Inner>) {
    let domain = inner.domain().id().index();
    LIVE.with(|live| live.insert(domain, Arc::downgrade(inner)));
}

/// Takes out one that ends.
pub(super) fn remove(domain: DomainId) {
    LIVE.with(|live| live.remove(&domain.index()));
}

/// All of them.
pub(super) fn all() -> Vec<Arc<Inner>> {
    LIVE.with(|live| live.values().filter_map(Weak::upgrade).collect())
}

/// The interpreter in a domain, unless it is ending or the domain has none.
pub(super) fn find(domain: DomainId) -> Option<Arc<Inner>> {
    LIVE.with(|live| live.get(&domain.index())?.upgrade())
}
