//! `cargo xtask test`: all tests except the long ones, with a time for each step.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context, Result, bail, ensure};

use crate::environment::{self, Environment};
use crate::libtest::counted;
use crate::linker::{cases, random};
use crate::programs::{Program, Programs};
use crate::python::{self, Python};
use crate::pythons::{self, Pythons};
use crate::steps::{Count, Outcome, Steps, check};
use crate::{
    beside_pyo3, cache, compare, debian, dist, interface, lab, lock, package, quick, tools, wheel,
    workspace,
};

/// Options of `cargo xtask test`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only the tests that need no torch, in a few minutes: for work in progress
    #[arg(long, conflicts_with_all = ["repetitions", "python", "full"])]
    quick: bool,
    /// Also steps that take long and depend little on a change: the packages of crates.io, `panic = "abort"`, PyO3's programs,
    /// lints of cargo features, Python's own package on each CPython, all tests on the CPython whose turn it is, and release
    /// builds of the programs that measure
    #[arg(long)]
    full: bool,
    /// How often the programs in several copies are run; 20 before a release
    #[arg(long, value_name = "N", default_value_t = ONCE)]
    repetitions: usize,
}

/// How often the programs in several copies are run on the suite's CPython, and on the further one: the suite has a limit of 45
/// minutes.
const ONCE: usize = 1;

/// Programs of the runtime with few tests, which take long and load torch or measure memory. They run beside the other programs.
const LONE: [&str; 13] = [
    "breakdown",
    "cycles",
    "cycles_torch",
    "devices",
    "endurance",
    "imports_torch",
    "injections",
    "limits_torch",
    "memory_limit",
    "package_imports",
    "packages_torch",
    "settle",
    "settle_torch",
];

/// The program of the runtime that measures for as long as other programs keep processors from it, up to a minute.
const QUIET: &str = "parallel";

/// The step of [`c_interface`].
pub const C_INTERFACE: &str = "programs in C, C++ and Python; valgrind";

/// Runs every step, even after a failure. Returns an error if anything failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.quick {
        return quick::run();
    }
    let wanted = arguments.environment.python.as_ref();
    let python = python::find(wanted)?;
    let pythons = Pythons::of_machine(Some(&python));
    if !lock::of(python.minor).has_torch() {
        return without_torch(&python, &pythons);
    }
    // A named Python is the only one used.
    let has_turn = arguments.full && wanted.is_none();
    let turn = has_turn.then(|| pythons.turn(python.minor, pythons::today())).flatten();
    all(arguments, &python, &pythons, turn.as_ref())
}

/// The tests that need no torch, on a Python for which torch has no wheel.
fn without_torch(python: &Python, pythons: &Pythons) -> Result<()> {
    let minor = python.minor;
    let words = format!(
        "CPython 3.{minor}: torch 2.11.0 has no wheel for it. NO TEST WITH TORCH IS RUN. {}",
        pythons.lacks()
    );
    println!("{words}");
    let mut steps = Steps::default();
    quick::add(&mut steps);
    steps.run("conformance without torch", || {
        let programs = Programs::build()?;
        let numpy = numpy(pythons)?;
        without_torch_on(minor, &numpy, &programs)
    });
    println!("\n{words}");
    if !steps.summary() {
        bail!("the tests failed");
    }
    Ok(())
}

fn all(
    arguments: &Arguments,
    python: &Python,
    pythons: &Pythons,
    turn: Option<&Python>,
) -> Result<()> {
    let words = pythons.words(python.minor, turn);
    println!("{words}");
    let mut steps = Steps::default();
    // Downloads leave the processors free.
    let (sender, prepared) = mpsc::channel();
    let (own, all) = (python.clone(), pythons.clone());
    let environments = steps.begin("environments: pinned torch, torchvision, numpy", move || {
        sender.send((Environment::with_torch(own)?, numpy(&all)?))?;
        Ok(Count::one(true))
    });
    quick::lints(&mut steps);
    steps.run("documentation, and public interfaces beside their lists", interface::check);
    let mut programs = None;
    steps.run("build of all tests", || {
        programs = Some(Programs::build()?);
        Ok(Count::one(true))
    });
    steps.join(environments);
    let prepared = prepared.try_recv().ok();
    let further = turn.zip(prepared.as_ref()).map(|(turn, (environment, _))| {
        let (environment, further) = (environment.clone(), turn.clone());
        steps.begin(&format!("environment of CPython 3.{}", further.minor), move || {
            environment.further(further)?;
            Ok(Count::one(true))
        })
    });
    let mut place = None;
    if let Some(((environment, numpy), programs)) = prepared.as_ref().zip(programs) {
        steps.run("models, C++ extension", || {
            place = Some(Requirements::prepare(environment, numpy, programs, arguments)?);
            Ok(Count::one(true))
        });
    }
    steps.run("linker cases, each with one compiler and linker", || {
        let selection = cases::Selection { quick: true, ..cases::Selection::default() };
        cases::run(&selection)
    });
    steps.run("random programs under both loaders", || {
        random::run(random::QUICK_COUNT, random::QUICK_SEED)
    });
    if let Some(place) = &place {
        // Before tests that run beside each other, as apt lets one install at a time. A test whose allocator is missing says so.
        for tools in [&tools::ALLOCATORS[..], &tools::C_INTERFACE, &debian::TOOLS] {
            if let Err(error) = tools::install(tools) {
                println!("{error}");
            }
        }
        steps.together(&[
            &|steps| of_crates(steps, place),
            &|steps| {
                on_torch(steps, place);
                others(steps, place, pythons, turn);
            },
            &|steps| compiled(steps, place, turn),
        ]);
        further.into_iter().for_each(|further| steps.join(further));
        long_processes(&mut steps, place);
        measured(&mut steps, place);
    }
    if arguments.full {
        steps.run("the files of a release, installed in empty Debians", dist::checked);
        steps.run("published crates compile from their archives alone", package::run);
        steps.run("the README, followed in an empty root", || check(&mut lab::command("newcomer")));
    }
    println!("\n{words}");
    if !steps.summary() {
        bail!("the tests failed");
    }
    Ok(())
}

/// The tests of the crates.
fn of_crates(steps: &mut Steps, place: &Requirements<'_>) {
    steps.run("unit and integration tests of the crates", || {
        let others = ["tests", "doors/c"].map(Path::new);
        let crates = |program: &Program| {
            !others.contains(&program.package.as_path())
                && !LONE.iter().chain([&QUIET]).any(|name| program.is("runtime", name))
        };
        place.programs.select(crates).run(&[], |command| place.name(command))
    });
}

/// Programs that load torch or measure memory, and the tests of the whole.
fn on_torch(steps: &mut Steps, place: &Requirements<'_>) {
    steps.run("memory, packages and devices", || lone(&place.programs, &place.variables()?));
    steps.run("layer rules and conformance", || {
        let own = |program: &Program| program.package == Path::new("tests");
        place.programs.select(own).run(&[], |command| place.name(command))
    });
    if place.full {
        steps.run("programs beside PyO3: lints, and the snippets of docs/from-pyo3.md", || {
            beside_pyo3::test(place.environment)
        });
        steps.run("a program built with panic = \"abort\"", || aborting(place));
    }
}

/// The steps that run one process for many seconds: another project's server, and random operations.
fn long_processes(steps: &mut Steps, place: &Requirements<'_>) {
    steps.run("models in a real Triton, by the backend", || check(&mut place.short("triton")));
    steps.run("hydrozoa serve at twice what it can do, 20 seconds", || {
        check(&mut place.short("serve"))
    });
    steps.run("movables raced by 16 threads, 15 seconds", || {
        check(place.role("race").args(["--minutes", "0.25"]))
    });
    steps.run("random operations of the public interface by 8 threads, 30 seconds", || {
        check(place.role("stress").args(["--minutes", "0.5"]))
    });
}

/// The steps that measure. The long ones want a quiet machine.
fn measured(steps: &mut Steps, place: &Requirements<'_>) {
    steps.run("two interpreters on two processors", || {
        place.programs.named(&[("runtime", QUIET)])?.run(&[], |command| place.name(command))
    });
    steps.run("work with JSON and struct by all contenders, in short form", || {
        let options = "--only documents,records --seconds 0.1 --rounds 2";
        let mut command = compare::workloads(&place.compare, place.environment)?;
        check(command.args(options.split(' ')))
    });
    if !place.full {
        return;
    }
    steps.run("weights of BERT-base: time, memory, a second process", || {
        check(compare::weights(&place.compare, place.environment)?.args(["--rounds", "3"]))
    });
    steps.run("comparison on a GPU, rehearsed in main memory", || {
        // On the smallest models: whether it works, not how fast.
        let options = "--device cpu --counts 1,2 --seconds 0.5 --layers 1 --replacements 2";
        check(place.role("gpu").args(options.split(' ')))
    });
    steps.run("demo in short form, with the promised speed", || {
        let mut command = compare::comparison(&place.compare, place.environment, &place.models);
        command.args(["--seconds", "0.5", "--rounds", "5", "--counts", "1,2", "--require-speed"]);
        check(&mut command)
    });
}

/// The steps that compile more.
fn compiled(steps: &mut Steps, place: &Requirements<'_>, turn: Option<&Python>) {
    steps.run("a command for glibc 2.28, in an empty Debian 11", dist::briefly);
    steps.run("documentation tests", || {
        let mut command = workspace::patient_cargo();
        place.name(command.args(["test", "--workspace", "--doc", "--no-fail-fast"]))?;
        counted(&mut command)
    });
    steps.run("cargo feature tch, by the environment's libtorch", || tch(place));
    let numpy = place.for_python_package(turn);
    steps.run(C_INTERFACE, || c_interface(place.environment.root(), &numpy, &place.programs));
}

/// The steps on other versions of CPython than the suite's.
fn others(steps: &mut Steps, place: &Requirements<'_>, pythons: &Pythons, turn: Option<&Python>) {
    let own = place.environment.base().minor;
    for other in pythons.all().iter().filter(|other| other.minor != own) {
        steps.run(&format!("conformance without torch on CPython 3.{}", other.minor), || {
            without_torch_on(other.minor, place.numpy, &place.programs)
        });
    }
    if let Some(turn) = turn {
        let minor = turn.minor;
        steps.run(&format!("conformance on one more CPython, by the day: 3.{minor}"), || {
            let environment = place.environment.further(turn.clone())?;
            let place = Requirements {
                environment: &environment,
                clients: place.clients.clone(),
                web: place.web.clone(),
                models: compare::export(&environment)?,
                programs: place.programs.clone(),
                compare: place.compare.clone(),
                extension: place.extension.clone(),
                repetitions: ONCE,
                ..*place
            };
            let conformance = place.programs.named(&[("tests", "conformance")])?;
            conformance.run(&[], |command| place.name(command))
        });
    }
}

/// An environment with numpy for each Python.
fn numpy(pythons: &Pythons) -> Result<Vec<Environment>> {
    pythons.all().iter().cloned().map(Environment::with_numpy).collect()
}

/// The conformance tests that need numpy alone, on CPython 3.`minor`.
fn without_torch_on(minor: u8, numpy: &[Environment], programs: &Programs) -> Result<Outcome> {
    let of_version = |environment: &&Environment| environment.base().minor == minor;
    let own = numpy.iter().find(of_version).context("each Python has an environment")?;
    programs.named(&[("tests", "pythons")])?.run(&[], |tests| {
        tests
            .env("HYDROZOA_TEST_PYTHONS", all_pythons(numpy)?)
            .env("HYDROZOA_TEST_VENV", own.root())
            .env("HYDROZOA_TEST_COMMAND", &programs.command)
            .env("OMP_NUM_THREADS", "1");
        Ok(())
    })
}

/// The roots of all environments with numpy, as tests take them.
fn all_pythons(numpy: &[Environment]) -> Result<OsString> {
    Ok(std::env::join_paths(numpy.iter().map(Environment::root))?)
}

/// The environment variables of the tests.
type Variables = [(&'static str, OsString); 10];

/// The tests' requirements.
struct Requirements<'a> {
    environment: &'a Environment,
    clients: PathBuf,
    web: PathBuf,
    numpy: &'a [Environment],
    models: PathBuf,
    programs: Programs,
    compare: PathBuf,
    extension: PathBuf,
    repetitions: usize,
    full: bool,
}

impl<'a> Requirements<'a> {
    fn prepare(
        environment: &'a Environment,
        numpy: &'a [Environment],
        programs: Programs,
        arguments: &Arguments,
    ) -> Result<Self> {
        Ok(Self {
            environment,
            clients: environment.with_clients()?.root().to_owned(),
            web: Environment::with_web(environment.base().clone())?.root().to_owned(),
            numpy,
            // To compile all of it once more, optimized, takes minutes.
            compare: match arguments.full {
                true => workspace::build("hydrozoa-benches", "compare")?,
                false => programs.compare.clone(),
            },
            programs,
            models: compare::export(environment)?,
            extension: extension(environment)?,
            repetitions: arguments.repetitions,
            full: arguments.full,
        })
    }

    /// The environments in which the tests of Python's own package run: of the suite's version and of the day's, or all.
    fn for_python_package(&self, turn: Option<&Python>) -> Vec<PathBuf> {
        let minors = [Some(self.environment.base().minor), turn.map(|turn| turn.minor)];
        let wanted = |one: &&Environment| self.full || minors.contains(&Some(one.base().minor));
        self.numpy.iter().filter(wanted).map(|one| one.root().to_owned()).collect()
    }

    fn name(&self, command: &mut Command) -> Result<()> {
        command.envs(self.variables()?);
        Ok(())
    }

    /// The command line of a role of `compare`.
    fn role(&self, name: &str) -> Command {
        compare::role(&self.compare, name, self.environment.root())
    }

    /// The short form of a laboratory, by programs that are built.
    fn short(&self, laboratory: &str) -> Command {
        let mut command = Command::new(&self.programs.lab);
        command.arg(laboratory).arg("--short").arg("--built").arg(&self.programs.folder);
        command.arg("--python").arg(&self.environment.base().executable);
        command
    }

    fn variables(&self) -> Result<Variables> {
        let repetitions = self.repetitions.to_string();
        Ok([
            ("HYDROZOA_TEST_PYTHONS", all_pythons(self.numpy)?.as_os_str()),
            ("HYDROZOA_TEST_VENV", self.environment.root().as_os_str()),
            ("HYDROZOA_TEST_CLIENTS", self.clients.as_os_str()),
            ("HYDROZOA_TEST_WEB", self.web.as_os_str()),
            ("HYDROZOA_TEST_MODELS", self.models.as_os_str()),
            ("HYDROZOA_TEST_COMMAND", self.programs.command.as_os_str()),
            ("HYDROZOA_TEST_BUILT", self.programs.folder.as_os_str()),
            ("HYDROZOA_TEST_EXTENSION", self.extension.as_os_str()),
            ("HYDROZOA_TEST_REPETITIONS", repetitions.as_ref()),
            ("OMP_NUM_THREADS", "1".as_ref()),
        ]
        .map(|(name, value)| (name, value.to_owned())))
    }
}

/// The programs that run beside others.
fn lone(programs: &Programs, variables: &Variables) -> Result<Outcome> {
    programs.named(&LONE.map(|name| ("runtime", name)))?.run(&[], |command| {
        command.envs(variables.clone());
        Ok(())
    })
}

/// The other features' tests are among those of the crates (tests/Cargo.toml).
fn tch(place: &Requirements<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if place.full {
        let mut clippy = workspace::cargo();
        clippy.args("clippy --package hydrozoa --all-features --lib --test tch".split(' '));
        clippy.args(["--", "-D", "warnings"]);
        outcome.add(check(place.environment.with_libtorch(&mut clippy)?)?);
        let alone = "clippy --package hydrozoa --lib -- -D warnings";
        outcome.add(check(workspace::cargo().args(alone.split(' ')))?);
    }
    let mut test = workspace::patient_cargo();
    // As a part of the workspace, so that what is built serves.
    test.args(["test", "--workspace", "--features", "hydrozoa/tch", "--test", "tch"]);
    place.name(&mut test)?;
    outcome.add(counted(place.environment.with_libtorch(&mut test)?)?);
    Ok(outcome)
}

/// The tests of the C interface, with numpy from the environment at `root`, and those of the Python package over it.
fn c_interface(root: &Path, numpy: &[PathBuf], programs: &Programs) -> Result<Outcome> {
    tools::install(&tools::C_INTERFACE)?;
    let own = |program: &Program| program.package == Path::new("doors/c");
    let mut outcome = programs.select(own).run(&[], |command| {
        command.env("HYDROZOA_TEST_VENV", root).env("OMP_NUM_THREADS", "1");
        command.env("HYDROZOA_TEST_BUILT", &programs.folder);
        Ok(())
    })?;
    outcome.add(wheel::sources(numpy, root, &programs.folder)?);
    Ok(outcome)
}

/// Cargo's test profile ignores `panic`, so the check needs a program.
fn aborting(place: &Requirements<'_>) -> Result<Outcome> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--profile", "aborting", "--package", "hydrozoa-tests"]);
    command.args(["--bin", "aborting", "--"]).arg(place.environment.root());
    check(command.env("OMP_NUM_THREADS", "1"))
}

/// Builds the C++ extension with torch.utils.cpp_extension. That does nothing if the source has not changed.
fn extension(environment: &Environment) -> Result<PathBuf> {
    // The folder depends on the environment: an extension is built against one torch and one Python.
    let name = environment.root().file_name().context("an environment has a name")?;
    let folder = cache::root()?.join("extension").join(name);
    eprintln!(
        "building the C++ extension with torch.utils.cpp_extension (half a minute the first time)"
    );
    let output = environment
        .python()
        .arg(workspace::root().join("tests/scripts/extension/build.py"))
        .arg(&folder)
        .stderr(Stdio::inherit())
        .output()
        .context("starting python")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "building the extension failed: {}\n{text}", output.status);
    let path = text.lines().last().context("build.py prints the library's path")?;
    ensure!(Path::new(path).exists(), "{path} was not built");
    Ok(PathBuf::from(path))
}
