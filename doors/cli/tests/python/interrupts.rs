//! Signals of a process in which several copies run at once.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::beside::{Seen, copy, plain, pythons};

const ALL: &[&str] = &["--copies", "3", "--in", "all"];

/// Runs a program that writes `ready` when it waits for a signal, and sends that when `count` of them wait.
fn signalled(mut command: Command, program: &str, signal: i32, count: usize) -> Seen {
    let command = command.args(["-c", program]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process: Child = command.spawn().unwrap();
    let mut output = process.stdout.take().unwrap();
    let (mut begun, mut byte) = (String::new(), [0]);
    while begun.matches("ready\n").count() < count {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "it has ended: {begun}");
        begun.push(char::from(byte[0]));
    }
    // So that they wait indeed: CPython sleeps on if the signal comes just before a call that waits.
    thread::sleep(Duration::from_millis(200));
    let id = process.id().to_string();
    let sent = Command::new("kill").args([format!("-{signal}"), id]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let mut seen = Seen::from(process.wait_with_output().unwrap());
    seen.output = begun + &rest;
    seen
}

/// The lines that plain python has written three times, in any order.
fn assert_threefold(seen: &Seen, plain: &Seen) {
    // The signal may come just before the line that waits.
    let is_place = |line: &&str| line.starts_with("  File");
    let sorted = |text: &str, times: usize| {
        let text = text.repeat(times);
        let lines = text.lines().filter(|line| !is_place(line));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&seen.output, 1), sorted(&plain.output, 3), "{}", seen.errors);
    assert_eq!(sorted(&seen.errors, 1), sorted(&plain.errors, 3));
    assert_eq!((seen.code, seen.signal), (plain.code, plain.signal));
}

/// Programs that wait. Each says `ready`, in one write, since others write at the same time.
const WAITING: [&str; 5] = [
    "import os, time\n\
     try:\n    os.write(1, b'ready\\n'); time.sleep(60)\n\
     finally:\n    os.write(1, b'cleaned up\\n')\n",
    "import os, atexit\n\
     atexit.register(os.write, 1, b'at exit\\n')\n\
     os.write(1, b'ready\\n')\n\
     while True: pass\n",
    "import asyncio, os\n\
     async def main():\n    \
         os.write(1, b'ready\\n')\n    \
         try: await asyncio.sleep(60)\n    \
         except asyncio.CancelledError: os.write(1, b'cancelled\\n'); raise\n\
     try: asyncio.run(main())\n\
     except KeyboardInterrupt: os.write(1, b'interrupted\\n')\n\
     raise SystemExit(5)\n",
    "import os, subprocess, sys, time\n\
     child = subprocess.run([sys.executable, '-c', 'import signal; print(signal.getsignal(13))'],\n                       \
         restore_signals=True, stdout=subprocess.PIPE)\n\
     import signal, threading\n\
     signal.signal(2, lambda *_: os.write(1, b'handled\\n'))\n\
     signal.raise_signal(2)\n\
     signal.signal(2, signal.default_int_handler)\n\
     lock = threading.Lock()\n\
     lock.acquire()\n\
     os.write(1, b'ready\\n')\n\
     lock.acquire()\n",
    "import os, threading, time\n\
     def run():\n    os.write(1, b'thread\\n'); time.sleep(0.3); os.write(1, b'ready\\n'); time.sleep(1)\n\
     thread = threading.Thread(target=run)\n\
     thread.start()\n\
     try: time.sleep(60)\n\
     except KeyboardInterrupt: pass\n\
     thread.join()\n",
];

#[test]
fn ctrl_c_interrupts_each_copy_as_it_interrupts_plain_python() {
    for python in pythons().values() {
        for program in WAITING {
            let expected = signalled(plain(python), program, 2, 1);
            assert_threefold(&signalled(copy(python, ALL), program, 2, 3), &expected);
        }
    }
}

#[test]
fn each_copy_has_signal_handlers_of_its_own() {
    let program = "import os, signal, sys, time\n\
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n\
        assert signal.getsignal(signal.SIGPIPE) == signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN\n\
        seen = []\n\
        signal.signal(signal.SIGTERM, lambda *_: seen.append(1))\n\
        signal.raise_signal(signal.SIGTERM)\n\
        child = os.fork()\n\
        if child == 0:\n    \
            signal.raise_signal(signal.SIGTERM)\n    \
            signal.signal(signal.SIGTERM, signal.SIG_DFL)\n    \
            os._exit(len(seen) + signal.getsignal(signal.SIGTERM))\n\
        seen.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n\
        os.write(1, b'ready\\n')\n\
        [time.sleep(0.05) for _ in range(1200) if len(seen) < 3]\n\
        os.write(1, b'%r\\n' % seen)\n\
        signal.signal(signal.SIGTERM, signal.SIG_DFL)\n\
        sys.exit(3)\n";
    for python in pythons().values() {
        let expected = signalled(plain(python), program, 15, 1);
        assert_eq!((expected.output.as_str(), expected.code), ("ready\n[1, 2, 1]\n", Some(3)));
        let seen = signalled(copy(python, ALL), program, 15, 3);
        assert_eq!(seen.output.matches("[1, 2, 1]\n").count(), 3, "{seen:?}");
        assert_eq!(seen.code, Some(3));
    }
}

#[test]
fn a_copy_that_ends_leaves_the_handlers_of_others() {
    // The first copy ends at once. Its handlers go with it.
    let program = "import os, signal, time\n\
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n\
        if os.environ['HYDROZOA_COPY'] == '1': raise SystemExit\n\
        time.sleep(0.5)\n\
        try: os.write(1, b'ready\\n'); time.sleep(60)\n\
        except KeyboardInterrupt: os.write(1, b'interrupted\\n')\n";
    for python in pythons().values() {
        let seen = signalled(copy(python, ALL), program, 2, 2);
        assert_eq!(seen.output.matches("interrupted\n").count(), 2, "{seen:?}");
        assert_eq!(seen.code, Some(0));
    }
}
