//! `hydrozoa python`.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write, stderr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Archive;
use hydrozoa::{CommandLine, ImportProfile, Imports};

use crate::Choice;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// How many copies to start
    #[arg(long, value_name = "N", default_value = "1", value_parser = crate::count)]
    copies: NonZeroUsize,
    /// In which copy ARGS run: a number from 1, or `all` for all at once; the last one by default
    #[arg(long = "in", value_name = "K|all", value_parser = place)]
    place: Option<CopyChoice>,
    /// Give each copy environment variables of its own, which begin as the command's
    #[arg(long)]
    own_environment: bool,
    /// Import at once what this profile names, and the rest when something asks for it; PROFILE may be a package that carries
    /// one
    #[arg(long, value_name = "PROFILE")]
    lazy_imports: Option<PathBuf>,
    /// Run the program `ARGS` at least twice, and write which modules it needs to this file, for --lazy-imports
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["lazy_imports", "place", "own_environment"])]
    record_imports: Option<PathBuf>,
    /// Arguments as python takes them; HYDROZOA_COPY in os.environ is the copy's number
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy)]
enum CopyChoice {
    Copy(usize),
    All,
}

impl Options {
    /// Whether the program runs in one copy, as if it was alone in the process.
    pub fn in_one(&self) -> bool {
        self.copies.get() == 1 || !matches!(self.place, Some(CopyChoice::All))
    }
}

fn place(text: &str) -> Result<CopyChoice, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(CopyChoice::All),
        (_, Ok(number)) if number > 0 => Ok(CopyChoice::Copy(number)),
        _ => Err("a number from 1, or `all`".to_owned()),
    }
}

/// Runs the program and returns its exit status. With several copies it returns the first status that is not 0.
pub fn run(options: Options) -> Result<i32> {
    if let Some(profile) = &options.record_imports {
        return record(&options, profile).map(|()| 0);
    }
    let copies = options.copies.get();
    match options.place.unwrap_or(CopyChoice::Copy(copies)) {
        CopyChoice::All if copies > 1 => in_all(&options, copies),
        CopyChoice::All => in_one(&options, 1, 1),
        CopyChoice::Copy(copy) => {
            ensure!(copy <= copies, "--in {copy} is greater than --copies {copies}");
            in_one(&options, copy, copies)
        }
    }
}

/// Returns the first status that is not 0.
fn in_all(options: &Options, copies: usize) -> Result<i32> {
    let commands = (1..=copies).map(|copy| command(options, copy)).collect::<Result<Vec<_>>>()?;
    let statuses = CommandLine::run_at_once(commands)?;
    Ok(statuses.into_iter().find(|status| *status != 0).unwrap_or(0))
}

fn command(options: &Options, copy: usize) -> Result<CommandLine> {
    let Choice { python, venv, .. } = &options.choice;
    let command = CommandLine::new(python.clone(), venv.as_deref(), &options.arguments)?
        .libraries(&options.choice.libraries())
        .variable("HYDROZOA_COPY", copy.to_string());
    let command = match &options.lazy_imports {
        Some(profile) => command.imports(imports(profile)?),
        None => command,
    };
    Ok(match options.own_environment {
        true => command.environment(env::vars_os()),
        false => command,
    })
}

/// The profile in a file of its own, or in a package.
fn imports(file: &Path) -> Result<Imports> {
    let mut head = [0; 2];
    let is_package =
        File::open(file).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"PK";
    if !is_package {
        return Ok(Imports::Profile(ImportProfile::load(file)?));
    }
    let imports = Archive::open(file)?.imports()?;
    let carries = matches!(imports, Imports::Profile(_));
    let build = "build it with `hydrozoa package build --record-imports`";
    ensure!(carries, "{} carries no profile of imports: {build}", file.display());
    Ok(imports)
}

/// The other copies are started and idle. The program runs on the main thread, where Python expects to handle signals.
fn in_one(options: &Options, copy: usize, copies: usize) -> Result<i32> {
    let idle = if copies > 1 {
        let mut builder = options.choice.builder().interpreters(copies - 1);
        if let Some(profile) = &options.lazy_imports {
            builder = builder.imports(imports(profile)?);
        }
        Some(builder.build().context("starting the other copies")?)
    } else {
        None
    };
    let status = command(options, copy)?.signal_handlers(true).run()?;
    drop(idle);
    Ok(status)
}

/// A program as python has it: a file, `-m` and a module, or `-c` and code, with its arguments in `sys.argv`.
const PROGRAM: &str = "
import runpy, sys
def program(words):
    first = words[0]
    sys.argv[:] = words[2:] if first in ('-m', '-c') else words
    sys.argv[:] = [first] + sys.argv if first == '-c' else sys.argv
    try:
        if first == '-c':
            exec(compile(words[1], '<string>', 'exec'), {'__name__': '__main__'})
        elif first == '-m':
            sys.argv.insert(0, words[1])
            runpy.run_module(words[1], run_name='__main__', alter_sys=True)
        else:
            import os
            sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
            runpy.run_path(first, run_name='__main__')
    except SystemExit as end:
        return repr(end.code)
    finally:
        sys.stdout.flush()
    return 'None'
";

/// Writes the profile of a program.
fn record(options: &Options, file: &Path) -> Result<()> {
    ensure!(!options.arguments.is_empty(), "--record-imports needs a program: a file, -m or -c");
    let words = options.arguments.iter().map(|word| word.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words = words.context("an argument of the program is not UTF-8")?;
    let profile = options.choice.builder().record_imports(|pool| {
        let session = pool.acquire()?;
        let program = session.run(PROGRAM, "program.py")?.getattr("program")?;
        program.call((words.clone(),))?.extract::<String>()
    })?;
    profile.save(file)?;
    let (needed, left_out) = (profile.needed().count(), profile.left_out().count());
    // The program has run, whether anybody hears of its profile or not.
    let _ = writeln!(
        stderr(),
        "{}: {needed} modules are needed, {left_out} are left out",
        file.display()
    );
    Ok(())
}
