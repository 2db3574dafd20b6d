//! Compiled modules of a package, compiled by one interpreter and read by the others.
//!
//! A code object belongs to the interpreter that made it; its marshalled form belongs to none.
//! Compiling takes three times as long as unmarshalling, and leaves the syntax tree's memory in the
//! compiling interpreter's heap. With transformers' BERT, compiling in each interpreter took 7 MB of
//! private memory each. The marshalled code kept here is 1.6 MB, once.

use std::collections::HashMap;
use std::sync::Arc;

use hydrozoa_loader::LeafLock;

/// By a key of the importer's, which names the record and the Python that compiled it.
#[derive(Debug, Default)]
pub(super) struct Code(LeafLock<HashMap<String, Arc<[u8]>>>);

impl Code {
    /// The code that is kept under that key.
    pub(super) fn find(&self, key: &str) -> Option<Arc<[u8]>> {
        self.0.with(|kept| kept.get(key).cloned())
    }

    /// Keeps the code that an interpreter has compiled. If two race, the first one's stays; the second's is equal.
    pub(super) fn keep(&self, key: String, marshalled: Vec<u8>) {
        self.0.with(|kept| {
            kept.entry(key).or_insert_with(|| marshalled.into());
        });
    }
}
