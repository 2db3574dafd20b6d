//! Measurements in files, as CSV with a row of names.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The rows of a file.
pub fn read<Row: DeserializeOwned>(path: &Path) -> Result<Vec<Row>> {
    let reader = csv::Reader::from_path(path);
    let rows = reader.with_context(|| format!("reading {}", path.display()))?.into_deserialize();
    rows.collect::<csv::Result<_>>().with_context(|| path.display().to_string())
}

/// Writes rows to a file.
pub fn write(path: &Path, rows: &[impl Serialize]) -> Result<()> {
    std::fs::write(path, text(rows)?).with_context(|| format!("writing {}", path.display()))
}

/// The text of such a file.
pub fn text(rows: &[impl Serialize]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}
