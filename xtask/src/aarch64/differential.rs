//! Every relocated word of ten wheels, beside glibc's own loader there.

use anyhow::Result;

use super::system::{MINOR, System};
use super::{TARGET, fetched};
use crate::steps::{Count, Outcome};

/// Written in C, C++, Cython, Fortran and Rust.
const WHEELS: [&str; 10] = [
    "contourpy==1.3.3",
    "cryptography==50.0.2",
    "grpcio==1.85.3",
    "lxml==6.1.3",
    "numpy==2.3.5",
    "pandas==2.3.3",
    "pillow==13.0.0",
    "polars-runtime-32==2.1.0",
    "pyarrow==26.0.1",
    "scipy==1.17.0",
];

pub(super) fn run(system: &System) -> Result<Outcome> {
    let wheels = fetched::wheels(system, "wheels", &WHEELS)?;
    system.run(&format!(
        "/target/{TARGET}/debug/xtask linker --differential {wheels} \
         --python /usr/lib/aarch64-linux-gnu/libpython3.{MINOR}.so.1.0 --table /srv/differential.md"
    ))?;
    Ok(Count::one(true).into())
}
