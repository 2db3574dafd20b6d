//! `hydrozoa inspect`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hydrozoa::loader::{Class, Inspection};
use hydrozoa::python::{self, Installation};
use serde_json::{Value, json};

use crate::Choice;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// A shared library, or an extension module
    #[arg(value_name = "FILE.so")]
    file: PathBuf,
    /// Inspects as after an import of this module; some libraries find their dependencies only once it is loaded
    #[arg(long = "after", value_name = "MODULE")]
    modules: Vec<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<i32> {
    let Choice { python, venv, torch, .. } = &options.choice;
    let python = python::choose(python.as_deref(), venv.as_deref())?;
    let inspection = if options.modules.is_empty() {
        hydrozoa::inspect(&options.file, &python, (*torch).into(), &options.choice.libraries())?
    } else {
        after(options, &python)?
    };
    let mut out = if options.json {
        serde_json::to_string_pretty(&as_json(&inspection))? + "\n"
    } else {
        text(&inspection)?
    };
    let missing = inspection.dependencies.iter().any(|one| one.class.is_none());
    if missing && options.modules.is_empty() && !options.json {
        out.push_str(
            "a missing dependency may be found after an import: --after torch, for a torch extension\n",
        );
    }
    match std::io::stdout().write_all(out.as_bytes()) {
        // The reader closed the pipe.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        written => Ok(written.map(|()| 0)?),
    }
}

/// Inspects in an interpreter that has imported the modules.
fn after(options: &Options, python: &Installation) -> Result<Inspection> {
    let mut builder = options.choice.builder().interpreters(1).python(python.library());
    if let Some(venv) = python.venv() {
        builder = builder.venv(venv);
    }
    let pool = builder.build()?;
    let interpreter = &pool.interpreters()[0];
    let session = interpreter.session();
    for module in &options.modules {
        session.import(module).with_context(|| format!("importing {module}"))?;
    }
    Ok(interpreter.domain().inspect(&options.file)?)
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

/// The report as text.
fn text(inspection: &Inspection) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out, "{}", inspection.path.display())?;
    writeln!(out, "  name         {}", inspection.soname)?;
    let meaning = match inspection.class {
        Class::Replicate => "each interpreter has its own",
        Class::Commons => "loaded once for all interpreters",
        Class::System => "left to the system's loader, once for the process",
    };
    writeln!(out, "  class        {}: {meaning}", words(Some(inspection.class)))?;
    writeln!(out, "  because      {}", inspection.reason)?;
    writeln!(
        out,
        "  a copy costs {} at load, {} at most; {} are shared",
        size(inspection.private_at_load),
        size(inspection.private_at_most),
        size(inspection.shared)
    )?;
    if inspection.private_text > 0 {
        writeln!(
            out,
            "  text relocations write {} of code and constants, which each copy has for itself",
            size(inspection.private_text)
        )?;
    }
    if inspection.executable_stack {
        writeln!(out, "  it asks for executable stacks, which are not granted")?;
    }
    writeln!(out, "  segments     {:>10} {:>12} {:>12}", "address", "memory", "in file")?;
    for segment in &inspection.segments {
        writeln!(
            out,
            "    r{}{}       {:>#12x} {:>12} {:>12}",
            if segment.write { 'w' } else { '-' },
            if segment.execute { 'x' } else { '-' },
            segment.address,
            segment.memory,
            segment.file
        )?;
    }
    writeln!(out, "  relocations")?;
    for (name, count) in &inspection.relocations {
        writeln!(out, "    {name:<24} {count:>10}")?;
    }
    match inspection.tls {
        Some(tls) => writeln!(
            out,
            "  thread-local {} bytes, {} of them initialised, aligned to {}{}",
            tls.size,
            tls.initialised,
            tls.alignment,
            if tls.initial_exec { ", reached by fixed offsets (initial-exec)" } else { "" }
        ),
        None => writeln!(out, "  thread-local none"),
    }?;
    for (title, versions) in
        [("wants", &inspection.versions_needed), ("defines", &inspection.versions_defined)]
    {
        if !versions.is_empty() {
            writeln!(out, "  {title:<12} {}", versions.join(" "))?;
        }
    }
    writeln!(out, "  loading it brings")?;
    for dependency in &inspection.dependencies {
        writeln!(
            out,
            "    {:<11}{:<32} {}",
            words(dependency.class),
            dependency.name,
            dependency.reason
        )?;
    }
    Ok(out)
}

/// A number of bytes with a unit.
fn size(bytes: usize) -> String {
    let kib = bytes as f64 / 1024.0;
    if kib < 1024.0 { format!("{kib:.0} KiB") } else { format!("{:.1} MiB", kib / 1024.0) }
}

fn as_json(inspection: &Inspection) -> Value {
    json!({
        "path": inspection.path,
        "soname": inspection.soname,
        "class": words(Some(inspection.class)),
        "reason": inspection.reason,
        "private_at_load": inspection.private_at_load,
        "private_at_most": inspection.private_at_most,
        "shared": inspection.shared,
        "private_text": inspection.private_text,
        "executable_stack": inspection.executable_stack,
        "segments": inspection.segments.iter().map(|segment| json!({
            "address": segment.address,
            "memory": segment.memory,
            "file": segment.file,
            "write": segment.write,
            "execute": segment.execute,
        })).collect::<Vec<_>>(),
        "relocations": inspection.relocations,
        "tls": inspection.tls.map(|tls| json!({
            "size": tls.size,
            "initialised": tls.initialised,
            "alignment": tls.alignment,
            "initial_exec": tls.initial_exec,
        })),
        "versions_needed": inspection.versions_needed,
        "versions_defined": inspection.versions_defined,
        "dependencies": inspection.dependencies.iter().map(|dependency| json!({
            "name": dependency.name,
            "path": dependency.path,
            "class": words(dependency.class),
            "reason": dependency.reason,
        })).collect::<Vec<_>>(),
    })
}
