//! The option `--dense` of servers.

use anyhow::{Result, ensure};
use std::env;
use std::path::{Path, PathBuf};

/// The folder for memory that interpreters do not use: the one that is named, or the default. None where the option is `off`.
pub fn folder(named: Option<&Path>) -> Result<Option<PathBuf>> {
    let Some(named) = named else {
        return Ok(Some(env::var_os("TMPDIR").map_or("/var/tmp".into(), PathBuf::from)));
    };
    let is_off = named.as_os_str() == "off";
    ensure!(is_off || named.is_dir(), "--dense: {} is neither `off` nor a folder", named.display());
    Ok((!is_off).then(|| named.to_owned()))
}
