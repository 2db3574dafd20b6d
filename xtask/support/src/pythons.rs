//! The Pythons of this machine in `cargo xtask test`: which there are, which are lacking, and whose turn it is.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::lock;
use crate::python::{self, Python, Wanted, versions};

/// One CPython of each minor version that the machine has, the oldest first.
#[derive(Clone)]
pub struct Pythons {
    found: Vec<Python>,
}

impl Pythons {
    /// Looks for each version that Hydrozoa serves. `own`, the suite's Python, stands for its version.
    pub fn of_machine(own: Option<&Python>) -> Self {
        let of = |minor: u8| match own {
            Some(own) if own.minor == minor => Some(own.clone()),
            _ => python::find(Some(&Wanted::Minor(minor))).ok(),
        };
        Self { found: python::sorted().into_iter().filter_map(of).collect() }
    }

    /// Each Python.
    pub fn all(&self) -> &[Python] {
        &self.found
    }

    fn minors(&self) -> Vec<u8> {
        self.found.iter().map(|python| python.minor).collect()
    }

    fn lacking(&self) -> Vec<u8> {
        let minors = self.minors();
        python::sorted().into_iter().filter(|minor| !minors.contains(minor)).collect()
    }

    /// Whose turn for the tests with torch it is on a day: each Python but the suite's.
    pub fn turn(&self, own: u8, day: u64) -> Option<Python> {
        let with_torch =
            |python: &&Python| python.minor != own && lock::of(python.minor).has_torch();
        let others: Vec<&Python> = self.found.iter().filter(with_torch).collect();
        let turn = day.checked_rem(others.len() as u64)?;
        Some((*others.get(turn as usize)?).clone())
    }

    /// The suite's log message about versions.
    pub fn words(&self, own: u8, turn: Option<&Python>) -> String {
        let further = match turn {
            Some(turn) => format!("those with torch on one more, 3.{}, by the day", turn.minor),
            None => "NONE WITH TORCH ON ANOTHER: `--full` does that".to_owned(),
        };
        format!(
            "CPython: {} All tests run on 3.{own}; those without torch, and with numpy, on \
             each; {further}",
            self.lacks()
        )
    }

    /// Which versions the machine has, and which it lacks.
    pub fn lacks(&self) -> String {
        let lacking = match &self.lacking()[..] {
            [] => "It lacks none".to_owned(),
            lacking => format!("IT LACKS {}: nothing was tried on these", versions(lacking)),
        };
        format!("this machine has {}. {lacking}.", versions(&self.minors()))
    }
}

/// Days since 1970, in UTC.
pub fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(minors: &[u8]) -> Pythons {
        let python = |&minor| Python { minor, executable: format!("python3.{minor}").into() };
        Pythons { found: minors.iter().map(python).collect() }
    }

    #[test]
    fn each_other_python_that_has_torch_has_its_turn() {
        let all = machine(&[10, 11, 12, 14, 15]);
        let turns: Vec<_> =
            (0..6).filter_map(|day| all.turn(11, 20_000 + day)).map(|turn| turn.minor).collect();
        assert_eq!(turns[..3], turns[3..]);
        let mut once = turns[..3].to_vec();
        once.sort_unstable();
        assert_eq!(once, [10, 12, 14]);
        assert!(machine(&[11, 15]).turn(11, 3).is_none());
    }

    #[test]
    fn what_is_lacking_is_stated() {
        let some = machine(&[11, 12]);
        let words = some.words(11, some.turn(11, 0).as_ref());
        assert!(words.contains("has 3.11 and 3.12."), "{words}");
        assert!(words.contains("LACKS 3.10, 3.13, 3.14 and 3.15:"), "{words}");
        assert!(words.ends_with("one more, 3.12, by the day"), "{words}");
        assert!(machine(&python::sorted()).words(11, None).contains("It lacks none"));
    }
}
