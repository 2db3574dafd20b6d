//! `cargo xtask speed`: checks the loader's promised speed against glibc's loader in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::environment::{self, Environment};
use crate::workspace;

/// Options of `cargo xtask speed`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
}

/// Makes every measurement. Returns an error if a promise is broken.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let program = workspace::build("hydrozoa-benches", "beside-glibc")?;
    let python = printed(
        &environment,
        "import os, sysconfig; value = sysconfig.get_config_var; \
         print(os.path.join(value('LIBDIR'), value('INSTSONAME')))",
    )?;
    let torch = printed(&environment, "import os, torch; print(os.path.dirname(torch.__file__))")?;
    let torch = torch.join("lib");
    let measure = |arguments: &[&str], paths: &[(&str, PathBuf)]| -> Result<bool> {
        let mut command = Command::new(&program);
        command.args(arguments);
        for (option, path) in paths {
            command.args((!option.is_empty()).then_some(option)).arg(path);
        }
        Ok(command.status().context("starting a measurement")?.success())
    };
    let library = |name: &str| torch.join(name);
    let outcomes = [
        measure(&["thread-local"], &[])?,
        measure(&["replicas", "--promised", "0.5"], &[("", python.clone())])?,
        measure(
            &["replicas", "--promised", "0.25"],
            &[
                ("--after", python),
                ("--shared", library("libtorch_global_deps.so")),
                ("--shared", library("libtorch.so")),
                ("--shared", library("libshm.so")),
                ("--", library("libtorch_python.so")),
            ],
        )?,
        measure(&["exceptions"], &[])?,
        measure(&["many"], &[])?,
    ];
    let broken = outcomes.iter().filter(|kept| !**kept).count();
    ensure!(broken == 0, "{broken} of {} measurements break a promise", outcomes.len());
    Ok(())
}

/// The path that a line of Python prints.
fn printed(environment: &Environment, program: &str) -> Result<PathBuf> {
    let output = environment.python().args(["-c", program]).output().context("starting python")?;
    if !output.status.success() {
        bail!("python: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).to_owned())
}
