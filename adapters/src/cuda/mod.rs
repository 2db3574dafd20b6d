//! CUDA. Its runtime, libcudart, exists once in a process, and interpreters have one context on each device. Their libraries call the
//! runtime by references, which are answered here.
//!
//! | part | what it does | buys |
//! |---|---|---|
//! | [`absent`] | libraries register no device code in a process without a driver | 6.9 MiB of records for each interpreter with torch 2.11 |
//! | [`registration`], [`registry`], [`binary`] | a fat binary that has no state is registered once in a process, by the first interpreter | of 8.0 MiB of records with torch 2.11, a further interpreter takes 0.4; 22,196 of 23,177 kernels are loaded to a device once |
//! | [`names`], [`kernels`], [`nodes`] | later interpreters' calls name the first one's kernels | |
//! | [`capture`] | an interpreter's capture of a graph forbids other interpreters nothing | |
//! | [`libraries`] | the runtime, the driver and NVIDIA's libraries exist once | one context on each device for all interpreters, so that they pass memory of it to each other |
//! | [`account`], [`resource_functions`], [`memory`] | an interpreter's device memory has a bound, and its end gives back what it had | |
//!
//! A library that contains the runtime (`libcudart_static.a`) makes no such references: its device code and its memory stay its
//! own business. So do functions that a program finds by `dlsym` in a handle of the runtime.

mod absent;
mod account;
mod binary;
mod capture;
mod kernels;
mod libraries;
mod memory;
mod names;
mod nodes;
mod registration;
mod registry;
mod resource_functions;
mod runtime;

pub(crate) use account::Account;
pub(crate) use libraries::RULE;

use hydrozoa_loader::{Interposition, Loader};
use std::num::NonZeroUsize;

/// Replacements for functions, by name.
type Answers = Vec<(&'static str, Interposition)>;

/// The answers for an interpreter whose device memory has this bound, and its account, where there may be a device.
pub(crate) fn answers(
    loader: &Loader,
    limit: Option<NonZeroUsize>,
) -> (Option<&'static Account>, Answers) {
    if !absent::has_device(loader) {
        return (None, absent::answers());
    }
    let account = Account::open(limit);
    let code = [registration::answers(), kernels::answers(), nodes::answers(), capture::answers()];
    let answers = code.into_iter().flatten().chain(memory::answers(account)).collect();
    (Some(account), answers)
}
