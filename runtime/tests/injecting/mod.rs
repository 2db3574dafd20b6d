//! Faults at random instructions: processes in which they are injected, and a tally of the outcomes.

mod child;
mod fault;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use child::run as inside;

/// How long a process may tell nothing; and before it tells its first word, after imports by a machine that is maybe busy.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PATIENCE: Duration = Duration::from_secs(180);

/// How many faults are injected: `HYDROZOA_TEST_INJECTIONS`, or `few`.
pub fn injections(few: u64) -> u64 {
    std::env::var("HYDROZOA_TEST_INJECTIONS").map_or(few, |text| text.parse().unwrap())
}

/// The outcomes of faults.
#[derive(Debug, Default)]
pub struct Tally {
    pub faults: u64,
    pub contained: u64,
    /// Deaths of the process, by the reason that its report has.
    pub deaths: BTreeMap<String, u64>,
    /// Descriptions of hangs, of wrong answers, and of ends without a report.
    pub hangs: Vec<String>,
    pub wrong: Vec<String>,
    pub silent: Vec<String>,
    processes: u64,
}

/// A process with faults.
struct Injected {
    process: Child,
    lines: Receiver<String>,
    errors: thread::JoinHandle<String>,
    /// The last lines that it has told.
    last: Vec<String>,
}

/// Injects `count` faults into work, with the packages of `venv`. A process that dies is followed by another one.
pub fn injected(work: &str, count: u64, venv: Option<PathBuf>) -> Tally {
    let (mut tally, begin) = (Tally::default(), Instant::now());
    while tally.faults < count {
        let seed = fresh_seed(tally.processes);
        let process = Injected::start(work, count - tally.faults, seed, venv.as_ref());
        let before = tally.faults;
        process.watch(&mut tally);
        tally.processes += 1;
        // One that dies before its first fault would be followed by others for ever.
        assert!(tally.faults > before, "{work}: a process without faults: {tally:#?}");
        assert!(tally.hangs.len() < 5, "{tally:#?}");
    }
    let text = format!("{work}, {:?}:\n{}", begin.elapsed(), tally.table());
    print!("{text}");
    append("HYDROZOA_TEST_TABLE", &text);
    for what in tally.hangs.iter().chain(&tally.wrong).chain(&tally.silent) {
        append("HYDROZOA_TEST_INJECTED_REPORTS", &format!("!!!! {what}\n"));
    }
    tally
}

/// A seed, which `HYDROZOA_TEST_INJECTED_SEED` may determine.
fn fresh_seed(process: u64) -> u64 {
    let first = std::env::var(child::SEED)
        .map_or_else(|_| fastrand::u64(..1 << 32), |text| text.parse().unwrap());
    first + process
}

impl Injected {
    fn start(work: &str, count: u64, seed: u64, venv: Option<&PathBuf>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["inside", "--exact", "--nocapture"]).env(child::WORK, work);
        command.env(child::COUNT, count.to_string()).env(child::SEED, seed.to_string());
        if let Some(venv) = venv {
            command.env(child::VENV, venv);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(stage) = line.strip_prefix('@') {
                    let _ = sender.send(stage.to_owned());
                }
            }
        });
        let mut errors = process.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { process, lines, errors, last: vec![format!("work {work}, seed {seed}")] }
    }

    /// Counts what becomes of its faults, until it has ended.
    fn watch(mut self, tally: &mut Tally) {
        let (mut is_open, mut has_ended) = (false, false);
        loop {
            let patience = if self.last.len() == 1 { FIRST_PATIENCE } else { PATIENCE };
            let line = match self.lines.recv_timeout(patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    tally.hangs.push(format!("{:?}\n{}", self.last, stacks(self.process.id())));
                    self.process.kill().unwrap();
                    self.process.wait().unwrap();
                    return;
                }
            };
            match line.split(':').next().unwrap() {
                "fault" if !is_open => (is_open, tally.faults) = (true, tally.faults + 1),
                "home" => tally.contained += 1,
                "whole" => is_open = false,
                "wrong" => tally.wrong.push(format!("{line} after {:?}", self.last)),
                "ended" => has_ended = true,
                _ => {}
            }
            if self.last.len() > 8 {
                self.last.remove(1);
            }
            self.last.push(line);
        }
        let status = self.process.wait().unwrap();
        let errors = self.errors.join().unwrap();
        if !has_ended {
            tally.died(status, &errors, &self.last);
        } else if !status.success() {
            tally.silent.push(format!("{status} at the end\n{errors}"));
        }
    }
}

impl Tally {
    fn died(&mut self, status: ExitStatus, errors: &str, last: &[String]) {
        let reason = errors.lines().find_map(|line| line.strip_prefix("not contained: "));
        let is_fault = status.signal().is_some_and(|signal| {
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL].contains(&signal)
        });
        match reason.filter(|_| is_fault && errors.contains("hydrozoa: SIG")) {
            Some(reason) => *self.deaths.entry(generic(reason)).or_default() += 1,
            None => self.silent.push(format!("{status} after {last:?}\n{errors}")),
        }
        append("HYDROZOA_TEST_INJECTED_REPORTS", &format!("==== {last:?}\n{errors}\n"));
    }

    /// The outcomes as lines of text.
    pub fn table(&self) -> String {
        let mut text = format!(
            "| {} faults in {} processes | {} contained | {} died with a report | {} without | {} hangs | {} wrong |\n",
            self.faults,
            self.processes,
            self.contained,
            self.deaths.values().sum::<u64>(),
            self.silent.len(),
            self.hangs.len(),
            self.wrong.len()
        );
        let mut deaths: Vec<_> = self.deaths.iter().collect();
        deaths.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in deaths {
            let _ = writeln!(text, "|  {count:>5} | {reason} |");
        }
        text
    }

    /// Asserts that each fault was contained, or has ended the process with a report.
    #[track_caller]
    pub fn assert_right(&self) {
        assert!(self.hangs.is_empty(), "{}", self.hangs.join("\n"));
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert!(self.silent.is_empty(), "{}", self.silent.join("\n"));
    }
}

/// A reason without addresses and folders.
fn generic(reason: &str) -> String {
    let reason = reason.split(" (0x").next().unwrap();
    let words: Vec<_> = reason
        .split(' ')
        .filter(|word| !word.starts_with("0x"))
        .map(|word| word.rsplit('/').next().unwrap())
        .map(|word| plain(word.split("+0x").next().unwrap()))
        .collect();
    words.join(" ")
}

/// A name of Rust's as it is written, without its hash; another name as it is.
fn plain(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_ZN") else { return name.to_owned() };
    let mut parts = Vec::new();
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) {
        let Ok(length) = rest[..end].parse::<usize>() else { break };
        let Some(part) = rest.get(end..end + length) else { break };
        parts.push(part);
        rest = &rest[end + length..];
    }
    parts.pop();
    parts.join("::")
}

/// Adds a text to the file that a variable names.
fn append(variable: &str, text: &str) {
    use std::io::Write as _;
    let Some(path) = std::env::var_os(variable) else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The stacks of a process's threads, by gdb where it is installed.
fn stacks(process: u32) -> String {
    let mut command = Command::new("gdb");
    command.args(["-batch", "-ex", "thread apply all bt 30", "-p", &process.to_string()]);
    match command.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("(no stacks: gdb: {error})"),
    }
}
