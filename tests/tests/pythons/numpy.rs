//! Interpreters of each CPython in one process, each with its own numpy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use anyhow::{Context, Result, ensure};
use hydrozoa::Pool;
use hydrozoa_tests::commands::{clean, run};
use hydrozoa_tests::place;

/// Interpreters of each CPython.
const COPIES: usize = 2;

/// How often each does the work.
const ROUNDS: usize = 3;

/// The work of `cargo xtask lab wheels` with numpy; `results` are the digests.
const PROGRAM: &str = "
import importlib.util, numpy, pathlib, sys
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
folder = pathlib.Path(WHEELS)
digest = load('wheels_run', folder / 'run.py').digest
work = load('work_numpy', folder / 'work/numpy.py').work
found = []
work(lambda name, value: found.append(f'{name} {digest(value)}'))
version = '%d.%d' % sys.version_info[:2]
results = '\\n'.join([version, numpy.__version__, *found])
";

/// The program, which finds the work by its path.
fn program() -> String {
    let wheels = Path::new(env!("CARGO_MANIFEST_DIR")).join("wheels");
    format!("WHEELS = {:?}\n{PROGRAM}", wheels.display().to_string())
}

fn plain(venv: &Path) -> Result<String> {
    let mut python = clean(Command::new(venv.join("bin/python")));
    let program = program() + "print(results, end='')\n";
    run(python.args(["-W", "ignore", "-c", &program]).env("OMP_NUM_THREADS", "1"))
}

/// All begin each round at once.
pub fn at_once() -> Result<()> {
    // OpenBLAS's factorizations give other bits with several threads, and need more stack than a thread of Rust's has.
    ensure!(
        std::env::var("OMP_NUM_THREADS").as_deref() == Ok("1"),
        "OMP_NUM_THREADS is not 1 here, as it is in the plain python of this test; cargo xtask test sets it"
    );
    let venvs = place::pythons()?;
    ensure!(!venvs.is_empty(), "HYDROZOA_TEST_PYTHONS names no environment");
    let expected = venvs.iter().map(|venv| plain(venv)).collect::<Result<Vec<String>>>()?;
    let versions: BTreeSet<&str> = expected.iter().filter_map(|text| text.lines().next()).collect();
    ensure!(versions.len() == venvs.len(), "one environment of each version: {venvs:?}");
    let pool = |venv: &PathBuf| {
        let built = Pool::builder().venv(venv).interpreters(COPIES).build();
        built.with_context(|| format!("a pool with {}", venv.display()))
    };
    let pools = venvs.iter().map(pool).collect::<Result<Vec<Pool>>>()?;
    let begin = Barrier::new(COPIES * pools.len());
    thread::scope(|scope| {
        let threads: Vec<_> = pools
            .iter()
            .zip(&expected)
            .flat_map(|(pool, expected)| (0..COPIES).map(move |index| (pool, index, expected)))
            .map(|(pool, index, expected)| {
                let begin = &begin;
                scope.spawn(move || compute(pool, index, expected, begin))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
        })
    })?;
    for pool in &pools {
        separate(pool)?;
    }
    Ok(())
}

fn compute(pool: &Pool, index: usize, expected: &str, begin: &Barrier) -> Result<()> {
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        // Each thread comes to each round, whatever fails before.
        begin.wait();
        let one = || -> Result<String> {
            let session = pool.acquire_on(index)?;
            Ok(session.run(&program(), "work.py")?.getattr("results")?.extract()?)
        };
        found.push(one());
    }
    for results in found {
        let results = results?;
        ensure!(results == expected, "interpreter {index}:\n{results}\nplain:\n{expected}");
    }
    Ok(())
}

/// Each interpreter has libpython and numpy's extension for itself.
fn separate(pool: &Pool) -> Result<()> {
    let mut addresses = BTreeSet::new();
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let module = session.import("numpy._core._multiarray_umath")?.getattr("__file__")?;
        let module = fs::canonicalize(module.extract::<String>()?)?;
        let library = interpreter.python().library().to_owned();
        for file in [module, library] {
            let replicas = interpreter.domain().replicas();
            let replica = replicas.iter().find(|replica| replica.path == file);
            let replica = replica.with_context(|| format!("no replica of {}", file.display()))?;
            ensure!(addresses.insert(replica.base), "{} exists once", file.display());
        }
    }
    Ok(())
}
