//! Requests, and the bodies that plain python computes for them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A request as it is sent, and the body of its right response.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    pub request: Vec<u8>,
    pub body: Vec<u8>,
}

/// All requests to an application.
#[derive(Debug)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// The files `0.request`, `0.body` and so on, which `prepare.py` has written.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut cases = Vec::new();
        loop {
            let path = |kind: &str| folder.join(format!("{}.{kind}", cases.len()));
            if !path("request").exists() {
                break;
            }
            let read = |kind: &str| {
                fs::read(path(kind)).with_context(|| format!("reading {}", path(kind).display()))
            };
            cases.push(Case { request: read("request")?, body: read("body")? });
        }
        ensure!(!cases.is_empty(), "{} has no requests", folder.display());
        Ok(Self(cases))
    }

    /// The case whose turn it is.
    pub fn turn(&self, number: usize) -> &Case {
        &self.0[number % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_in_their_order_and_come_in_turn() {
        let folder = std::env::temp_dir().join(format!("hydrozoa-pages-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let error = Cases::read(&folder).expect_err("it is empty").to_string();
        assert!(error.ends_with("has no requests"), "{error}");
        for number in 0..2 {
            fs::write(folder.join(format!("{number}.request")), [number]).expect("a file");
        }
        let error = Cases::read(&folder).expect_err("no body").to_string();
        assert!(error.ends_with("0.body"), "{error}");
        for number in 0..2 {
            fs::write(folder.join(format!("{number}.body")), [number + 10]).expect("a file");
        }
        let cases = Cases::read(&folder).expect("two cases");
        fs::remove_dir_all(&folder).expect("the folder");
        assert_eq!(cases.turn(3), &Case { request: vec![1], body: vec![11] });
        assert_eq!(cases.turn(4), cases.turn(0));
    }
}
