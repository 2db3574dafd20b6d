//! A batch job: Python code for each of many files, on every interpreter of a pool, with progress.
//!
//! Counts the functions in the `.py` files of a folder, by default of Python's standard library.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --example batch [FOLDER]
//! ```

use hydrozoa::{Pool, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

const CODE: &str = "
import ast

def functions(path):
    with open(path, 'rb') as file:
        tree = ast.parse(file.read())
    return sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree))
";

/// Works on all files and calls `progress` with the number of those that are done. Returns a result for each file.
///
/// # Errors
///
/// Those of the pool. The error of a file is among the results.
pub fn run(pool: &Pool, files: &[PathBuf], progress: impl Fn(usize)) -> Result<Vec<Result<u64>>> {
    pool.register_module("job", CODE)?;
    let next = AtomicUsize::new(0);
    let mut results: Vec<_> = files.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for index in 0..pool.interpreters().len() {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || work(pool, index, files, next, &sender));
        }
        drop(sender); // the last thread's end is the end of the results
        for (done, (index, result)) in receiver.into_iter().enumerate() {
            results[index] = Some(result);
            progress(done + 1);
        }
    });
    Ok(results.into_iter().map(|result| result.expect("each file has been worked on")).collect())
}

/// Takes files on one interpreter until none is left. A file that cannot be read or parsed does not end the job.
fn work(
    pool: &Pool,
    interpreter: usize,
    files: &[PathBuf],
    next: &AtomicUsize,
    results: &Sender<(usize, Result<u64>)>,
) {
    let count = |file: &PathBuf| -> Result<u64> {
        let session = pool.acquire_on(interpreter)?;
        let functions = session.import("job")?.getattr("functions")?;
        functions.call((file.display().to_string(),))?.extract()
    };
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(file) = files.get(index) else { break };
        results.send((index, count(file))).expect("the results are read until all threads end");
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder().build()?; // an interpreter for each processor
    let library = format!("lib/python3.{}", pool.python().minor());
    let library = || pool.python().prefix().join(&library);
    let folder = std::env::args_os().nth(1).map_or_else(library, PathBuf::from);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        files.extend(path.extension().is_some_and(|extension| extension == "py").then_some(path));
    }
    let results = run(&pool, &files, |done| eprint!("\r{done} of {} files", files.len()))?;
    eprintln!();
    let mut functions = 0;
    for (file, result) in files.iter().zip(results) {
        match result {
            Ok(count) => functions += count,
            Err(error) => eprintln!("{}: {error}", file.display()),
        }
    }
    println!("{functions} functions in {} files", files.len());
    Ok(())
}
