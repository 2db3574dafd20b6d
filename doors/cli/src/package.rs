//! `hydrozoa package`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use hydrozoa::package::build::{Action, Profile, Recipe, Verdict};
use hydrozoa::package::{Archive, Signature};
use hydrozoa::{ImportProfile, Imports};

use crate::{Choice, missing_module};

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Calls MODULE:CALLABLE and packages the model that it returns; then loads the package and compares the outputs
    Build(Box<Build>),
    /// Prints the contents of a package
    Show {
        /// The package
        file: PathBuf,
        /// Only records that match, such as 'model/*' or '**/*.so'
        #[arg(value_name = "PATTERN")]
        pattern: Option<String>,
    },
    /// Writes a package's records to files
    Extract {
        /// The package
        file: PathBuf,
        /// Only records that match
        #[arg(value_name = "PATTERN")]
        pattern: Option<String>,
        /// Into this folder
        #[arg(short = 'C', long = "directory", value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Checks the structure and every byte of a package
    Verify {
        /// The package
        file: PathBuf,
    },
}

#[derive(Args)]
struct Build {
    #[command(flatten)]
    choice: Choice,
    /// A function without parameters that returns the model, or the model and a tuple of arguments to call it with
    #[arg(value_name = "MODULE:CALLABLE", value_parser = target)]
    target: String,
    /// The package to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    rules: Rules,
    /// A shared library to include, with the `*.libs` that it needs; RECORD is its place, by default where Python
    /// finds it
    #[arg(long = "with-extension", value_name = "SO[=RECORD]")]
    extensions: Vec<String>,
    /// Another file to include, which the code reads as a resource; RECORD as above
    #[arg(long = "with-file", value_name = "FILE[=RECORD]")]
    files: Vec<String>,
    /// Also look for modules here; the command always looks in the current folder
    #[arg(long = "path", value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// Write the dependency report as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the whole dependency tree
    #[arg(long)]
    tree: bool,
    /// Also load and call the model in two further interpreters, and put into the package which imports that needs
    #[arg(long)]
    record_imports: bool,
    /// Put this profile of imports into the package
    #[arg(long, value_name = "PROFILE", conflicts_with = "record_imports")]
    imports: Option<PathBuf>,
    /// The first extent of all inputs and outputs is that of a batch, which may be as large: a server joins requests
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    max_batch_size: usize,
    /// An extent that requests may choose, such as `words:1`: the name of an input or output, and its place from 0
    #[arg(long = "free", value_name = "NAME:PLACE", value_parser = free)]
    free: Vec<(String, usize)>,
    /// How long to look for false dependencies; 0 turns the search off
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    search: f64,
}

/// The rules in the order of the command line. The order matters, and clap's derive does not keep it.
struct Rules(Vec<(Action, String)>);

const ACTIONS: [(Action, &str); 4] = [
    (Action::Intern, "Modules whose source goes into the package"),
    (Action::Extern, "Modules that the serving machine has"),
    (Action::Mock, "Modules to replace by mocks that raise when used"),
    (Action::Deny, "Modules that must not be needed"),
];

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        ACTIONS.into_iter().fold(command, |command, (action, help)| {
            command.arg(
                Arg::new(action.name())
                    .long(action.name())
                    .value_name("PATTERN")
                    .action(ArgAction::Append)
                    .help(format!("{help}; the first rule that matches applies")),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Vec::new();
        for (action, _) in ACTIONS {
            let places = matches.indices_of(action.name()).into_iter().flatten();
            let patterns = matches.get_many::<String>(action.name()).into_iter().flatten();
            rules.extend(places.zip(patterns).map(|(at, pattern)| (at, action, pattern.clone())));
        }
        rules.sort_by_key(|(at, ..)| *at);
        Ok(Self(rules.into_iter().map(|(_, action, pattern)| (action, pattern)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the task and returns the exit status. It is 1 if the written package does not work.
pub fn run(options: Options) -> Result<i32> {
    match options.task {
        Task::Build(options) => build(&options),
        Task::Show { file, pattern } => show(&file, pattern.as_deref()),
        Task::Extract { file, pattern, folder } => extract(&file, pattern.as_deref(), &folder),
        Task::Verify { file } => verify(&file),
    }
}

fn build(options: &Build) -> Result<i32> {
    let mut recipe = Recipe::new(&options.target);
    recipe.rules = options.rules.0.clone();
    recipe.extensions = options.extensions.iter().map(|text| with_record(text)).collect();
    recipe.files = options.files.iter().map(|text| with_record(text)).collect();
    recipe.paths = options
        .paths
        .iter()
        .cloned()
        .chain([std::env::current_dir().context("finding the current folder")?])
        .collect();
    recipe.search = Duration::try_from_secs_f64(options.search).context("--search")?;
    recipe.profile = match &options.imports {
        Some(file) => Profile::Given(ImportProfile::load(file)?),
        None if options.record_imports => Profile::Recorded,
        None => Profile::Without,
    };
    recipe.max_batch_size = options.max_batch_size;
    recipe.free.clone_from(&options.free);
    // One interpreter makes the package, the other loads it.
    let pool = options.choice.pool(2)?;
    let own = options.target.split(':').next();
    let report = pool
        .build_package(&recipe, &options.output)
        .map_err(|error| missing_module::explained(error.into(), &options.choice, own))?;
    if options.tree {
        crate::output::put(format_args!("{}", report.tree()));
    }
    let count = |action: &str| report.modules.iter().filter(|m| m.action == action).count();
    say!(
        "{}: {} bytes; {} storages of {} bytes; {} modules interned, {} external, {} mocked; {} libraries",
        report.file.display(),
        report.bytes,
        report.storages.0,
        report.storages.1,
        count("intern"),
        count("extern"),
        count("mock"),
        report.libraries.len(),
    );
    let proposed = report.proposed_mocks();
    if !proposed.is_empty() {
        say!("false dependencies: it computes the same bits with these mocked");
        for pattern in proposed {
            say!("  --mock '{pattern}'");
        }
        if !report.complete {
            say!("  and maybe more: --search {} was not enough to try all", options.search);
        }
    }
    let mut costs = report.large_costs().peekable();
    if costs.peek().is_some() {
        say!(
            "external modules take private memory in each interpreter; to save it, mock or patch what imports them"
        );
        for cost in costs {
            say!("  {cost}");
        }
    }
    if let Some(profile) = &report.imports {
        say!("{}", imports(profile));
    }
    match &report.signature {
        Ok(found) => put_signature(found),
        Err(problem) => say!("a server needs a configuration to serve it: {problem}"),
    }
    if let Some(path) = &options.html {
        fs::write(path, report.html()).with_context(|| format!("writing {}", path.display()))?;
    }
    match &report.verdict {
        Verdict::Same => {
            say!("loaded hermetically, it computes the same bits as the unpackaged model");
        }
        Verdict::Loads => say!(
            "loaded hermetically; to compare outputs, have {} return (model, arguments)",
            options.target
        ),
        Verdict::Differs(what) => {
            say!("loaded hermetically, it computes something else: {what}");
            return Ok(1);
        }
        Verdict::Fails(error) => {
            say!("the package was written, and does not work by itself:\n{error}");
            return Ok(1);
        }
    }
    Ok(0)
}

/// `MODULE:CALLABLE`. The exporter looks at it again, in the interpreter.
fn target(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((module, _)) if !module.ends_with(".py") && !module.contains('/') => {
            Ok(text.to_owned())
        }
        _ => Err(
            "it is MODULE:CALLABLE, such as train:packaged for the function packaged() of train.py"
                .to_owned(),
        ),
    }
}

/// `FILE` or `FILE=RECORD`.
fn with_record(text: &str) -> (PathBuf, Option<String>) {
    match text.split_once('=') {
        Some((file, record)) => (file.into(), Some(record.to_owned())),
        None => (text.into(), None),
    }
}

/// `NAME:PLACE`.
fn free(text: &str) -> Result<(String, usize), String> {
    let parts = text.rsplit_once(':').and_then(|(name, place)| Some((name, place.parse().ok()?)));
    let (name, place) = parts.ok_or("it is NAME:PLACE, such as words:1 for the second extent")?;
    Ok((name.to_owned(), place))
}

/// Lines about a signature.
fn put_signature(signature: &Signature) {
    for (_, input) in &signature.inputs {
        say!("input   {input}");
    }
    for output in &signature.outputs {
        say!("output  {output}");
    }
    if signature.max_batch_size > 0 {
        say!("batches of up to {}", signature.max_batch_size);
    }
}

/// A line about a profile.
fn imports(profile: &ImportProfile) -> String {
    let (needed, left_out) = (profile.needed().count(), profile.left_out().count());
    let python = profile.python_version().unwrap_or("of no stated version");
    format!(
        "profile of imports, python {python}: {needed} modules are needed, {left_out} are left out"
    )
}

/// The records that match. If there is a pattern, at least one record must match it.
fn chosen<'a>(archive: &'a Archive, pattern: Option<&str>) -> Result<Vec<&'a str>> {
    let Some(pattern) = pattern else { return Ok(archive.records().collect()) };
    let found: Vec<&str> = archive.find(pattern).collect();
    ensure!(!found.is_empty(), "{}: no record matches {pattern}", archive.label());
    Ok(found)
}

fn show(file: &Path, pattern: Option<&str>) -> Result<i32> {
    let archive = Archive::open(file)?;
    let records = chosen(&archive, pattern)?;
    if pattern.is_none() {
        say!("python {}", archive.python_version().unwrap_or("version not stated"));
        say!("external modules: {}", archive.extern_modules().join(", "));
        let libraries: Vec<&str> = archive.libraries().collect();
        if !libraries.is_empty() {
            say!("libraries: {}", libraries.join(", "));
        }
        if let Imports::Profile(profile) = archive.imports()? {
            say!("{}", imports(&profile));
        }
        if let Some(signature) = archive.signature()? {
            put_signature(&signature);
        }
    }
    for record in records {
        say!("{:>12}  {record}", archive.size(record)?);
    }
    Ok(0)
}

fn extract(file: &Path, pattern: Option<&str>, folder: &Path) -> Result<i32> {
    let archive = Archive::open(file)?;
    // No name leads out of the folder: `Archive::open` refuses such names.
    for record in chosen(&archive, pattern)? {
        let path = folder.join(record);
        let parent = path.parent().context("a record has a name")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, archive.read(record)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(0)
}

fn verify(file: &Path) -> Result<i32> {
    let archive = Archive::open(file)?;
    if let Err(error) = archive.verify() {
        bail!("{error}");
    }
    say!("{}: {} records, all as they were written", file.display(), archive.records().count());
    Ok(0)
}
