//! Standard streams of interpreters as readers and writers of the application.

mod pythons;

use hydrozoa::{Builder, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::builders;
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// The bytes written, and the number of flushes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<(Vec<u8>, usize)>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Less than everything, as writers may.
        let count = bytes.len().min(1000);
        self.0.lock().unwrap().0.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().1 += 1;
        Ok(())
    }
}

/// A pool of two for each Python, with logs of what they print.
fn logging(settings: impl Fn(Builder) -> Builder) -> impl Iterator<Item = (Pool, [Log; 2])> {
    builders(2).map(move |builder| {
        let logs = [Log::default(), Log::default()];
        let outputs = logs.clone();
        let builder = builder.stdout(move |index| Box::new(outputs[index].clone()));
        (settings(builder).build().unwrap(), logs)
    })
}

#[test]
fn each_interpreter_prints_to_its_own_writer_by_lines_and_the_rest_at_its_end() {
    alone(PATIENCE, || {
        for (pool, logs) in logging(|builder| builder) {
            for (index, log) in logs.iter().enumerate() {
                let session = pool.acquire_on(index).unwrap();
                let code =
                    format!("print('I am {index} é')\nprint('x' * 5000)\nprint('end', end='')");
                session.run(&code, "prints.py").unwrap();
                let line = format!("I am {index} é\n{}\n", "x".repeat(5000));
                assert_eq!(log.text(), line);
                session.eval("__import__('atexit').register(print, 'last words')").unwrap();
            }
            drop(pool);
            for log in &logs {
                assert!(log.text().ends_with("\nendlast words\n"), "{:?}", log.text());
            }
        }
    });
}

#[test]
fn an_unbuffered_interpreter_prints_at_once() {
    alone(PATIENCE, || {
        for (pool, logs) in logging(|builder| builder.unbuffered(true)) {
            let session = pool.acquire_on(1).unwrap();
            session.eval("print('half', end='')").unwrap();
            assert_eq!(logs[1].text(), "half");
        }
    });
}

#[test]
fn input_is_read_from_a_reader_to_its_end() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let builder = builder.stdin(|_| Box::new(Cursor::new("first\nsecond é\n")));
            let pool = builder.build().unwrap();
            let session = pool.acquire().unwrap();
            let seen = session
                .eval("[input(), __import__('sys').stdin.read(), __import__('sys').stdin.read()]");
            let seen: Vec<String> = seen.unwrap().extract().unwrap();
            assert_eq!(seen, ["first", "second é\n", ""]);
            assert!(session.eval("input()").unwrap_err().to_string().starts_with("EOFError"));
        }
    });
}

/// `ENOSPC` (errno(3)).
const NO_SPACE: i32 = 28;

/// Fails with what the operating system would say, or panics.
struct Broken(bool);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        assert!(!self.0, "on purpose");
        Err(io::Error::from_raw_os_error(NO_SPACE))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_and_a_panic_of_a_writer_are_os_errors_and_the_interpreter_goes_on() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let pool = builder.stdout(|index| Box::new(Broken(index == 1))).build().unwrap();
            for (index, expected) in
                ["No space left on device", "Input/output error"].iter().enumerate()
            {
                let session = pool.acquire_on(index).unwrap();
                let error = session.eval("print('x')").unwrap_err().to_string();
                assert!(error.starts_with("OSError") && error.contains(expected), "{error}");
                assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
                // Text that could not be written is not tried again at the end.
                session
                    .run("import sys\nsys.stdout = None\nsys.__stdout__ = None", "off.py")
                    .unwrap();
            }
        }
    });
}

/// Waits in its first write until it is told to go on.
struct Slow(Arc<(Mutex<[bool; 2]>, Condvar)>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state[0] = true;
        changed.notify_all();
        drop(changed.wait_while(state, |state| !state[1]).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `check` with a second session while a first one waits in its writer.
fn while_one_writes(check: impl Fn(&Session)) {
    for builder in builders(1) {
        let gate = Arc::new((Mutex::new([false; 2]), Condvar::new()));
        let writer = gate.clone();
        let pool = builder.stdout(move |_| Box::new(Slow(writer.clone()))).build().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| pool.acquire_on(0).unwrap().eval("print('slow')").map(drop).unwrap());
            let (state, changed) = &*gate;
            let limit = Duration::from_secs(60);
            let state = state.lock().unwrap();
            let (state, late) =
                changed.wait_timeout_while(state, limit, |state| !state[0]).unwrap();
            assert!(!late.timed_out(), "nothing was written");
            drop(state);
            check(&pool.acquire_on(0).unwrap());
            gate.0.lock().unwrap()[1] = true;
            gate.1.notify_all();
        });
    }
}

#[test]
fn a_writer_that_waits_keeps_no_gil() {
    alone(PATIENCE, || {
        while_one_writes(|session| {
            assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
        });
    });
}

#[test]
fn a_forked_child_does_not_wait_for_a_thread_that_was_writing() {
    alone(PATIENCE, || {
        while_one_writes(|session| {
            let code = "import errno, os, sys\n\
                        child = os.fork()\n\
                        if child == 0:\n    \
                            seen = 1\n    \
                            try:\n        \
                                sys.stdout.buffer.raw.write(b'child')\n    \
                            except OSError as error:\n        \
                                seen = error.errno\n    \
                            os._exit(seen)\n\
                        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n\
                        agreed = status == errno.EDEADLK\n";
            let module = session.run(code, "forks.py").unwrap();
            assert!(module.getattr("agreed").unwrap().truth().unwrap());
        });
    });
}

#[test]
fn what_makes_the_writers_of_a_pool_cannot_change_the_pool_and_hears_so() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let own = Arc::new(OnceLock::<Pool>::new());
            let (heard, pool) = (Arc::new(Mutex::new(Vec::new())), own.clone());
            let told = heard.clone();
            let builder = builder.stdout(move |_| {
                if let Some(pool) = pool.get() {
                    let session = pool.acquire().unwrap();
                    session.eval("1").unwrap();
                    let changes = [
                        pool.resize(1),
                        pool.replace(0).map(drop),
                        pool.register_module("late", ""),
                    ];
                    let errors = changes.map(|change| change.unwrap_err().to_string());
                    told.lock().unwrap().extend(errors);
                }
                Box::new(io::sink())
            });
            own.set(builder.build().unwrap()).unwrap();
            let pool = own.get().unwrap();
            pool.resize(3).unwrap();
            drop(pool.replace(0).unwrap());
            let heard = heard.lock().unwrap();
            assert_eq!(heard.len(), 6, "{heard:?}");
            assert!(heard.iter().all(|text| text.contains("is being changed")), "{heard:?}");
            assert_eq!(pool.interpreters().len(), 3);
        }
    });
}
