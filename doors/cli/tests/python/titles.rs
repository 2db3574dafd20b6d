//! The title of the process, as `setproctitle` sets it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::beside::{Seen, copy, directory, plain, pythons};

/// Sets a title, prints whether it could and what is seen of it, and what is left of the environment.
const PROGRAM: &str = r#"
import ctypes, os, sys, time
library = ctypes.CDLL(sys.argv[1])
library.get.restype = ctypes.c_char_p
me = os.environ.get('HYDROZOA_COPY', '1')
library.name_thread(b'a thread')
if library.take():
    library.set(f'title {me}'.encode())
    time.sleep(0.5)
    with open('/proc/self/cmdline', 'rb') as file:
        shown = file.read().split(b'\0')[0].decode()
    with open('/proc/thread-self/comm') as file:
        name = file.read().strip()
    inherited = os.popen('echo $TITLE_TEST').read().strip()
    os.write(1, f'{me}: {library.get().decode()}, {name}, {inherited}; {shown}\n'.encode())
"#;

/// Does it in an interpreter of a pool, beside others: whether it could, and whether the environment is where it was.
const IN_A_POOL: &str = r#"
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
before = ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value
os.write(1, f'{library.take()} {ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value == before}\n'.encode())
"#;

/// The library whose place is the title's, for Python 3.`minor`.
fn library(place: &Path, minor: u8) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/title.c");
    let arch = std::env::consts::ARCH;
    let made = place.join(format!("_setproctitle.cpython-3{minor}-{arch}-linux-gnu.so"));
    let mut command = Command::new("cc");
    let status = command.args(["-shared", "-fPIC", "-o"]).args([&made, &source]).status();
    assert!(status.unwrap().success());
    made
}

#[test]
fn a_title_that_a_program_sets_is_its_own_and_the_process_s_is_the_last() {
    let place = directory("titles");
    for (minor, python) in pythons() {
        let library = library(&place, *minor);
        let see = |mut command: Command| -> Seen {
            let command = command.args(["-c", PROGRAM]).arg(&library).env("TITLE_TEST", "here");
            command.output().unwrap().into()
        };
        let alone = see(plain(python));
        assert_eq!(alone.output, "1: title 1, title 1, here; title 1\n", "{}", alone.errors);
        assert_eq!(see(copy(python, &[])), alone, "a copy of 3.{minor}");
        let seen = see(copy(python, &["--copies", "3", "--in", "all"]));
        let mut lines: Vec<_> =
            seen.output.lines().filter_map(|line| line.split_once("; ")).collect();
        lines.sort();
        let own = ["1", "2", "3"].map(|me| format!("{me}: title {me}, title {me}, here"));
        assert!(lines.iter().map(|line| line.0).eq(own), "3.{minor}: {seen:?}");
        assert!(lines.iter().all(|line| line.1 == lines[0].1), "3.{minor}: {seen:?}");
    }
}

#[test]
fn a_library_that_looks_for_the_process_s_title_finds_none_in_a_pool() {
    let place = directory("titles-pool");
    for (minor, python) in pythons() {
        let library = library(&place, *minor);
        let profile = place.join("profile");
        let mut command = copy(python, &["--record-imports", profile.to_str().unwrap()]);
        let seen: Seen = command.args(["-c", IN_A_POOL]).arg(&library).output().unwrap().into();
        assert!(!seen.output.is_empty(), "3.{minor}: {}", seen.errors);
        let is_kept_away = |line: &str| line == "0 True";
        assert!(seen.output.lines().all(is_kept_away), "3.{minor}: {seen:?}");
    }
}
