//! Every error of the runtime that needs no torch is provoked. Its text says what failed, on which object, and what to
//! do.

mod interpreters;
mod package;
mod python;
#[path = "../pythons/mod.rs"]
mod pythons;
mod settle;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Asserts that the text of `error` has these parts, in this order, the last at its end.
#[track_caller]
fn says(error: &impl Error, parts: &[&str]) {
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in parts {
        let (_, behind) = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} in {text:?}"));
        rest = behind;
    }
    assert_eq!(rest, "", "the end of {text:?}");
}

/// A new directory for the test `name`.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}
