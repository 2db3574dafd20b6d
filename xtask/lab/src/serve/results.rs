//! The measurements, as kept in a file. Tables and plots are made from them alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::{Deserialize, Serialize};

use crate::measurements;

/// One run of `cargo xtask lab serve`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    pub machine: Machine,
    /// Seconds of a window, and how often each was measured.
    pub seconds: f64,
    pub rounds: usize,
    pub windows: Vec<Window>,
    pub memory: Vec<Taken>,
    pub overload: Vec<Overload>,
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// Requests of one system to one model by so many connections, in one turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Window {
    pub system: String,
    pub model: String,
    pub connections: usize,
    pub round: usize,
    pub requests: usize,
    pub throughput: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Time of processors that the server has had for a request.
    pub cpu_ms: f64,
    /// The kernel's average of the last minute of processes that want a processor.
    pub load: f64,
}

/// A system's memory with so many models of so many instances, after all have answered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Taken {
    pub system: String,
    pub model: String,
    pub models: usize,
    pub instances: usize,
    pub ready_seconds: f64,
    pub own_mib: f64,
    pub shares_mib: f64,
    pub processes: usize,
}

/// A server that is asked for more than it can do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Overload {
    pub system: String,
    pub model: String,
    /// Requests in a second that a closed loop of eight connections has had answered before.
    pub capacity: f64,
    pub rate: f64,
    pub seconds: f64,
    pub max_requests: usize,
    pub sent: usize,
    pub right: usize,
    pub refused: usize,
    pub unsent: usize,
    pub wrong: usize,
    pub first_wrong: Option<String>,
    pub p99_ms: f64,
    pub calm_ms: f64,
    pub recovery_seconds: f64,
    /// Memory of the server before, at a quarter of the time, and the most after that.
    pub before_mib: f64,
    pub quarter_mib: f64,
    pub most_mib: f64,
}

/// A healthy model beside a faulty one, and by itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Fault {
    pub fault: String,
    /// Seconds of a window, and how many there were of each kind.
    pub seconds: f64,
    pub rounds: usize,
    /// How often each status was the answer of the faulty one.
    pub statuses: BTreeMap<u16, usize>,
    pub without: Latency,
    pub beside: Latency,
}

/// Medians over windows.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Latency {
    pub requests: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// The kernel's average of the last minute (proc_loadavg(5)).
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

/// The middle value, if there is one.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let all: Vec<f64> = values.collect();
    (!all.is_empty()).then(|| median(&all))
}

impl Results {
    /// Reads a file that [`Results::write`] has written.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Writes all as JSON, and windows and memory as CSV beside it.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        measurements::write(&path.with_extension("windows.csv"), &self.windows)?;
        measurements::write(&path.with_extension("memory.csv"), &self.memory)
    }

    /// Names in the order in which they came.
    pub fn systems(&self) -> Vec<&str> {
        let names = self.windows.iter().map(|window| &window.system);
        in_order(names.chain(self.memory.iter().map(|taken| &taken.system)))
    }

    /// The models of windows.
    pub fn models(&self) -> Vec<&str> {
        in_order(self.windows.iter().map(|window| &window.model))
    }

    /// The median of a figure over the rounds.
    pub fn median(
        &self,
        (system, model, connections): (&str, &str, usize),
        figure: impl Fn(&Window) -> f64,
    ) -> Option<f64> {
        middle(self.of(system, model, connections).map(figure))
    }

    fn of(&self, system: &str, model: &str, connections: usize) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| {
            window.system == system && window.model == model && window.connections == connections
        })
    }

    /// The median over the rounds of one system's figure divided by the other's of the same round: what was slow for both in a
    /// round does not count.
    pub fn ratio(
        &self,
        [one, other]: [&str; 2],
        model: &str,
        connections: usize,
        figure: impl Fn(&Window) -> f64,
    ) -> Option<f64> {
        middle(self.of(one, model, connections).filter_map(|window| {
            let round = |other: &&Window| other.round == window.round;
            let other = self.of(other, model, connections).find(round)?;
            Some(figure(window) / figure(other))
        }))
    }

    /// Memory with so many models and instances.
    pub fn taken(
        &self,
        system: &str,
        model: &str,
        models: usize,
        instances: usize,
    ) -> Option<&Taken> {
        self.memory.iter().find(|taken| {
            let is_model = taken.system == system && taken.model == model;
            is_model && (taken.models, taken.instances) == (models, instances)
        })
    }

    /// The memory of a further instance: the slope from the first to the largest number.
    pub fn further(&self, system: &str, model: &str) -> Option<f64> {
        let of = self
            .memory
            .iter()
            .filter(|taken| taken.system == system && taken.model == model && taken.models == 1);
        let most = of.max_by_key(|taken| taken.instances)?;
        let one = self.taken(system, model, 1, 1)?;
        let further = most.instances.checked_sub(1).filter(|further| *further > 0)?;
        Some((most.own_mib - one.own_mib) / further as f64)
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name.as_str()) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(system: &str, round: usize, throughput: f64) -> Window {
        let (system, model) = (system.to_owned(), "blank".to_owned());
        Window { system, model, connections: 8, round, throughput, ..Window::default() }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // The machine is ten times slower in the second round.
        let windows = [("one", 1, 20.0), ("other", 1, 10.0), ("one", 2, 2.0), ("other", 2, 1.0)];
        let windows = windows.map(|(system, round, figure)| window(system, round, figure));
        let results = Results { windows: windows.to_vec(), ..Results::default() };
        let ratio = |names| results.ratio(names, "blank", 8, |window| window.throughput);
        assert_eq!(ratio(["one", "other"]), Some(2.0));
        assert_eq!(ratio(["one", "nobody"]), None);
        assert_eq!(results.median(("one", "blank", 8), |window| window.throughput), Some(11.0));
        assert_eq!(results.systems(), ["one", "other"]);
    }

    #[test]
    fn a_further_instance_is_the_slope_of_memory() {
        let taken = |instances: usize, own_mib: f64| Taken {
            system: "one".to_owned(),
            model: "blank".to_owned(),
            models: 1,
            instances,
            own_mib,
            ..Taken::default()
        };
        let memory = vec![taken(1, 100.0), taken(2, 125.0), taken(4, 160.0)];
        let results = Results { memory, ..Results::default() };
        assert_eq!(results.further("one", "blank"), Some(20.0));
        assert_eq!(results.further("other", "blank"), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/results.json");
        let results = Results { windows: vec![window("one", 1, 20.0)], ..Results::default() };
        results.write(&path).expect("a file");
        let again = Results::read(&path).expect("the file");
        assert_eq!(again.windows[0].throughput, 20.0);
        let csv = fs::read_to_string(path.with_extension("windows.csv")).expect("a table");
        assert_eq!(csv.lines().nth(1), Some("one,blank,8,1,0,20.0,0.0,0.0,0.0,0.0"));
    }
}
