//! numpy's BLAS in several interpreters at once: it exists once, with one pool of threads, and computes plain python's
//! bits.

mod common;

use std::fs;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use common::venv;
use hydrozoa::{Builder, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};

/// Copies that run at once.
const COPIES: usize = 3;

/// How often they do.
const ROUNDS: usize = 3;

/// Threads of the BLAS, the caller's among them. It has as many on a machine with fewer cores, if somebody sets them.
const THREADS: usize = 3;

/// Products and a decomposition. They are large enough for several threads, and not much larger: OpenBLAS's threads wait
/// for each other by sched_yield(2), which takes long on a busy machine. The bits of the products depend on the number of
/// threads.
const CODE: &str = "
import ctypes, glob, hashlib, os
import numpy as np
path, = glob.glob(os.path.join(os.path.dirname(np.__path__[0]), 'numpy.libs', 'libscipy_openblas*'))
library = ctypes.CDLL(path)
threads = library.scipy_openblas_get_num_threads64_
set_threads = library.scipy_openblas_set_num_threads64_

def digest(round):
    a = np.random.default_rng(round).standard_normal((300, 300))
    results = hashlib.sha256()
    for result in [a @ a, a @ a.T, *np.linalg.svd(a[:110, :110])]:
        results.update(np.ascontiguousarray(result).tobytes())
    return results.hexdigest()
";

fn builder() -> Builder {
    Pool::builder().interpreters(COPIES).venv(venv())
}

/// The results of plain python in each round.
fn plainly() -> Vec<String> {
    let program = format!(
        "{CODE}\nset_threads({THREADS})\nfor round in range({ROUNDS}): print(digest(round))\n"
    );
    let output = Command::new(venv().join("bin/python")).args(["-c", &program]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs `work` in all interpreters of a pool at once, and returns what it returned in each.
fn at_once<T: Send>(pool: &Pool, work: impl Fn(&Session) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(COPIES);
    thread::scope(|scope| {
        let copies: Vec<_> = (0..COPIES)
            .map(|index| {
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || {
                    let session = pool.acquire_on(index).unwrap();
                    barrier.wait();
                    work(&session)
                })
            })
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).collect()
    })
}

/// Threads of this process. Those that were joined a moment ago may still be listed.
fn count_threads() -> usize {
    let count = || fs::read_dir("/proc/self/task").unwrap().count();
    let mut last = count();
    for _ in 0..50 {
        thread::sleep(std::time::Duration::from_millis(10));
        last = last.min(count());
    }
    last
}

/// How often the BLAS is mapped for execution.
fn count_copies() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_code = |line: &&str| line.contains(" r-xp ") && line.contains("/libscipy_openblas");
    maps.lines().filter(is_code).count()
}

/// The number of the BLAS's threads beside the callers' own, after all interpreters have used it.
fn workers(pool: &Pool, work: impl Fn(&Session) + Sync) -> usize {
    let before = count_threads();
    at_once(pool, work);
    count_threads() - before
}

fn digest(session: &Session, round: usize) -> String {
    session.eval(&format!("__import__('blas').digest({round})")).unwrap().extract().unwrap()
}

/// Makes [`CODE`] the module `blas` of the interpreter.
fn define(session: &Session) {
    let code = format!(
        "import sys, types\nmodule = sys.modules['blas'] = types.ModuleType('blas')\n\
         exec({CODE:?}, module.__dict__)\n"
    );
    session.run(&code, "blas.py").unwrap();
}

fn threads(session: &Session) -> usize {
    session.eval("__import__('blas').threads()").unwrap().extract().unwrap()
}

fn set_threads(session: &Session) {
    session.eval(&format!("__import__('blas').set_threads({THREADS})")).unwrap();
}

#[test]
fn interpreters_have_one_blas_with_one_pool_of_threads_and_plain_python_s_bits() {
    let _turn = common::alone();
    alone(PATIENCE, || {
        let expected = plainly();
        assert_eq!(expected.len(), ROUNDS);
        let pool = builder().build().unwrap();
        let workers = workers(&pool, |session| {
            define(session);
            set_threads(session);
            digest(session, 0);
        });
        assert_eq!((workers, count_copies()), (THREADS - 1, 1));
        for (round, expected) in expected.iter().enumerate() {
            let found = at_once(&pool, |session| digest(session, round));
            assert!(found.iter().all(|found| found == expected), "round {round}: {found:?}");
        }
        // The number of threads is one setting.
        assert_eq!(at_once(&pool, threads), [THREADS; COPIES]);
        pool.acquire_on(1).unwrap().eval("__import__('blas').set_threads(2)").unwrap();
        assert_eq!(at_once(&pool, threads), [2; COPIES]);
    });
}

#[test]
fn a_rule_gives_each_interpreter_a_blas_with_threads_of_its_own() {
    let _turn = common::alone();
    alone(PATIENCE, || {
        let expected = plainly();
        let pool = builder().replicate("*openblas*").build().unwrap();
        let workers = workers(&pool, |session| {
            define(session);
            set_threads(session);
            digest(session, 0);
        });
        assert_eq!((workers, count_copies()), (COPIES * (THREADS - 1), COPIES));
        for (round, expected) in expected.iter().enumerate().take(1) {
            let found = at_once(&pool, |session| digest(session, round));
            assert!(found.iter().all(|found| found == expected), "round {round}: {found:?}");
        }
        pool.acquire_on(1).unwrap().eval("__import__('blas').set_threads(2)").unwrap();
        assert_eq!(at_once(&pool, threads), [THREADS, 2, THREADS]);
    });
}
