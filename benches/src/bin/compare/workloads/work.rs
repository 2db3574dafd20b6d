//! The pieces of work, and what plain python computes with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::contender::plain_python;
use serde::{Deserialize, Serialize};

/// The size of a digest in benches/python/workloads.
const DIGEST: usize = 16;

/// A module of benches/python/workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Work {
    /// A tokenizer and a small transformer
    Transformer,
    /// Feature code with pandas
    Features,
    /// JSON before and after a model
    Documents,
    /// DLRM
    Dlrm,
    /// Binary records by the module struct
    Records,
    /// resnet18
    Resnet18,
}

impl Work {
    pub fn all() -> Vec<Self> {
        <Self as clap::ValueEnum>::value_variants().to_vec()
    }

    /// The name of the module, and of the command line's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Features => "features",
            Self::Documents => "documents",
            Self::Dlrm => "dlrm",
            Self::Records => "records",
            Self::Resnet18 => "resnet18",
        }
    }

    /// The label of the work of that name.
    pub fn titled(name: &str) -> &'static str {
        Self::all().into_iter().find(|work| work.name() == name).map_or("", Self::title)
    }

    /// The label in the tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Transformer => "tokenizer and small transformer",
            Self::Features => "features with pandas",
            Self::Documents => "JSON around a model",
            Self::Dlrm => "DLRM",
            Self::Records => "binary records (`struct`)",
            Self::Resnet18 => "resnet18",
        }
    }
}

/// Where the contenders find their files.
#[derive(clap::Args, Clone, Serialize, Deserialize)]
pub struct WorkFiles {
    /// The virtual environment
    #[arg(long)]
    pub venv: PathBuf,
    /// The folder of the scripts and of the pieces of work, benches/python
    #[arg(long)]
    pub scripts: PathBuf,
    /// The folder for weights, vocabularies and the digests of plain python's results
    #[arg(long)]
    pub folder: PathBuf,
}

impl WorkFiles {
    /// A contender in plain python. More arguments may follow.
    pub fn python(&self, work: Work) -> Command {
        let script = self.scripts.join("workload.py");
        let mut command = plain_python(&self.venv.join("bin/python"), &script);
        command.arg(work.name()).arg(&self.folder);
        command
    }
}

/// The digests of plain python's results, one for each input.
pub struct Expected(Vec<[u8; DIGEST]>);

impl Expected {
    /// Reads what `workload.py --prepare` wrote.
    pub fn read(folder: &Path, work: Work) -> Result<Self> {
        let path = folder.join(format!("{}.expected", work.name()));
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let (digests, rest) = bytes.as_chunks::<DIGEST>();
        ensure!(
            rest.is_empty() && !digests.is_empty(),
            "{}: {} bytes are not digests",
            path.display(),
            bytes.len()
        );
        Ok(Self(digests.to_vec()))
    }

    /// The input of the `index`-th call: the calls use the inputs in turn.
    pub fn input(&self, index: usize) -> usize {
        index % self.0.len()
    }

    /// Whether the digest of the `index`-th call is right.
    pub fn is_right(&self, index: usize, digest: &[u8]) -> bool {
        self.0[self.input(index)] == digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_compared_in_turn() {
        let folder =
            std::env::temp_dir().join(format!("hydrozoa-workloads-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |bytes: &[u8]| fs::write(folder.join("records.expected"), bytes).unwrap();
        write(&[[1; DIGEST], [2; DIGEST]].concat());
        let expected = Expected::read(&folder, Work::Records).unwrap();
        assert!(expected.is_right(3, &[2; DIGEST]) && !expected.is_right(2, &[2; DIGEST]));
        assert!(!expected.is_right(0, &[1; DIGEST - 1]));
        for damaged in [&[][..], &[1; DIGEST + 1]] {
            write(damaged);
            assert!(Expected::read(&folder, Work::Records).is_err());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_work_s_name_is_that_of_the_command_line() {
        for work in Work::all() {
            let value = clap::ValueEnum::to_possible_value(&work).unwrap();
            assert_eq!(value.get_name(), work.name());
        }
    }
}
