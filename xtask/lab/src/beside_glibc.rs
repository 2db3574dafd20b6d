//! The loader's promised speed, beside glibc's loader in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::workspace;

/// The command of every measurement.
pub fn measurements(arguments: &environment::Arguments) -> Result<Vec<Command>> {
    let environment = Environment::prepare(arguments)?;
    let program = workspace::build("hydrozoa-benches", "beside-glibc")?;
    let python = printed(
        &environment,
        "import os, sysconfig; value = sysconfig.get_config_var; \
         print(os.path.join(value('LIBDIR'), value('INSTSONAME')))",
    )?;
    let torch = printed(&environment, "import os, torch; print(os.path.dirname(torch.__file__))")?;
    let torch = torch.join("lib");
    let measure = |arguments: &[&str], paths: &[(&str, PathBuf)]| {
        let mut command = Command::new(&program);
        command.args(arguments);
        for (option, path) in paths {
            command.args((!option.is_empty()).then_some(option)).arg(path);
        }
        command
    };
    let library = |name: &str| torch.join(name);
    Ok(vec![
        measure(&["thread-local"], &[]),
        measure(&["replicas", "--promised", "0.5"], &[("", python.clone())]),
        measure(
            &["replicas", "--promised", "0.25"],
            &[
                ("--after", python),
                ("--shared", library("libtorch_global_deps.so")),
                ("--shared", library("libtorch.so")),
                ("--shared", library("libshm.so")),
                ("--", library("libtorch_python.so")),
            ],
        ),
        measure(&["exceptions"], &[]),
        measure(&["many"], &[]),
    ])
}

/// The path that a line of Python prints.
fn printed(environment: &Environment, program: &str) -> Result<PathBuf> {
    let output = environment.python().args(["-c", program]).output().context("starting python")?;
    if !output.status.success() {
        bail!("python: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).to_owned())
}
