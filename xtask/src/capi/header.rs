//! `cargo xtask header`: the C header beside the sources that it is made of.
//!
//! The header is committed, so a reader of a change sees what C programs get, and users need no cbindgen.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Options of `cargo xtask header`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Write the header instead of comparing with it
    #[arg(long)]
    write: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let (path, made) = (path(), made()?);
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if arguments.write {
        fs::write(&path, made)?;
        println!("{} is written", path.display());
    } else if let Some(difference) = difference(&kept, &made) {
        bail!(
            "{} is not what the sources say: `cargo xtask header --write` writes it\n{difference}",
            path.display()
        );
    }
    Ok(())
}

/// The header that the sources give.
fn made() -> Result<String> {
    let folder = workspace::root().join("doors/c");
    let configuration = cbindgen::Config::from_file(folder.join("cbindgen.toml"));
    let configuration = configuration.map_err(anyhow::Error::msg)?;
    let mut builder = cbindgen::Builder::new().with_config(configuration);
    for source in sources(&folder.join("src")).context("reading doors/c/src")? {
        builder = builder.with_src(source);
    }
    let mut text = Vec::new();
    builder.generate().context("cbindgen reads doors/c/src")?.write(&mut text);
    Ok(String::from_utf8(text)?)
}

/// The files below a folder, but not those that declare modules, which cbindgen would look for; these have nothing else. The
/// order of the header's parts must not depend on the file system.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir()?.map(|entry| Ok(entry?.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<Result<_>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            found.extend(sources(&entry)?);
        } else if !["lib.rs", "mod.rs"].iter().any(|root| entry.ends_with(root)) {
            found.push(entry);
        }
    }
    Ok(found)
}

fn path() -> PathBuf {
    workspace::root().join("doors/c/include/hydrozoa.h")
}

/// The first line that differs.
fn difference(kept: &str, made: &str) -> Option<String> {
    if kept == made {
        return None;
    }
    let (kept, made): (Vec<_>, Vec<_>) = (kept.lines().collect(), made.lines().collect());
    let count = kept.len().max(made.len());
    let at = (0..count).find(|&at| kept.get(at) != made.get(at)).unwrap_or(count);
    let line = |lines: &[&str]| lines.get(at).copied().unwrap_or("nothing").to_owned();
    Some(format!("line {}: it has\n{}\nand the sources give\n{}", at + 1, line(&kept), line(&made)))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, difference, run};

    #[test]
    fn the_header_is_what_the_sources_say() {
        run(&Arguments { write: false }).unwrap();
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let text = difference("a\nb\n", "a\nc\n").unwrap();
        assert!(text.contains("line 2") && text.contains("\nb\n") && text.ends_with('c'), "{text}");
    }
}
