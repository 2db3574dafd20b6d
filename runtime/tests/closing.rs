//! Interpreters and pools whose end the application waits for, with a limit.

mod ending;
mod pythons;

use ending::{assert_ends, ends};
use hydrozoa::{Error, Interpreter, Pool};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, each_pool_alone, pools};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn an_interpreter_that_is_closed_has_run_its_exit_functions() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        let ended = ends(&session);
        drop(session);
        pool.replace(0).unwrap().close(LONG).unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        assert_eq!(pool.acquire_on(0).unwrap().eval("1 + 1").unwrap().extract::<i64>().unwrap(), 2);
    });
}

#[test]
fn an_interpreter_in_use_is_an_error_that_says_by_what_and_it_ends_by_itself() {
    each_pool_alone(1, |pool| {
        let sessions = [pool.acquire().unwrap(), pool.acquire().unwrap()];
        let ended = ends(&sessions[0]);
        let old = pool.replace(0).unwrap();
        let begin = Instant::now();
        let error = old.close(SHORT).unwrap_err();
        assert!(begin.elapsed() >= SHORT);
        assert!(matches!(error, Error::InUse { sessions: 2, .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "interpreter 0 has not ended within 200 ms: 2 sessions on it are open; drop what is left, and it \
                 ends by itself"
        );
        assert_eq!(sessions[1].eval("2").unwrap().extract::<i64>().unwrap(), 2);
        let [one, other] = sessions;
        drop(one);
        let error = other.interpreter().clone().close(SHORT).unwrap_err().to_string();
        assert!(error.contains("a session on it is open"), "{error}");
        let buffer =
            other.eval("bytearray(b'abc')").unwrap().extract::<hydrozoa::Buffer>().unwrap();
        let handle = other.interpreter().clone();
        drop(other);
        let error = handle.close(SHORT).unwrap_err().to_string();
        assert!(error.contains("a buffer still has it"), "{error}");
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        drop(buffer);
        assert_ends(&ended);
    });
}

#[test]
fn a_pool_that_is_closed_has_ended_all_its_interpreters_at_once() {
    each_pool_alone(3, |pool| {
        let slow = "import atexit, time\natexit.register(time.sleep, 0.5)";
        let ended: Vec<_> = (0..3)
            .map(|index| {
                let session = pool.acquire_on(index).unwrap();
                session.run(slow, "slow.py").unwrap();
                ends(&session)
            })
            .collect();
        pool.close(LONG).unwrap();
        assert!(ended.iter().all(|ended| ended.load(Ordering::SeqCst) == 1));
    });
}

/// A pool of settled interpreters, more than have their turns at once. Each runs `end` when it ends, and adds the times to a file.
fn settled(folder: &Path, most: usize, end: impl Fn(usize) -> String) -> (Pool, PathBuf) {
    let pool = builders(3 * most).last().unwrap().settle_in(folder).build().unwrap();
    let ends = folder.join("ends");
    std::fs::write(&ends, "").unwrap();
    for (index, interpreter) in pool.interpreters().iter().enumerate() {
        let code = format!(
            "
import atexit, time
path = {ends:?}
@atexit.register
def end():
    begin = time.monotonic()
    {}
    with open(path, 'a') as file:
        file.write(f'{{begin}} {{time.monotonic()}}\\n')
",
            end(index)
        );
        interpreter.session().run(&code, "end.py").unwrap();
    }
    pool.settle().unwrap();
    (pool, ends)
}

#[test]
fn settled_interpreters_end_by_turns() {
    alone(PATIENCE, || {
        let folder = tempfile::tempdir().unwrap();
        let most = thread::available_parallelism().unwrap().get();
        let (pool, ends) = settled(folder.path(), most, |_| "time.sleep(0.2)".to_owned());
        pool.close(LONG).unwrap();
        let text = std::fs::read_to_string(ends).unwrap();
        let parse = |number: &str| number.parse::<f64>().unwrap();
        let times = text.lines().map(|line| line.split_once(' ').unwrap());
        let times: Vec<_> = times.map(|(begin, end)| (parse(begin), parse(end))).collect();
        assert_eq!(times.len(), 3 * most);
        for (begin, _) in &times {
            let at_once = times.iter().filter(|(other, end)| other <= begin && begin < end);
            assert!(at_once.count() <= most, "{times:?}");
        }
    });
}

#[test]
fn settled_interpreters_do_not_wait_for_ends_that_wait_for_theirs() {
    alone(PATIENCE, || {
        let folder = tempfile::tempdir().unwrap();
        let most = thread::available_parallelism().unwrap().get();
        // As many as have a turn at once end when all others have ended.
        let end = |index: usize| match index < most {
            true => {
                format!("while open(path).read().count('\\n') < {}: time.sleep(0.01)", 2 * most)
            }
            false => "pass".to_owned(),
        };
        let (pool, ends) = settled(folder.path(), most, end);
        pool.close(LONG).unwrap();
        assert_eq!(std::fs::read_to_string(ends).unwrap().lines().count(), 3 * most);
    });
}

#[test]
fn a_pool_whose_code_does_not_end_is_given_up_at_the_limit() {
    each_pool_alone(2, |pool| {
        let other = pool.clone();
        let error = pool.close(SHORT).unwrap_err().to_string();
        assert!(error.contains("a pool") && error.starts_with("interpreter 0"), "{error}");
        let session = other.acquire_on(1).unwrap();
        thread::scope(|scope| {
            let (begin, begun) = std::sync::mpsc::channel();
            scope.spawn(move || {
                begin.send(()).unwrap();
                session.run("import time\ntime.sleep(1)", "sleep.py").unwrap();
            });
            begun.recv().unwrap();
            let error = other.close(SHORT).unwrap_err();
            assert!(
                matches!(&error, Error::InUse { interpreter, .. } if interpreter == "interpreter 1"),
                "{error}"
            );
        });
    });
}

/// Memory that keeps an interpreter, as a tensor from it does.
struct Keeps(#[expect(dead_code, reason = "kept")] Interpreter);

impl AsRef<[u8]> for Keeps {
    fn as_ref(&self) -> &[u8] {
        b"abc"
    }
}

#[test]
fn interpreters_that_nobody_enters_any_more_let_go_of_what_keeps_each_other() {
    alone(PATIENCE, || {
        // The last reference is the host's, or that of a cycle of Python's.
        for code in ["lambda view: view", "lambda view: (one := [view]).append(one)"] {
            for pool in pools(2) {
                let sessions = [0, 1].map(|index| pool.acquire_on(index).unwrap());
                let ended = sessions.each_ref().map(ends);
                let kept = [0, 1].map(|index| {
                    let other = Keeps(sessions[1 - index].interpreter().clone());
                    let view = sessions[index].lend(other).unwrap();
                    sessions[index].eval(code).unwrap().call((&view,)).unwrap().keep()
                });
                drop((sessions, pool));
                drop(kept);
                for ended in ended {
                    assert_ends(&ended);
                }
            }
        }
    });
}
