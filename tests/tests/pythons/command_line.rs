//! The `hydrozoa` command beside plain python.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_tests::commands::{hydrozoa, plain_python, run, text};
use hydrozoa_tests::place;

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
    let mut command = hydrozoa(2)?;
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
    let printed = run(hydrozoa(3)?.args([
        "--in",
        "2",
        "--",
        "-c",
        "import os; print('copy', os.environ['HYDROZOA_COPY'])",
    ]))?;
    ensure!(printed == "copy 2\n", "{printed:?}");
    let printed = run(hydrozoa(3)?.args([
        "--in",
        "all",
        "--",
        "-c",
        "import os; print('copy', os.environ['HYDROZOA_COPY'])",
    ]))?;
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["copy 1", "copy 2", "copy 3"], "{printed:?}");
    let output = hydrozoa(3)?
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

/// `hydrozoa python --own-environment`: a copy's children get its settings, and other copies do not see them.
pub fn own_environments() -> Result<()> {
    let program = "import os, time\nassert os.environ['OUTER'] == '1' and 'MINE' not in os.environ\ntime.sleep(0.5)\n\
                   os.environ['MINE'] = os.environ['HYDROZOA_COPY']\ntime.sleep(0.5)\n\
                   assert os.system('test \"$OUTER-$MINE\" = \"1-$HYDROZOA_COPY\"') == 0\nprint('done')\n";
    let mut command = hydrozoa(3)?;
    command.args(["--own-environment", "--in", "all", "--", "-c", program]).env("OUTER", "1");
    let printed = run(&mut command)?;
    ensure!(printed.matches("done").count() == 3, "{printed}");
    Ok(())
}
