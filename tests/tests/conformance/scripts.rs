//! The `hydrozoa` command runs Python programs in four copies at once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_tests::commands::{clean, hydrozoa, plain_python, run, text};
use hydrozoa_tests::place;

const COPIES: usize = 4;

/// The work that the profile records. The areas reach far beyond it.
const INFERENCE: &str = "
import torch, torchvision
with torch.inference_mode():
    torchvision.models.mobilenet_v3_small(weights=None).eval()(torch.ones(1, 3, 224, 224))
";

fn areas_with(is_lazy: bool) -> Result<()> {
    let script = place::script("torch_areas.py");
    let folder = place::scratch("areas")?;
    let expected = folder.path().join("expected.json");
    run(plain_python()?.arg(&script).arg("--record").arg(&expected))?;
    let profile = folder.path().join("profile");
    if is_lazy {
        let mut command = hydrozoa(1)?;
        run(command.arg("--record-imports").arg(&profile).args(["--", "-c", INFERENCE]))?;
    }
    let mut failures = Vec::new();
    // The eager runs are about races, the lazy ones about the order of imports.
    let most = if is_lazy { 1 } else { usize::MAX };
    let repetitions = place::repetitions()?.min(most);
    for repetition in 1..=repetitions {
        let mut command = hydrozoa(COPIES)?;
        if is_lazy {
            command.arg("--lazy-imports").arg(&profile);
        }
        command.args(["--in", "all", "--"]).arg(&script).arg("--expect").arg(&expected);
        let printed = match run(&mut command) {
            Ok(printed) => printed,
            Err(error) => {
                failures.push(format!("repetition {repetition}: {error:#}"));
                continue;
            }
        };
        let done = printed.lines().filter(|line| line.ends_with(" 0 failed")).count();
        if done != COPIES {
            failures.push(format!(
                "repetition {repetition}: {done} of {COPIES} copies reported:\n{printed}"
            ));
        }
    }
    ensure!(
        failures.is_empty(),
        "{} of {repetitions} repetitions failed; the first: {}",
        failures.len(),
        failures[0]
    );
    Ok(())
}

pub fn areas() -> Result<()> {
    areas_with(false)
}

pub fn areas_lazy() -> Result<()> {
    areas_with(true)
}

/// torch.utils.cpp_extension builds the extension once, before the tests: `HYDROZOA_TEST_EXTENSION`.
pub fn extension() -> Result<()> {
    let library = std::env::var_os("HYDROZOA_TEST_EXTENSION")
        .map(PathBuf::from)
        .context("HYDROZOA_TEST_EXTENSION is not set")?;
    let script = place::script("extension_areas.py");
    run(plain_python()?.arg(&script).arg(&library))?;
    let printed = run(hydrozoa(3)?.args(["--in", "all", "--"]).arg(&script).arg(&library))?;
    for copy in 1..=3 {
        let line = format!("copy {copy}: 4 checks of the extension passed");
        ensure!(printed.contains(&line), "no line {line:?} in\n{printed}");
    }
    Ok(())
}

/// `hydrozoa inspect` and `hydrozoa doctor` on the environment of the tests.
pub fn command_tells() -> Result<()> {
    let venv = place::venv()?;
    let tell = |arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let mut command = clean(Command::new(place::command()?));
        let output = command.args(arguments).arg("--venv").arg(&venv).output()?;
        Ok((output.status.code(), text(&output)))
    };
    let packages = venv.join("lib").join(python_directory(&venv)?).join("site-packages");
    let extension = find(&packages.join("numpy/_core"), "_multiarray_umath")?;
    let blas = find(&packages.join("numpy.libs"), "libscipy_openblas")?;
    for (file, class, reason) in
        [(extension, "replicated", "needs Py"), (blas, "system", "one BLAS")]
    {
        let (status, told) = tell(&["inspect", "--json", &file.to_string_lossy()])?;
        let told: serde_json::Value =
            serde_json::from_str(&told).with_context(|| format!("not JSON: {told}"))?;
        ensure!(status == Some(0) && told["class"] == class, "{}: {told:#}", file.display());
        let why = told["reason"].as_str().unwrap_or_default();
        ensure!(why.contains(reason), "{}: {why}", file.display());
        ensure!(told["relocations"]["R_X86_64_RELATIVE"].as_u64() > Some(0), "{told:#}");
    }
    let script = place::script("torch_areas.py");
    let (status, told) = tell(&["inspect", &script.to_string_lossy()])?;
    ensure!(status == Some(1) && told.contains("not a loadable ELF image"), "{told}");
    let (status, told) = tell(&["doctor", "--quick"])?;
    ensure!(status == Some(0) && told.contains("torch 2.11.0"), "{told}");
    let output = clean(Command::new(place::command()?))
        .args(["doctor", "--quick", "--venv", "/proc"])
        .output()?;
    ensure!(output.status.code() == Some(1), "{}", text(&output));
    ensure!(text(&output).contains("/proc: it is neither"), "{}", text(&output));
    Ok(())
}

/// `python3.N` of a virtual environment's `lib`.
fn python_directory(venv: &Path) -> Result<PathBuf> {
    let path = find(&venv.join("lib"), "python3.")?;
    Ok(path.file_name().map(PathBuf::from).unwrap_or_default())
}

/// The entry of a directory whose name begins with `beginning`.
fn find(directory: &Path, beginning: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    entries
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .with_context(|| format!("{} has no {beginning}*", directory.display()))
}
