//! A child process that runs models on command: ours and the rivals speak the same lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::samples::Samples;

/// What a contender is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Which model of the manifest.
    pub model: String,
    /// For how long, in seconds.
    pub seconds: f64,
    /// From how many threads of one process.
    pub threads: usize,
    /// In how many of a prefork server's children.
    pub processes: usize,
}

/// A running contender.
#[derive(Debug)]
pub struct Contender {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Contender {
    /// Starts a contender; it loads its models meanwhile ([`Contender::wait_until_ready`]).
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        let mut child = command
            // One thread in every numeric library: what is compared is interpreters, not thread teams.
            .envs([
                ("OMP_NUM_THREADS", "1"),
                ("MKL_NUM_THREADS", "1"),
                ("OPENBLAS_NUM_THREADS", "1"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { name: name.to_owned(), child, input, output })
    }

    /// Waits for its first line, which says that the models are loaded.
    ///
    /// # Errors
    ///
    /// It ended, or said something else.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let line = self.line()?;
        if !line.contains("\"ready\"") {
            bail!("{}: expected a ready line, got {line:?}", self.name);
        }
        Ok(())
    }

    /// Sends an order; [`Contender::result`] waits for what comes of it. Several contenders work at the same time if
    /// each has its order before the first result is awaited.
    ///
    /// # Errors
    ///
    /// It ended.
    pub fn send(&mut self, order: &Order) -> Result<()> {
        self.write(&serde_json::to_string(order)?)
    }

    /// The samples of the order sent before, with the memory of the processes that they name. All contenders are
    /// measured here, from outside and by one definition, before they get another order.
    ///
    /// # Errors
    ///
    /// It ended, or failed and said so.
    pub fn result(&mut self) -> Result<Samples> {
        let line = self.line()?;
        let mut samples: Samples = serde_json::from_str(&line)
            .with_context(|| format!("{}: not samples: {line:?}", self.name))?;
        samples.measure_memory().with_context(|| format!("memory of {}", self.name))?;
        Ok(samples)
    }

    /// Sends one line and waits for one: what a contender that takes no orders answers.
    ///
    /// # Errors
    ///
    /// It ended.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.write(line)?;
        Ok(self.line()?.trim().to_owned())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the contender was told to end")?;
        input
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("{} has ended", self.name))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).with_context(|| format!("reading from {}", self.name))?;
        if line.is_empty() {
            bail!("{} ended: {}", self.name, self.child.wait()?);
        }
        Ok(line)
    }
}

impl Drop for Contender {
    /// Ends it: the end of its input is its order to stop; one that is still busy is killed.
    fn drop(&mut self) {
        drop(self.input.take());
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // Nobody waits for the answer of a process that is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
