//! An error says what failed, and nothing else is damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::{Error, Session};
use hydrozoa_tests::place;
use hydrozoa_tests::survivors::with_survivors;

/// The parts of the Python exception with which a call must have ended.
fn raised<T>(result: hydrozoa::Result<T>) -> Result<(String, String, String)> {
    match result {
        Err(Error::Python { type_name, message, traceback, .. }) => {
            Ok((type_name, message, traceback))
        }
        Err(other) => bail!("not a Python exception: {other:?}"),
        Ok(_) => bail!("no error"),
    }
}

pub fn exception() -> Result<()> {
    with_survivors(|_, session| {
        let code =
            "class Refusal(ValueError): pass\ndef refuse(n):\n    raise Refusal(f'number {n}')\n";
        let namespace = session.run(code, "refusing.py")?;
        for number in 0..100 {
            let (type_name, message, traceback) =
                raised(namespace.getattr("refuse")?.call((number,)))?;
            ensure!(type_name.ends_with("Refusal"), "{type_name}");
            ensure!(message == format!("number {number}"), "{message}");
            ensure!(
                traceback.contains("refusing.py") && traceback.contains("line 3"),
                "{traceback}"
            );
        }
        let (type_name, ..) = raised(session.run("raise SystemExit(4)", "exit.py"))?;
        ensure!(type_name == "SystemExit", "{type_name}");
        let (type_name, ..) = raised(session.run("def f(): f()\nf()", "deep.py"))?;
        ensure!(type_name == "RecursionError", "{type_name}");
        Ok(())
    })
}

pub fn missing_module() -> Result<()> {
    with_survivors(|_, session| {
        let (type_name, message, _) = raised(session.import("no_such_module_at_all"))?;
        ensure!(
            type_name == "ModuleNotFoundError" && message.contains("no_such_module_at_all"),
            "{type_name}: {message}"
        );
        Ok(())
    })
}

/// Compiles a library from C.
fn compile(folder: &Path, name: &str, source: &str) -> Result<PathBuf> {
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&input, source)?;
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&output)
        .arg(&input)
        .status()
        .context("starting cc")?;
    ensure!(status.success(), "cc: {status}");
    Ok(output)
}

/// Imports an extension module from a path.
fn import_file(session: &Session, name: &str, path: &Path) -> Result<hydrozoa::Result<()>> {
    let code = "import importlib.util, sys\n\
                def load(name, path):\n\
                \x20   spec = importlib.util.spec_from_file_location(name, path)\n\
                \x20   spec.loader.exec_module(importlib.util.module_from_spec(spec))\n";
    let load = session.run(code, "load.py")?.getattr("load")?;
    let path = path.to_str().context("a UTF-8 path")?;
    Ok(load.call((name, path)).map(drop))
}

pub fn missing_symbol() -> Result<()> {
    let folder = place::scratch("missing-symbol")?;
    let function = "extern int hydrozoa_missing_function(void);\nvoid *PyInit_missing_function(void) { return (void *)(long)hydrozoa_missing_function(); }\n";
    let data = "extern int hydrozoa_missing_data;\nvoid *PyInit_missing_data(void) { return &hydrozoa_missing_data; }\n";
    let (function, data) = (
        compile(folder.path(), "missing_function", function)?,
        compile(folder.path(), "missing_data", data)?,
    );
    with_survivors(|_, session| {
        for (name, path) in [("missing_function", &function), ("missing_data", &data)] {
            let (type_name, message, _) = raised(import_file(session, name, path)?)?;
            let named = message.contains(&format!("hydrozoa_{name}"))
                && message.contains(&format!("{name}.so"));
            ensure!(type_name == "ImportError" && named, "{type_name}: {message}");
        }
        // A C function that a replica looks up by itself.
        let code = "import ctypes\nctypes.CDLL(None).hydrozoa_no_such_function";
        let (type_name, message, _) = raised(session.run(code, "lookup.py"))?;
        ensure!(
            type_name == "AttributeError" && message.contains("hydrozoa_no_such_function"),
            "{type_name}: {message}"
        );
        Ok(())
    })
}

pub fn truncated_library() -> Result<()> {
    let folder = place::scratch("truncated")?;
    // It imports from libpython, so that the loader itself maps it. It is large enough to be cut at interesting places.
    let source = "extern void *PyLong_FromLong(long);\nstatic char table[70000] = {1};\nvoid *PyInit_cut(void) { return PyLong_FromLong(table[0]); }\n";
    let whole = fs::read(compile(folder.path(), "cut", source)?)?;
    with_survivors(|_, session| {
        for length in [0, 3, 63, 64, 500, 4096, 8192, whole.len() / 2] {
            let path = folder.path().join(format!("cut_{length}.so"));
            fs::write(&path, &whole[..length])?;
            let (type_name, message, _) = raised(import_file(session, "cut", &path)?)
                .with_context(|| format!("cut at {length}"))?;
            ensure!(
                type_name == "ImportError" && message.contains(&format!("cut_{length}.so")),
                "{type_name}: {message}"
            );
        }
        Ok(())
    })
}
