//! CUDA. Its runtime, libcudart, exists once in a process, and interpreters have one context on each device. Their libraries call the
//! runtime by references, which are answered here.
//!
//! | part | what it does | buys |
//! |---|---|---|
//! | [`absent`] | libraries register no device code in a process without a driver | 6.9 MiB of records for each interpreter with torch 2.11 |
//! | [`registration`], [`registry`], [`binary`] | a fat binary that has no state is registered once in a process, by the first interpreter | of 8.0 MiB of records with torch 2.11, a further interpreter takes 0.4; 22,196 of 23,177 kernels are loaded to a device once |
//! | [`names`], [`kernels`], [`nodes`] | later interpreters' calls name the first one's kernels | |
//! | [`account`], [`things`], [`memory`] | an interpreter's device memory has a bound, and its end gives back what it had | |
//!
//! A library that has the runtime in itself (`libcudart_static.a`) makes no such references: its device code and its memory stay its
//! own business. So does what a program finds by `dlsym` in a handle of the runtime.

mod absent;
mod account;
mod binary;
mod kernels;
mod memory;
mod names;
mod nodes;
mod registration;
mod registry;
mod runtime;
mod things;

pub(crate) use account::Account;

use hydrozoa_loader::{Interposition, Loader};
use std::num::NonZeroUsize;

/// What stands in the place of a function, by its name.
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
    let code = [registration::answers(), kernels::answers(), nodes::answers()];
    let answers = code.into_iter().flatten().chain(memory::answers(account)).collect();
    (Some(account), answers)
}
