//! Compiled modules of a package, compiled by one interpreter and read by the others.
//!
//! A code object belongs to the interpreter that made it, its marshalled form to nobody. Compiling
//! takes three times as long as unmarshalling, and the syntax tree's memory stays behind in the heap
//! of whoever compiled: 7 MB of private memory for each interpreter with transformers' BERT, for 1.6 MB
//! that are kept here once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// By a key of the importer's, which names the record and the Python that compiled it.
#[derive(Debug, Default)]
pub(super) struct Code(Mutex<HashMap<String, Arc<[u8]>>>);

impl Code {
    /// What was kept under that key.
    pub(super) fn find(&self, key: &str) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Keeps what an interpreter has compiled. Of two that race the first one's stays: the second's is equal.
    pub(super) fn keep(&self, key: String, marshalled: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(key).or_insert_with(|| marshalled.into());
    }
}
