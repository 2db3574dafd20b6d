//! `cargo xtask backend`: the backend of Triton, built and put where a server looks for it.

use std::path::PathBuf;

use anyhow::Result;

use crate::triton::{LIBRARY, build, install};

/// Options of `cargo xtask backend`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    /// Triton's folder of backends; the backend goes to the folder `hydrozoa` in it
    #[arg(long, value_name = "DIR")]
    install: PathBuf,
    /// Install it in the place of the Python backend as well: `python/libtriton_python.so`
    #[arg(long)]
    as_python: bool,
    /// Install a build with debug assertions, for tests
    #[arg(long)]
    dev: bool,
    /// Take the library from this folder instead of building it
    #[arg(long, value_name = "DIR", conflicts_with = "dev")]
    built: Option<PathBuf>,
}

/// Builds the backend and installs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let built = match &arguments.built {
        Some(folder) => folder.join(LIBRARY),
        None => build(!arguments.dev)?,
    };
    install(&built, &arguments.install, arguments.as_python)?;
    println!("the backend is installed in {}", arguments.install.display());
    Ok(())
}
