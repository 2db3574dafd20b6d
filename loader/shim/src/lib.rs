//! A library to preload (`LD_PRELOAD`) that answers the `dl*` calls of an unmodified program by
//! hydrozoa-loader: libraries under `$HYDROZOA_SHIM_DIRECTORY` are loaded by it, into one domain
//! that extends the program, all others by glibc. So test programs written for other loaders
//! test this one (`cargo xtask linker --shim`).
//!
//! The exported functions jump through [`ANSWERS`], with the caller's return address in place:
//! to glibc's functions until all is ready, then to those of the domain.

mod allocator;
mod exports;

use std::ffi::c_void;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use hydrozoa_loader::{Class, Loader, Policy, preload};

/// The exported functions, in the order of [`ANSWERS`].
const NAMES: [&str; 10] = [
    "dlopen",
    "dlsym",
    "dlvsym",
    "dlclose",
    "dlerror",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dl_iterate_phdr",
    "_dl_find_object",
];

/// The functions that calls go to.
static ANSWERS: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// Runs when the program starts, before its `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = begin;

/// Fills [`ANSWERS`]; called by the first of the constructor and a call from another one.
extern "C" fn begin() {
    static BEGUN: Once = Once::new();
    // The code below calls dl* functions itself. They must find glibc's answers in place.
    if ANSWERS[0].load(Ordering::Acquire).is_null() {
        assert!(preload::bypass_interposers(), "glibc's own dl* functions cannot be found");
        answer_by(|name| preload::system_function(name).unwrap_or(std::ptr::null()));
    }
    let Some(directory) = std::env::var_os("HYDROZOA_SHIM_DIRECTORY") else { return };
    BEGUN.call_once(|| {
        if let Err(error) = take_over(Path::new(&directory)) {
            eprintln!("hydrozoa-shim: {error}");
            std::process::abort();
        }
    });
}

fn take_over(directory: &Path) -> Result<(), hydrozoa_loader::Error> {
    let policy = Policy::default().with("*", Class::System, "it is not under test").with(
        &format!("{}/*", directory.display()),
        Class::Replicate,
        "it is under test",
    );
    let loader = Loader::builder().policy(policy).build()?;
    let domain = loader.domain("program").extend_program().build()?;
    answer_by(|name| domain.symbol(name).expect("the domain interposes these names"));
    Ok(())
}

fn answer_by(function: impl Fn(&str) -> *const c_void) {
    for (answer, name) in ANSWERS.iter().zip(NAMES) {
        answer.store(function(name).cast_mut(), Ordering::Release);
    }
}
