//! Interpreters that are started and ended again and again: what they had is given back, while another one serves.

mod cycling;
mod pythons;

use cycling::{Each, Taken, assert_cycles, cycles, first, patience, while_another_serves};
use hydrozoa::{Builder, Pool};
use hydrozoa_testkit::alone::alone;
use pythons::builders;
use std::thread;
use std::time::Duration;

/// Work that leaves much behind: native modules, threads of Python's own, large objects, cycles, an open file.
const WORK: &str = "
import array, ctypes, decimal, json, sqlite3, threading
class Node: pass
nodes = [Node() for _ in range(10_000)]
for node in nodes: node.all = nodes
large = [array.array('i', range(10_000)) for _ in range(10)]
done = []
thread = threading.Thread(target=lambda: done.append(json.dumps({'a': list(range(1000))})))
thread.start()
thread.join()
database = sqlite3.connect(':memory:')
database.execute('create table t (n)')
file = open('/dev/null')
state = __import__('sys').modules.setdefault('state', type('State', (), {'calls': 0}))
state.calls += 1
answer = state.calls
";

/// The most that each of them may leave behind.
const LIMIT: Each = Each { bytes: 20 << 10, mappings: 0 };

fn cycle(builder: &Builder, work: &str) {
    let pool = builder.clone().build().unwrap();
    let session = pool.acquire().unwrap();
    let answer = session.run(work, "work.py").unwrap().getattr("answer").unwrap();
    // A fresh interpreter has no state of the one before it, whose addresses it has.
    assert_eq!(answer.extract::<i64>().unwrap(), 1);
    drop(answer);
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = pool.acquire().unwrap();
            assert_eq!(
                session.eval("sum(range(1000))").unwrap().extract::<i64>().unwrap(),
                499_500
            );
        });
    });
}

#[test]
fn what_an_interpreter_had_is_given_back_while_another_one_serves() {
    alone(patience(), || {
        for builder in builders(1) {
            while_another_serves(&builder, || {
                assert_cycles(first(6), cycles(24), LIMIT, || cycle(&builder, WORK));
            });
        }
    });
}

#[test]
fn what_a_settled_interpreter_had_is_given_back() {
    alone(patience(), || {
        let directory = env!("CARGO_TARGET_TMPDIR");
        for builder in builders(1) {
            let settled = || {
                let pool = builder.clone().settle_in(directory).build().unwrap();
                pool.acquire().unwrap().run(WORK, "work.py").unwrap();
                assert!(pool.settle().unwrap()[0].written > 2 << 20);
                pool.acquire().unwrap().run("import email.message", "work.py").unwrap();
                assert!(pool.settle().unwrap()[0].written > 0);
            };
            while_another_serves(&builder, || {
                assert_cycles(first(4), cycles(8), LIMIT, settled);
            });
        }
    });
}

#[test]
fn interpreters_of_several_versions_give_back_what_they_had_in_any_order() {
    alone(patience(), || {
        let builders: Vec<Builder> = builders(1).collect();
        let round = |number: usize| {
            let mut pools: Vec<Pool> =
                builders.iter().map(|builder| builder.clone().build().unwrap()).collect();
            for pool in &pools {
                let session = pool.acquire().unwrap();
                session.run("import json, ctypes, decimal", "work.py").unwrap();
            }
            pools.rotate_left(number % builders.len());
            drop(pools);
        };
        (0..6).for_each(round);
        let before = Taken::now();
        (0..12).for_each(round);
        Taken::now().assert_bounded(before, 12 * builders.len() as u64, 20 << 10);
    });
}

#[test]
fn an_interpreter_that_cannot_start_gives_back_what_it_had() {
    alone(patience(), || {
        for builder in builders(1) {
            let builder = builder.memory_limit(1 << 20);
            let attempt = || {
                let error = builder.clone().build().unwrap_err().to_string();
                assert!(error.contains("its limit is 1048576"), "{error}");
            };
            assert_cycles(first(6), cycles(12), LIMIT, attempt);
        }
    });
}

#[test]
fn a_daemon_thread_that_outlives_its_interpreter_finds_what_it_left() {
    alone(patience(), || {
        for builder in builders(1) {
            let work = "
import threading, time
def sleep():
    for _ in range(1000): time.sleep(0.02)
for _ in range(3): threading.Thread(target=sleep, daemon=True).start()
answer = 1
";
            for _ in 0..10 {
                cycle(&builder, work);
            }
            // Those of the threads that wake want the GIL of an interpreter that is gone.
            thread::sleep(Duration::from_millis(100));
            cycle(&builder, WORK);
        }
    });
}
