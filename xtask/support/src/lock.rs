//! The lock files: every package with its version and the SHA-256 of its wheel, one file for each CPython minor version.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::python::{self, MINORS, Python, Wanted};
use crate::workspace;

/// The required packages where torch has wheels. The lock files add the packages that these depend on.
const WANTED: [&str; 5] = ["torch==2.11.0", "torchvision==0.26.0", "numpy", "ninja", "setuptools"];

/// The required packages where torch 2.11.0 has no wheel.
const WITHOUT_TORCH: [&str; 1] = ["numpy"];

/// The first minor version for which torch 2.11.0 has no wheel.
const NO_TORCH: u8 = 15;

/// The further packages that the models of `cargo xtask lab models` require. transformers is the last release that
/// supports CPython 3.10.
const MODELS: [&str; 4] =
    ["torchaudio==2.11.0", "transformers==5.20.2", "demucs==4.1.0", "torch-struct==0.5"];

/// The further packages that the pieces of work of `cargo xtask lab workloads` require.
const WORKLOADS: [&str; 2] = ["pandas", "tokenizers"];

/// The clients of others that the tests of the server run.
const CLIENTS: [&str; 2] = ["tritonclient", "geventhttpclient"];

/// The frameworks that the tests of `hydrozoa run` serve, and what those ask for that use more than them.
const WEB: [&str; 7] =
    ["flask", "django", "fastapi", "python-multipart", "websockets", "prometheus-client", "uvloop"];

/// The one version of CPython on which serving systems are compared: the newest that all of them have.
pub const SERVING: u8 = 11;

/// The environments of `cargo xtask lab serve` and `cargo xtask lab web`, and what each is made for. They come before the packages of
/// the tests, so each system has the releases that it asks for, and torch from there. The stub of Triton's Python backend reads arrays
/// of numpy 1 only.
const SERVERS: [(&str, &[&str]); 5] = [
    ("triton", &["numpy==1.26.4", "tokenizers"]),
    ("litserve", &["litserve", "httptools", "uvloop", "tokenizers", "numpy"]),
    ("mlserver", &["mlserver", "uvloop==0.21.0", "tokenizers"]),
    ("fastapi", &["fastapi", "uvicorn", "httptools", "uvloop", "tokenizers", "numpy"]),
    ("rivals", &RIVALS),
];

/// The servers of web applications that `cargo xtask lab web` compares, and what its applications import.
const RIVALS: [&str; 15] = [
    "gunicorn",
    "uvicorn",
    "uvicorn-worker",
    "uvloop",
    "httptools",
    "granian",
    "hypercorn",
    "django",
    "flask",
    "fastapi",
    "sqlalchemy",
    "psycopg",
    "psycopg-binary",
    "pandas",
    "numpy",
];

/// The servers that `cargo xtask lab protocols` compares, and what the suites that it runs ask for.
const PROTOCOLS: [&str; 20] = [
    "uvicorn",
    "httptools",
    "websockets",
    "wsproto",
    "granian",
    "gunicorn",
    "hypercorn",
    "starlette",
    "httpx2",
    "zstandard",
    "itsdangerous",
    "jinja2",
    "python-multipart",
    "pyyaml",
    "opentelemetry-sdk",
    "django",
    "asgiref",
    "flask",
    "pytest",
    "pytest-asyncio",
];

/// The lock file of their environment, with [`SERVING`].
pub const OF_PROTOCOLS: &str = include_str!("../../locks/protocols-cp311.txt");

/// The sources of the projects whose own tests it runs: wheels have no tests.
pub const SOURCES_OF_PROTOCOLS: &str = include_str!("../../locks/protocols-sources.txt");

/// Autobahn's test suite with all that it depends on, for CPython 2.7. Packages that only make it faster are left out. It is written by
/// hand: the pip of CPython 2.7 makes no report.
pub const AUTOBAHN: &str = include_str!("../../locks/autobahn-cp27.txt");

/// The lock file of one of the environments of `cargo xtask lab serve` and `cargo xtask lab web`.
pub fn server(name: &str) -> Option<&'static str> {
    match name {
        "triton" => Some(include_str!("../../locks/triton-cp311.txt")),
        "litserve" => Some(include_str!("../../locks/litserve-cp311.txt")),
        "mlserver" => Some(include_str!("../../locks/mlserver-cp311.txt")),
        "fastapi" => Some(include_str!("../../locks/fastapi-cp311.txt")),
        "rivals" => Some(include_str!("../../locks/rivals-cp311.txt")),
        _ => None,
    }
}

/// The lock files of a minor version, compiled into this program.
pub struct Lock {
    /// All packages of the tests.
    pub text: &'static str,
    /// The models' own packages, without those of `text`; `None` without torch.
    pub models: Option<&'static str>,
    /// The same for the packages of `cargo xtask lab workloads`.
    pub workloads: Option<&'static str>,
    /// The same for the clients of the server.
    pub clients: Option<&'static str>,
    /// The frameworks for the web, with all that they depend on.
    pub web: Option<&'static str>,
}

/// The lock files of CPython 3.`minor`, one of [`MINORS`].
pub fn of(minor: u8) -> Lock {
    macro_rules! with_torch {
        ($version:literal) => {
            Lock {
                text: include_str!(concat!("../../locks/", $version, ".txt")),
                models: Some(include_str!(concat!("../../locks/models-", $version, ".txt"))),
                workloads: Some(include_str!(concat!("../../locks/workloads-", $version, ".txt"))),
                clients: Some(include_str!(concat!("../../locks/clients-", $version, ".txt"))),
                web: Some(include_str!(concat!("../../locks/web-", $version, ".txt"))),
            }
        };
    }
    match minor {
        10 => with_torch!("cp310"),
        11 => with_torch!("cp311"),
        12 => with_torch!("cp312"),
        13 => with_torch!("cp313"),
        14 => with_torch!("cp314"),
        15 => Lock {
            text: include_str!("../../locks/cp315.txt"),
            models: None,
            workloads: None,
            clients: None,
            web: None,
        },
        _ => unreachable!("MINORS lists the versions that have a lock file"),
    }
}

/// The packages that the tests require on CPython 3.`minor`.
fn wanted(minor: u8) -> &'static [&'static str] {
    if minor < NO_TORCH { &WANTED } else { &WITHOUT_TORCH }
}

impl Lock {
    /// Whether torch is among the packages.
    pub fn has_torch(&self) -> bool {
        self.models.is_some()
    }

    /// The line of numpy, which needs no other package.
    pub fn numpy(&self) -> &'static str {
        self.text.lines().find(|line| line.starts_with("numpy==")).expect("numpy is pinned")
    }
}

/// The number of packages that a lock file pins.
pub fn packages(text: &str) -> usize {
    text.lines().filter(|line| line.contains("==")).count()
}

/// The part of `pip install --report` that the task reads (pip's documentation, "Installation Report").
#[derive(Deserialize)]
struct Report {
    install: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    archive_info: Archive,
}

#[derive(Deserialize)]
struct Archive {
    hashes: std::collections::BTreeMap<String, String>,
}

/// Options of `cargo xtask lock`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only for this CPython; without it for all, and the machine must have all
    #[arg(long, value_name = "3.N|PATH")]
    python: Option<Wanted>,
    /// Only those of the servers that `cargo xtask lab serve` and `cargo xtask lab web` compare
    #[arg(long, conflicts_with = "python")]
    servers: bool,
    /// Only those of the frameworks that the tests of `hydrozoa run` serve, and of `cargo xtask lab protocols`
    #[arg(long, conflicts_with = "servers")]
    web: bool,
}

/// Rewrites `xtask/locks`.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.servers {
        return rewrite_servers(&python::find(Some(&Wanted::Minor(SERVING)))?);
    }
    let all = || MINORS.map(Wanted::Minor).to_vec();
    let wanted = arguments.python.clone().map_or_else(all, |one| vec![one]);
    let mut all = wanted.iter().map(|python| python::find(Some(python)));
    if arguments.web {
        // torch's last release has none, and the tests run on its versions.
        let with_torch =
            |python: &Result<Python>| python.as_ref().is_ok_and(|it| it.minor >= NO_TORCH);
        return all
            .filter(|python| !with_torch(python))
            .try_for_each(|python| rewrite_web(&python?));
    }
    all.try_for_each(|python| rewrite(&python?))
}

fn rewrite(python: &Python) -> Result<()> {
    let (minor, wanted) = (python.minor, wanted(python.minor));
    let names: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
    let base = resolve(python, &names)?;
    write(minor, &format!("cp3{minor}.txt"), &base, wanted)?;
    if minor >= NO_TORCH {
        return Ok(());
    }
    // Further packages must be compatible with the pinned ones; their lock files contain the additional packages.
    let pinned: Vec<String> =
        base.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
    let kinds = [("models", &MODELS[..]), ("workloads", &WORKLOADS[..]), ("clients", &CLIENTS[..])];
    for (kind, wanted) in kinds {
        let further = wanted.iter().map(|&name| name.to_owned());
        let names: Vec<String> = pinned.iter().cloned().chain(further).collect();
        let added: String = resolve(python, &names)?
            .lines()
            .filter(|line| !pinned.iter().any(|pin| line.starts_with(&format!("{pin} "))))
            .map(|line| format!("{line}\n"))
            .collect();
        write(minor, &format!("{kind}-cp3{minor}.txt"), &added, wanted)?;
    }
    rewrite_web(python)?;
    if minor == SERVING { rewrite_servers(python) } else { Ok(()) }
}

fn rewrite_web(python: &Python) -> Result<()> {
    let lines = resolve(python, &WEB.map(str::to_owned))?;
    write(python.minor, &format!("web-cp3{}.txt", python.minor), &lines, &WEB)?;
    if python.minor == SERVING { rewrite_protocols(python) } else { Ok(()) }
}

fn rewrite_protocols(python: &Python) -> Result<()> {
    let lines = resolve(python, &PROTOCOLS.map(str::to_owned))?;
    write(SERVING, &format!("protocols-cp3{SERVING}.txt"), &lines, &PROTOCOLS)
}

fn rewrite_servers(python: &Python) -> Result<()> {
    for (name, wanted) in SERVERS {
        let names: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        let lines = resolve(python, &names)?;
        write(SERVING, &format!("{name}-cp3{SERVING}.txt"), &lines, wanted)?;
    }
    Ok(())
}

/// The lines of a lock file after its head.
fn resolve(python: &Python, wanted: &[String]) -> Result<String> {
    let output = Command::new(&python.executable)
        .args([
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--only-binary=:all:",
            "--report",
            "-",
        ])
        .args(wanted)
        .stderr(Stdio::inherit())
        .output()
        .context("starting pip")?;
    if !output.status.success() {
        bail!("pip could not resolve the packages for CPython 3.{}", python.minor);
    }
    render(serde_json::from_slice(&output.stdout).context("reading pip's report")?)
}

fn write(minor: u8, file: &str, lines: &str, wanted: &[&str]) -> Result<()> {
    let path = workspace::root().join("xtask/locks").join(file);
    let text = format!(
        "# CPython 3.{minor}, x86-64, manylinux wheels. Written by `cargo xtask lock` for: {}.\n{lines}",
        wanted.join(", ")
    );
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn render(report: Report) -> Result<String> {
    let mut lines = Vec::new();
    for Item { metadata: Metadata { name, version }, download_info } in report.install {
        let hash = download_info
            .archive_info
            .hashes
            .get("sha256")
            .with_context(|| format!("{name}: no SHA-256"))?;
        // Names are compared in their normal form (PEP 503).
        lines.push(format!(
            "{}=={version} --hash=sha256:{hash}",
            name.to_lowercase().replace(['_', '.'], "-")
        ));
    }
    lines.sort();
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_pins_numpy_and_torch_where_it_can_and_hashes_each_package() {
        for minor in MINORS {
            let lock = of(minor);
            let pins = lock.text.contains("\ntorch==2.11.0 --hash=sha256:");
            assert_eq!((pins, lock.has_torch()), (minor < NO_TORCH, minor < NO_TORCH), "3.{minor}");
            for line in lock.text.lines().skip(1) {
                let (name, hash) = line.split_once(" --hash=sha256:").expect(line);
                assert!(name.contains("==") && hash.len() == 64, "{line}");
            }
            assert!(lock.numpy().contains(" --hash=sha256:"), "3.{minor}");
            assert!(packages(lock.text) > if pins { 20 } else { 0 }, "3.{minor}");
        }
    }

    #[test]
    fn the_environment_of_each_serving_system_is_pinned_and_hashed() {
        for (name, all) in SERVERS {
            let text = server(name).expect(name);
            for wanted in all {
                let pin = if wanted.contains("==") { " " } else { "==" };
                assert!(text.contains(&format!("\n{wanted}{pin}")), "{name}: {wanted}");
            }
            for line in text.lines().skip(1) {
                let (pin, hash) = line.split_once(" --hash=sha256:").expect(line);
                assert!(pin.contains("==") && hash.len() == 64, "{name}: {line}");
            }
        }
        assert_eq!(server("another"), None);
    }

    #[test]
    fn the_suites_of_protocols_are_pinned_hashed_and_of_the_releases_that_they_test() {
        for text in [OF_PROTOCOLS, SOURCES_OF_PROTOCOLS, AUTOBAHN] {
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (pin, hash) = line.split_once(" --hash=sha256:").expect(line);
                assert!(pin.contains("==") && hash.len() == 64, "{line}");
            }
        }
        for wanted in PROTOCOLS {
            assert!(OF_PROTOCOLS.contains(&format!("\n{wanted}==")), "{wanted}");
        }
        for line in SOURCES_OF_PROTOCOLS.lines().filter(|line| !line.starts_with('#')) {
            let (pin, _) = line.split_once(' ').expect(line);
            assert!(
                OF_PROTOCOLS.contains(&format!("\n{pin} ")),
                "{pin}: the environment has another"
            );
        }
    }

    #[test]
    fn the_frameworks_for_the_web_are_pinned_and_hashed() {
        for text in MINORS.into_iter().filter_map(|minor| of(minor).web) {
            for wanted in WEB {
                assert!(text.contains(&format!("\n{wanted}==")), "{wanted}");
            }
            for line in text.lines().skip(1) {
                let (pin, hash) = line.split_once(" --hash=sha256:").expect(line);
                assert!(pin.contains("==") && hash.len() == 64, "{line}");
            }
        }
    }

    #[test]
    fn further_packages_are_hashed_and_leave_the_pinned_ones_alone() {
        let locks = MINORS.into_iter().flat_map(|minor| {
            let Lock { text, models, workloads, clients, .. } = of(minor);
            let all = [(models, &MODELS[..]), (workloads, &WORKLOADS[..]), (clients, &CLIENTS[..])];
            all.map(|(own, wanted)| (minor, text, own, wanted))
        });
        for (minor, base, own, all) in locks {
            let Some(own) = own else { continue };
            for wanted in all {
                let pin = if wanted.contains("==") { " " } else { "==" };
                assert!(own.contains(&format!("\n{wanted}{pin}")), "3.{minor}: {wanted}");
            }
            for line in own.lines().skip(1) {
                let (pin, hash) = line.split_once(" --hash=sha256:").expect(line);
                let (name, _) = pin.split_once("==").expect(line);
                assert!(hash.len() == 64, "{line}");
                assert!(
                    !base.contains(&format!("\n{name}==")),
                    "3.{minor}: {name} is pinned twice"
                );
            }
        }
    }
}
