//! A process and all that it has started: what these take of memory, and of processors.

use std::fs;

use anyhow::{Context, Result, ensure};

/// The processes of a family, with their threads.
pub struct Family {
    root: u32,
    processes: Vec<u32>,
    /// Of all processes, by the kernel's numbers.
    pub threads: Vec<i32>,
}

impl Family {
    /// A process, those that it has started, and theirs. Processes that end meanwhile are left out.
    pub fn of(root: u32) -> Self {
        let (mut processes, mut threads) = (vec![root], Vec::new());
        let mut at = 0;
        while let Some(process) = processes.get(at) {
            let tasks = fs::read_dir(format!("/proc/{process}/task"));
            for task in tasks.into_iter().flatten().flatten() {
                threads.extend(task.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
                let children = fs::read_to_string(task.path().join("children"));
                let children = children.unwrap_or_default();
                processes
                    .extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
            at += 1;
        }
        Self { root, processes, threads }
    }

    /// The memory, as the kernel sums it up in smaps_rollup (proc_pid_smaps(5)).
    ///
    /// # Errors
    ///
    /// No process is left, or the kernel has no such figures.
    pub fn memory(&self) -> Result<FamilyMemory> {
        let mut total = FamilyMemory::default();
        for id in &self.processes {
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
            total.anonymous += field("Anonymous:")?;
            total.private += field("Private_Clean:")? + field("Private_Dirty:")?;
            total.processes += 1;
        }
        ensure!(total.processes > 0, "process {} has ended", self.root);
        Ok(total)
    }

    /// How much time of processors the processes that are alive have had, in seconds.
    pub fn processor_seconds(&self) -> f64 {
        let stats = self.processes.iter().map(|id| fs::read_to_string(format!("/proc/{id}/stat")));
        let ticks: u64 = stats
            .flatten()
            .flat_map(|stat| {
                // The name is in brackets and may have any character. utime and stime are the fields 14 and 15; the rest
                // begins with the third (proc_pid_stat(5)).
                let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
                let times = rest.split(' ').skip(11).take(2);
                times.filter_map(|time| time.parse::<u64>().ok()).collect::<Vec<_>>()
            })
            .sum();
        // The kernel shows programs a hundred ticks a second on x86-64 (USER_HZ).
        ticks as f64 / 100.0
    }
}

/// The memory of processes, in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FamilyMemory {
    /// Pages that are of no file on a disk: private ones, and shared ones such as /dev/shm's. A page that several processes have
    /// is divided by them.
    pub own: f64,
    /// These and the pages of files, divided likewise: Pss.
    pub shares: f64,
    /// Anonymous pages. One that several processes have counts for each, also where it is the same page since a fork.
    pub anonymous: f64,
    /// Pages that one process alone has, of files or not.
    pub private: f64,
    /// How many processes there are.
    pub processes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn children_of_children_count_and_written_pages_do() {
        let before = Family::of(std::process::id()).memory().expect("this process");
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let pages = std::hint::black_box(vec![1_u8; 32 << 20]);
        let count = || Family::of(child.id()).memory().map_or(0, |memory| memory.processes);
        let is_seen = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            count() == 2
        });
        let with = Family::of(std::process::id()).memory().expect("this process");
        let group = format!("-{}", child.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
        child.wait().expect("the child has ended");
        assert!(is_seen && killed.is_ok_and(|status| status.success()));
        assert!(with.processes >= 3, "{with:?}");
        assert!(with.own > before.own + 30.0, "{before:?} {with:?}");
        assert!(with.anonymous > before.anonymous + 30.0 && with.private > before.private + 30.0);
        assert!(with.shares >= with.own && pages[4096] == 1);
    }

    #[test]
    fn time_of_processors_grows_while_a_process_computes() {
        let before = Family::of(std::process::id()).processor_seconds();
        let mut sum = 0_u64;
        let grown = (0..u64::MAX).any(|number| {
            sum = std::hint::black_box(sum.wrapping_add(number));
            number % (1 << 24) == 0
                && Family::of(std::process::id()).processor_seconds() >= before + 0.05
        });
        assert!(grown);
    }

    #[test]
    fn a_process_that_has_ended_is_no_process_of_no_memory() {
        let mut child = Command::new("true").spawn().expect("true starts");
        child.wait().expect("true ends");
        let error = Family::of(child.id()).memory().expect_err("it has ended").to_string();
        assert_eq!(error, format!("process {} has ended", child.id()));
    }
}
