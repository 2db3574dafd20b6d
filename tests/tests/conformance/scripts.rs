//! The `hydrozoa` command runs Python programs in four copies at once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_tests::place;

const COPIES: usize = 4;

/// Removes the variables that change what python does. The user who runs the tests may have set some.
fn clean(mut command: Command) -> Command {
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PYTHON"))
    {
        command.env_remove(name);
    }
    command.env_remove("VIRTUAL_ENV");
    command
}

fn plain_python() -> Result<Command> {
    Ok(clean(Command::new(place::venv()?.join("bin/python"))))
}

fn hydrozoa(copies: usize, policy: &str) -> Result<Command> {
    let mut command = clean(Command::new(place::command()?));
    command.arg("python").arg("--venv").arg(place::venv()?);
    command.args(["--copies", &copies.to_string(), "--torch", policy]);
    Ok(command)
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    Ok(text(&output))
}

fn areas(policy: &str) -> Result<()> {
    let script = place::script("torch_areas.py");
    let folder = place::scratch("areas")?;
    let expected = folder.path().join("expected.json");
    run(plain_python()?.arg(&script).arg("--record").arg(&expected))?;
    let mut failures = Vec::new();
    let repetitions = place::repetitions()?;
    for repetition in 1..=repetitions {
        let mut command = hydrozoa(COPIES, policy)?;
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

pub fn areas_shared() -> Result<()> {
    areas("shared")
}

pub fn areas_isolated() -> Result<()> {
    areas("isolated")
}

/// torch.utils.cpp_extension builds the extension once, before the tests: `HYDROZOA_TEST_EXTENSION`.
fn extension(policy: &str) -> Result<()> {
    let library = std::env::var_os("HYDROZOA_TEST_EXTENSION")
        .map(PathBuf::from)
        .context("HYDROZOA_TEST_EXTENSION is not set")?;
    let script = place::script("extension_areas.py");
    run(plain_python()?.arg(&script).arg(&library))?;
    let printed = run(hydrozoa(3, policy)?.args(["--in", "all", "--"]).arg(&script).arg(&library))?;
    for copy in 1..=3 {
        let line = format!("copy {copy}: 4 checks of the extension passed");
        ensure!(printed.contains(&line), "no line {line:?} in\n{printed}");
    }
    Ok(())
}

pub fn extension_shared() -> Result<()> {
    extension("shared")
}

pub fn extension_isolated() -> Result<()> {
    extension("isolated")
}

/// Plain python and ours run one python command line: standard output, standard error and exit status are equal.
fn same(arguments: &[&str], input: &str) -> Result<()> {
    use std::io::Write;
    use std::process::Stdio;
    let outcome = |mut command: Command| -> Result<(String, String, Option<i32>)> {
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        // A program may close its input without reading it.
        let _ = child.stdin.take().context("stdin is piped")?.write_all(input.as_bytes());
        let output = child.wait_with_output()?;
        let [stdout, stderr] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((stdout, stderr, output.status.code()))
    };
    let plain = outcome(plain_python()?)?;
    let mut command = hydrozoa(2, "auto")?;
    command.arg("--");
    let ours = outcome(command)?;
    if plain != ours {
        bail!("python {arguments:?}\nplain: {plain:?}\nours:  {ours:?}");
    }
    Ok(())
}

pub fn command_line() -> Result<()> {
    let folder = place::scratch("command-line")?;
    let script = folder.path().join("script.py");
    let program = "import sys, os\nprint(sys.argv, __name__, __file__ == sys.argv[0])\nprint(sys.path[0])\n\
                   print(input())\nprint('told', file=sys.stderr)\nsys.exit(len(sys.argv))\n";
    std::fs::write(&script, program)?;
    let script = script.to_str().context("a UTF-8 path")?;
    same(&[script, "a", "--", "-b"], "a line\n")?;
    same(
        &[
            "-c",
            "import sys; print(sys.argv, sys.flags, sys.prefix, sys.base_prefix, sys.executable)",
            "x",
        ],
        "",
    )?;
    same(&["-I", "-X", "utf8", "-c", "import sys; print(sys._xoptions, sys.flags)"], "")?;
    same(
        &[
            "-u",
            "-W",
            "error",
            "-c",
            "import sys, warnings; print(sys.warnoptions); warnings.warn('no')",
        ],
        "",
    )?;
    same(&["-m", "json.tool"], "{\"a\": [1, 2]}")?;
    same(&["-"], "print('from standard input')\nraise SystemExit(3)\n")?;
    same(&["-c", "raise ValueError('on purpose')"], "")?;
    same(&["-c", "import sys; sys.exit('a message')"], "")?;
    same(&["-c", "import atexit; atexit.register(print, 'at exit'); print('first', end='')"], "")?;
    same(
        &["-c", "import os, sys; sys.stdout.write('flushed?'); sys.stdout.flush(); os._exit(9)"],
        "",
    )?;
    same(
        &[
            "-c",
            "import ctypes; print(ctypes.pythonapi.Py_IsInitialized(), ctypes.CDLL(None).getpid() > 0)",
        ],
        "",
    )?;
    same(
        &["-c", "import sysconfig, site; print(sysconfig.get_paths(), site.getsitepackages())"],
        "",
    )?;
    same(&["no-such-script.py"], "")?;
    same(&["-V"], "")?;
    // Each copy knows its number. With --in K only copy K runs the program.
    let printed = run(hydrozoa(3, "auto")?.args([
        "--in",
        "2",
        "--",
        "-c",
        "import os; print('copy', os.environ['HYDROZOA_COPY'])",
    ]))?;
    ensure!(printed == "copy 2\n", "{printed:?}");
    let printed = run(hydrozoa(3, "auto")?.args([
        "--in",
        "all",
        "--",
        "-c",
        "import os; print('copy', os.environ['HYDROZOA_COPY'])",
    ]))?;
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["copy 1", "copy 2", "copy 3"], "{printed:?}");
    let output = hydrozoa(3, "auto")?
        .args([
            "--in",
            "all",
            "--",
            "-c",
            "import os, sys; sys.exit(5 if os.environ['HYDROZOA_COPY'] == '2' else 0)",
        ])
        .output()?;
    ensure!(output.status.code() == Some(5), "{}: {}", output.status, text(&output));
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

/// `hydrozoa python --own-environment`: what a copy sets, its children get, and other copies do not see.
pub fn own_environments() -> Result<()> {
    let program = "import os, time\nassert os.environ['OUTER'] == '1' and 'MINE' not in os.environ\ntime.sleep(0.5)\n\
                   os.environ['MINE'] = os.environ['HYDROZOA_COPY']\ntime.sleep(0.5)\n\
                   assert os.system('test \"$OUTER-$MINE\" = \"1-$HYDROZOA_COPY\"') == 0\nprint('done')\n";
    let mut command = hydrozoa(3, "isolated")?;
    command.args(["--own-environment", "--in", "all", "--", "-c", program]).env("OUTER", "1");
    let printed = run(&mut command)?;
    ensure!(printed.matches("done").count() == 3, "{printed}");
    Ok(())
}
