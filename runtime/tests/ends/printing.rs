//! Interpreters that end while threads of theirs use the standard streams.

use crate::cycling::Taken;
use crate::pythons::builders;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::io::{self, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Takes a moment for each write, or panics.
struct Slow(bool);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_millis(1));
        assert!(!self.0, "on purpose");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Threads that print as fast as they can, and a logger's.
const PRINT: &str = "
import logging, sys, threading
logging.basicConfig(stream=sys.stderr)
def run(work):
    while True:
        try: work()
        except OSError: pass
works = [lambda: print('out'), lambda: logging.warning('log'), lambda: print('err', file=sys.stderr)]
for work in works: threading.Thread(target=run, args=(work,), daemon=True).start()
";

#[test]
fn threads_that_print_all_the_time_are_cut_off_with_their_interpreter() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            for panics in [false, true] {
                let builder = builder.clone().stdout(|_| Box::new(Slow(false)));
                let builder = builder.stderr(move |_| Box::new(Slow(panics)));
                let without = Taken::now();
                let round = || {
                    let pool = builder.clone().build().unwrap();
                    pool.acquire().unwrap().run(PRINT, "printing.py").unwrap();
                    thread::sleep(Duration::from_millis(10));
                    drop(pool);
                    Taken::wait_for_threads(without);
                };
                (0..3).for_each(|_| round());
                let before = Taken::now();
                (0..5).for_each(|_| round());
                Taken::now().assert_bounded(before, 5, 40 << 10);
            }
        }
    });
}

type Gate = Arc<(Mutex<[usize; 2]>, Condvar)>;

/// Waits in each call until it is told to go on.
struct Blocked(Gate);

impl Blocked {
    fn wait(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state[0] += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |state| state[1] == 0).unwrap());
    }
}

impl Write for Blocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wait();
        Ok(())
    }
}

impl Read for Blocked {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.wait();
        Ok(0)
    }
}

/// Threads that use each of the streams, and objects that print when they are freed, to what is there then and to what was
/// there before. From 3.14 on CPython ends the process at the latter.
const USE: &str = "
import sys, threading
class Last:
    def __init__(self, stream): self.stream = stream
    def __del__(self): print('last', file=self.stream)
last = [Last(None)]
if sys.version_info < (3, 14): last.append(Last(sys.stdout))
works = [lambda: print('out'), lambda: sys.stderr.write('err\\n'), lambda: sys.stdin.read()]
for work in works: threading.Thread(target=work, daemon=True).start()
";

/// For an end on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A writer that somebody counts.
struct Counted(#[expect(dead_code, reason = "counted")] Arc<()>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn writers_are_dropped_with_their_interpreter_though_threads_print_at_its_end() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let writers = Arc::new(());
            let (one, two) = (writers.clone(), writers.clone());
            let builder = builder.stdout(move |_| Box::new(Counted(one.clone())));
            let builder = builder.stderr(move |_| Box::new(Counted(two.clone())));
            let pool = builder.build().unwrap();
            pool.acquire().unwrap().run(PRINT, "printing.py").unwrap();
            thread::sleep(Duration::from_millis(10));
            assert_eq!(Arc::strong_count(&writers), 5);
            pool.close(LONG).unwrap();
            let begin = Instant::now();
            // A thread may be in one of them.
            while Arc::strong_count(&writers) > 1 {
                assert!(begin.elapsed() < LONG, "{}", Arc::strong_count(&writers));
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

#[test]
fn writers_and_readers_that_wait_keep_no_interpreter_from_ending() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let gate: Gate = Arc::default();
            let [out, err, input] = [gate.clone(), gate.clone(), gate.clone()];
            let builder = builder.stdout(move |_| Box::new(Blocked(out.clone())));
            let builder = builder.stderr(move |_| Box::new(Blocked(err.clone())));
            let builder = builder.stdin(move |_| Box::new(Blocked(input.clone())));
            let pool = builder.build().unwrap();
            pool.acquire().unwrap().run(USE, "use.py").unwrap();
            let (state, changed) = &*gate;
            drop(changed.wait_while(state.lock().unwrap(), |state| state[0] < 3).unwrap());
            let begin = Instant::now();
            pool.close(LONG).unwrap();
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
            state.lock().unwrap()[1] = 1;
            changed.notify_all();
            // They find no interpreter to return to.
            thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn a_pipe_that_nobody_reads_keeps_no_interpreter_from_ending() {
    alone(PATIENCE, || {
        // SAFETY: descriptors are copied; nobody else prints meanwhile.
        let saved = unsafe { libc::dup(1) };
        for builder in builders(1) {
            let (mut reader, writer) = pipe().unwrap();
            // SAFETY: as above.
            unsafe { libc::dup2(writer.as_raw_fd(), 1) };
            drop(writer);
            let pool = builder.build().unwrap();
            let code = "
import threading, time, os
threading.Thread(target=print, args=('x' * (1 << 20),), daemon=True).start()
";
            pool.acquire().unwrap().run(code, "fill.py").unwrap();
            // A pipe holds 64 KiB.
            let fills = || {
                let mut count = 0;
                // SAFETY: the number is written to a place of its size.
                unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &mut count) };
                count >= 1 << 16
            };
            while !fills() {
                thread::yield_now();
            }
            pool.close(LONG).unwrap();
            // SAFETY: as above.
            unsafe { libc::dup2(saved, 1) };
            let mut text = Vec::new();
            thread::spawn(move || reader.read_to_end(&mut text));
            thread::sleep(Duration::from_millis(50));
        }
    });
}
