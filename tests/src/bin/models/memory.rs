//! What a large model costs each further interpreter, and a second process.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::{Interpreter, Movable};
use hydrozoa_measure::package::{EXAMPLE, MODEL};
use hydrozoa_tests::mappings;
use serde::{Deserialize, Serialize};

use crate::{CHECK, Place};

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// How many interpreters
    #[arg(long, default_value_t = 8)]
    interpreters: usize,
    /// Only load and call, and print the figures of this process while the first one has the file mapped as well
    #[arg(long)]
    second: bool,
}

/// The mappings of the package's file in one process, in KiB.
#[derive(Serialize, Deserialize)]
struct Pages {
    resident: u64,
    proportional: u64,
    anonymous: u64,
}

fn pages(package: &Path) -> Result<Pages> {
    let mut pages = Pages { resident: 0, proportional: 0, anonymous: 0 };
    for mapping in mappings::own()? {
        if mapping.path.as_deref() == Some(package) {
            pages.resident += mapping.resident;
            pages.proportional += mapping.proportional;
            pages.anonymous += mapping.anonymous;
        }
    }
    ensure!(pages.resident > 0, "{} is not mapped", package.display());
    Ok(pages)
}

pub fn run(options: &Options) -> Result<()> {
    let place = &options.place;
    let file = place.package.canonicalize()?;
    let expected = std::fs::read(&place.expected)
        .with_context(|| format!("reading {}", place.expected.display()))?;
    // A thread's first call takes an arena of malloc for the thread, whichever interpreter it calls. Here this one thread
    // calls all interpreters.
    let pool = place.pool(if options.second { 1 } else { options.interpreters })?;
    let package = pool.load_package(&file)?;
    let model = package.load_pickle(MODEL.0, MODEL.1)?;
    let example = package.load_pickle(EXAMPLE.0, EXAMPLE.1)?;
    // load_pickle has loaded it on the least loaded interpreter. That one is the first.
    let (first, further): (Vec<_>, Vec<_>) =
        pool.interpreters().into_iter().partition(|interpreter| model.is_loaded(interpreter));
    let mut grown = Vec::new();
    for interpreter in first.into_iter().chain(further) {
        let before = Usage::of_process()?;
        use_model(&interpreter, &model, &example, &expected)?;
        grown.push((Usage::of_process()? - before).private >> 10);
    }
    let mut report = serde_json::json!({ "grown": grown, "pages": pages(&file)? });
    if !options.second {
        let output = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--second")
            .stderr(Stdio::inherit())
            .output()
            .context("starting the second process")?;
        ensure!(output.status.success(), "the second process failed: {}", output.status);
        let second: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        report["second"] = second["pages"].clone();
    }
    println!("{report}");
    Ok(())
}

/// Loads the model, calls it once and compares.
fn use_model(
    interpreter: &Interpreter,
    model: &Movable,
    example: &Movable,
    expected: &[u8],
) -> Result<()> {
    let session = interpreter.session();
    let call = session.run(CHECK, "check.py")?.getattr("call")?;
    let bytes: Vec<u8> =
        call.call((&model.to_object(&session)?, &example.to_object(&session)?))?.extract()?;
    ensure!(bytes == expected, "{}: not the bits of plain python", interpreter.name());
    Ok(())
}
