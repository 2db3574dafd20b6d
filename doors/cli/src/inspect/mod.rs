//! `hydrozoa inspect`.

mod directory;
mod file;

use std::path::PathBuf;

use anyhow::{Result, bail};
use hydrozoa::loader::{Class, Cost, Inspection};
use hydrozoa::python::{self, Installation};
use hydrozoa::{Pool, Survey};
use serde_json::{Value, json};

use crate::{Choice, missing_module, output};

pub use directory::count;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// A shared library, an extension module, or a directory of them
    #[arg(value_name = "FILE.so|DIR")]
    path: PathBuf,
    /// Inspect after an import of this module; some libraries find their dependencies only then
    #[arg(long = "after", value_name = "MODULE")]
    modules: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<i32> {
    let python = python::choose(options.choice.python.as_deref(), options.choice.venv.as_deref())?;
    let out = match options.path.is_dir() {
        true => of_directory(options, &python)?,
        false => of_file(options, &python)?,
    };
    output::put(format_args!("{out}"));
    Ok(0)
}

fn of_file(options: &Options, python: &Installation) -> Result<String> {
    let inspection = if options.modules.is_empty() {
        hydrozoa::inspect(&options.path, python, &options.choice.libraries())?
    } else {
        let pool = after(options, python)?;
        pool.interpreters()[0].domain().inspect(&options.path)?
    };
    if options.json {
        return Ok(serde_json::to_string_pretty(&file::as_json(&inspection))? + "\n");
    }
    let mut out = file::text(&inspection)?;
    if is_missing_something(&inspection) && options.modules.is_empty() {
        out.push_str(
            "a missing dependency may be found after an import: --after torch, for a torch extension\n",
        );
    }
    Ok(out)
}

fn is_missing_something(inspection: &Inspection) -> bool {
    inspection.dependencies.iter().any(|one| one.class.is_none())
}

/// Fails if no library below the directory can be inspected.
fn of_directory(options: &Options, python: &Installation) -> Result<String> {
    let places = [options.path.clone()];
    let survey = if options.modules.is_empty() {
        hydrozoa::survey(&places, python, &options.choice.libraries())?
    } else {
        let pool = after(options, python)?;
        Survey::of(pool.interpreters()[0].domain(), &places)?
    };
    let shown = options.path.display();
    match &survey.failed[..] {
        [(_, first), ..] if survey.libraries.is_empty() => {
            bail!(
                "{shown}: none of its {} libraries can be inspected: {first}",
                survey.failed.len()
            )
        }
        [] if survey.libraries.is_empty() => bail!("{shown}: there is no shared library below it"),
        _ => {}
    }
    Ok(match options.json {
        true => serde_json::to_string_pretty(&directory::as_json(&survey))? + "\n",
        false => directory::text(&options.path, &survey)?,
    })
}

/// A pool of one interpreter that has imported the modules.
fn after(options: &Options, python: &Installation) -> Result<Pool> {
    let mut builder = options.choice.builder().interpreters(1).python(python.library());
    if let Some(venv) = python.venv() {
        builder = builder.venv(venv);
    }
    let pool = builder.build()?;
    let session = pool.interpreters()[0].session();
    for module in &options.modules {
        let imported = session.import(module);
        imported.map_err(|error| missing_module::explained(error.into(), &options.choice, None))?;
    }
    drop(session);
    Ok(pool)
}

/// The meaning of a class for a process with several interpreters.
fn words(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Replicate) => "replicated",
        Some(Class::Commons) => "shared",
        Some(Class::System) => "system",
        None => "missing",
    }
}

/// A number of bytes with a unit.
pub fn size(bytes: usize) -> String {
    let kib = bytes as f64 / 1024.0;
    if kib < 1024.0 { format!("{kib:.0} KiB") } else { format!("{:.1} MiB", kib / 1024.0) }
}

/// The figures of a cost, in bytes.
fn figures(cost: &Cost) -> Value {
    json!({
        "private_at_load": cost.at_load(),
        "private_at_most": cost.at_most(),
        "shared": cost.shared,
        "private_text": cost.relocated_text,
        "relocated_constants": cost.relocated_constants,
        "relocated_data": cost.relocated_data,
        "data": cost.data,
        "zeroed": cost.zeroed,
        "thread_local": cost.thread_local,
    })
}

/// `object` with the entries of `more`, both of them JSON objects.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
