//! Settled interpreters: the data of their libraries.

mod pythons;

use hydrozoa::Interpreter;
use pythons::each_pool_alone;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A directory on a disk.
fn directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settle-data");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The ranges of the process's mappings, with their rights and the names of their files.
fn mappings() -> Vec<(Range<usize>, String, String)> {
    let text = fs::read_to_string("/proc/self/maps").unwrap();
    let address = |text| usize::from_str_radix(text, 16).unwrap();
    text.lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let rights = rest[..4].to_owned();
            (address(start)..address(end), rights, line.to_owned())
        })
        .collect()
}

fn settled_mappings() -> usize {
    let is_settled = |line: &str| line.contains("settle-data/") && line.contains("(deleted)");
    mappings().iter().filter(|(.., line)| is_settled(line)).count()
}

/// How many bytes of an interpreter's libraries have each kind of rights.
fn rights(interpreter: &Interpreter) -> Vec<(&'static str, usize)> {
    let replicas = interpreter.domain().replicas();
    let mappings = mappings();
    ["r--p", "rw-p", "r-xp"]
        .map(|rights| {
            let all = mappings.iter().filter(|mapping| mapping.1 == rights);
            let within = |range: &Range<usize>| {
                let common =
                    |base: usize, end| range.end.min(end).saturating_sub(range.start.max(base));
                replicas.iter().map(|one| common(one.base, one.base + one.size)).sum::<usize>()
            };
            (rights, all.map(|mapping| within(&mapping.0)).sum())
        })
        .to_vec()
}

/// Work with state in variables of libpython and of extension modules.
const WORK: &str = "
import ctypes, datetime, decimal, gc, sys, warnings
state = ctypes.pythonapi, [type(one).__name__ for one in (1, 1.5, 'a', b'', (), [], {}, set(), None)]
def work(seed):
    sys.setrecursionlimit(1000 + seed)
    assert sys.getrecursionlimit() == 1000 + seed
    gc.set_threshold(700 + seed)
    assert gc.get_threshold()[0] == 700 + seed
    class One(int):
        __slots__ = ()
        def __add__(self, other): return 2 * int(self) + other
    assert One(seed) + 1 == 2 * seed + 1
    ctypes.c_long.in_dll(ctypes.pythonapi, 'Py_OptimizeFlag').value
    total = decimal.Decimal(seed) / 3 + datetime.timedelta(days=seed).days
    return str(total)
";

#[test]
fn the_data_of_libraries_lies_in_the_file_with_its_rights_until_the_interpreter_ends() {
    each_pool_alone(2, |pool| {
        let interpreters = pool.interpreters();
        let [one, other] = &interpreters[..] else { panic!("two interpreters") };
        let texts = |interpreter: &Interpreter| {
            let session = interpreter.session();
            let work = session.run(WORK, "work.py").unwrap().getattr("work").unwrap();
            let text = |seed: i64| work.call((seed,)).unwrap().extract::<String>().unwrap();
            (0..50).map(text).collect::<Vec<_>>()
        };
        let expected = texts(other);
        assert_eq!(texts(one), expected);
        let (before, rights_before) = (one.memory().unwrap().replicas(), rights(one));
        for round in 0..3 {
            one.settle(directory()).unwrap();
            let after = one.memory().unwrap().replicas();
            println!("3.{}: {before} -> {after}", pool.python().minor());
            assert!(after * 2 < before, "round {round}: {before} -> {after}");
            assert_eq!(rights(one), rights_before, "round {round}");
            assert_eq!(texts(one), expected, "round {round}");
        }
        assert_eq!(texts(other), expected);
        // Steady work writes to little of it.
        let used = one.memory().unwrap().replicas();
        assert!(used * 10 < before * 8, "{before} -> {used}");
        assert_ne!(settled_mappings(), 0);
        drop(interpreters);
        drop(pool);
        // The places of its libraries wait for another interpreter, and have nothing of the files.
        assert_eq!(settled_mappings(), 0);
    });
}
