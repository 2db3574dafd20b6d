//! The process that a program finds at its start: signals, descriptors, the end of the stack.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::beside::{Seen, both, copy, directory, hydrozoa, plain, pythons, same_everywhere};

const SEGV: i32 = 11;
const PIPE: i32 = 13;

#[test]
fn a_signal_does_what_it_does_in_plain_python() {
    same_everywhere(
        "import signal\n\
         for number in sorted(signal.valid_signals()):\n    \
             print(number, signal.getsignal(number))\n    \
             if number not in (9, 19, 32, 33):\n        \
                 signal.signal(number, signal.signal(number, signal.SIG_IGN))\n",
    );
    for number in [SEGV, 7, 8, 15] {
        let seen = same_everywhere(&format!(
            "import signal; signal.raise_signal({number}); print('survived')"
        ));
        for (minor, seen) in seen {
            assert_eq!((seen.signal, seen.output.as_str()), (Some(number), ""), "3.{minor}");
        }
    }
}

#[test]
fn an_overflow_of_the_stack_ends_a_copy_as_it_ends_plain_python() {
    let overflow = "import sys\n\
         sys.setrecursionlimit(10**6)\n\
         class Endless:\n    \
             __getattr__ = lambda self, name: getattr(self, name + '')\n\
         Endless().name\n";
    // Newer ones count what recurses in C.
    for (minor, python) in pythons().iter().filter(|(minor, _)| **minor <= 11) {
        let [plain, copy] = both(python, overflow);
        assert_eq!(plain.signal, Some(SEGV), "3.{minor}");
        assert_eq!(copy, plain, "3.{minor}");
    }
    // Of a thread too.
    same_everywhere(&format!(
        "import threading\ndef run():\n    {}\nthread = threading.Thread(target=run)\n\
         thread.start()\nthread.join()\n",
        "import ctypes\n    ctypes.string_at(1)"
    ));
}

/// Reports to the file that the first argument names, since there may be no standard output.
const STREAMS: &str = "import os, stat, sys\n\
    def kind(number):\n    \
        try: return stat.S_IFMT(os.fstat(number).st_mode)\n    \
        except OSError as error: return error.errno\n\
    kinds = [kind(number) for number in range(3)]\n\
    absent = [stream is None for stream in (sys.stdin, sys.stdout, sys.stderr)]\n\
    report = open(sys.argv[1], 'w')\n\
    print(kinds, absent, report.fileno(), file=report)\n";

#[test]
fn streams_that_are_closed_stay_closed() {
    let place = directory("streams");
    let shell = |command: &Command, closed: &str, name: &str| {
        let report = place.join(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {closed}"), "sh"]).stdin(Stdio::null());
        // Nothing but what the shell passes is open.
        shell.arg(command.get_program()).args(command.get_args()).args(["-c", STREAMS]);
        let status = shell.arg(&report).output().unwrap().status;
        assert!(status.success(), "{closed}: {status}");
        fs::read_to_string(report).unwrap()
    };
    for (minor, python) in pythons() {
        for closed in 0..8 {
            let closes = ["<&-", ">&-", "2>&-"].into_iter().enumerate();
            let closes = closes.filter(|(number, _)| closed >> number & 1 == 1);
            let closes: String = closes.map(|(_, text)| format!("{text} ")).collect();
            let plain = shell(&plain(python), &closes, "plain");
            let copies = [copy(python, &[]), copy(python, &["--copies", "2"])];
            for copy in copies {
                assert_eq!(shell(&copy, &closes, "copy"), plain, "3.{minor}, {closes}");
            }
        }
    }
}

#[test]
fn a_program_has_the_descriptors_of_plain_python() {
    let program = "import ctypes, decimal, os, sqlite3\n\
         print([number for number in range(3, 256) if os.path.exists(f'/proc/self/fd/{number}')])\n\
         print(open('/dev/null').fileno())\n";
    same_everywhere(program);
}

#[test]
fn a_program_finds_the_modules_finders_and_threads_of_plain_python() {
    let name = "getattr(one, '__name__', None) or type(one).__name__";
    let program = format!(
        "import importlib.util, os, sys, threading\n\
         for found in (sys.meta_path, sys.path_hooks): print([{name} for one in found])\n\
         print(sorted(sys.modules), sys.path, sys.flags, sys.argv)\n\
         print(importlib.util.find_spec('_hydrozoa'))\n\
         print(threading.active_count(), len(os.listdir('/proc/self/task')))\n"
    );
    same_everywhere(&program);
}

#[test]
fn a_reader_that_has_gone_is_noticed_as_in_plain_python() {
    for (minor, python) in pythons() {
        let ended = [plain(python), copy(python, &[])].map(|mut command| {
            command.args(["-c", "import sys\nsys.stdin.read()\nprint('x' * 100_000)"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            drop(child.stdout.take());
            drop(child.stdin.take());
            Seen::from(child.wait_with_output().unwrap())
        });
        assert_eq!(ended[1], ended[0], "3.{minor}");
    }
}

/// The lines of the output that do not depend on the moment.
fn lines(output: Output) -> Vec<String> {
    let output = Seen::from(output).output;
    output.lines().filter(|line| !line.contains("of memory available")).map(str::to_owned).collect()
}

#[test]
fn the_other_subcommands_work_without_standard_streams_and_without_a_reader() {
    let python = pythons().values().next().unwrap();
    let library = python.library().to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["inspect", library],
        &["doctor", "--quick"],
        &["inspect", "no-such-file.so"],
        &[
            "python",
            "--copies",
            "2",
            "--in",
            "all",
            "--python",
            library,
            "--",
            "-c",
            "import os; os.write(1, b'1\\n')",
        ],
    ];
    for arguments in commands {
        let expected = hydrozoa().args(arguments).output().unwrap();
        for closed in ["<&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"] {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec \"$@\" {closed}"), "sh"]);
            shell.arg(env!("CARGO_BIN_EXE_hydrozoa")).args(arguments);
            let seen = shell.output().unwrap();
            assert_eq!(seen.status, expected.status, "{arguments:?} {closed}");
            if ["<&-", "2>&-"].contains(&closed) {
                assert_eq!(lines(seen), lines(expected.clone()), "{arguments:?} {closed}");
            }
        }
    }
    // The reader has gone before the command writes.
    let mut command = hydrozoa();
    command.args(["inspect", "--json"]).arg(python.library().parent().unwrap());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let seen = Seen::from(child.wait_with_output().unwrap());
    assert_eq!((seen.code, seen.errors.as_str()), (Some(128 + PIPE), ""));
}

#[test]
fn a_virtual_environment_may_be_named_from_the_current_folder() {
    let program = "import sys; print(sys.prefix, sys.exec_prefix, sys.executable)";
    for (minor, python) in pythons() {
        let folder = directory(&format!("relative-venv-{minor}"));
        let made = plain(python)
            .args(["-m", "venv", "--without-pip", "venv"])
            .current_dir(&folder)
            .status();
        assert!(made.unwrap().success());
        let mut own = Command::new("venv/bin/python");
        own.env("PYTHONDONTWRITEBYTECODE", "1");
        let [own, copy] = [own, copy(python, &["--venv", "venv"])].map(|mut command| {
            Seen::from(command.args(["-c", program]).current_dir(&folder).output().unwrap())
        });
        assert_eq!(copy, own, "3.{minor}: a copy (left) and the environment's own python (right)");
    }
}
