//! Measurements that were written to a file, as CSV with a row of names.

use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// The rows of a file.
pub fn read<Row: DeserializeOwned>(path: &Path) -> Result<Vec<Row>> {
    let reader = csv::Reader::from_path(path);
    let rows = reader.with_context(|| format!("reading {}", path.display()))?.into_deserialize();
    rows.collect::<csv::Result<_>>().with_context(|| path.display().to_string())
}
