//! Digests that name a state of files and options.

use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The first 8 bytes of the SHA-256 of these parts, in hexadecimal. The length of each part counts.
pub fn of(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A file's bytes.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}
