//! Figures in files, for programs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes rows as CSV with a line of names.
pub fn csv(path: &Path, rows: impl Iterator<Item = impl Serialize>) -> Result<()> {
    let named = || format!("writing {}", path.display());
    let mut writer = csv::Writer::from_path(path).with_context(named)?;
    for row in rows {
        writer.serialize(row).with_context(named)?;
    }
    writer.flush().with_context(named)
}

/// Writes a report as JSON, if a file is named.
pub fn json(path: Option<&Path>, report: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
