//! libtorch's calls of its own functions, answered for the interpreter whose code the thread runs.
//!
//! libtorch is one object of the system's loader, so no interposition of a domain reaches its references. But it is
//! linked without `-Bsymbolic`: it calls its own exported functions through its procedure linkage table, so that a
//! program can replace them. This module writes into that table.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Mutex;

use super::adapter::{Adapter, Member, lock};
use super::exported::{Answer, Stand};
use super::{classes, engines, forward_ad, groups, state, switches, tables};

/// The system objects that call such functions (torch 2.11).
const OBJECTS: [&str; 5] = [
    "libc10.so",
    "libtorch_cpu.so",
    "libc10_cuda.so",
    "libtorch_cuda.so",
    "libtorch_cuda_linalg.so",
];

fn stands() -> Vec<Stand> {
    [
        &state::stands()[..],
        &switches::stands(),
        &forward_ad::stands(),
        &groups::stands(),
        &engines::stands(),
        &classes::stands(),
        &tables::stands(),
    ]
    .concat()
}

/// What a domain interposes: libtorch_python calls the same functions.
pub(super) fn interpositions() -> Vec<Answer> {
    stands().into_iter().map(Stand::answer).collect()
}

/// Redirects what is loaded and was not redirected before. Two threads may do the same at once: each writes the same.
pub(crate) fn redirect(adapter: &Adapter) {
    static DONE: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    // The loader works while no lock is held.
    let mut left = OBJECTS.to_vec();
    left.retain(|object| !lock(&DONE).get_or_insert_default().contains(object));
    let functions: Vec<(&str, *const c_void)> =
        stands().into_iter().map(|stand| (stand.name, stand.function)).collect();
    for object in left {
        // SAFETY: `Exported::means` was given functions of the symbols' types and meanings.
        match unsafe { adapter.loader().redirect_system(object, &functions) } {
            // It is not loaded.
            Ok(0) => continue,
            Ok(_) => {}
            Err(error) => tracing::warn!(
                %error,
                "{object}: interpreters that share it have its flags in common (docs/torch.md)"
            ),
        }
        lock(&DONE).get_or_insert_default().insert(object);
    }
}

/// Forgets an interpreter's state.
pub(super) fn forget(member: &Member) {
    groups::forget(member);
    forward_ad::forget(member);
    switches::forget(member);
    state::forget(member);
}
