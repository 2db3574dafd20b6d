//! The work of processes for their calls: instructions and cycles in user mode, CPU time, switches of threads, page faults.
//!
//! Throughput depends as much on a machine's other users as on the program. These counts hardly do.
//! Instructions and cycles come from the processor's counters by perf_event_open(2), which many virtual machines and
//! containers do not give. CPU time, switches and faults come from getrusage(2), which each process asks about itself.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};
use serde::{Deserialize, Serialize};

use crate::family::Family;

/// Counts over a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    /// Instructions in user mode. Nothing where the processor's counters are unavailable.
    pub instructions: Option<u64>,
    /// Cycles in user mode, likewise.
    pub cycles: Option<u64>,
    /// CPU time of all threads in microseconds, with that of the kernel for them.
    pub cpu_us: u64,
    /// How often threads gave up a processor: because they waited, or because the kernel gave it to another.
    pub switches: u64,
    /// Pages that the kernel had to map, with those that it had to read.
    pub faults: u64,
}

impl Effort {
    /// Adds the effort of others at the same time.
    pub fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        self.instructions = sum(self.instructions, other.instructions);
        self.cycles = sum(self.cycles, other.cycles);
        self.cpu_us += other.cpu_us;
        self.switches += other.switches;
        self.faults += other.faults;
    }
}

/// CPU time, switches and page faults of this process so far, with those of threads that have ended.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    cpu_us: u64,
    switches: u64,
    faults: u64,
}

impl Own {
    /// The counts so far.
    pub fn now() -> Self {
        // SAFETY: all fields are integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes a whole structure. It fails for other arguments only.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let microseconds = |time: libc::timeval| (time.tv_sec * 1_000_000 + time.tv_usec) as u64;
        Self {
            cpu_us: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            faults: (usage.ru_minflt + usage.ru_majflt) as u64,
        }
    }

    /// The increase since then.
    pub fn since(self) -> Effort {
        let now = Self::now();
        Effort {
            cpu_us: now.cpu_us - self.cpu_us,
            switches: now.switches - self.switches,
            faults: now.faults - self.faults,
            ..Effort::default()
        }
    }
}

/// Counters of the processor for processes, from now on.
#[derive(Debug)]
pub struct Counters {
    instructions: Vec<Counter>,
    cycles: Vec<Counter>,
}

impl Counters {
    /// Counts a process, its children, and those of their threads that begin later. Nothing if the kernel or the machine does not
    /// let this process count.
    pub fn of(process: u32) -> Option<Self> {
        let Family { threads, .. } = Family::of(process);
        let instructions = counters(Hardware::INSTRUCTIONS, &threads)?;
        let cycles = counters(Hardware::CPU_CYCLES, &threads)?;
        Some(Self { instructions, cycles })
    }

    /// Writes the counts into `effort`.
    pub fn end(mut self, effort: &mut Effort) {
        let counts = self.read();
        (effort.instructions, effort.cycles) = counts.unzip();
    }

    /// Instructions and cycles so far. Nothing if the kernel could not count them.
    fn read(&mut self) -> Option<(u64, u64)> {
        Some((total(&mut self.instructions)?, total(&mut self.cycles)?))
    }
}

fn counters(
    event: impl perf_event::events::Event + Clone,
    threads: &[i32],
) -> Option<Vec<Counter>> {
    let counter = |thread: &i32| {
        let mut builder = Builder::new(event.clone());
        builder.observe_pid(*thread).any_cpu().inherit(true).exclude_kernel(true);
        let mut counter = builder.build().ok()?;
        counter.enable().ok()?;
        Some(counter)
    };
    threads.iter().map(counter).collect()
}

fn total(counters: &mut [Counter]) -> Option<u64> {
    counters.iter_mut().map(|counter| counter.read().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn faults_of_new_pages_and_switches_of_sleeps_are_counted() {
        let before = Own::now();
        let pages = thread::spawn(|| {
            let memory = vec![1_u8; 1000 * 4096];
            for _ in 0..50 {
                thread::sleep(Duration::from_micros(10));
            }
            memory.iter().step_by(4096).count() as u64
        });
        let pages = pages.join().unwrap();
        let effort = before.since();
        assert!(effort.faults >= pages, "{effort:?}");
        assert!(effort.switches >= 50, "{effort:?}");
    }

    #[test]
    fn the_cpu_time_of_all_threads_is_counted() {
        let before = Own::now();
        let busy = || {
            let begin = Own::now();
            while begin.since().cpu_us < 20_000 {}
        };
        thread::spawn(busy).join().unwrap();
        let effort = before.since();
        assert!(effort.cpu_us >= 20_000, "{effort:?}");
    }

    #[test]
    fn a_family_has_threads_and_children() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || wait.recv());
        let Family { threads, .. } = Family::of(std::process::id());
        assert!(threads.contains(&(child.id() as i32)), "{threads:?}");
        assert!(threads.len() >= 3, "{threads:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stop);
        other.join().unwrap().unwrap_err();
    }

    #[test]
    fn threads_that_begin_later_are_counted() {
        let Family { threads, .. } = Family::of(std::process::id());
        let Some(mut clocks) = counters(Software::TASK_CLOCK, &threads) else {
            // Without the right to count there is nothing to read, and no figure is reported.
            assert!(Counters::of(std::process::id()).is_none());
            return;
        };
        let before = total(&mut clocks).unwrap();
        let busy = || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(100) {}
        };
        thread::spawn(busy).join().unwrap();
        assert!(total(&mut clocks).unwrap() > before);
        // A machine without these counters says so.
        if let Some(mut counters) = Counters::of(std::process::id()) {
            let before = counters.read().unwrap();
            thread::spawn(busy).join().unwrap();
            let after = counters.read().unwrap();
            assert!(after.0 > before.0 && after.1 > before.1);
        }
    }
}
