//! Memory of a process and all that it has started.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

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

/// The family's memory in MiB: what each page takes, divided by the processes that have it (Pss).
pub fn of_family(root: u32) -> Result<f64> {
    let mut total = 0.0;
    for id in family(root)? {
        let path = format!("/proc/{id}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let size = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
        let size: f64 = size.and_then(|size| size.parse().ok()).context("smaps_rollup has Pss")?;
        total += size / 1024.0;
    }
    Ok(total)
}
