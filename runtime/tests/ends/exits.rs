//! A process that exits while its interpreters end, or run.

use crate::pythons::builders;
use hydrozoa::Pool;
use hydrozoa_testkit::libraries::Workshop;
use std::io::{Read, pipe};
use std::os::fd::IntoRawFd;
use std::process::{Command, exit};
use std::thread;
use std::time::Duration;

/// Set in a process that exits: the library, and which of the Pythons is meant.
const EXITS: &str = "HYDROZOA_TEST_EXITS";

/// A library whose destructor takes away what its function uses, as libtorch's destructors do.
const SOURCE: &str = r#"
#include <unistd.h>
struct Table {
    volatile int* values = new int[4]{1, 2, 3, 4};
    ~Table() { delete[] values; values = nullptr; usleep(100000); }
};
static Table table;
extern "C" int use() { int sum = 0; for (int i = 0; i < 4000; ++i) sum += table.values[i % 4]; return sum; }
"#;

const CODE: &str = "
import atexit, ctypes, threading, time
def start(path, at_the_end, begun):
    use = ctypes.CDLL(path).use
    def work():
        begun()
        until = time.monotonic() + 0.5
        while time.monotonic() < until: use()
    if at_the_end: atexit.register(work)
    else: threading.Thread(target=work, daemon=True).start()
";

/// The work of the process that exits with status 3.
fn exits(pool: Pool, path: &str, case: &str) -> ! {
    let session = pool.acquire().unwrap();
    let start = session.run(CODE, "start.py").unwrap().getattr("start").unwrap();
    // No host function can be called while an interpreter ends.
    let (mut reader, writer) = pipe().unwrap();
    let tell = format!("lambda: __import__('os').write({}, b'x')", writer.into_raw_fd());
    let tell = session.eval(&tell).unwrap();
    start.call((path, case == "ends", &tell)).unwrap();
    drop((start, tell));
    drop(session);
    match case {
        "ends" => drop(thread::spawn(move || drop(pool))),
        _ => std::mem::forget(pool),
    }
    reader.read_exact(&mut [0]).unwrap();
    thread::sleep(Duration::from_millis(20));
    exit(3)
}

fn assert_exits(case: &str) {
    let name = thread::current().name().unwrap().to_owned();
    if let Some(which) = std::env::var_os(EXITS) {
        let which = which.into_string().unwrap();
        let (path, index) = which.split_once('=').unwrap();
        let builder = builders(1).nth(index.parse().unwrap()).unwrap();
        exits(builder.build().unwrap(), path, case);
    }
    let shop = Workshop::new(&format!("exits_{case}"));
    let path = shop.build("libtable++.so", SOURCE, &[]);
    for index in 0..builders(1).count() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([&name, "--exact", "--nocapture"])
            .env(EXITS, format!("{}={index}", path.display()))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}

#[test]
fn an_exit_waits_for_interpreters_that_end() {
    assert_exits("ends");
}

#[test]
fn an_exit_takes_nothing_away_from_threads_of_interpreters_that_run() {
    assert_exits("runs");
}
