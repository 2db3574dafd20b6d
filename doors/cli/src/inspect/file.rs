//! The report on one file.

use std::fmt::Write as _;

use hydrozoa::loader::{Class, Cost, DependencyInfo, Inspection};
use serde_json::{Value, json};

use super::{figures, size, with, words};

/// The report as text.
pub(super) fn text(inspection: &Inspection) -> Result<String, std::fmt::Error> {
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
    write_cost(&mut out, &inspection.cost)?;
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
    write_dependencies(&mut out, inspection)?;
    Ok(out)
}

fn write_cost(out: &mut String, cost: &Cost) -> std::fmt::Result {
    writeln!(
        out,
        "  a copy costs {} at load, {} at most; {} are shared",
        size(cost.at_load()),
        size(cost.at_most()),
        size(cost.shared)
    )?;
    for (bytes, what) in [
        (cost.relocated_constants, "at load, constants that hold addresses"),
        (cost.relocated_data, "at load, variables"),
        (cost.relocated_text, "at load, code and constants that text relocations write"),
        (cost.data, "later, variables, each page at its first write"),
        (cost.zeroed, "later, variables that begin as zeros, each page at its first write"),
        (cost.thread_local, "thread-local, for each thread that uses the copy"),
    ] {
        if bytes > 0 {
            writeln!(out, "    {:>10}  {what}", size(bytes))?;
        }
    }
    Ok(())
}

fn write_dependencies(out: &mut String, inspection: &Inspection) -> std::fmt::Result {
    writeln!(out, "  loading it brings")?;
    for dependency in &inspection.dependencies {
        let cost = dependency.cost.filter(|_| dependency.class == Some(Class::Replicate));
        let cost = match cost {
            Some(cost) => format!("{} to {}", size(cost.at_load()), size(cost.at_most())),
            None => String::new(),
        };
        writeln!(
            out,
            "    {:<11}{:<32} {cost:<22} {}",
            words(dependency.class),
            dependency.name,
            dependency.reason
        )?;
    }
    let brought = brought(inspection);
    if inspection.class == Class::Replicate && brought.len() > 1 {
        let total: Cost = brought.into_iter().sum();
        writeln!(
            out,
            "  with what it brings, a further interpreter costs {} at load, {} at most",
            size(total.at_load()),
            size(total.at_most())
        )?;
    }
    Ok(())
}

/// The costs of the file, if it is replicated, and of what is replicated with it.
fn brought(inspection: &Inspection) -> Vec<Cost> {
    let is_new = |dependency: &&DependencyInfo| {
        dependency.class == Some(Class::Replicate)
            && !dependency.held
            && dependency.path.as_ref() != Some(&inspection.path)
    };
    let own = (inspection.class == Class::Replicate).then_some(inspection.cost);
    let needs = inspection.dependencies.iter().filter(is_new).filter_map(|one| one.cost);
    own.into_iter().chain(needs).collect()
}

/// The report as JSON.
pub(super) fn as_json(inspection: &Inspection) -> Value {
    let dependency = |dependency: &DependencyInfo| {
        let entry = json!({
            "name": dependency.name,
            "path": dependency.path,
            "class": words(dependency.class),
            "reason": dependency.reason,
            "held": dependency.held,
        });
        with(entry, dependency.cost.as_ref().map_or(Value::Null, figures))
    };
    let report = json!({
        "path": inspection.path,
        "soname": inspection.soname,
        "class": words(Some(inspection.class)),
        "reason": inspection.reason,
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
        "dependencies": inspection.dependencies.iter().map(dependency).collect::<Vec<_>>(),
        "with_dependencies": figures(&brought(inspection).into_iter().sum()),
    });
    with(report, figures(&inspection.cost))
}
