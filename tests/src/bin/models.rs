//! The program of `cargo xtask lab models`: a package that stock torch.package has written, in several interpreters at once.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hydrozoa::{Buffer, Imports, Interpreter, Movable, Object, Package, Pool, Session};
use hydrozoa_measure::package::{EXAMPLE, MODEL};
use hydrozoa_tests::mappings;

#[derive(Parser)]
#[command(
    about = "Loads a package into interpreters, calls it in all at once, and compares with plain python"
)]
struct Options {
    /// The package
    #[arg(long)]
    package: PathBuf,
    /// Plain python's results, as tests/models/check.py encodes them
    #[arg(long)]
    expected: PathBuf,
    /// A virtual environment with torch, and without the package's own modules
    #[arg(long)]
    venv: PathBuf,
    /// How many interpreters, each with a thread that calls
    #[arg(long, default_value_t = 2)]
    interpreters: usize,
    /// Interpreters import with a profile of the model's work
    #[arg(long)]
    lazy_imports: bool,
    /// Then settles all interpreters in this folder, and calls them again
    #[arg(long, value_name = "DIR")]
    settle: Option<PathBuf>,
    /// How often each interpreter is called
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A top-level module that the package brings: it is as if the machine did not have it
    #[arg(long, value_name = "MODULE")]
    absent: Vec<String>,
}

/// The functions with which plain python made its bytes. They are compiled in, so that both have one version.
const CHECK: &str = include_str!("../../models/check.py");

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(hydrozoa::Error::Python { traceback, .. }) = error.downcast_ref() {
                eprintln!("{traceback}");
            }
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The result of a thread.
struct Found {
    loaded: Duration,
    differences: Vec<String>,
}

fn run(options: &Options) -> Result<()> {
    let expected = std::fs::read(&options.expected)
        .with_context(|| format!("reading {}", options.expected.display()))?;
    let builder = Pool::builder().interpreters(options.interpreters).venv(&options.venv);
    let builder = match options.lazy_imports {
        true => builder.clone().imports(Imports::Profile(builder.record_imports(|pool| {
            options.prepare(pool)?;
            let package = pool.load_package(&options.package)?;
            let model = package.load_pickle(MODEL.0, MODEL.1)?;
            let example = package.load_pickle(EXAMPLE.0, EXAMPLE.1)?;
            let session = pool.acquire()?;
            let call = session.run(CHECK, "check.py")?.getattr("call")?;
            let output = call.call((model.to_object(&session)?, example.to_object(&session)?))?;
            output.extract::<Vec<u8>>()
        })?)),
        false => builder,
    };
    let pool = builder.build()?;
    options.prepare(&pool)?;
    let start = Instant::now();
    let package = pool.load_package(&options.package)?;
    let model = package.load_pickle(MODEL.0, MODEL.1)?;
    let example = package.load_pickle(EXAMPLE.0, EXAMPLE.1)?;
    let opened = start.elapsed();
    let work =
        Work { options, expected: &expected, package: &package, model: &model, example: &example };
    let mut found = work.everywhere(&pool)?;
    if let Some(folder) = &options.settle {
        for interpreter in pool.interpreters() {
            interpreter.settle(folder)?;
        }
        found.extend(work.everywhere(&pool)?);
    }
    for mapping in mappings::own()? {
        let file = mapping.path.unwrap_or_default();
        for name in &options.absent {
            let folder = format!("site-packages/{name}/");
            ensure!(
                !file.to_string_lossy().contains(&folder),
                "the machine's {} is used",
                file.display()
            );
        }
    }
    let differences: Vec<&String> = found.iter().flat_map(|found| &found.differences).collect();
    let loaded = found.iter().map(|found| found.loaded).max().unwrap_or_default();
    println!(
        "{}",
        serde_json::json!({
            "calls": found.len() * options.rounds,
            "opened": opened.as_secs_f64(),
            "loaded": loaded.as_secs_f64(),
            "differences": differences,
        })
    );
    Ok(())
}

impl Options {
    /// Imports that interpreters need before the package.
    fn prepare(&self, pool: &Pool) -> hydrozoa::Result<()> {
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            // The exporter uses this number too. The number of threads decides how sums are split, and so their bits.
            session.run("import torch, numpy\ntorch.set_num_threads(1)", "prepare.py")?;
            let modules = session.import("sys")?.getattr("modules")?;
            for name in &self.absent {
                // "ModuleNotFoundError is raised" for a name with None (Python's reference, 5.3.1).
                modules.set_item(name.as_str(), session.none()?)?;
            }
        }
        Ok(())
    }
}

struct Work<'a> {
    options: &'a Options,
    expected: &'a [u8],
    package: &'a Package,
    model: &'a Movable,
    example: &'a Movable,
}

/// The objects that a thread calls, in its interpreter.
struct Ready<'s> {
    check: Object<'s>,
    call: Object<'s>,
    model: Object<'s>,
    example: Object<'s>,
    loaded: Duration,
}

impl Work<'_> {
    /// Calls the model in all interpreters at once.
    fn everywhere(&self, pool: &Pool) -> Result<Vec<Found>> {
        let barrier = Barrier::new(self.options.interpreters);
        thread::scope(|scope| {
            let start = |interpreter: Interpreter| {
                let barrier = &barrier;
                scope.spawn(move || self.on(&interpreter, barrier))
            };
            let threads: Vec<_> = pool.interpreters().into_iter().map(start).collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    /// Loads the model.
    fn ready<'s>(&self, session: &'s Session) -> Result<Ready<'s>> {
        let check = session.run(CHECK, "check.py")?;
        let call = check.getattr("call")?;
        let start = Instant::now();
        let model = self.model.to_object(session)?;
        let example = self.example.to_object(session)?;
        let loaded = start.elapsed();
        Ok(Ready { check, call, model, example, loaded })
    }

    fn on(&self, interpreter: &Interpreter, barrier: &Barrier) -> Result<Found> {
        let session = interpreter.session();
        barrier.wait();
        let ready = self.ready(&session);
        // A thread that failed comes here as well: the others wait for it.
        barrier.wait();
        let Ready { check, call, model, example, loaded } = ready?;
        let mut differences = Vec::new();
        for round in 0..self.options.rounds {
            let output: Buffer = call.call((&model, &example))?.extract()?;
            // SAFETY: `call` returns `bytes`, which no code ever writes.
            let bytes = unsafe { output.as_slice::<u8>() }?;
            if bytes != self.expected {
                let difference: String =
                    check.getattr("difference")?.call((self.expected, bytes))?.extract()?;
                differences.push(format!("{}, call {round}: {difference}", interpreter.name()));
            }
        }
        let modules = session.eval("lambda importer: len(importer.modules)")?;
        let modules: usize = modules.call((self.package.importer(&session)?,))?.extract()?;
        ensure!(modules > 0, "{}: no module came from the package", interpreter.name());
        Ok(Found { loaded, differences })
    }
}
