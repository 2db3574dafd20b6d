//! numpy in three copies, and the same program in plain python: both compute the same bits.

use anyhow::{Result, ensure};

use super::system::{MINOR, System};
use super::{TARGET, fetched};
use crate::steps::{Count, Outcome};

/// Prints one line: the bits of what it computes, on threads too.
const PROGRAM: &str = "
import ctypes, decimal, hashlib, json, platform, sqlite3, sys, threading
import numpy

assert platform.machine() == 'aarch64', platform.machine()
digest = hashlib.sha256()

def note(array):
    digest.update(numpy.ascontiguousarray(array).tobytes())

random = numpy.random.default_rng(7)
matrix = random.standard_normal((120, 120))
note(matrix @ matrix.T)
note(numpy.linalg.solve(matrix, numpy.ones(120)))
note(numpy.linalg.svd(matrix)[1])
note(numpy.fft.fft(matrix[0]))
note(numpy.sort(random.integers(0, 1 << 40, 10_000)))
note(numpy.exp(matrix) + numpy.sin(matrix))
results = {}
def work(number):
    own = numpy.random.default_rng(number).standard_normal((60, 60))
    results[number] = numpy.linalg.inv(own)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in sorted(results): note(results[number])
try:
    numpy.linalg.inv(numpy.zeros((3, 3)))
except numpy.linalg.LinAlgError as error:
    digest.update(str(error).encode())
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(5, 1, 4, 2, 3)
ctypes.CDLL(None).qsort(numbers, 5, 4, compare(lambda a, b: a[0] - b[0]))
digest.update(json.dumps([list(numbers), str(decimal.Decimal(2).sqrt())]).encode())
digest.update(str(sqlite3.connect(':memory:').execute('select 6 * 7').fetchall()).encode())
print('computed', sys.version_info[:2], numpy.__version__, digest.hexdigest(), flush=True)
";

/// Packages of PyPI that it imports.
pub(super) const WHEELS: [&str; 1] = ["numpy==2.3.5"];

const COPIES: usize = 3;

pub(super) fn run(system: &System) -> Result<Outcome> {
    let site = fetched::packages(system, "site", &WHEELS)?;
    beside_plain(system, "copies.py", PROGRAM, &site, "")
}

/// A program that prints one line, `computed` and the bits of what it computes: in plain python, and in three copies at once,
/// whose line has a begin.
pub(super) fn beside_plain(
    system: &System,
    name: &str,
    program: &str,
    site: &str,
    begin: &str,
) -> Result<Outcome> {
    let program = system.write(name, program)?;
    let python = format!("/usr/bin/python3.{MINOR}");
    let plain = system.output(&format!("PYTHONPATH={site} {python} {program}"))?;
    ensure!(plain.starts_with("computed ") && plain.lines().count() == 1, "plain python: {plain}");
    print!("{plain}");
    let copies = system.output(&format!(
        "{begin}PYTHONPATH={site} /target/{TARGET}/debug/hydrozoa python --python {python} --copies {COPIES} --in all {program}"
    ))?;
    print!("{copies}");
    ensure!(copies == plain.repeat(COPIES), "{COPIES} copies compute other bits than plain python");
    Ok(Count::one(true).into())
}
