//! `hydrozoa seal`.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hydrozoa_seal::{Report, Sealed, Sealer, Step};

#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Options {
    /// The file to write
    #[arg(short, long, value_name = "APP", required_unless_present = "look")]
    output: Option<PathBuf>,
    /// A version such as 3.12, a python executable, the prefix of an installation or a libpython3.X.so; by default that of
    /// --venv, else the best Python that the command finds
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
    /// Take the packages of a virtual environment along
    #[arg(long, value_name = "DIR", conflicts_with = "with")]
    venv: Option<PathBuf>,
    /// Install a package for the application, such as numpy or 'numpy==2.1'
    #[arg(long, value_name = "PACKAGE")]
    with: Vec<String>,
    /// Run this file of Python as the program
    #[arg(long, value_name = "FILE", conflicts_with = "entry")]
    script: Option<PathBuf>,
    /// Call this function as the program, and exit with its result
    #[arg(long, value_name = "MODULE:FUNCTION")]
    entry: Option<String>,
    /// Take all files of a directory along, whose modules come first
    #[arg(long, value_name = "DIR")]
    app: Vec<PathBuf>,
    /// Take a package of a model along. Without --script and --entry the application serves it, as `hydrozoa serve` does
    #[arg(long, value_name = "MODEL.pt")]
    package: Vec<PathBuf>,
    /// Let the application use these parts of the machine: certs (certificates of authorities), zone (time zones), tmp (the
    /// directory for temporary files), or an absolute path
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    allow: Vec<String>,
    /// Leave out files that match a pattern, such as 'nvidia/**'
    #[arg(long, value_name = "PATTERN")]
    without: Vec<String>,
    /// Take along parts of the standard library that stay out otherwise, such as test or tkinter; * for all
    #[arg(long, value_name = "PATTERN")]
    keep: Vec<String>,
    /// Carry libstdc++ and libgcc_s too
    #[arg(long)]
    carry_cxx: bool,
    /// Leave out the sources of modules
    #[arg(long)]
    no_sources: bool,
    /// Leave out the names of native functions, by which perf shows them
    #[arg(long)]
    no_symbols: bool,
    /// How many interpreters run the program at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = crate::count)]
    copies: NonZeroUsize,
    /// The program that becomes the application, built with the cargo feature `embed`; by default this command
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
}

/// Looks into an application that is sealed already.
#[derive(clap::Args)]
#[group(id = "look", multiple = false)]
#[command(next_help_heading = "For a sealed application")]
struct Look {
    /// Show what is inside: versions, licences, sizes
    #[arg(long, value_name = "APP")]
    show: Option<PathBuf>,
    /// Show the same with the hash of each member
    #[arg(long, value_name = "APP")]
    hashes: Option<PathBuf>,
    /// Write what is inside as a bill of materials (CycloneDX, JSON)
    #[arg(long, value_name = "APP")]
    cyclonedx: Option<PathBuf>,
    /// Compare all bytes with their hashes
    #[arg(long, value_name = "APP")]
    verify: Option<PathBuf>,
    /// Write what is inside into a directory, for debuggers and audits
    #[arg(long, num_args = 2, value_names = ["APP", "DIR"])]
    extract: Option<Vec<PathBuf>>,
}

/// Seals an application, or looks into one. Returns the exit status.
pub fn run(options: Options) -> Result<i32> {
    let Look { show, hashes, cyclonedx, verify, extract } = &options.look;
    if let Some(application) = show {
        output(&Sealed::open(application)?.show(false));
    } else if let Some(application) = hashes {
        output(&Sealed::open(application)?.show(true));
    } else if let Some(application) = cyclonedx {
        output(&Sealed::open(application)?.cyclonedx());
    } else if let Some(application) = verify {
        Sealed::open(application)?.verify()?;
        say!("{}: all bytes are as they were sealed", application.display());
    } else if let Some([application, folder]) = extract.as_deref() {
        Sealed::open(application)?.extract(folder)?;
    } else {
        return seal(options).map(|()| 0);
    }
    Ok(0)
}

fn output(text: &str) {
    crate::output::put(format_args!("{}\n", text.trim_end()));
}

fn seal(options: Options) -> Result<()> {
    let file = options.output.context("no file to write: name one with -o")?;
    let mut sealer = Sealer::new(options.python.as_deref())
        .carry_cxx(options.carry_cxx)
        .sources(!options.no_sources)
        .symbols(!options.no_symbols)
        .copies(options.copies.get());
    if let Some(venv) = &options.venv {
        sealer = sealer.venv(venv);
    }
    if let Some(script) = &options.script {
        sealer = sealer.script(script);
    }
    if let Some(entry) = options.entry {
        sealer = sealer.entry(entry);
    }
    if let Some(base) = &options.base {
        sealer = sealer.base(base);
    }
    sealer = options.with.into_iter().fold(sealer, Sealer::with_package);
    sealer = options.app.iter().fold(sealer, Sealer::app);
    sealer = options.package.iter().fold(sealer, Sealer::package);
    sealer = options.allow.into_iter().fold(sealer, Sealer::allow);
    sealer = options.without.iter().fold(sealer, |sealer, pattern| sealer.without(pattern));
    sealer = options.keep.iter().fold(sealer, |sealer, pattern| sealer.keep(pattern));
    if stderr().is_terminal() {
        sealer = sealer.progress(progress);
    }
    let report = sealer.seal(&file)?;
    tell(&report);
    say!(
        "{}: {} MB, {} members, Python {}",
        file.display(),
        report.bytes.div_ceil(1_000_000),
        report.members,
        report.python
    );
    Ok(())
}

fn progress(step: &Step) {
    match step {
        Step::Installs(packages) => eprintln!("installing {}", packages.join(", ")),
        Step::Compiles(modules) => eprintln!("compiling {modules} modules"),
        Step::Resolves(libraries) => eprintln!("looking for the needs of {libraries} libraries"),
        Step::Writes(members) => eprintln!("writing {members} members"),
        _ => {}
    }
}

/// Prints what the caller should know.
fn tell(report: &Report) {
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    if let Some(glibc) = &report.glibc {
        say!("it runs where glibc is {glibc} or newer");
    }
}
