//! One more interpreter with torch and torchvision takes what `hydrozoa::limits` says.

mod common;

use common::venv;
use hydrozoa::memory::Usage;
use hydrozoa::{Pool, TorchPolicy, limits};

#[derive(Debug)]
struct Taken {
    mappings: u64,
    keys: u64,
    private: u64,
}

/// What this process has taken so far.
fn taken() -> Taken {
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count() as u64;
    let mut free = Vec::new();
    let mut key = 0;
    // SAFETY: the variable takes the key; no destructor is given.
    while unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 {
        free.push(key);
    }
    for &key in &free {
        // SAFETY: it was made above, and nobody else knows it.
        assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
    }
    let keys = 1024 - free.len() as u64;
    Taken { mappings, keys, private: Usage::of_process().unwrap().private as u64 }
}

#[test]
fn one_more_interpreter_takes_what_is_documented() {
    const MORE: u64 = 3;
    let start = |interpreters: u64| {
        let builder = Pool::builder().venv(venv()).torch(TorchPolicy::Isolated);
        let pool = builder.interpreters(interpreters as usize).build().unwrap();
        for interpreter in pool.interpreters() {
            interpreter.session().run("import torch, torchvision", "import.py").unwrap();
        }
        pool
    };
    // The first interpreter loads what all share.
    let first = start(1);
    let before = taken();
    let more = start(MORE);
    let after = taken();
    drop((first, more));
    println!("{before:?}, with {MORE} more {after:?}");
    let documented = [
        ("mappings", before.mappings, after.mappings, limits::MAPPINGS),
        ("keys", before.keys, after.keys, limits::THREAD_KEYS),
        ("private memory", before.private, after.private, limits::PRIVATE_MEMORY),
    ];
    for (name, before, after, limit) in documented {
        let each = (after - before) as f64 / MORE as f64;
        assert!(each <= limit as f64 && each * 2.0 > limit as f64, "{name}: {each}, not {limit}");
    }
}
