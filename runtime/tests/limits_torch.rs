//! One more interpreter with torch and torchvision takes what `hydrozoa::limits` says, and no key of glibc's.

mod common;

use common::venv;
use hydrozoa::memory::Usage;
use hydrozoa::{Pool, limits};

#[derive(Debug)]
struct Taken {
    mappings: u64,
    private: u64,
}

/// The resources that this process has taken so far.
fn taken() -> Taken {
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count() as u64;
    Taken { mappings, private: Usage::of_process().unwrap().private as u64 }
}

/// Takes the keys of thread-specific data that glibc still has for this process.
fn take_all_keys() {
    let (mut key, mut taken) = (0, 0);
    // SAFETY: the variable takes the key; no destructor is given.
    while unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 {
        taken += 1;
    }
    assert!(taken > 0, "the first interpreter left none");
}

#[test]
fn one_more_interpreter_takes_what_is_documented() {
    const MORE: u64 = 3;
    let start = |interpreters: u64| {
        let builder = Pool::builder().venv(venv()).interpreters(interpreters as usize);
        let pool = builder.build().unwrap();
        for interpreter in pool.interpreters() {
            let work = "import torch, torchvision; assert torch.ones(3).sum() == 3";
            interpreter.session().run(work, "import.py").unwrap();
        }
        pool
    };
    // The first interpreter loads what all share.
    let first = start(1);
    take_all_keys();
    let before = taken();
    let more = start(MORE);
    let after = taken();
    drop((first, more));
    println!("{before:?}, with {MORE} more {after:?}");
    let documented = [
        ("mappings", before.mappings, after.mappings, limits::MAPPINGS),
        ("private memory", before.private, after.private, limits::PRIVATE_MEMORY),
    ];
    for (name, before, after, limit) in documented {
        let each = (after - before) as f64 / MORE as f64;
        assert!(each <= limit as f64 && each * 2.0 > limit as f64, "{name}: {each}, not {limit}");
    }
}
