//! One piece of code that crashes, in an interpreter that contains its crashes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::{Error, Pool};

/// How long a replacement may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines of a report that are shown: the head, and the innermost frames.
const FRAMES: usize = 3;

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment with the packages
    #[arg(long)]
    venv: PathBuf,
    /// The code
    file: PathBuf,
}

/// Runs the code, and prints `contained` if its crash was an error, and all interpreters answer afterwards. The process dies where
/// the crash is not contained.
pub fn run(options: &Options) -> Result<()> {
    let code = std::fs::read_to_string(&options.file)
        .with_context(|| format!("reading {}", options.file.display()))?;
    let pool = Pool::builder().interpreters(2).venv(&options.venv).contain_crashes(true).build()?;
    let outcome = pool.acquire_on(0)?.run(&code, "fault.py").map(drop);
    let report = match outcome {
        Err(Error::Crashed { report }) => report,
        Err(error) => return Err(error).context("the code did not crash"),
        Ok(()) => bail!("the code did not crash"),
    };
    let begin = Instant::now();
    while pool.interpreters()[0].generation() == 0 {
        ensure!(begin.elapsed() < PATIENCE, "the interpreter was not replaced");
        std::thread::sleep(Duration::from_millis(1));
    }
    for index in 0..2 {
        let answer: i64 = pool.acquire_on(index)?.eval("6 * 7")?.extract()?;
        ensure!(answer == 42, "interpreter {index} answers {answer}");
    }
    pool.close(PATIENCE)?;
    ensure!(hydrozoa::wait_for_ends(PATIENCE) == 0, "an interpreter does not end");
    let frames = report.lines().skip_while(|line| !line.contains("#0 ")).take(FRAMES);
    let lines: Vec<&str> = report.lines().take(1).chain(frames).collect();
    println!("contained\n{}", lines.join("\n"));
    Ok(())
}
