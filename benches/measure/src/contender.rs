//! The protocol of contenders: processes that do what they are told, for a comparison with others.
//!
//! A contender writes a line when it is ready. It answers each [`Order`], a line of JSON, with a line of JSON: [`Samples`]. It ends
//! with its input. All contenders speak it, Hydrozoa's ([`crate::orders`]) and its rivals' (benches/python/contender.py).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::effort::Counters;
use crate::samples::Samples;

/// An order to a contender. Each kind of contender knows some of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Call a model for some time, at once from `threads` threads of the process, or in `processes` children of a prefork server.
    Call {
        /// The model's name in the manifest; empty if the contender has one model.
        model: String,
        /// Duration in seconds.
        seconds: f64,
        /// Number of threads in one process.
        threads: usize,
        /// Number of children of a prefork server.
        processes: usize,
    },
    /// Start so many further workers at once. The answer comes when each has its first result; its effort is that of the workers.
    Grow {
        /// How many.
        workers: usize,
    },
    /// Call each worker once, one after the other.
    Each,
    /// Replace the worker so many times.
    Replace {
        /// How often.
        times: usize,
    },
    /// Read a figure: [`Samples::reading`].
    Read,
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

    /// Starts a contender and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As those of [`Contender::start`] and [`Contender::wait_until_ready`].
    pub fn ready(name: &str, command: &mut Command) -> Result<Self> {
        let mut contender = Self::start(name, command)?;
        contender.wait_until_ready()?;
        Ok(contender)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order; [`Contender::result`] waits for its result. Several contenders work at the same time if each
    /// gets its order before the caller waits for the first result.
    ///
    /// # Errors
    ///
    /// The contender ended.
    pub fn send(&mut self, order: &Order) -> Result<()> {
        let is_call = matches!(order, Order::Call { .. });
        self.counters = is_call.then(|| Counters::of(self.child.id())).flatten();
        let input = self.input.as_mut().context("the contender already has the order to end")?;
        let line = serde_json::to_string(order)? + "\n";
        input.write_all(line.as_bytes()).with_context(|| format!("{} has ended", self.name))
    }

    /// The samples of the order sent before, with the memory of the processes that they name. This process measures
    /// all contenders from outside and by one definition, before they get another order.
    ///
    /// # Errors
    ///
    /// The contender ended, or reported a failure.
    pub fn result(&mut self) -> Result<Samples> {
        let line = self.line()?;
        self.samples(&line)
    }

    fn samples(&mut self, line: &str) -> Result<Samples> {
        let mut samples: Samples = serde_json::from_str(line)
            .with_context(|| format!("{}: not samples: {line:?}", self.name))?;
        if let Some(counters) = self.counters.take() {
            counters.end(&mut samples.effort);
        }
        samples.measure_memory().with_context(|| format!("memory of {}", self.name))?;
        Ok(samples)
    }

    /// Sends an order and waits for its result.
    ///
    /// # Errors
    ///
    /// The contender ended, or reported a failure.
    pub fn ask(&mut self, order: &Order) -> Result<Samples> {
        self.send(order)?;
        self.result()
    }

    /// Has it start so many further workers at once. Returns the time until each had its first result, too.
    ///
    /// # Errors
    ///
    /// The contender ended, or reported a failure.
    pub fn grow(&mut self, workers: usize) -> Result<(Duration, Samples)> {
        let begin = Instant::now();
        self.send(&Order::Grow { workers })?;
        let line = self.line()?;
        let took = begin.elapsed();
        Ok((took, self.samples(&line)?))
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

/// A program for plain python, without the variables that would change what it does.
pub fn plain_python(executable: &Path, script: &Path) -> Command {
    let mut command = Command::new(executable);
    command.arg(script).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    // torch.package itself uses TypedStorage; the warning does not concern the work.
    command.env("PYTHONWARNINGS", "ignore");
    command
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
