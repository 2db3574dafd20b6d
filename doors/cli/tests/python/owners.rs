//! Programs in copies have their own children and record locks, although the kernel keeps one set for the process. SQLite needs
//! the locks.

use std::path::Path;

use hydrozoa::python::Installation;

use crate::beside::{Seen, copy, directory, plain, pythons};

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name)
}

#[test]
fn each_of_three_copies_at_once_waits_for_its_own_children() {
    for (minor, python) in pythons() {
        let seen: Seen = plain(python).arg(script("children.py")).output().unwrap().into();
        assert_eq!(seen.output, "wrong: []\n", "plain 3.{minor}: {}", seen.errors);
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let seen: Seen = command.arg(script("children.py")).output().unwrap().into();
        assert_eq!(seen.output, "wrong: []\n".repeat(3), "3.{minor}: {}", seen.errors);
    }
}

#[test]
fn each_of_three_copies_has_its_own_current_folder_and_umask() {
    let program = "import os, subprocess, tempfile, threading, time
me = int(os.environ.get('HYDROZOA_COPY', '1'))
folder = os.path.realpath(tempfile.mkdtemp())
os.chdir(folder)
os.umask(0o20 + me)
open('name', 'w').close()
time.sleep(0.3)
seen = []
def look():
    umask = os.umask(0o20 + me)
    seen.append(os.getcwd() == folder and os.listdir() == ['name'] and umask == 0o20 + me)
look()
thread = threading.Thread(target=look)
thread.start()
thread.join()
shell = subprocess.run(['sh', '-c', 'pwd; umask'], capture_output=True, text=True).stdout
print(seen, shell == f'{folder}\\n{0o20 + me:04o}\\n')
os.remove('name')
os.rmdir(folder)
";
    for (minor, python) in pythons() {
        let seen: Seen = plain(python).args(["-c", program]).output().unwrap().into();
        assert_eq!(seen.output, "[True, True] True\n", "plain 3.{minor}: {}", seen.errors);
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let three: Seen = command.args(["-c", program]).output().unwrap().into();
        assert_eq!(three.output, seen.output.repeat(3), "3.{minor}: {}", three.errors);
    }
}

#[test]
fn each_of_three_copies_has_its_own_alarm_and_timer() {
    let program = "import os, signal, time
me = int(os.environ.get('HYDROZOA_COPY', '1'))
rung = []
signal.signal(signal.SIGALRM, lambda *_: rung.append(None))
signal.alarm(100 + me)
time.sleep(0.4)
first = signal.alarm(0) == 100 + me
signal.setitimer(signal.ITIMER_REAL, 0.2 * me)
time.sleep(1.2)
once = (len(rung), signal.getitimer(signal.ITIMER_REAL))
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
while len(rung) < 4:
    signal.pause()
child = os.fork()
if child == 0:
    os._exit(signal.alarm(0))
print(first, once, os.waitpid(child, 0)[1], signal.setitimer(signal.ITIMER_REAL, 0)[1])
";
    for (minor, python) in pythons() {
        let flags = ["-W", "ignore", "-c", program];
        let seen: Seen = plain(python).args(flags).output().unwrap().into();
        assert_eq!(seen.output, "True (1, (0.0, 0.0)) 0 0.1\n", "plain 3.{minor}: {}", seen.errors);
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let three: Seen = command.args(flags).output().unwrap().into();
        assert_eq!(three.output, seen.output.repeat(3), "3.{minor}: {}", three.errors);
    }
}

#[test]
fn a_record_lock_of_one_copy_excludes_the_others_and_other_processes() {
    for (minor, python) in pythons() {
        let place = directory("record-locks");
        std::fs::write(place.join("count"), "0").unwrap();
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let seen: Seen = command.arg(script("locks.py")).arg(&place).output().unwrap().into();
        assert_eq!((seen.output.as_str(), seen.code), ("", Some(0)), "3.{minor}: {}", seen.errors);
        let count = std::fs::read_to_string(place.join("count")).unwrap();
        assert_eq!(count, "320", "3.{minor}: three copies and a process, 80 times each");
    }
}

/// The output of a program on a database with the counter and the entries that programs write.
fn asked_of(python: &Installation, database: &Path, program: &str) -> String {
    let program = format!(
        "import sqlite3\n\
         database = sqlite3.connect({database:?}, isolation_level=None)\n{program}"
    );
    let seen: Seen = plain(python).args(["-c", &program]).output().unwrap().into();
    assert_eq!(seen.code, Some(0), "{}", seen.errors);
    seen.output
}

#[test]
fn copies_and_a_process_write_one_database_of_sqlite_at_once() {
    for (minor, python) in pythons() {
        for journal in ["delete", "wal"] {
            let database = directory("sqlite").join("database");
            let program = format!(
                "database.execute('pragma journal_mode={journal}')\n\
                 database.execute('create table counts (n)')\n\
                 database.execute('insert into counts values (0)')\n\
                 database.execute('create table entries (who, number, text)')\n"
            );
            asked_of(python, &database, &program);
            let mut command = copy(python, &["--copies", "3", "--in", "all"]);
            let command = command.arg(script("databases.py")).arg(&database).arg(journal);
            let seen: Seen = command.output().unwrap().into();
            assert_eq!((seen.output.as_str(), seen.code), ("", Some(0)), "{}", seen.errors);
            let found = asked_of(
                python,
                &database,
                "print(*database.execute('select n from counts').fetchone())\n\
                 print(*database.execute('pragma integrity_check').fetchall())\n",
            );
            assert_eq!(found, "240\n('ok',)\n", "3.{minor}, {journal}");
        }
    }
}

#[test]
fn a_copy_has_sqlite_s_memory_databases_and_limits_for_itself() {
    for (minor, python) in pythons() {
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let command = command.arg(script("databases.py")).arg(directory("sqlite-own"));
        let seen: Seen = command.output().unwrap().into();
        assert_eq!(seen.output, "True\n".repeat(3), "3.{minor}: {}", seen.errors);
    }
}
