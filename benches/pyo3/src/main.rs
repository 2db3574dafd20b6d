//! Calls by Hydrozoa and by PyO3 in one process: the CPU time of the calling thread, in rounds that alternate.
//!
//! Both have the same build of CPython: PyO3 the libpython that the program is linked with, Hydrozoa copies of it.
//! Each row is the median of the rounds' ratios, so that other load on the machine affects both. A broken promise is an
//! error.

mod clock;
mod ours;
mod row;
mod side;
mod theirs;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hydrozoa::{Movable, Pool, Tensor, python};

use crate::clock::time;
use crate::ours::Ours;
use crate::row::{Measured, Promised, Row};
use crate::side::{ELEMENTS, Side};
use crate::theirs::Theirs;

/// Interpreters of the larger of the two pools that share a movable.
const MANY: usize = 32;

#[derive(Parser)]
#[command(about = "Calls by Hydrozoa beside calls by PyO3, in one process")]
struct Arguments {
    /// The virtual environment of both, with numpy
    #[arg(long, value_name = "DIR")]
    venv: PathBuf,
    /// How many rounds count
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Only rows with these words in their names
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(broken) => {
            eprintln!("error: {broken} promises are broken");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints. Returns the number of broken promises.
fn run(arguments: &Arguments) -> Result<usize> {
    keep_heap();
    let installation = python::choose(None, Some(&arguments.venv))?;
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("PYTHONHOME", installation.prefix()) };
    let theirs = Theirs::new(&installation.site_packages())?;
    let pool = Pool::builder().interpreters(1).venv(&arguments.venv).build()?;
    let session = pool.acquire()?;
    let version: String = session.import("sys")?.getattr("version")?.extract()?;
    let linked = Theirs::version()?;
    ensure!(
        version == linked,
        "the program is linked with {linked}, the environment has {version}"
    );
    session.import("numpy").context("the virtual environment needs numpy")?;
    let ours = Ours::new(&pool, &session)?;
    println!("CPython {version}, medians of {} rounds, CPU time", arguments.rounds);
    let others = Others::new(arguments)?;
    let mut rows = beside_pyo3(&ours, &theirs);
    rows.extend(others.rows());
    report(arguments, rows)
}

/// Keeps freed memory in the heap. Else each array's memory would go back to the kernel at times, which takes longer
/// than to pass it, on both sides.
fn keep_heap() {
    for setting in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: any number is allowed (mallopt(3)), and no other thread runs yet.
        unsafe { libc::mallopt(setting, 1 << 25) };
    }
}

fn report(arguments: &Arguments, rows: Vec<Row<'_>>) -> Result<usize> {
    let wanted =
        |row: &&Row<'_>| arguments.only.as_deref().is_none_or(|words| row.work.contains(words));
    println!("{}", Measured::header());
    let mut broken = 0;
    for row in rows.iter().filter(wanted) {
        let measured = row.measure(arguments.rounds)?;
        println!("{measured}");
        broken += usize::from(!measured.is_kept());
    }
    Ok(broken)
}

/// The rows that compare with PyO3.
fn beside_pyo3<'a>(ours: &'a Ours<'a>, theirs: &'a Theirs) -> Vec<Row<'a>> {
    macro_rules! row {
        ($function:ident, $work:literal, $most:literal $(, aim $aim:literal)?) => {
            Row {
                work: $work,
                ours: Box::new(|calls| ours.$function(calls)),
                beside: "PyO3",
                theirs: Box::new(|calls| theirs.$function(calls)),
                promised: Promised { most: $most, aim: None$(.or(Some($aim)))? },
            }
        };
    }
    vec![
        row!(no_op, "no-op, held", 2.0, aim 1.5),
        row!(add, "add(40, 2) to i64, held", 1.7, aim 1.5),
        row!(keywords, "add(40, b=2) to i64, held", 0.7),
        row!(keywords_interned, "add(40, b=2) to i64, PyO3 with intern!", 0.9),
        row!(method, "method, held", 0.8),
        row!(method_interned, "method, PyO3 with intern!", 1.7, aim 1.2),
        row!(text, "str of 100 bytes there and back, held", 1.5),
        row!(list, "list of 1,000 f64 there and back, held", 1.2),
        row!(callback, "Rust function called from Python", 1.7, aim 1.5),
        row!(array, "numpy array of 1 MiB there and back, held", 2.0, aim 1.0),
        row!(new_array, "the same with a new Vec each time", 1.2, aim 1.0),
        attach(ours, theirs, "attach, no-op, detach", Promised { most: 1.7, aim: Some(1.3) }),
        row!(import, "acquire, import, math.sqrt(16.0), drop", 0.7),
    ]
}

fn attach<'a>(
    ours: &'a Ours<'a>,
    theirs: &'a Theirs,
    work: &'static str,
    promised: Promised,
) -> Row<'a> {
    Row {
        work,
        ours: Box::new(|calls| ours.attach(calls)),
        beside: "PyO3",
        theirs: Box::new(|calls| theirs.attach(calls)),
        promised,
    }
}

/// Values for the rows that compare with something other than PyO3.
struct Others {
    tensor: Tensor,
    elements: Vec<f32>,
    /// One interpreter.
    one: Movable,
    /// [`MANY`] interpreters.
    many: Movable,
    _pools: [Pool; 2],
}

impl Others {
    fn new(arguments: &Arguments) -> Result<Self> {
        let elements = vec![0.5; ELEMENTS];
        let tensor = Tensor::from_vec(elements.clone(), &[ELEMENTS as i64])?;
        let build = |count| Pool::builder().interpreters(count).venv(&arguments.venv).build();
        let pools = [build(1)?, build(MANY)?];
        let [one, many] = [movable(&pools[0])?, movable(&pools[1])?];
        Ok(Self { tensor, elements, one, many, _pools: pools })
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let call = |movable: &Movable, calls| {
            time(calls, || {
                ensure!(movable.call_extract::<i64>((40, 2))? == 42);
                Ok(())
            })
        };
        vec![
            Row {
                work: "Tensor::to_vec of 1 MiB",
                ours: Box::new(|calls| {
                    time(calls, || {
                        ensure!(self.tensor.to_vec::<f32>()?.len() == ELEMENTS);
                        Ok(())
                    })
                }),
                beside: "Vec::clone",
                theirs: Box::new(|calls| {
                    time(calls, || {
                        ensure!(std::hint::black_box(&self.elements).clone().len() == ELEMENTS);
                        Ok(())
                    })
                }),
                promised: Promised { most: 1.2, aim: Some(1.1) },
            },
            Row {
                work: "Movable::call, add(40, 2), 32 interpreters",
                ours: Box::new(move |calls| call(&self.many, calls)),
                beside: "one interpreter",
                theirs: Box::new(move |calls| call(&self.one, calls)),
                promised: Promised { most: 1.3, aim: None },
            },
        ]
    }
}

/// A function that all interpreters of a pool have.
fn movable(pool: &Pool) -> Result<Movable> {
    let first = pool.acquire_on(0)?;
    let movable = pool.create_movable(&first.import("operator")?.getattr("add")?)?;
    for interpreter in pool.interpreters().iter() {
        movable.to_object(&interpreter.session())?;
    }
    Ok(movable)
}
