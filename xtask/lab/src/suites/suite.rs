//! The suites: the packages to install for each, and its test files in shards.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// About how many bytes of test sources one process runs. pandas has 15 MB in a thousand files.
const SHARD: u64 = 300_000;

/// PyTorch's test files that its own interpreter state, its serialization and its compiler's front end depend on.
const TORCH: [&str; 12] = [
    "package/test_",
    "jit/test_",
    "test_jit.py",
    "test_autograd.py",
    "test_dlpack.py",
    "test_functional_optim.py",
    "test_futures.py",
    "test_namedtensor.py",
    "test_numpy_interop.py",
    "test_per_overload_api.py",
    "test_serialization.py",
    "test_subclass.py",
];

/// A test suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suite {
    /// The tests that a wheel has with it: the import package, what pip installs.
    Wheel(&'static str, &'static [&'static str]),
    /// CPython's own tests, as its installation has them.
    Standard,
    /// PyTorch's tests, from a directory of its sources.
    Torch(PathBuf),
}

pub const NUMPY: Suite = Suite::Wheel("numpy", &["numpy", "pytest", "hypothesis"]);
pub const SCIPY: Suite = Suite::Wheel("scipy", &["scipy", "pytest", "hypothesis"]);
pub const SKLEARN: Suite = Suite::Wheel("sklearn", &["scikit-learn", "pandas", "pytest"]);
pub const PANDAS: Suite = Suite::Wheel("pandas", &["pandas", "pyarrow", "pytest", "hypothesis"]);
pub const PYARROW: Suite =
    Suite::Wheel("pyarrow", &["pyarrow", "pandas", "cffi", "pytest", "hypothesis"]);

/// Tests that one process runs, in the order of their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Its place in the suite, from 1.
    pub number: usize,
    /// The driver's arguments: files for pytest, modules for unittest.
    pub names: Vec<String>,
}

impl Suite {
    /// The name in messages and of its folder in the cache.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wheel(name, _) => name,
            Self::Standard => "cpython",
            Self::Torch(_) => "torch",
        }
    }

    /// The packages that pip installs.
    pub fn packages(&self) -> &'static [&'static str] {
        match self {
            Self::Wheel(_, packages) => packages,
            Self::Standard => &[],
            Self::Torch(_) => &["pytest", "expecttest", "hypothesis", "psutil", "pyyaml"],
        }
    }

    /// The driver's arguments before the names.
    pub fn options(&self, site: &Path) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        match self {
            Self::Wheel(..) => {
                let marks = "not slow and not xslow and not network and not db";
                let root = path(site);
                ["pytest", "--root", &root, "--marks", marks].map(str::to_owned).to_vec()
            }
            Self::Standard => vec!["unittest".to_owned()],
            // Its conftest.py wants plug-ins of PyTorch's machines.
            Self::Torch(sources) => {
                let test = path(&sources.join("test"));
                ["pytest", "--root", &test, "--path", &test, "--no-conftest"]
                    .map(str::to_owned)
                    .to_vec()
            }
        }
    }

    /// The shards that hold a file whose path has one of these texts in it, or all.
    pub fn shards(&self, python: &Path, site: &Path, only: &[String]) -> Result<Vec<Shard>> {
        let mut files = match self {
            Self::Wheel(package, _) => tests_below(&site.join(package))?,
            Self::Standard => return modules(python, only),
            Self::Torch(sources) => {
                let test = sources.join("test");
                let mut files = tests_below(&test)?;
                files.retain(|(file, _)| {
                    let file = file.strip_prefix(&test).unwrap_or(file).display().to_string();
                    TORCH.iter().any(|name| file.starts_with(name))
                });
                files
            }
        };
        files.retain(|(file, _)| selected(&file.display().to_string(), only));
        ensure!(!files.is_empty(), "{}: no test file was found", self.name());
        let files =
            files.into_iter().map(|(file, bytes)| (file.display().to_string(), bytes)).collect();
        Ok(shards(files))
    }
}

fn selected(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|text| name.contains(text))
}

/// The files `test_*.py` below a folder with their sizes, in the order of their paths.
fn tests_below(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let pattern = format!("{}/**/test_*.py", folder.display());
    let mut files = Vec::new();
    for file in glob::glob(&pattern).context("a pattern of files")? {
        let file = file?;
        let bytes = file.metadata().with_context(|| format!("reading {}", file.display()))?.len();
        files.push((file, bytes));
    }
    if files.is_empty() {
        bail!("{} has no file test_*.py", folder.display());
    }
    files.sort();
    Ok(files)
}

fn shards(files: Vec<(String, u64)>) -> Vec<Shard> {
    let mut shards: Vec<Shard> = Vec::new();
    let mut room = 0;
    for (name, bytes) in files {
        if bytes > room || shards.is_empty() {
            shards.push(Shard { number: shards.len() + 1, names: Vec::new() });
            room = SHARD.max(bytes);
        }
        room -= bytes;
        shards.last_mut().expect("one was pushed").names.push(name);
    }
    shards
}

/// CPython's test modules, each in a process of its own: many of them change what belongs to the process.
fn modules(python: &Path, only: &[String]) -> Result<Vec<Shard>> {
    let program = "import os, test; d = os.path.dirname(test.__file__)\n\
                   print(*sorted(n.removesuffix('.py') for n in os.listdir(d) if n.startswith('test_')), sep='\\n')";
    let output = Command::new(python).args(["-I", "-c", program]).output().context("python")?;
    ensure!(output.status.success(), "{} has no package `test`", python.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().map(|name| format!("test.{name}")).filter(|name| selected(name, only));
    let shard = |(number, name)| Shard { number, names: vec![name] };
    let shards: Vec<_> = (1..).zip(names).map(shard).collect();
    ensure!(
        !shards.is_empty(),
        "cpython: no module of `test` has a name with {}",
        only.join(" or ")
    );
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_packed_in_order_and_a_large_one_is_alone() {
        let sizes = [SHARD / 2, SHARD / 2, 10, SHARD * 3, 20];
        let files = sizes.iter().enumerate().map(|(at, size)| (format!("f{at}"), *size)).collect();
        let packed: Vec<(usize, String)> =
            shards(files).iter().map(|shard| (shard.number, shard.names.join(" "))).collect();
        let expected = [(1, "f0 f1"), (2, "f2"), (3, "f3"), (4, "f4")];
        assert_eq!(packed, expected.map(|(number, names)| (number, names.to_owned())));
    }
}
