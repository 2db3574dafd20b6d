//! Every lock of the loader is made in `loader/src/sys/lock`, which knows a fork's effect on locks.

use crate::sources::{assert_none, rust};
use crate::syntax::{self, Kind, Use};

/// The parts of `std::sync` in which no thread waits.
const NOT_BLOCKING: [&str; 3] = ["Arc", "Weak", "atomic"];

/// Crates of locks, and of values that are made once.
const CRATES: [&str; 7] =
    ["parking_lot", "parking_lot_core", "lock_api", "once_cell", "spin", "crossbeam", "tokio"];

/// Functions by which a thread waits for another, of `std` and of libc.
const WAITING: [&str; 8] = [
    "std::hint::spin_loop",
    "std::thread::park",
    "libc::SYS_futex",
    "libc::pthread_mutex_",
    "libc::pthread_rwlock_",
    "libc::pthread_cond_",
    "libc::pthread_once",
    "libc::sem_",
];

#[test]
fn locks_of_the_loader_are_in_sys_lock() {
    let mut found = Vec::new();
    for source in rust(&["loader/src/"]) {
        if source.path.starts_with("loader/src/sys/lock/") {
            continue;
        }
        let uses = syntax::uses(&syntax::parse(&source));
        found.extend(
            uses.iter()
                .filter(|used| is_lock(used))
                .map(|used| format!("{}:{}: {}", source.path, used.line, used.path.join("::"))),
        );
    }
    assert_none("a fork would leave these locked in the child: use crate::sys::lock", found);
}

fn is_lock(used: &Use) -> bool {
    let path = match used.kind {
        Kind::Method => return false,
        Kind::Foreign => format!("libc::{}", used.path.join("::")),
        _ => used.path.join("::"),
    };
    if WAITING.iter().any(|function| path.starts_with(function)) {
        return true;
    }
    match path.split("::").collect::<Vec<_>>()[..] {
        ["std", "sync", item, ..] => !NOT_BLOCKING.contains(&item),
        [first, ..] => CRATES.contains(&first),
        [] => false,
    }
}

#[test]
fn a_lock_by_any_name_is_one() {
    let locks = |text: &str| {
        let file = syn::parse_str(text).expect("Rust");
        syntax::uses(&file).iter().any(is_lock)
    };
    for lock in [
        "use parking_lot::Mutex;",
        "use std::sync::{Arc, OnceLock};",
        "use std::sync; static LOCK: sync::RwLock<()> = sync::RwLock::new(());",
        "use std::sync::*;",
        "static CELL: once_cell::sync::Lazy<u32> = once_cell::sync::Lazy::new(|| 1);",
        "use std::hint; fn f() { hint::spin_loop(); }",
        "fn f() { unsafe { libc::pthread_mutex_lock(m) }; }",
        "unsafe extern \"C\" { fn sem_wait(); }",
    ] {
        assert!(locks(lock), "{lock}");
    }
    for other in [
        "use std::sync::Arc; use std::sync::atomic::AtomicBool;",
        "use crate::sys::lock::Mutex; static LOCK: Mutex<()> = Mutex::new(Rank::Files, ());",
        "#[cfg(test)] mod tests { use std::sync::mpsc; }",
    ] {
        assert!(!locks(other), "{other}");
    }
}
