//! Signals in the command: idle copies take none of them, and each copy sets its own actions.

use hydrozoa::python::{self, Installation};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Programs that block a signal, or wait for it. Each prints what it has seen.
const PROGRAMS: [&str; 5] = [
    "import signal, os
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
print('survived', sorted(map(int, signal.sigpending())))",
    "import signal, os
waited = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM]
signal.pthread_sigmask(signal.SIG_BLOCK, waited)
for number in waited:
    os.kill(os.getpid(), number)
    print(int(signal.sigwait(waited)))",
    "import signal, os
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMAX, signal.SIGRTMIN])
os.kill(os.getpid(), signal.SIGRTMAX)
print(signal.sigtimedwait([signal.SIGRTMAX], 5).si_signo)
print(signal.sigtimedwait([signal.SIGRTMIN], 0.01))",
    "import signal, os
seen = []
signal.signal(signal.SIGTERM, lambda *what: seen.append(what[0]))
own = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
for _ in range(50):
    os.kill(os.getpid(), signal.SIGTERM)
    assert not seen
signal.pthread_sigmask(signal.SIG_SETMASK, own)
print(seen)",
    "import os, signal, threading
def wait():
    print(signal.sigwait([signal.SIGINT]))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
thread = threading.Thread(target=wait)
thread.start()
os.kill(os.getpid(), signal.SIGINT)
thread.join()",
];

fn run(command: &mut Command, program: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.args(["-c", program]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// A Python of this machine, and what it is run by.
fn found() -> (Installation, PathBuf) {
    let found = python::discover().into_iter().find_map(|candidate| candidate.verdict.ok());
    let found = found.expect("this test needs a shared CPython 3.10 or later");
    let python = found.executable().expect("an installation with a python").to_owned();
    (found, python)
}

/// Three copies of it, in which of them the program runs.
fn copies(python: &Installation, of: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
    command.args(["python", "--copies", "3", "--in", of, "--python"]).arg(python.library());
    command.arg("--");
    command
}

#[test]
fn a_signal_that_a_program_blocks_or_waits_for_is_not_taken_by_idle_copies() {
    let (found, python) = found();
    for program in PROGRAMS {
        let expected = run(&mut Command::new(&python), program);
        assert_eq!(expected.0, Some(0), "{program}\n{}", expected.2);
        for copy in ["1", "2", "3"] {
            let seen = run(&mut copies(&found, copy), program);
            assert_eq!(seen, expected, "copy {copy} of\n{program}");
        }
    }
}

#[test]
fn a_copy_that_signals_itself_signals_no_other_copy() {
    let program = "import os, signal, threading, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(None))
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGUSR1)
at_once = len(seen)
thread = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
thread.start()
thread.join()
time.sleep(0.5)
os.write(1, f'{at_once} {len(seen)}\\n'.encode())";
    let (found, _) = found();
    let (code, printed, errors) = run(&mut copies(&found, "all"), program);
    assert_eq!((code, printed.as_str()), (Some(0), "1 2\n1 2\n1 2\n"), "{errors}");
}

#[test]
fn a_copy_that_takes_its_handler_back_is_not_ended_by_a_signal_that_others_handle() {
    // The first copy always has a handler, and a child of its sends the signals.
    let program = "import os, signal, time
begin = time.monotonic()
def handle():
    signal.signal(signal.SIGUSR1, lambda *_: None)
handle()
time.sleep(0.5)
if os.environ['HYDROZOA_COPY'] == '1':
    process = os.getpid()
    child = os.fork()
    if child == 0:
        for _ in range(2000):
            os.kill(process, signal.SIGUSR1)
            time.sleep(0.0005)
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(max(0, begin + 3 - time.monotonic()))
else:
    while time.monotonic() < begin + 2:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        handle()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
os.write(1, b'done\\n')";
    let (found, _) = found();
    let (code, printed, errors) = run(&mut copies(&found, "all"), program);
    assert_eq!((code, printed.as_str()), (Some(0), "done\ndone\ndone\n"), "{errors}");
    // With no handler left, the signal does what it does by default.
    let last = format!("{program}\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('survived')");
    let Output { status, stdout, .. } = copies(&found, "2").args(["-c", &last]).output().unwrap();
    let printed = String::from_utf8(stdout).unwrap();
    assert!(status.signal() == Some(10) && !printed.contains("survived"), "{status}: {printed}");
}
