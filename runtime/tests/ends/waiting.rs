//! Interpreters that end while threads of theirs wait for locks.

use crate::cycling::{Taken, cycles};
use crate::pythons::builders;
use hydrozoa_testkit::alone::{PATIENCE, alone};

/// Daemon threads, each of which waits in its own way for what never happens.
const CODE: &str = "
import queue, threading, time
lock = threading.Lock()
lock.acquire()
condition, recursive = threading.Condition(), threading.RLock()
recursive.acquire()
def wait():
    with condition: condition.wait()
def sleep():
    while True: time.sleep(0.005)
waits = [
    queue.Queue().get, queue.SimpleQueue().get, threading.Event().wait, lock.acquire, wait, recursive.acquire,
    lambda: lock.acquire(timeout=3600), lambda: queue.Queue().get(timeout=3600), sleep,
]
begun = threading.Barrier(len(waits) + 1)
def run(wait):
    begun.wait()
    wait()
threads = [threading.Thread(target=run, args=(wait,), daemon=True) for wait in waits]
threads.append(threading.Thread(target=lambda: threads[0].join(), daemon=True))
for thread in threads: thread.start()
begun.wait()
time.sleep(0.02)
";

/// A thread took 24 MiB and 90 mappings with it, for good.
#[test]
fn threads_that_wait_for_locks_leave_with_their_interpreter() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let without = Taken::now();
            let round = || {
                let pool = builder.clone().build().unwrap();
                pool.acquire().unwrap().run(CODE, "waiting.py").unwrap();
                drop(pool);
                Taken::wait_for_threads(without);
            };
            (0..4).for_each(|_| round());
            let before = Taken::now();
            (0..cycles(26)).for_each(|_| round());
            Taken::now().assert_bounded(before, cycles(26), 20 << 10);
        }
    });
}
