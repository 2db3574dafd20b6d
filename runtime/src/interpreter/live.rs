//! The interpreters that have not begun to end, by their domains.

use super::Inner;
use hydrozoa_loader::DomainId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

static LIVE: RwLock<BTreeMap<u32, Weak<Inner>>> = RwLock::new(BTreeMap::new());

/// Lists an interpreter that has started.
pub(super) fn add(inner: &Arc<Inner>) {
    let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
    live.insert(inner.domain().id().index(), Arc::downgrade(inner));
}

/// Takes out one that ends.
pub(super) fn remove(domain: DomainId) {
    LIVE.write().unwrap_or_else(PoisonError::into_inner).remove(&domain.index());
}

/// The interpreter in a domain, unless it is ending or the domain has none.
pub(super) fn find(domain: DomainId) -> Option<Arc<Inner>> {
    LIVE.read().unwrap_or_else(PoisonError::into_inner).get(&domain.index())?.upgrade()
}
