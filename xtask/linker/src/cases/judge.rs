//! Runs one build of a case in all modes and compares the results.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use xtask_support::time_limit;

use super::directives::Case;
use super::job::{Job, LOAD_FAILED, Mode};

/// The results of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub status: String,
    /// Why the load failed, if it did.
    pub error: Option<String>,
    pub outputs: Vec<String>,
    pub symbols: Vec<String>,
    pub stderr: String,
}

/// A run that takes longer counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the case by glibc and by us. The error describes the difference.
pub(super) fn judge(case: &Case, folder: &Path, support: &Path) -> Result<()> {
    let folder = folder.canonicalize()?;
    let run = |mode: Mode| -> Result<Run> {
        let results = folder.join("results").join(format!("{mode:?}"));
        if results.exists() {
            fs::remove_dir_all(&results)?;
        }
        fs::create_dir_all(&results)?;
        let job = Job {
            mode,
            folder: folder.clone(),
            results,
            support: support.to_owned(),
            libraries: case.libraries.iter().map(|library| library.file.clone()).collect(),
            opens: case.opens.clone(),
            steps: case.steps,
            close: case.close,
            quick_exit: case.quick_exit,
            check_sharing: case.check_sharing,
            expects_error: case.error.is_some(),
        };
        execute(&case.environment, &job).with_context(|| format!("{mode:?}"))
    };
    let oracle = run(Mode::Glibc)?;
    if case.differs.is_none() {
        check_oracle(case, &oracle).context("glibc, the oracle")?;
    }
    for mode in [Mode::One, Mode::Program, Mode::Interleaved, Mode::Threads] {
        let name = format!("{mode:?}").to_lowercase();
        if !case.modes.contains(&name) {
            continue;
        }
        let ours = run(mode)?;
        if mode == Mode::Program && case.program_as_glibc {
            let as_glibc = Case { differs: None, expected_ours: Vec::new(), ..case.clone() };
            compare(&as_glibc, &oracle, &ours).with_context(|| name)?;
        } else {
            compare(case, &oracle, &ours).with_context(|| name)?;
        }
    }
    Ok(())
}

fn check_oracle(case: &Case, oracle: &Run) -> Result<()> {
    match (&case.error, &oracle.error) {
        (Some(_), Some(_)) => return Ok(()),
        (Some(_), None) => {
            bail!("it loads a case that our loader must refuse; give the reason in `Differs`")
        }
        (None, Some(error)) => bail!("it does not load the case: {error}"),
        (None, None) => {}
    }
    ensure_exit(case, oracle)?;
    if !case.expected.is_empty() {
        let expected = lines(&case.expected);
        ensure!(
            oracle.outputs[0] == expected,
            "the output is not the expected one\n{}",
            difference(&expected, &oracle.outputs[0])
        );
    }
    Ok(())
}

fn ensure_exit(case: &Case, run: &Run) -> Result<()> {
    let expected = format!("exit status: {}", case.exit);
    ensure!(run.status == expected, "{}, not {expected}\n{}", run.status, run.stderr);
    Ok(())
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn compare(case: &Case, oracle: &Run, ours: &Run) -> Result<()> {
    if let Some(text) = &case.stderr {
        ensure!(ours.stderr.contains(text), "standard error lacks `{text}`:\n{}", ours.stderr);
    }
    match (&case.error, &ours.error) {
        (Some(text), Some(error)) => {
            ensure!(error.contains(text), "the error `{error}` does not contain `{text}`");
            return Ok(());
        }
        (Some(text), None) => {
            bail!("it was loaded, but `{text}` is expected ({})\n{}", ours.status, ours.stderr)
        }
        (None, Some(error)) => bail!("it was refused: {error}"),
        (None, None) => {}
    }
    ensure_exit(case, ours)?;
    let expected = match (case.expected_ours.is_empty(), case.differs.is_some()) {
        (false, _) => lines(&case.expected_ours),
        (true, true) => lines(&case.expected),
        (true, false) => oracle.outputs[0].clone(),
    };
    for (copy, output) in ours.outputs.iter().enumerate() {
        ensure!(
            *output == expected,
            "copy {copy} has another output\n{}",
            difference(&expected, output)
        );
    }
    if case.compare_symbols && case.differs.is_none() {
        for (copy, symbols) in ours.symbols.iter().enumerate() {
            ensure!(
                *symbols == oracle.symbols[0],
                "in copy {copy} symbols mean something else\n{}",
                difference(&oracle.symbols[0], symbols)
            );
        }
    }
    Ok(())
}

/// The lines that occur on one side only, as `-expected` and `+found`.
pub(crate) fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    (0..expected.len().max(found.len()))
        .filter(|&index| expected.get(index) != found.get(index))
        .take(8)
        .map(|index| {
            let line = |side: &[&str], sign| {
                side.get(index).map(|line| format!("    {sign}{line}\n")).unwrap_or_default()
            };
            line(&expected, '-') + &line(&found, '+')
        })
        .collect()
}

/// The path of gcc's runtime of AddressSanitizer. It works only if it is preloaded.
fn sanitizer() -> Result<String> {
    let output = Command::new("gcc").arg("-print-file-name=libasan.so").output()?;
    let text = String::from_utf8(output.stdout)?;
    let path = Path::new(text.trim()).canonicalize();
    let path = path.context("gcc has no libasan (Debian has it in libgcc-N-dev)")?;
    Ok(path.display().to_string())
}

/// Runs one job in a process of its own, with these additional environment variables.
pub(crate) fn execute(environment: &[(String, String)], job: &Job) -> Result<Run> {
    let stderr = fs::File::create(job.results.join("stderr"))?;
    let folder = job.folder.display().to_string();
    let mut variables = Vec::new();
    for (name, value) in environment {
        let mut value = value.replace("{folder}", &folder);
        if value.contains("{libasan}") {
            value = value.replace("{libasan}", &sanitizer()?);
        }
        variables.push((name, value));
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args(["linker", "job"])
        .arg(serde_json::to_string(job)?)
        .envs(variables)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    // Its children end with it: those that it has forked.
    let Some(status) = time_limit::wait(&mut child, LIMIT)? else {
        bail!("it hangs: no end after {} s", LIMIT.as_secs());
    };
    let read = |name: String| fs::read_to_string(job.results.join(name)).unwrap_or_default();
    let stderr = read("stderr".into());
    let mut run = Run {
        status: status.to_string(),
        outputs: (0..job.mode.copies()).map(|copy| read(format!("{copy}.out"))).collect(),
        symbols: (0..job.mode.copies()).map(|copy| read(format!("{copy}.symbols"))).collect(),
        stderr,
        error: None,
    };
    if status.code() == Some(LOAD_FAILED) {
        run.error = (0..job.mode.copies())
            .find_map(|copy| fs::read_to_string(job.results.join(format!("{copy}.error"))).ok());
    }
    Ok(run)
}
