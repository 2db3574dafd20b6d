//! The table of a run.

use std::collections::BTreeSet;

use super::server::Contender;
use super::suite::{Found, Suite};

/// A suite with its results.
pub struct Row {
    pub suite: &'static Suite,
    pub found: Found,
}

/// How many tests pass on each server, and how many pass on another one and not on `hydrozoa run`.
pub fn of(rows: &[Row]) -> String {
    let mut text = "| suite | tests | hydrozoa | others | pass there and not here |\n\
                    |---|---:|---:|---|---:|\n"
        .to_owned();
    for Row { suite, found } in rows {
        let all: BTreeSet<_> =
            suite.contenders.iter().flat_map(|&contender| found.of(contender).keys()).collect();
        let others = suite.contenders.iter().filter(|&&other| other != Contender::Hydrozoa);
        let others: Vec<_> =
            others.map(|&other| format!("{} {}", other.name(), found.passing(other))).collect();
        text += &format!(
            "| {} | {} | {} | {} | {} |\n",
            suite.title,
            all.len(),
            found.passing(Contender::Hydrozoa),
            others.join(", "),
            found.differences().len()
        );
    }
    text
}
