//! The program under inspection: interpreters of the command, and an extension module made for the checks.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{python, workspace};

/// The extension module's source.
const SOURCE: &str = include_str!("frame.c");

/// The program of the checks.
pub(super) struct Host {
    command: PathBuf,
    /// The libpython of every interpreter.
    pub library: PathBuf,
    /// The folder with the module and its source.
    folder: tempfile::TempDir,
}

/// A program that waits in the extension module; killed when dropped.
pub(super) struct Waiting {
    child: Child,
    /// The id of the waiting thread.
    pub thread: u32,
    /// Address of the waiting function.
    pub function: String,
}

impl Host {
    /// Builds the command and, with debug information, the module.
    pub fn prepare(minor: u8) -> Result<Host> {
        let python = python::find(Some(&python::Wanted::Minor(minor)))?;
        let program = "import os, sysconfig\nv = sysconfig.get_config_var\n\
                       print(os.path.join(v('LIBDIR'), v('INSTSONAME')))\n\
                       print(sysconfig.get_path('include'))";
        let output = Command::new(&python.executable).args(["-I", "-c", program]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let [library, include] = text.lines().collect::<Vec<_>>()[..] else {
            bail!("{} does not say where its library is", python.executable.display())
        };
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("frame.c");
        std::fs::write(&source, SOURCE)?;
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O0", "-g", "-Wno-unused-variable", "-o"])
            .arg(folder.path().join("frame.so"))
            .arg(&source)
            .arg(format!("-I{include}"))
            .status()
            .context("cc")?;
        ensure!(status.success(), "the extension module does not build: {status}");
        let command = workspace::build("hydrozoa-cli", "hydrozoa")?;
        Ok(Host { command, library: PathBuf::from(library).canonicalize()?, folder })
    }

    /// The path of the module's source, as its debug information gives it.
    pub fn source(&self) -> PathBuf {
        self.folder.path().join("frame.c")
    }

    /// The program and its arguments. It starts `copies` interpreters; those in `active` (a number, or "all") run
    /// `code`. In `code`, `frame` is the module and `copy` the interpreter's number.
    pub fn arguments(&self, copies: usize, active: &str, code: &str) -> Vec<String> {
        let folder = self.folder.path().display();
        let code = format!(
            "import os, sys\nsys.path.insert(0, '{folder}')\nimport frame\n\
             copy = int(os.environ['HYDROZOA_COPY'])\n{code}"
        );
        let text = |path: &Path| path.display().to_string();
        [
            &text(&self.command),
            "python",
            "--python",
            &text(&self.library),
            "--copies",
            &copies.to_string(),
            "--in",
            active,
            "--",
            "-c",
            &code,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Starts a process of `copies` interpreters; the last one waits.
    pub fn wait(&self, copies: usize) -> Result<Waiting> {
        Waiting::start(&self.arguments(copies, &copies.to_string(), "frame.wait_here(copy)"), 1)
    }

    /// The command, for tasks other than running Python.
    pub fn command(&self) -> String {
        self.command.display().to_string()
    }

    /// The extension module.
    pub fn module(&self) -> PathBuf {
        self.folder.path().join("frame.so")
    }
}

impl Waiting {
    /// Starts a program in which `count` threads wait, one after another. The result describes the last one.
    pub fn start(arguments: &[String], count: usize) -> Result<Waiting> {
        let mut child =
            Command::new(&arguments[0]).args(&arguments[1..]).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let mut waiting = Waiting { child, thread: 0, function: String::new() };
        let mut seen = 0;
        for line in lines.take(count) {
            let line = line?;
            let words: Vec<&str> = line.split(' ').collect();
            let ["READY", _, thread, function] = words[..] else { bail!("unexpected: {line}") };
            (waiting.thread, waiting.function) = (thread.parse()?, function.to_owned());
            seen += 1;
        }
        ensure!(seen == count, "the program ended before it waited");
        Ok(waiting)
    }
}

impl Waiting {
    /// The process's id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
