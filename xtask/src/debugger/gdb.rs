//! gdb, which finds replicas by itself: through the namespace behind glibc's in `r_debug.r_next`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::host::Host;
use super::{text_of, tool};

/// What a person may be asked to wait.
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

/// Attaches to `copies` interpreters: the last one's frames have their source lines, in time.
pub(super) fn attach(host: &Host, copies: usize) -> Result<()> {
    let waiting = host.wait(copies)?;
    let mut command = gdb(host, include_str!("attach.py"))?;
    command
        .env("FRAME_THREAD", waiting.thread.to_string())
        .args(["-p", &waiting.process().to_string(), "-x"])
        .arg(host.source().with_file_name("commands.py"));
    let started = Instant::now();
    let output = tool(&mut command, "gdb")?;
    let took = started.elapsed();
    let text = text_of(&output)?;
    let library = name(host);
    let seen = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("objects {library} ")))
        .and_then(|count| count.parse().ok())
        .unwrap_or(0usize);
    ensure!(seen == copies, "gdb knows {seen} of {copies} replicas of {library}:\n{text}");
    // frame FUNCTION FILE LINE OBJECT START COPY
    let frames: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("frame ")?.split(' ').collect()))
        .collect();
    let own = frames
        .iter()
        .find(|frame| frame[0] == "wait_here")
        .with_context(|| format!("no frame of the extension module:\n{text}"))?;
    ensure!(own[1] == "frame.c" && own[2] != "0", "it has no source line: {own:?}");
    ensure!(own[4] == waiting.function, "the frame is another replica's: {own:?}");
    ensure!(own[5] == copies.to_string(), "its variable has another copy's value: {own:?}");
    let python = frames
        .iter()
        .filter(|frame| frame[3] == library)
        .find(|frame| frame[0].starts_with("_Py") || frame[0].starts_with("Py"))
        .with_context(|| format!("no frame of {library} has a name:\n{text}"))?;
    ensure!(
        python[2] != "0",
        "{library} has no debug information, so that its frames have names only: {python:?}"
    );
    println!(
        "attached, listed {seen} replicas of {library} and unwound copy {copies} in {:.2} s: \
         {} at {}:{}, {} at {}:{}",
        took.as_secs_f64(),
        own[0],
        own[1],
        own[2],
        python[0],
        python[1],
        python[2],
    );
    ensure!(took < LIMIT, "it took {:.1} s, {} are allowed", took.as_secs_f64(), LIMIT.as_secs());
    Ok(())
}

/// Starts three interpreters under gdb and stops in the third one's replica only.
pub(super) fn live(host: &Host) -> Result<()> {
    const COPIES: usize = 3;
    let mut command = gdb(host, include_str!("live.py"))?;
    command
        .env("FRAME_COPIES", COPIES.to_string())
        .env("FRAME_COPY", COPIES.to_string())
        .arg("-x")
        .arg(host.source().with_file_name("commands.py"))
        .arg("--args")
        .args(host.arguments(
            COPIES,
            "all",
            "frame.meet_here(copy)\nimport time\nwhile True:\n    frame.visit(copy)\n    time.sleep(0.001)",
        ));
    let started = Instant::now();
    let text = text_of(&tool(&mut command, "gdb")?)?;
    let count = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
    ensure!(count("met ") == COPIES, "the breakpoint was not met in every replica:\n{text}");
    let stops: Vec<Vec<i64>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("stopped "))
        .map(|line| line.split(' ').map(|word| word.parse().unwrap_or(-1)).collect())
        .collect();
    ensure!(stops.len() == 5, "{} of 5 stops:\n{text}", stops.len());
    let copy = COPIES as i64;
    for (visit, stop) in (0..).zip(&stops) {
        ensure!(
            stop[..] == [copy, visit * copy, (visit + 1) * copy],
            "stop {visit} was {stop:?} (copy, its counter before and after one step):\n{text}"
        );
    }
    println!(
        "met a breakpoint in {COPIES} replicas, then stopped 5 times in replica {COPIES} alone, \
         stepped, and read its own counter: {:.2} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
