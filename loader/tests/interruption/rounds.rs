//! The length of the tests.

use std::time::Duration;

/// How often a test makes its attempt: `usual`, or the number in the environment for a long run. The patience
/// grows with that number.
pub fn rounds(variable: &str, usual: u64) -> (u64, Duration) {
    let rounds = std::env::var(variable).ok().map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
    });
    (rounds, Duration::from_secs(120) * rounds.div_ceil(usual) as u32)
}
