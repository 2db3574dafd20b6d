//! `cargo xtask lab suites`: test suites of others, test by test, in plain python and in several copies of one process at once.
//!
//! A test that passes in as many plain processes at once has to pass in every copy. The `hydrozoa` command runs the copies.

mod page;
mod report;
mod sides;
mod suite;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::environment::{self, Environment};
use crate::python::{self, Python};
use crate::venv::Venv;
use crate::{cache, digest, workspace};
use sides::Sides;
use suite::{Shard, Suite};
use verdict::{Difference, Plain, Verdict};

/// Options of `cargo xtask lab suites`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// numpy's tests
    #[arg(long)]
    numpy: bool,
    /// scipy's tests
    #[arg(long)]
    scipy: bool,
    /// scikit-learn's tests
    #[arg(long)]
    sklearn: bool,
    /// pandas' tests
    #[arg(long)]
    pandas: bool,
    /// pyarrow's tests
    #[arg(long)]
    pyarrow: bool,
    /// CPython's tests, each module in a process of its own
    #[arg(long)]
    cpython: bool,
    /// PyTorch's tests of packages, jit, autograd, serialization and others, from this directory of its sources
    #[arg(long, value_name = "DIR")]
    torch: Option<PathBuf>,
    /// Only test files whose path holds one of these
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    files: Vec<String>,
    /// Run again what an earlier run found
    #[arg(long)]
    again: bool,
    /// How many copies, and how many plain processes, run at once
    #[arg(long, value_name = "N", default_value_t = 2)]
    copies: usize,
    /// The time limit of a process, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1200.0)]
    limit: f64,
    /// The `hydrozoa` command to try; without it, it is built from this checkout
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// Leave the virtual environments in the cache, and use those that an earlier run left
    #[arg(long)]
    keep: bool,
    /// Write the figures to docs/faithful.md
    #[arg(long, conflicts_with = "files")]
    page: bool,
}

impl Arguments {
    fn suites(&self) -> Vec<Suite> {
        let wanted = [
            (self.numpy, suite::NUMPY),
            (self.scipy, suite::SCIPY),
            (self.sklearn, suite::SKLEARN),
            (self.pandas, suite::PANDAS),
            (self.pyarrow, suite::PYARROW),
            (self.cpython, Suite::Standard),
        ];
        let wanted = wanted.into_iter().filter_map(|(wanted, suite)| wanted.then_some(suite));
        wanted.chain(self.torch.clone().map(Suite::Torch)).collect()
    }
}

/// Runs the suites that were asked for. Returns an error if a test that passes plainly does not pass in copies, twice.
pub fn run(arguments: &Arguments) -> Result<()> {
    let suites = arguments.suites();
    ensure!(
        !suites.is_empty(),
        "no suite was asked for: --numpy, --scipy, --sklearn, --pandas, --pyarrow, --cpython, --torch DIR"
    );
    let python = python::find(arguments.environment.python.as_ref())?;
    let command = match &arguments.command {
        Some(command) => {
            command.canonicalize().with_context(|| format!("finding {}", command.display()))?
        }
        None => workspace::build("hydrozoa-cli", "hydrozoa")?,
    };
    let mut failed = Vec::new();
    for suite in suites {
        let run = Run::prepare(arguments, &python, &command, &suite)?;
        let (total, differences) = run.all()?;
        println!("{}: {}", suite.name(), total.words());
        if arguments.page {
            let title = format!("{}, CPython 3.{}", suite.name(), python.minor);
            let found = page::Found { title, total: &total, differences: &differences };
            page::write(&workspace::root().join("docs/faithful.md"), &found)?;
        }
        if total.again + total.deaths > 0 {
            failed.push(suite.name());
        }
    }
    if !failed.is_empty() {
        bail!("tests that pass plainly fail in copies: {}", failed.join(", "));
    }
    Ok(())
}

/// The counts of a suite.
#[derive(Default)]
struct Total {
    tests: usize,
    passing: usize,
    once: usize,
    again: usize,
    deaths: usize,
}

impl Total {
    fn add(&mut self, plain: &Plain, verdict: &Verdict) {
        let again = verdict.differences.iter().filter(|difference| difference.again).count();
        self.tests += plain.tests;
        self.passing += plain.passing.len();
        self.again += again;
        self.once += verdict.differences.len() - again;
        self.deaths += verdict.deaths.len();
    }

    /// As a row of a table.
    fn row(&self, title: &str) -> String {
        let Self { tests, passing, once, again, deaths } = self;
        format!("| {title} | {tests} | {passing} | {again} | {once} | {deaths} |")
    }

    fn words(&self) -> String {
        let Self { tests, passing, once, again, deaths } = self;
        format!(
            "{tests} tests, {passing} pass plainly; in copies {again} of them differ twice, {once} once; \
             {deaths} processes died"
        )
    }
}

/// A suite in its environment.
struct Run<'a> {
    arguments: &'a Arguments,
    suite: &'a Suite,
    command: &'a Path,
    venv: Venv,
    site: PathBuf,
    shards: Vec<Shard>,
    /// The digest of what both sides depend on.
    key: String,
    /// The digest of the program that is tried.
    program: String,
    folder: PathBuf,
    /// A second run would install and remove the same environment.
    _lock: cache::CacheFolder,
}

impl<'a> Run<'a> {
    fn prepare(
        arguments: &'a Arguments,
        python: &Python,
        command: &'a Path,
        suite: &'a Suite,
    ) -> Result<Self> {
        let lock =
            cache::CacheFolder::open(&format!("suite-cp3{}-{}", python.minor, suite.name()))?;
        let folder = lock.folder().to_owned();
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        eprintln!("{}: installing", suite.name());
        let venv = Venv::open(python, &folder.join("venv"), arguments.keep)?;
        if !suite.packages().is_empty()
            && let Err(reason) = venv.install(suite.packages())?
        {
            bail!("{}: {reason}", suite.name());
        }
        let site = venv.root().join(format!("lib/python3.{}/site-packages", python.minor));
        if let Suite::Torch(_) = suite {
            // The locked torch. Python also searches each folder that a line of a .pth file names (site's documentation).
            let torch = Environment::prepare(&arguments.environment)?;
            let path = torch.root().join(format!("lib/python3.{}/site-packages", python.minor));
            std::fs::write(site.join("torch.pth"), format!("{}\n", path.display()))
                .context("writing torch.pth")?;
        }
        let shards = suite.shards(&python.executable, &site, &arguments.files)?;
        let driver = workspace::root().join("tests/suites/run.py");
        let releases = venv.releases()?;
        let options = format!("{} {:?}", arguments.copies, suite.options(&site));
        let executable = python.executable.as_os_str().as_encoded_bytes();
        let parts = [&digest::read(&driver)?, releases.as_bytes(), options.as_bytes(), executable];
        let key = digest::of(&parts);
        let program = digest::of(&[&digest::read(command)?]);
        Ok(Self {
            arguments,
            suite,
            command,
            venv,
            site,
            shards,
            key,
            program,
            folder,
            _lock: lock,
        })
    }

    /// Every shard, each with a line of its own: the counts, and the tests that differ.
    fn all(&self) -> Result<(Total, Vec<Difference>)> {
        let mut total = Total::default();
        let mut differences = Vec::new();
        for shard in &self.shards {
            let start = std::time::Instant::now();
            let (plain, verdict) = self.shard(shard)?;
            let mut one = Total::default();
            one.add(&plain, &verdict);
            total.add(&plain, &verdict);
            let (number, count) = (shard.number, self.shards.len());
            let seconds = start.elapsed().as_secs_f64();
            let first = shard.names[0].replace(&format!("{}/", self.site.display()), "");
            println!(
                "{} [{number}/{count}] {first}: {} ({seconds:.0} s)",
                self.suite.name(),
                one.words()
            );
            for test in &plain.cut_off {
                println!("  plain python did not get beyond {test}");
            }
            for death in &verdict.deaths {
                println!("  died: {death}");
            }
            for difference in &verdict.differences {
                let often = if difference.again { "twice" } else { "once" };
                println!("  {often}: {}: {}", difference.test, difference.what);
            }
            differences.extend(verdict.differences);
        }
        Ok((total, differences))
    }

    /// The results that an earlier run kept, or those of a new run.
    fn shard(&self, shard: &Shard) -> Result<(Plain, Verdict)> {
        let names = shard.names.join("\n");
        // A module of CPython's has no file of that name, and changes with its Python.
        let files = shard.names.iter().map(|file| std::fs::read(file).unwrap_or_default());
        let key = digest::of(&[
            self.key.as_bytes(),
            names.as_bytes(),
            &files.collect::<Vec<_>>().concat(),
        ]);
        let file = |kind: &str| self.folder.join(format!("{key}.{kind}.json"));
        let sides = Sides {
            suite: self.suite,
            command: self.command,
            environment: self.venv.root(),
            site: &self.site,
            copies: self.arguments.copies,
            limit: self.arguments.limit,
        };
        let plain = match load::<Plain>(&file("plain")) {
            Some(plain) if plain.key == key && !self.arguments.again => plain,
            _ => store(&file("plain"), verdict::plain(&sides, shard, &key)?)?,
        };
        let program = digest::of(&[key.as_bytes(), self.program.as_bytes()]);
        let copies = file("copies");
        let verdict = match load::<Verdict>(&copies) {
            Some(verdict) if verdict.key == program && !self.arguments.again => verdict,
            _ => store(&copies, verdict::copies(&sides, shard, &plain, &program)?)?,
        };
        Ok((plain, verdict))
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn store<T: Serialize>(path: &Path, value: T) -> Result<T> {
    std::fs::write(path, serde_json::to_vec(&value)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(value)
}
