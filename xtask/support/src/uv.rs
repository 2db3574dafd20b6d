//! uv, which installs Python's packages. It unpacks a wheel once, and links its files into each environment that has it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cache::{self, CacheFolder};
use crate::python::Python;
use crate::venv;

/// The release, and the digest of its wheel.
const UV: &str =
    "uv==0.13.9 --hash=sha256:d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19";

/// uv, which pip installs in the cache unless an earlier run did. A Debian's own Python has no pip; its environments have one.
fn uv(python: &Python) -> Result<Command> {
    let (pin, _) = UV.split_once(' ').unwrap_or((UV, ""));
    let entry = CacheFolder::open(&pin.replace("==", "-"))?;
    entry.complete(|folder| {
        eprintln!("installing {pin} (20 MB)");
        let mut own = venv::clean(Command::new(&python.executable));
        let status = own.args(["-m", "venv"]).arg(folder).status().context("starting Python")?;
        ensure!(status.success(), "{} makes no environment", python.executable.display());
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, UV)?;
        let mut pip = venv::clean(Command::new(folder.join("bin/python")));
        pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement"]);
        let status = pip.arg(requirements).status();
        ensure!(status.context("starting pip")?.success(), "pip cannot install {pin}");
        Ok(())
    })?;
    let mut uv = venv::clean(Command::new(entry.folder().join("bin/uv")));
    // Beside the environments: links need one file system.
    uv.env("UV_CACHE_DIR", cache::root()?.join("uv-cache")).stdin(Stdio::null());
    // As pip was told.
    for (pip, own) in [("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_CERT", "SSL_CERT_FILE")] {
        if let Some(value) = std::env::var_os(pip) {
            uv.env(own, value);
        }
    }
    // Seconds without a byte, for slow mirrors.
    uv.env("UV_HTTP_TIMEOUT", "180");
    Ok(uv)
}

/// `uv pip install` for an executable: the Python itself with `--target`, or that of an environment. It takes wheels alone, never
/// sources.
pub fn install(python: &Python, executable: &Path) -> Result<Command> {
    let mut uv = uv(python)?;
    uv.args(["pip", "install", "--only-binary", ":all:", "--python"]).arg(executable);
    Ok(uv)
}

/// The packages of an environment with their releases, one on each line.
pub fn releases(python: &Python, root: &Path) -> Result<String> {
    let output =
        uv(python)?.args(["pip", "freeze", "--python"]).arg(root.join("bin/python")).output();
    let output = output.context("starting uv")?;
    ensure!(output.status.success(), "uv pip freeze failed: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why packages do not fit together, or have no wheel. Nothing if uv failed for another reason.
pub fn refusal(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, reason) = text.split_once("No solution found when resolving dependencies")?;
    let words = reason.split_whitespace().skip_while(|word| *word != "Because");
    Some(words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn what_has_no_solution_is_told_from_other_failures() {
        let output = |stderr: &str| Output {
            status: std::process::ExitStatus::from_raw(256),
            stdout: Vec::new(),
            stderr: stderr.into(),
        };
        let refused = "error: No solution found when resolving dependencies\n  cause: Because a was\n  not found.\n";
        assert_eq!(refusal(&output(refused)).as_deref(), Some("Because a was not found."));
        assert_eq!(refusal(&output("error: Failed to fetch\n")), None);
    }
}
