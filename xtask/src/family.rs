//! A process and all that it has started, and what these take of memory.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

/// The processes that a process has started, and their processes, with itself.
fn family(root: u32) -> Result<BTreeSet<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        // The name is in brackets and may have any character; state and parent follow (proc_pid_stat(5)).
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        if let Some(parent) = rest.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok()) {
            parents.push((id, parent));
        }
    }
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        for (id, parent) in &parents {
            if family.contains(parent) {
                family.insert(*id);
            }
        }
        if family.len() == before {
            return Ok(family);
        }
    }
}

/// What processes take, in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// Pages that are of no file on a disk: private ones, and shared ones such as /dev/shm's. A page that several processes have
    /// is divided by them.
    pub own: f64,
    /// These and the pages of files, divided likewise: Pss.
    pub shares: f64,
    /// How many processes there are.
    pub processes: usize,
}

/// The family's memory, as the kernel sums it up in smaps_rollup (proc_pid_smaps(5)).
pub fn memory(root: u32) -> Result<Memory> {
    let mut total = Memory::default();
    for id in family(root)? {
        let path = format!("/proc/{id}/smaps_rollup");
        // A helper may end meanwhile, and the kernel has no pages of a process that is about to.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let field = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let size = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
            let size: Option<f64> = size.and_then(|size| size.parse().ok());
            Ok(size.with_context(|| format!("{path} has no line {name}"))? / 1024.0)
        };
        total.own += field("Pss_Anon:")? + field("Pss_Shmem:")?;
        total.shares += field("Pss:")?;
        total.processes += 1;
    }
    ensure!(total.processes > 0, "process {root} has ended");
    Ok(total)
}

/// How much time of processors the family's processes that are alive have had, in seconds.
pub fn processor_seconds(root: u32) -> Result<f64> {
    let mut ticks = 0_u64;
    for id in family(root)? {
        // A process may end meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        // utime and stime, the fields 14 and 15; the rest begins with the third.
        let times = rest.split(' ').skip(11).take(2);
        ticks += times.filter_map(|time| time.parse::<u64>().ok()).sum::<u64>();
    }
    // The kernel shows programs a hundred ticks a second on x86-64 (USER_HZ).
    Ok(ticks as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn children_of_children_count_and_written_pages_do() {
        let before = memory(std::process::id()).expect("this process");
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let pages = std::hint::black_box(vec![1_u8; 32 << 20]);
        let count = || memory(child.id()).map_or(0, |memory| memory.processes);
        let is_seen = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            count() == 2
        });
        let with = memory(std::process::id()).expect("this process");
        let group = format!("-{}", child.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
        child.wait().expect("the child has ended");
        assert!(is_seen && killed.is_ok_and(|status| status.success()));
        assert!(with.processes >= 3, "{with:?}");
        assert!(with.own > before.own + 30.0, "{before:?} {with:?}");
        assert!(with.shares >= with.own && pages[4096] == 1);
    }

    #[test]
    fn time_of_processors_grows_while_a_process_computes() {
        let before = processor_seconds(std::process::id()).expect("this process");
        let mut sum = 0_u64;
        let grown = (0..u64::MAX).any(|number| {
            sum = std::hint::black_box(sum.wrapping_add(number));
            number % (1 << 24) == 0
                && processor_seconds(std::process::id()).expect("this process") >= before + 0.05
        });
        assert!(grown);
    }

    #[test]
    fn a_process_that_has_ended_is_no_process_of_no_memory() {
        let mut child = Command::new("true").spawn().expect("true starts");
        child.wait().expect("true ends");
        let error = memory(child.id()).expect_err("it has ended").to_string();
        assert_eq!(error, format!("process {} has ended", child.id()));
    }
}
