//! pandas, and an extension that throws exceptions of C++ on several threads, in three copies and in plain python.

use anyhow::Result;

use super::system::System;
use super::{copies, fetched};
use crate::dist::THROWING;
use crate::steps::Outcome;

const WHEELS: [&str; 7] = [
    "contourpy==1.3.3",
    "numpy==2.3.5",
    "pandas==2.3.3",
    "python-dateutil==2.9.0.post0",
    "pytz==2025.2",
    "six==1.17.0",
    "tzdata==2025.3",
];

pub(super) fn run(system: &System) -> Result<Outcome> {
    let site = fetched::packages(system, "pandas", &WHEELS)?;
    copies::beside_plain(system, "throwing.py", THROWING, &site, "")
}
