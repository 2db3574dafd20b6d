//! Settled interpreters: what lies in a file works as what lies in memory, and takes no memory.

mod pythons;

use hydrozoa::memory::Usage;
use hydrozoa::{Error, Interpreter, Session, Settled, Unsettled, limits};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{builders, each_pool_alone};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A directory on a disk.
fn directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settle");
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn settle(interpreter: &Interpreter) -> Settled {
    interpreter.settle(directory()).unwrap()
}

/// A program with state, objects of all sizes, and functions that use them.
const PROGRAM: &str = "
import abc, ast, collections, dataclasses, decimal, email.message, gc, json, logging, threading, unittest, xml.dom.minidom
texts = [str(number) * 20 for number in range(100_000)]
blocks = [bytes([number % 256]) * 5000 for number in range(1_000)]
table = {text: number for number, text in enumerate(texts)}
class Node:
    def __init__(self): self.own = self
nodes = [Node() for _ in range(10_000)]
array = bytearray(2_000_000)

def check(seed):
    number = seed % 100_000
    assert texts[number] == str(number) * 20 and table[texts[number]] == number
    assert blocks[seed % 1000] == bytes([seed % 1000 % 256]) * 5000
    assert nodes[seed % 10_000].own is nodes[seed % 10_000]
    return number

def mutate(seed):
    number = seed % 100_000
    texts[number] = str(number) * 20
    blocks[seed % 1000] = bytes([seed % 1000 % 256]) * 5000
    nodes[seed % 10_000] = Node()
    array[seed * 7919 % 2_000_000] = seed % 256
    return array[seed * 7919 % 2_000_000]

def raises(seed):
    raise KeyError(texts[seed % 100_000])

def threads(seed):
    found = []
    def work(part): found.append(check(seed + part))
    running = [threading.Thread(target=work, args=(part,)) for part in range(3)]
    for one in running: one.start()
    for one in running: one.join()
    return sorted(found)

def collects(count):
    gc.collect()
    for _ in range(count): Node()
    return gc.collect()
";

struct Program<'session> {
    session: &'session Session,
    namespace: hydrozoa::Object<'session>,
}

impl<'session> Program<'session> {
    fn start(session: &'session Session) -> Self {
        let namespace = session.run(PROGRAM, "program.py").unwrap();
        session
            .import("sys")
            .unwrap()
            .getattr("modules")
            .unwrap()
            .set_item("kept", &namespace)
            .unwrap();
        Self { session, namespace }
    }

    fn of(session: &'session Session) -> Self {
        let modules = session.import("sys").unwrap().getattr("modules").unwrap();
        Self { session, namespace: modules.get_item("kept").unwrap() }
    }

    fn call(&self, name: &str, seed: i64) -> hydrozoa::Result<hydrozoa::Object<'session>> {
        self.namespace.getattr(name)?.call((seed,))
    }

    fn number(&self, name: &str, seed: i64) -> i64 {
        self.call(name, seed).unwrap().extract().unwrap()
    }

    fn assert_works(&self, seed: i64) {
        assert_eq!(self.number("check", seed), seed % 100_000);
        assert_eq!(self.number("mutate", seed), seed % 256);
        let error = self.call("raises", seed).unwrap_err();
        assert!(error.to_string().contains(&(seed % 100_000).to_string()), "{error}");
        assert!(error.traceback().unwrap().contains("in raises"));
        let sum = self.session.eval(&format!("sum(range({seed}))")).unwrap();
        assert_eq!(sum.extract::<i64>().unwrap(), seed * (seed - 1) / 2);
    }
}

fn private() -> i64 {
    Usage::of_process().unwrap().private
}

#[test]
fn a_settled_interpreter_has_a_fraction_of_its_memory_and_goes_on_as_before() {
    each_pool_alone(1, |pool| {
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        let program = Program::start(&session);
        let before = private();
        let settled = settle(interpreter);
        let after = private();
        println!("{}: {settled:?}, {before} -> {after}", pool.python().minor());
        assert!(settled.written > 20 << 20 && settled.written <= settled.memory + (1 << 20));
        assert!(settled.anonymous * 20 < settled.memory, "{settled:?}");
        let lost = before - after;
        assert!(lost * 10 > settled.written as i64 * 8, "{before} -> {after}, {settled:?}");

        program.assert_works(77);
        // A call touches little, and a collection does not touch what is frozen.
        assert!(program.number("collects", 100) >= 100);
        let used = private() - after;
        assert!(used * 5 < lost, "{used} bytes more after {lost} less");
        for seed in 0..200 {
            program.assert_works(seed * 37);
        }
        assert_eq!(program.call("threads", 5).unwrap().extract::<Vec<i64>>().unwrap(), [5, 6, 7]);
        // New modules, and new work in the namespaces of old ones.
        session.run("import wave, csv, html.parser, difflib", "more.py").unwrap();
        let again = settle(interpreter);
        println!("again: {again:?}");
        assert!(again.written < settled.written && again.anonymous * 20 < again.memory);
        program.assert_works(78);
    });
}

/// How often a thread of the process has waited for a page from a disk.
fn pages_waited_for() -> i64 {
    // SAFETY: the structure may be all zeros, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage.ru_majflt
    }
}

#[test]
fn the_end_of_a_settled_interpreter_does_not_wait_for_each_page() {
    each_pool_alone(1, |pool| {
        let session = pool.interpreters()[0].session();
        session.run(PROGRAM, "program.py").unwrap();
        drop(session);
        let settled = pool.interpreters().first().map(settle).unwrap();
        let (before, since) = (pages_waited_for(), Instant::now());
        drop(pool);
        let (waits, pages) = (pages_waited_for() - before, settled.written as i64 >> 12);
        println!("{waits} waits for {pages} pages, {:?}", since.elapsed());
        assert!(waits * 8 < pages, "{waits} waits for {pages} pages");
    });
}

#[test]
fn pages_that_were_used_before_are_read_at_once_when_somebody_comes_again() {
    each_pool_alone(1, |pool| {
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        let program = Program::start(&session);
        let waits = || {
            let before = pages_waited_for();
            (0..200).for_each(|seed| program.assert_works(seed * 487));
            pages_waited_for() - before
        };
        // A copy of everything is written, and nobody knows yet what will be used.
        settle(interpreter);
        let first = waits();
        // All of it again, since much has changed.
        session.run("import kept; kept.array = bytearray(b'1') * 30_000_000", "more.py").unwrap();
        settle(interpreter);
        let second = waits();
        assert!(first > 200, "{first} waits: the disk was not asked");
        assert!(second * 4 < first, "{first} waits for a page, then {second}");
    });
}

#[test]
fn values_of_the_host_in_cycles_are_dropped_at_the_end_of_a_settled_interpreter() {
    each_pool_alone(1, |pool| {
        let value = Arc::new(());
        let session = pool.acquire().unwrap();
        let code = "class Node: pass\nnode = Node()\nnode.own = node";
        let (module, held) = (session.run(code, "node.py").unwrap(), value.clone());
        let function = session.function("hold", move |session, _| {
            let _ = &held;
            session.none()
        });
        module.getattr("node").unwrap().setattr("value", function.unwrap()).unwrap();
        settle(session.interpreter());
        module.setattr("node", 0).unwrap();
        session.eval("__import__('gc').collect()").unwrap();
        assert_eq!(Arc::strong_count(&value), 2, "a frozen cycle was looked at");
        drop(module);
        drop(session);
        drop(pool);
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn memory_that_a_settled_interpreter_frees_goes_back_and_is_used_again() {
    each_pool_alone(1, |pool| {
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        let code = "
import sys
def fill(): sys.kept = [str(number) * 20 for number in range(300_000)]
def free(): del sys.kept
def zeros(): return [bytearray(5000) for _ in range(10_000)] and sum(map(any, [bytearray(5000) for _ in range(10_000)]))
";
        let namespace = session.run(code, "fill.py").unwrap();
        let call = |name| namespace.getattr(name).unwrap().call(()).unwrap();
        for _ in 0..3 {
            call("fill");
            let full = settle(interpreter);
            call("free");
            // New memory has no bytes of the file.
            assert_eq!(call("zeros").extract::<i64>().unwrap(), 0);
            let empty = settle(interpreter);
            assert!(empty.memory * 2 < full.memory, "{full:?} -> {empty:?}");
        }
        let (_, bytes) = files();
        assert!(bytes < 64 << 20, "{bytes}");
    });
}

/// The mappings of files without names, and the bytes that these files have at least.
fn files() -> (usize, u64) {
    let text = fs::read_to_string("/proc/self/maps").unwrap();
    let (mut count, mut ends) = (0, HashMap::<String, u64>::new());
    for line in text.lines().filter(|line| line.contains("settle/") && line.contains("(deleted)")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hexadecimal = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let last = hexadecimal(words[2]) + hexadecimal(end) - hexadecimal(start);
        let known = ends.entry(words[4].to_owned()).or_default();
        *known = last.max(*known);
        count += 1;
    }
    (count, ends.values().sum())
}

fn rounds() -> i64 {
    std::env::var("HYDROZOA_TEST_ROUNDS").map_or(120, |text| text.parse().unwrap())
}

/// Each interpreter is settled again and again, while threads of the application come and go in the others and threads of
/// Python's in itself.
#[test]
fn interpreters_are_settled_between_calls_and_changes_for_many_rounds() {
    let patience = Duration::from_secs(300 + rounds() as u64);
    alone(patience, || {
        let pool = builders(4).last().unwrap().build().unwrap();
        for interpreter in &pool.interpreters() {
            Program::start(&interpreter.session());
            settle(interpreter);
        }
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let (memory, open) = (private(), descriptors());
        let (refused, mut largest) = (AtomicUsize::new(0), (0, 0));
        for round in 0..rounds() {
            let one = &pool.interpreters()[round as usize % 4];
            thread::scope(|scope| {
                for number in 0..3 {
                    let pool = &pool;
                    scope.spawn(move || {
                        let session = pool.interpreters()[(round + number) as usize % 4].session();
                        let program = Program::of(&session);
                        program.assert_works(round * 11 + number);
                        if number == 2 {
                            let found = program.call("threads", round).unwrap();
                            assert_eq!(
                                found.extract::<Vec<i64>>().unwrap(),
                                [round, round + 1, round + 2]
                            );
                        }
                    });
                }
                match one.settle(directory()) {
                    Ok(_) => {}
                    Err(Error::Settle {
                        reason: Unsettled::Visited { .. } | Unsettled::Threads { .. },
                        ..
                    }) => _ = refused.fetch_add(1, Ordering::Relaxed),
                    Err(error) => panic!("{error}"),
                }
            });
            let settled = settle(one);
            assert!(settled.anonymous * 10 < settled.memory, "{settled:?}");
            let now = files();
            largest = (now.0.max(largest.0), now.1.max(largest.1));
        }
        println!("{rounds} rounds, {refused:?} refused, at most {largest:?}", rounds = rounds());
        // Four interpreters of 25 to 40 MiB: twice that, and one that is written anew.
        assert!(
            largest.0 < 4 * limits::SETTLED_MAPPINGS as usize && largest.1 < 480 << 20,
            "{largest:?}"
        );
        for interpreter in &pool.interpreters() {
            settle(interpreter);
        }
        let grown = private() - memory;
        assert!(grown < 24 << 20, "{grown} bytes more");
        assert!(descriptors() <= open);
        drop(pool);
        assert_eq!(files(), (0, 0));
    });
}

#[test]
fn calls_that_begin_meanwhile_wait_and_are_right() {
    each_pool_alone(2, |pool| {
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        Program::start(&session);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..2 {
                let stop = &stop;
                let pool = &pool;
                scope.spawn(move || {
                    let mut seed = number;
                    let call = |seed| {
                        // From inside of another interpreter, too.
                        let outer = pool.acquire_on(1).unwrap();
                        outer.with_gil(|| {
                            let session = pool.acquire_on(0).unwrap();
                            Program::of(&session).assert_works(seed);
                        });
                    };
                    while !stop.load(Ordering::Relaxed) {
                        call(seed);
                        // A thread's first call makes a thread state.
                        thread::scope(|scope| _ = scope.spawn(|| call(seed)));
                        seed += 2;
                        thread::sleep(Duration::from_micros(300));
                    }
                });
            }
            let (mut done, mut unexpected) = (0, None);
            let end = Instant::now() + Duration::from_secs(3);
            while unexpected.is_none() && (Instant::now() < end || done == 0) {
                match interpreter.settle(directory()) {
                    Ok(_) => done += 1,
                    Err(Error::Settle { reason: Unsettled::Visited { .. }, .. }) => {}
                    Err(error) => unexpected = Some(error),
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(unexpected.is_none(), "{unexpected:?}");
            println!("settled {done} times among calls");
        });
    });
}

#[test]
fn a_forked_child_has_what_its_parent_had_and_keeps_it() {
    each_pool_alone(1, |pool| {
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        let program = Program::start(&session);
        settle(interpreter);
        let code = "
import os, warnings
warnings.simplefilter('ignore')
def fork(check, mutate):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.read(read, 1)
            for seed in range(0, 100_000, 97):
                check(seed)
                mutate(seed)
                check(seed)
            status = 0
        finally:
            os._exit(status)
    return child, write
def wait(child, write):
    os.write(write, b'x')
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
";
        let namespace = session.run(code, "fork.py").unwrap();
        let names = ["check", "mutate"].map(|name| program.namespace.getattr(name).unwrap());
        let child = namespace.getattr("fork").unwrap().call((&names[0], &names[1])).unwrap();
        // The parent changes pages and settles them, in files that the child does not have, and in one new one.
        for seed in 0..20 {
            program.number("mutate", seed * 4999);
            settle(interpreter);
        }
        let wait = namespace.getattr("wait").unwrap();
        let ends = [0, 1].map(|index| child.get_item(index).unwrap());
        assert_eq!(wait.call((&ends[0], &ends[1])).unwrap().extract::<i64>().unwrap(), 0);
        program.assert_works(9);
    });
}

/// Threads that wait for a lock, a queue, a time, a file and a child, with and without limits.
const WAITING: &str = "
import concurrent.futures, os, queue, selectors, subprocess, threading, time
pool = concurrent.futures.ThreadPoolExecutor(2)
list(pool.map(abs, range(8)))
jobs, results, counts, ends = queue.Queue(), queue.Queue(), {}, threading.Event()
def consume():
    while (job := jobs.get()) is not None: results.put(job * 2)
def tick(name, wait):
    counts[name] = 0
    while not ends.is_set():
        wait()
        counts[name] += 1
lock = threading.Lock()
lock.acquire()
condition = threading.Condition()
def wait_for_condition():
    with condition: condition.wait(0.003)
read, write = os.pipe()
selector = selectors.DefaultSelector()
selector.register(read, selectors.EVENT_READ)
waits = {
    'sleep': lambda: time.sleep(0.001), 'lock': lambda: lock.acquire(timeout=0.002),
    'condition': wait_for_condition, 'file': lambda: selector.select(0.004), 'event': lambda: ends.wait(0.005),
}
threads = [threading.Thread(target=tick, args=item) for item in waits.items()] + [threading.Thread(target=consume)]
child = subprocess.Popen(['sleep', '600'])
threads.append(threading.Thread(target=child.wait))
for thread in threads: thread.start()
texts = [str(number) * 30 for number in range(50_000)]
def works(number):
    jobs.put(number)
    assert results.get() == 2 * number
    assert pool.submit(divmod, number, 7).result() == divmod(number, 7)
    texts[number % 50_000] = str(number % 50_000) * 30
    assert texts[number * 7919 % 50_000] == str(number * 7919 % 50_000) * 30
    return dict(counts)
def end():
    ends.set()
    child.kill()
    jobs.put(None)
    for thread in threads: thread.join()
    pool.shutdown()
    assert child.returncode == -9
";

#[test]
fn an_interpreter_whose_threads_wait_is_settled_and_they_go_on() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let interpreter = session.interpreter();
        let program = session.run(WAITING, "waiting.py").unwrap();
        let [works, end] = ["works", "end"].map(|name| program.getattr(name).unwrap());
        let counts = |number: usize| -> HashMap<String, i64> {
            works.call((number,)).unwrap().extract().unwrap()
        };
        let mut before = counts(0);
        let (mut settled, mut first) = (0, None);
        for round in 1..=rounds() as usize / 3 {
            // A thread that has woken up may run for a moment.
            match interpreter.settle(directory()) {
                Ok(outcome) => {
                    settled += 1;
                    first.get_or_insert(outcome);
                }
                Err(Error::Settle { reason: Unsettled::Threads { .. }, .. }) => {}
                Err(error) => panic!("{error}"),
            }
            counts(round);
            thread::sleep(Duration::from_millis(7));
            let after = counts(round);
            assert!(
                after.iter().all(|(name, count)| *count > before[name]),
                "{before:?} {after:?}"
            );
            before = after;
        }
        let first = first.unwrap();
        assert!(settled * 12 >= rounds(), "{settled}");
        assert!(first.anonymous * 3 < first.memory, "{first:?}");
        end.call(()).unwrap();
    });
}

#[test]
fn a_pool_settles_its_interpreters_when_it_is_asked() {
    alone(PATIENCE, || {
        let pool = builders(2).last().unwrap().settle_in(directory()).build().unwrap();
        let settled = pool.settle().unwrap();
        assert_eq!(settled.len(), 2);
        assert!(settled.iter().all(|one| one.anonymous * 4 < one.memory), "{settled:?}");
        let again = pool.replace(0).map(drop).and_then(|()| pool.settle()).unwrap();
        assert!(again[0].written > again[1].written, "{again:?}");
        thread::sleep(Duration::from_secs(3));
        assert_eq!(pool.interpreters()[1].settlings().times, 2);
    });
}

#[test]
fn interpreters_of_a_dense_pool_are_settled_by_themselves_while_nobody_uses_them() {
    alone(PATIENCE, || {
        let pool = builders(2).last().unwrap().dense(directory()).build().unwrap();
        let session = pool.acquire_on(0).unwrap();
        let program = Program::start(&session);
        let interpreter = session.interpreter();
        settles(interpreter, 1);
        let settled = Usage::of_process().unwrap().private;
        program.assert_works(1);

        // Each call changes some of the memory, and the calls together more than an eighth.
        for seed in 0..40_000 {
            program.number("mutate", seed * 7);
        }
        settles(interpreter, 2);
        program.assert_works(2);
        let after = Usage::of_process().unwrap().private;
        assert!(after < settled + (16 << 20), "{settled} {after}");
        let before = interpreter.settlings();
        assert_eq!(before.refused, None);
        // One call changes too little.
        thread::sleep(Duration::from_secs(3));
        assert_eq!(interpreter.settlings(), before);

        // A new one is settled too.
        let new = pool.replace(1).unwrap();
        settles(&new, 1);
    });
}

/// Waits until the interpreter was settled so many times.
fn settles(interpreter: &Interpreter, times: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while interpreter.settlings().times < times {
        assert!(Instant::now() < end, "{interpreter:?}: {:?}", interpreter.settlings());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interpreter_of_a_dense_pool_is_not_settled_during_a_call_but_between_two() {
    alone(PATIENCE, || {
        let begin = Instant::now();
        let pool = builders(1).last().unwrap().dense(directory()).build().unwrap();
        let session = pool.acquire().unwrap();
        let sleep = session.import("time").unwrap().getattr("sleep").unwrap();
        let interpreter = session.interpreter();
        // Some visits of its start may have been before.
        let before = interpreter.settlings().times;
        sleep.call((3.0,)).unwrap();
        assert_eq!(interpreter.settlings().times, before);

        // Always called, and never for long.
        let json = session.import("json").unwrap();
        while interpreter.settlings().times == before {
            json.call_method("dumps", ([1, 2, 3],)).unwrap();
            thread::sleep(Duration::from_millis(1));
            assert!(begin.elapsed() < Duration::from_secs(90), "{:?}", interpreter.settlings());
        }
        assert!(begin.elapsed() > Duration::from_secs(15), "{:?}", begin.elapsed());
    });
}

#[test]
fn a_dense_pool_without_a_disk_goes_on_in_memory() {
    alone(PATIENCE, || {
        for directory in ["/dev/shm", "/nowhere"] {
            let pool = builders(2).last().unwrap().dense(directory).build().unwrap();
            let refused = || pool.interpreters()[1].settlings().refused;
            let end = Instant::now() + Duration::from_secs(60);
            while refused().is_none() {
                assert!(Instant::now() < end, "{directory}");
                thread::sleep(Duration::from_millis(20));
            }
            assert!(refused().unwrap().contains(directory), "{:?}", refused());
            let session = pool.acquire().unwrap();
            let sum: i64 = session.eval("sum(range(10))").unwrap().extract().unwrap();
            assert_eq!(sum, 45);
        }
    });
}
