//! gdb. It finds replicas by itself, through the namespace behind glibc's in `r_debug.r_next`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::host::{Host, Waiting};
use super::{text_of, tool};

/// The longest acceptable wait for a user of gdb.
const LIMIT: Duration = Duration::from_secs(30);

fn gdb(host: &Host, script: &str) -> Result<Command> {
    let path = host.source().with_file_name("commands.py");
    std::fs::write(&path, script)?;
    let mut command = Command::new("gdb");
    command
        .args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"])
        .env("FRAME_SOURCE", host.source());
    Ok(command)
}

fn name(host: &Host) -> String {
    host.library.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A frame as gdb shows it.
pub(super) struct Frame {
    pub function: String,
    pub file: String,
    /// 0 without debug information.
    pub line: usize,
    /// The file name of the object that contains the function.
    pub object: String,
    /// The function's address, and the value of its variable `copy`, if it has one.
    pub start: String,
    pub copy: String,
}

/// gdb's report about a program that waits.
pub(super) struct Seen {
    /// The file names of all objects, once for each replica.
    pub objects: Vec<String>,
    /// The frames of the waiting thread, the newest first.
    pub frames: Vec<Frame>,
    pub took: Duration,
    /// gdb's whole output.
    pub text: String,
}

/// Attaches gdb to a program that waits.
pub(super) fn look(host: &Host, waiting: &Waiting) -> Result<Seen> {
    let mut command = gdb(host, include_str!("attach.py"))?;
    command
        .env("FRAME_THREAD", waiting.thread.to_string())
        .args(["-p", &waiting.process().to_string(), "-x"])
        .arg(host.source().with_file_name("commands.py"));
    let started = Instant::now();
    let output = tool(&mut command, "gdb")?;
    let took = started.elapsed();
    let text = text_of(&output)?;
    let after = |prefix: &'static str| text.lines().filter_map(move |l| l.strip_prefix(prefix));
    let objects = after("object ").map(str::to_owned).collect();
    // frame FUNCTION FILE LINE OBJECT START COPY; a function's name may contain blanks.
    let frames = after("frame ")
        .map(|line| {
            let words: Vec<&str> = line.rsplitn(6, ' ').collect();
            let [copy, start, object, line, file, function] = words[..] else {
                bail!("unexpected: {line}")
            };
            let [function, file, object, start, copy] =
                [function, file, object, start, copy].map(str::to_owned);
            Ok(Frame { function, file, line: line.parse()?, object, start, copy })
        })
        .collect::<Result<_>>()?;
    Ok(Seen { objects, frames, took, text })
}

impl Seen {
    /// The frame of the extension module's function. It must belong to the replica that waits, and have its source
    /// line and the right value in the variable `copy`.
    pub fn own(&self, waiting: &Waiting, copy: usize) -> Result<&Frame> {
        let own = self
            .frames
            .iter()
            .find(|frame| frame.function == "wait_here")
            .with_context(|| format!("no frame of the extension module:\n{}", self.text))?;
        let Frame { file, line, start, copy: found, .. } = own;
        ensure!(file == "frame.c" && *line != 0, "it has no source line: {file}:{line}");
        ensure!(*start == waiting.function, "the frame belongs to another replica: {start}");
        ensure!(*found == copy.to_string(), "its variable has another copy's value: {found}");
        Ok(own)
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} at {}:{}", self.function, self.file, self.line)
    }
}

/// Attaches to `copies` interpreters and checks that the last one's frames have source lines, within the time limit.
pub(super) fn attach(host: &Host, copies: usize) -> Result<()> {
    let waiting = host.wait(copies)?;
    let seen = look(host, &waiting)?;
    let library = name(host);
    let count = seen.objects.iter().filter(|name| **name == library).count();
    ensure!(count == copies, "gdb knows {count} of {copies} replicas of {library}:\n{}", seen.text);
    let own = seen.own(&waiting, copies)?;
    let is_api = |frame: &&Frame| {
        frame.object == library
            && (frame.function.starts_with("_Py") || frame.function.starts_with("Py"))
    };
    let python = seen
        .frames
        .iter()
        .find(is_api)
        .with_context(|| format!("no frame of {library} has a name:\n{}", seen.text))?;
    ensure!(
        python.line != 0,
        "{library} has no debug information; its frames have only names: {python}"
    );
    let took = seen.took.as_secs_f64();
    println!(
        "attached, listed {count} replicas of {library} and unwound copy {copies} in {took:.2} s: \
         {own}, {python}"
    );
    ensure!(seen.took < LIMIT, "gdb took {took:.1} s; the limit is {} s", LIMIT.as_secs());
    Ok(())
}

/// Starts three interpreters under gdb and stops only in the third one's replica.
pub(super) fn live(host: &Host) -> Result<()> {
    const COPIES: usize = 3;
    let code = "frame.meet_here(copy)\nimport time\n\
                while True:\n    frame.visit(copy)\n    time.sleep(0.001)";
    stop_in_one(host, COPIES, &host.arguments(COPIES, "all", code))
}

/// Starts a program under gdb and stops only in the last interpreter's replica. Its `copies` interpreters, numbered
/// from 1, meet and then call `visit` for ever.
pub(super) fn stop_in_one(host: &Host, copies: usize, arguments: &[String]) -> Result<()> {
    let mut command = gdb(host, include_str!("live.py"))?;
    command
        .env("FRAME_COPIES", copies.to_string())
        .env("FRAME_COPY", copies.to_string())
        .arg("-x")
        .arg(host.source().with_file_name("commands.py"))
        .arg("--args")
        .args(arguments);
    let started = Instant::now();
    let text = text_of(&tool(&mut command, "gdb")?)?;
    let count = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
    ensure!(
        count("met ") == copies,
        "gdb did not stop at the breakpoint in every replica:\n{text}"
    );
    let stops: Vec<Vec<i64>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("stopped "))
        .map(|line| line.split(' ').map(|word| word.parse().unwrap_or(-1)).collect())
        .collect();
    ensure!(stops.len() == 5, "{} of 5 stops:\n{text}", stops.len());
    let copy = copies as i64;
    // It may have called `visit` before the others met.
    let first = stops[0].get(1).copied().unwrap_or(-1);
    ensure!(
        first >= 0 && first % copy == 0,
        "the counter belongs to another replica: {first}\n{text}"
    );
    for (visit, stop) in (0..).zip(&stops) {
        ensure!(
            stop[..] == [copy, first + visit * copy, first + (visit + 1) * copy],
            "stop {visit} was {stop:?} (copy, its counter before and after one step):\n{text}"
        );
    }
    println!(
        "met a breakpoint in {copies} replicas, then stopped 5 times in replica {copies} alone, \
         stepped, and read its own counter: {:.2} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
