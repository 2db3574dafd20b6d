//! perf. It needs no help: replicas are mappings of the file.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::host::Host;
use super::{text_of, tool};

/// Samples three interpreters at work and checks that samples in each replica of libpython have function names.
pub(super) fn record(host: &Host) -> Result<()> {
    const COPIES: usize = 3;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("perf.data");
    let mut command = Command::new("perf");
    command
        .args(["record", "--quiet", "-e", "cpu-clock:u", "-F", "999", "-o"])
        .arg(&data)
        .arg("--")
        .args(host.arguments(
            COPIES,
            "all",
            "import time\nend = time.thread_time() + 1\nwhile time.thread_time() < end: sum(range(1000))",
        ));
    text_of(&tool(&mut command, "linux-perf")?)?;
    let mut command = Command::new("perf");
    command.args(["script", "--show-mmap-events", "-F", "comm,event,ip,sym,dso", "-i"]).arg(&data);
    let text = text_of(&tool(&mut command, "linux-perf")?)?;
    let library = host.library.display().to_string();
    // PERF_RECORD_MMAP2 PID/TID: [START(LENGTH) @ OFFSET DEVICE INODE GENERATION]: r-xp PATH
    let mut ranges = Vec::new();
    for line in text.lines().filter(|line| line.contains("MMAP") && line.ends_with(&library)) {
        let (start, rest) = line
            .split_once(": [0x")
            .and_then(|(_, rest)| rest.split_once("(0x"))
            .with_context(|| format!("unexpected: {line}"))?;
        let length = rest.split(')').next().unwrap_or_default();
        let start = u64::from_str_radix(start, 16)?;
        if line.contains(" r-xp ") {
            ranges.push(start..start + u64::from_str_radix(length, 16)?);
        }
    }
    ensure!(ranges.len() == COPIES, "{} replicas of {library} are mapped:\n{text}", ranges.len());
    let mut samples: BTreeMap<u64, [usize; 2]> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.contains("PERF_RECORD")) {
        // COMMAND EVENT: ADDRESS FUNCTION (OBJECT)
        let Some((_, rest)) = line.split_once("cpu-clock:u:") else { continue };
        let mut words = rest.split_whitespace();
        let Some(address) = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()) else {
            continue;
        };
        if let Some(range) = ranges.iter().find(|range| range.contains(&address)) {
            let counts = samples.entry(range.start).or_default();
            counts[0] += 1;
            let named = words.next().is_some_and(|name| name != "[unknown]");
            counts[1] += usize::from(named && line.ends_with(&format!("({library})")));
        }
    }
    ensure!(samples.len() == COPIES, "perf has samples in only {} replicas", samples.len());
    for (start, [all, named]) in &samples {
        println!("replica at {start:#x}: {all} samples, {named} with a function's name");
        ensure!(*all >= 100, "perf took only {all} samples");
        ensure!(
            *named as f64 >= 0.99 * *all as f64,
            "perf names the functions of only {named} of {all} samples"
        );
    }
    Ok(())
}
