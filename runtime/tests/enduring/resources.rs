//! The process's resources.

use std::collections::BTreeMap;
use std::fs;

/// Counts of the process.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    pub threads: usize,
    pub descriptors: usize,
    pub mappings: usize,
    /// Bytes of anonymous memory.
    pub memory: usize,
}

impl Resources {
    pub fn now() -> Self {
        let count = |path: &str| fs::read_dir(path).unwrap().count();
        let text = |path: &str| fs::read_to_string(path).unwrap();
        let anonymous = text("/proc/self/smaps_rollup");
        let anonymous = anonymous.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            mappings: text("/proc/self/maps").lines().count(),
            memory: bytes(anonymous),
        }
    }
}

fn bytes(line: &str) -> usize {
    line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok()).unwrap() << 10
}

/// Anonymous bytes of the process, by the name and the rights of the mappings that have them.
pub fn by_mapping() -> BTreeMap<String, i64> {
    let (mut found, mut key) = (BTreeMap::new(), String::new());
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| word.contains('-') && !word.ends_with(':')) {
            let range: Vec<_> =
                words[0].split('-').map(|end| usize::from_str_radix(end, 16).unwrap()).collect();
            let size = (range[1] - range[0]) >> 10;
            let size = if words.len() < 6 { format!("{size} KiB") } else { String::new() };
            let name = words.get(5).map_or("", |path| path.rsplit('/').next().unwrap());
            key = format!("{} {name}{size}", words[1]);
        } else if line.starts_with("Anonymous:") {
            *found.entry(key.clone()).or_default() += bytes(line) as i64;
        }
    }
    found
}
