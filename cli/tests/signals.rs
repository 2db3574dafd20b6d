//! Signals in the command: idle copies take none of them.

use hydrozoa::python;
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

#[test]
fn a_signal_that_a_program_blocks_or_waits_for_is_not_taken_by_idle_copies() {
    let found = python::discover().into_iter().find_map(|candidate| candidate.verdict.ok());
    let found = found.expect("this test needs a shared CPython 3.10 or later");
    let python = found.executable().expect("an installation with a python");
    for program in PROGRAMS {
        let expected = run(&mut Command::new(python), program);
        assert_eq!(expected.0, Some(0), "{program}\n{}", expected.2);
        for copy in ["1", "2", "3"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
            command.args(["python", "--copies", "3", "--in", copy, "--python"]);
            let seen = run(command.arg(found.library()).arg("--"), program);
            assert_eq!(seen, expected, "copy {copy} of\n{program}");
        }
    }
}
