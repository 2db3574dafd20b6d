//! `cargo xtask lab triton`: the backend in a real Triton, beside Triton's own Python backend.

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::family::Family;

use crate::environment::{self, Environment};
use crate::python::Python;
use crate::steps::{Outcome, check};
use crate::venv::{self, Venv};
use crate::{cache, workspace};

use crate::backend::{LIBRARY, build, install};
pub use server::Triton;
use server::TritonServer;

/// Options of `cargo xtask lab triton`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only what `cargo xtask test` does: this backend, without torch, with the suite's environment
    #[arg(long)]
    short: bool,
    /// With --short: take the library from this folder instead of building it
    #[arg(long, value_name = "DIR", requires = "short")]
    built: Option<PathBuf>,
}

/// The numpy of both backends, before the packages of the suite's environment. The stub of the Python backend in the wheel
/// reads arrays of numpy 1 only.
const NUMPY: &str = "numpy==1.26.4";

/// Further instances whose memory is measured.
const FURTHER: usize = 4;

pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let python = environment.base().clone();
    if arguments.short {
        let outcome = short(&python, environment.root(), arguments.built.as_deref())?;
        ensure!(outcome.failures.is_empty(), "the backend has answered wrongly");
        return Ok(());
    }
    let built = build(true)?;
    let triton = Triton::install(&python)?;
    let venv = with_old_numpy(&environment)?;
    let scratch = tempfile::tempdir()?;
    let both = Both { triton, python, built, venv: venv.root(), scratch: scratch.path() };
    both.compare()
}

/// An environment that sees the packages of another one, but for numpy.
fn with_old_numpy(other: &Environment) -> Result<Venv> {
    let minor = other.base().minor;
    let entry = cache::CacheFolder::open(&format!("triton-cp3{minor}"))?;
    let venv = Venv::open(other.base(), entry.folder(), true)?;
    if let Err(reason) = venv.install(&[NUMPY])? {
        bail!("{NUMPY}, which both backends can use, cannot be installed for 3.{minor}: {reason}");
    }
    let packages = format!("lib/python3.{minor}/site-packages");
    // Python also searches each folder that a line of a .pth file names (site's documentation).
    let path = venv.root().join(&packages).join("hydrozoa-base.pth");
    fs::write(&path, format!("{}\n", other.root().join(&packages).display()))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(venv)
}

/// The backend alone in a real server, with all models but torch's; part of `cargo xtask test`, which has built the backend
/// in the folder `built`.
fn short(python: &Python, venv: &Path, built: Option<&Path>) -> Result<Outcome> {
    let triton = Triton::install(python)?;
    let scratch = tempfile::tempdir()?;
    let place = ServerFolders { folder: scratch.path().to_owned(), venv };
    let built = match built {
        Some(folder) => folder.join(LIBRARY),
        None => build(false)?,
    };
    install(&built, &place.backends(), true)?;
    place.copy("models")?;
    place.copy("own")?;
    let server = place.start(&triton)?;
    let outcome = place.answers(&server, true)?;
    server.end()?;
    Ok(outcome)
}

/// The folders of one server.
struct ServerFolders<'a> {
    folder: PathBuf,
    venv: &'a Path,
}

impl ServerFolders<'_> {
    fn backends(&self) -> PathBuf {
        self.folder.join("backends")
    }

    fn models(&self) -> PathBuf {
        self.folder.join("models")
    }

    /// Copies the models of a folder of serving/triton/tests. Python writes beside them.
    fn copy(&self, kind: &str) -> Result<()> {
        fs::create_dir_all(self.models())?;
        let from = workspace::root().join("serving/triton/tests").join(kind).join(".");
        let status = Command::new("cp").arg("-r").arg(from).arg(self.models()).status();
        ensure!(status.context("starting cp")?.success(), "cp failed");
        // An ensemble has a version without files, and git keeps no empty folder.
        for model in fs::read_dir(self.models())? {
            fs::create_dir_all(model?.path().join("1"))?;
        }
        Ok(())
    }

    fn start(&self, triton: &Triton) -> Result<TritonServer> {
        let folders = [self.backends(), self.models()];
        triton.start(folders, self.venv, &self.folder.join("log"))
    }

    fn ask(&self, arguments: &[String]) -> Command {
        let mut command = venv::python(self.venv);
        command.arg(workspace::root().join("serving/triton/tests/ask.py")).args(arguments);
        command
    }

    fn answers(&self, server: &TritonServer, own: bool) -> Result<Outcome> {
        let mut arguments = vec![
            "answers".to_owned(),
            server.server.port().to_string(),
            server.metrics.to_string(),
        ];
        arguments.extend(own.then(|| "--own".to_owned()));
        check(&mut self.ask(&arguments))
    }

    /// The output of ask.py.
    fn text(&self, what: &str, server: &TritonServer, more: Option<&str>) -> Result<String> {
        let mut arguments = vec![what.to_owned(), server.server.port().to_string()];
        arguments.extend(more.map(str::to_owned));
        let output = self.ask(&arguments).output().context("starting python")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ask.py {what} failed:\n{errors}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Both backends with the same server, models and packages.
struct Both<'a> {
    triton: Triton,
    python: Python,
    built: PathBuf,
    venv: &'a Path,
    scratch: &'a Path,
}

const BACKENDS: [&str; 2] = ["python", "hydrozoa"];

/// The measurements of one backend with one model.
struct Figures {
    first: f64,
    further: f64,
    milliseconds: String,
}

impl Both<'_> {
    fn place(&self, backend: &str, what: &str) -> Result<ServerFolders<'_>> {
        let folder = self.scratch.join(format!("{backend}-{what}"));
        let place = ServerFolders { folder, venv: self.venv };
        match backend {
            "hydrozoa" => install(&self.built, &place.backends(), true)?,
            _ => self.triton.own_backend(self.python.minor, &place.backends())?,
        }
        Ok(place)
    }

    fn compare(&self) -> Result<()> {
        let mut digests = Vec::new();
        for backend in BACKENDS {
            println!("\n{backend}: answers");
            let place = self.place(backend, "answers")?;
            let is_ours = backend == "hydrozoa";
            place.copy("models")?;
            place.copy("torch")?;
            if is_ours {
                place.copy("own")?;
            }
            let server = place.start(&self.triton)?;
            let outcome = place.answers(&server, is_ours)?;
            ensure!(outcome.failures.is_empty(), "{backend} has answered wrongly");
            digests.push(place.text("torch", &server, None)?);
            server.end()?;
        }
        ensure!(digests[0] == digests[1], "the scores of mobilenet differ: {digests:?}");
        println!("ok mobilenet gives the same bits in both");
        println!(
            "\n| model | backend | first instance, MiB | each further one, MiB | a request, ms |"
        );
        println!("|---|---|---:|---:|---:|");
        for (model, kind) in [("identity", "models"), ("mobilenet", "torch")] {
            for backend in BACKENDS {
                let Figures { first, further, milliseconds } =
                    self.figures(backend, model, kind)?;
                println!("| {model} | {backend} | {first:.0} | {further:.1} | {milliseconds} |");
            }
        }
        Ok(())
    }

    fn figures(&self, backend: &str, model: &str, kind: &str) -> Result<Figures> {
        let mut measured = Vec::new();
        for instances in [0, 1, 1 + FURTHER] {
            let place = self.place(backend, &format!("{model}-{instances}"))?;
            fs::create_dir_all(place.models())?;
            if instances > 0 {
                self.only(&place, model, kind, instances)?;
            }
            let server = place.start(&self.triton)?;
            let time = match instances {
                0 => String::new(),
                _ => place.text("time", &server, Some(model))?,
            };
            std::thread::sleep(Duration::from_secs(1));
            measured.push((Family::of(server.server.id()).memory()?.shares, time));
            server.end()?;
            fs::remove_dir_all(&place.folder)?;
        }
        let [none, one, many] = [0, 1, 2].map(|place| measured[place].0);
        let milliseconds = measured.swap_remove(1).1;
        Ok(Figures { first: one - none, further: (many - one) / FURTHER as f64, milliseconds })
    }

    /// One model with so many instances, each of which has had requests.
    fn only(
        &self,
        place: &ServerFolders<'_>,
        model: &str,
        kind: &str,
        instances: usize,
    ) -> Result<()> {
        place.copy(kind)?;
        for other in fs::read_dir(place.models())? {
            let path = other?.path();
            if !path.ends_with(model) {
                fs::remove_dir_all(path)?;
            }
        }
        let path = place.models().join(model).join("config.pbtxt");
        let mut text = fs::read_to_string(&path)?;
        // A request that is alone does not wait for others.
        text = text.replace("max_queue_delay_microseconds: 20000", "");
        text.push_str(&format!("instance_group {{ kind: KIND_CPU count: {instances} }}\n"));
        Ok(fs::write(&path, text)?)
    }
}
