//! The loader's own tests beside a C library that is older or newer than this machine's: its first example, and the linker's cases.
//!
//! They run in the same Debian as the release. The cases' libraries are built by the compiler there.

use std::path::PathBuf;

use anyhow::Result;

use super::build::{self, CASES, COUNTERS, Extent};
use crate::workspace;

/// One of how many cases a run of the suite has.
const SHARE: usize = 3;

/// The compiled programs.
pub(super) struct Cases {
    folder: PathBuf,
    every: usize,
}

impl Cases {
    /// Compiles them: to run all as a release would, or for the suite a part of them.
    ///
    /// # Errors
    ///
    /// cargo fails.
    pub(super) fn new(extent: &Extent) -> Result<Self> {
        let every = match extent {
            Extent::Whole => 1,
            Extent::Part => SHARE,
        };
        Ok(Self { folder: build::programs(extent)?, every })
    }

    /// The command, if it was compiled with them.
    pub(super) fn command(&self) -> PathBuf {
        self.folder.join("hydrozoa")
    }

    /// The folders that they need at their places.
    pub(super) fn mounted() -> Result<Vec<(PathBuf, String)>> {
        // They look for the sources where they were compiled, and write where they lie.
        let folders = [workspace::root().to_owned(), workspace::target()?];
        Ok(folders.map(|folder| (folder.clone(), folder.display().to_string())).into())
    }

    /// Lines of a shell that run them, but for the cases whose names are given.
    pub(super) fn lines(&self, except: &[&str]) -> [String; 2] {
        let program = |name: &str| self.folder.join(name).display().to_string();
        let mut cases = format!("{} linker --quick --every {}", program(CASES), self.every);
        if !except.is_empty() {
            cases = format!("{cases} --except {}", except.join(" "));
        }
        [program(&format!("examples/{COUNTERS}")), cases]
    }
}
