//! A run's finding about a row. Findings are kept, so that an interrupted run resumes where it stopped.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// How several copies compare with plain python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Every copy computed what plain python computes, in every round.
    Equal,
    /// A copy computed something else.
    Differs,
    /// A copy raised an exception that plain python does not raise.
    Raises,
    /// The process ended.
    Dies,
    /// The process was killed at its time limit.
    Hangs,
    /// The package has no wheel for this Python.
    NoWheel,
    /// Plain python itself fails, or does not compute the same twice: the row says nothing.
    Unusable,
}

impl Outcome {
    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differs => "differs",
            Self::Raises => "raises",
            Self::Dies => "dies",
            Self::Hangs => "hangs",
            Self::NoWheel => "no wheel",
            Self::Unusable => "plain python fails",
        }
    }

    /// Whether copies did what plain python does, as far as that can be known.
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Equal | Self::NoWheel)
    }
}

/// The result of one row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    pub outcome: Outcome,
    /// Why it is not equal, in one line.
    pub cause: Option<String>,
    /// The release of the package that was tried.
    pub release: Option<String>,
    /// How many results plain python recorded in a round.
    pub results: Option<usize>,
    /// A digest of the inputs: the program, the piece of work, the options.
    pub key: String,
}

impl Finding {
    /// A result without a release.
    pub fn of(outcome: Outcome, cause: impl Into<String>, key: &str) -> Self {
        let cause = Some(cause.into());
        Self { outcome, cause, release: None, results: None, key: key.to_owned() }
    }

    /// `dies: SIGSEGV`, `equal`.
    pub fn words(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.outcome.word()),
            None => self.outcome.word().to_owned(),
        }
    }
}

/// The folder of findings for one Python, and for areas for one torch.
pub struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// The findings in that folder, which may be missing.
    pub fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, work: &str) -> PathBuf {
        self.folder.join(format!("{work}.json"))
    }

    /// The last run's finding; `None` without one, or if a version of this program with other fields wrote it.
    pub fn load(&self, work: &str) -> Option<Finding> {
        serde_json::from_slice(&std::fs::read(self.path(work)).ok()?).ok()
    }

    /// Keeps a finding.
    pub fn store(&self, work: &str, finding: &Finding) -> Result<()> {
        let path = self.path(work);
        std::fs::write(&path, serde_json::to_vec_pretty(finding)?)
            .with_context(|| format!("writing {}", path.display()))
    }
}
