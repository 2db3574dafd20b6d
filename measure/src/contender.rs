//! A child process that runs models on command. Hydrozoa's contender and the rivals use the same lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::effort::Counters;
use crate::samples::Samples;

/// An order to a contender.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Which model of the manifest.
    pub model: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of threads in one process.
    pub threads: usize,
    /// Number of children of a prefork server.
    pub processes: usize,
}

/// A running contender.
#[derive(Debug)]
pub struct Contender {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Of the order that is being carried out.
    counters: Option<Counters>,
}

impl Contender {
    /// Starts a contender. It loads its models in the meantime ([`Contender::wait_until_ready`]).
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        let mut child = with_one_thread(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { name: name.to_owned(), child, input, output, counters: None })
    }

    /// Waits for the contender's first line. The contender writes it when its models are loaded.
    ///
    /// # Errors
    ///
    /// The contender ended, or wrote something else.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let line = self.line()?;
        if !line.contains("\"ready\"") {
            bail!("{}: expected a ready line, got {line:?}", self.name);
        }
        Ok(())
    }

    /// Sends an order; [`Contender::result`] waits for its result. Several contenders work at the same time if each
    /// gets its order before the caller waits for the first result.
    ///
    /// # Errors
    ///
    /// The contender ended.
    pub fn send(&mut self, order: &Order) -> Result<()> {
        self.counters = Counters::of(self.child.id());
        self.write(&serde_json::to_string(order)?)
    }

    /// The samples of the order sent before, with the memory of the processes that they name. This process measures
    /// all contenders from outside and by one definition, before they get another order.
    ///
    /// # Errors
    ///
    /// The contender ended, or reported a failure.
    pub fn result(&mut self) -> Result<Samples> {
        let line = self.line()?;
        let mut samples: Samples = serde_json::from_str(&line)
            .with_context(|| format!("{}: not samples: {line:?}", self.name))?;
        if let Some(counters) = self.counters.take() {
            counters.end(&mut samples.effort);
        }
        samples.measure_memory().with_context(|| format!("memory of {}", self.name))?;
        Ok(samples)
    }

    /// Sends one line and waits for the answer of a contender that takes no orders.
    ///
    /// # Errors
    ///
    /// The contender ended.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.write(line)?;
        Ok(self.line()?.trim().to_owned())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the contender already has the order to end")?;
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

/// Has the program's numeric libraries use one thread each: comparisons are of interpreters, not of thread teams.
/// [`Contender::start`] does it for contenders.
pub fn with_one_thread(command: &mut Command) -> &mut Command {
    command.envs([
        ("OMP_NUM_THREADS", "1"),
        ("MKL_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ])
}

impl Drop for Contender {
    /// Ends the contender. The end of its input is its order to stop; a contender that is still busy is killed.
    fn drop(&mut self) {
        drop(self.input.take());
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // The process is no longer needed, so its answer does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
