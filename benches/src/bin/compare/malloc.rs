//! The processor's time of a malloc and a free in libraries of an interpreter, beside glibc's.
//!
//! One library does the work, in the process and in an interpreter, by turns in one run. The shortest of the rounds counts: other
//! programs of a machine only make them longer.

use std::ffi::{CString, c_int, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::Pool;

const SOURCE: &str = include_str!("malloc.c");

/// The time that is promised at most, as a multiple of glibc's, in the geometric mean of all kinds of work.
const PROMISED: f64 = 1.1;

const THREADS: [c_int; 3] = [1, 2, 8];
/// Bytes of a block; 0: from 16 to 4,111, small ones more often.
const SIZES: [c_int; 6] = [16, 64, 256, 1024, 4096, 0];
/// How many blocks there are at a time: a block that is taken was freed just now, or long ago.
const LIVE: [c_int; 2] = [1, 1000];

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment
    #[arg(long)]
    venv: PathBuf,
    /// How many rounds there are
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Pairs of malloc and free of each thread in a round
    #[arg(long, default_value_t = 200_000)]
    pairs: c_long,
}

type Pairs = unsafe extern "C" fn(c_int, c_int, c_int, c_long) -> f64;

/// A kind of work, and the shortest times of a pair by glibc's malloc and by the interpreter's.
struct Row {
    threads: c_int,
    size: c_int,
    live: c_int,
    nanoseconds: [f64; 2],
}

pub fn run(options: &Options) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("hydrozoa-malloc-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = build(&folder).and_then(|library| measure(options, &library));
    std::fs::remove_dir_all(&folder)?;
    report(&outcome?)
}

fn build(folder: &Path) -> Result<PathBuf> {
    let [source, library] = ["malloc.c", "libpairs.so"].map(|name| folder.join(name));
    std::fs::write(&source, SOURCE)?;
    let mut cc = Command::new("cc");
    let status = cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source).status();
    ensure!(status.context("starting cc")?.success(), "cc failed");
    Ok(library)
}

fn measure(options: &Options, library: &Path) -> Result<Vec<Row>> {
    let own = of_the_process(library)?;
    let pool = Pool::builder().interpreters(1).venv(&options.venv).build()?;
    let session = pool.acquire()?;
    let code = format!(
        "import ctypes\npairs = ctypes.CDLL({library:?}).pairs\npairs.restype = ctypes.c_double\n\
         pairs.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]"
    );
    let names = session.run(&code, "pairs.py")?;
    let function = names.getattr("pairs")?;
    let mut rows = Vec::new();
    for (threads, live) in THREADS.into_iter().flat_map(|threads| LIVE.map(|live| (threads, live)))
    {
        rows.extend(SIZES.map(|size| Row { threads, size, live, nanoseconds: [f64::MAX; 2] }));
    }
    for _ in 0..options.rounds {
        for Row { threads, size, live, nanoseconds } in &mut rows {
            // SAFETY: the function has this signature, and takes and frees blocks of its own.
            let glibc = unsafe { own(*threads, *size, *live, options.pairs) };
            let ours: f64 = function.call((*threads, *size, *live, options.pairs))?.extract()?;
            *nanoseconds = [nanoseconds[0].min(glibc), nanoseconds[1].min(ours)];
        }
    }
    Ok(rows)
}

/// The function in the program itself.
fn of_the_process(library: &Path) -> Result<Pairs> {
    let path = CString::new(library.to_str().context("a path of UTF-8")?)?;
    // SAFETY: the library was built from the source beside this file, whose function has this signature.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        ensure!(!handle.is_null(), "dlopen of {}", library.display());
        let found = libc::dlsym(handle, c"pairs".as_ptr());
        ensure!(!found.is_null(), "the library has no pairs");
        Ok(std::mem::transmute::<*mut libc::c_void, Pairs>(found))
    }
}

fn report(rows: &[Row]) -> Result<()> {
    println!("Nanoseconds of the processor for a malloc and a free; the shortest of the rounds\n");
    println!("| threads | blocks at a time | bytes | glibc | interpreter | ratio |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for Row { threads, size, live, nanoseconds: [glibc, ours] } in rows {
        let bytes = if *size == 0 { "mixed".to_owned() } else { size.to_string() };
        println!("| {threads} | {live} | {bytes} | {glibc:.1} | {ours:.1} | {:.2} |", ours / glibc);
    }
    for threads in THREADS {
        let of_threads = rows.iter().filter(|row| row.threads == threads);
        let mean = mean(of_threads.map(|row| row.nanoseconds[1] / row.nanoseconds[0]));
        println!("\n{threads} threads: {mean:.3} of glibc's time, {PROMISED} promised");
        ensure!(mean <= PROMISED, "{threads} threads: {mean:.3} of glibc's time");
    }
    Ok(())
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}
