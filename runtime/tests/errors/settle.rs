//! Errors of settling: [`hydrozoa::Unsettled`]. After each of them the interpreter goes on.

use crate::pythons::{builders, pools};
use crate::{directory, says};
use hydrozoa::{Buffer, Error, Interpreter, Session, Tensor, Unsettled};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

/// Asserts that the interpreter is not settled, and why. It goes on, and can be settled when `mend` has been called.
#[track_caller]
fn refuses_and_says(
    interpreter: &Interpreter,
    place: &Path,
    parts: &[&str],
    mend: impl FnOnce(),
) -> Unsettled {
    let error = interpreter.settle(place).unwrap_err();
    says(&error, parts);
    let session = interpreter.session();
    assert_eq!(session.eval("sum(range(100))").unwrap().extract::<i64>().unwrap(), 4950);
    mend();
    let settled = interpreter.settle(directory("settled")).unwrap();
    assert!(settled.anonymous * 2 < settled.memory, "{settled:?}");
    assert_eq!(session.eval("sum(range(100))").unwrap().extract::<i64>().unwrap(), 4950);
    match error {
        Error::Settle { interpreter, reason } => {
            assert_eq!(interpreter, "interpreter 0");
            reason
        }
        other => panic!("{other:?}"),
    }
}

fn each(test: impl Fn(&Interpreter, &Session)) {
    for pool in pools(1) {
        let interpreter = &pool.interpreters()[0];
        test(interpreter, &interpreter.session());
    }
}

#[test]
fn an_interpreter_with_somebody_inside_is_not_settled() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            let place = directory("visited");
            let error = session.with_gil(|| interpreter.settle(&place)).unwrap_err();
            says(
                &error,
                &[
                    "interpreter 0 was not settled: ",
                    "calls on it have not returned (threads inside: 1); settle it when nobody uses it, and not from inside of \
                     it",
                ],
            );
            // A thread that is inside without the GIL.
            let (tell, told) = mpsc::channel();
            let (leave, wait) = mpsc::channel::<()>();
            let other = interpreter.clone();
            let visitor = thread::spawn(move || {
                let session = other.session();
                session.with_gil(|| {
                    session.without_gil(|| {
                        tell.send(()).unwrap();
                        let _ = wait.recv();
                    });
                });
            });
            told.recv().unwrap();
            let parts = ["interpreter 0 was not settled: calls on it", "and not from inside of it"];
            let reason = refuses_and_says(interpreter, &place, &parts, || {
                drop(leave);
                visitor.join().unwrap();
            });
            assert!(matches!(reason, Unsettled::Visited { visits: 1 }), "{reason:?}");
        });
    });
}

#[test]
fn an_interpreter_with_threads_that_may_write_its_memory_is_not_settled() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            let code = "
import os, threading
read, write = os.pipe()
# The kernel writes what they read into an object of Python's.
threads = [threading.Thread(target=os.read, args=(read, 1)) for _ in range(2)]
for thread in threads: thread.start()
def end():
    os.write(write, b'xx')
    for thread in threads: thread.join()
";
            let namespace = session.run(code, "waits.py").unwrap();
            let parts = [
                "threads that are not the application's have entered it and may run (2)",
                "; end them first, for example by join() or an executor's shutdown()",
            ];
            let reason = refuses_and_says(interpreter, &directory("threads"), &parts, || {
                namespace.getattr("end").unwrap().call(()).unwrap();
            });
            assert!(matches!(reason, Unsettled::Threads { threads: 2 }), "{reason:?}");
        });
    });
}

/// A thread of native code that has come by `PyGILState_Ensure`, and has released the GIL again to read.
#[test]
fn an_interpreter_with_a_thread_of_native_code_is_not_settled() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            // A C function that is called on a thread of the C library's, and reads there.
            let code = "
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
inside, (read, write) = threading.Event(), os.pipe()
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def work(_):
    inside.set()
    os.read(read, 1)
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, work, None) == 0
inside.wait()
def end():
    os.write(write, b'x')
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    libc.pthread_join(thread, None)
";
            let namespace = session.run(code, "native.py").unwrap();
            let parts = ["may run (1); end them first", "shutdown()"];
            refuses_and_says(interpreter, &directory("native"), &parts, || {
                namespace.getattr("end").unwrap().call(()).unwrap();
            });
        });
    });
}

#[test]
fn an_interpreter_with_sub_interpreters_is_not_settled() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            let code = "
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
number = interpreters.create()
def end(): interpreters.destroy(number)
";
            let namespace = session.run(code, "sub.py").unwrap();
            let error = interpreter.settle(directory("sub")).unwrap_err();
            // A sub-interpreter of some versions has a thread state from its beginning on.
            match &error {
                Error::Settle {
                    reason: Unsettled::SubInterpreters { interpreters: 1 }, ..
                } => says(
                    &error,
                    &[
                        "it has sub-interpreters, which may run (1); end them first, for example by Interpreter.close()",
                    ],
                ),
                other => says(other, &["may run (1); end them first", "shutdown()"]),
            }
            namespace.getattr("end").unwrap().call(()).unwrap();
            interpreter.settle(directory("sub")).unwrap();
        });
    });
}

#[test]
fn memory_that_the_application_can_write_keeps_an_interpreter_from_being_settled() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            let place = directory("lent");
            let array = session.eval("bytearray(1000)").unwrap();
            let one: Buffer = array.extract().unwrap();
            let other = array.writable_buffer().unwrap();
            let frozen = || {
                let count = session.eval("__import__('gc').get_freeze_count()").unwrap();
                count.extract::<i64>().unwrap()
            };
            let before = frozen();
            interpreter.settle(&place).unwrap_err();
            // CPython 3.12 freezes some objects itself.
            assert!(frozen() <= before, "collections do not look at {} objects", frozen());
            let parts = [
                "the application can write its memory (Buffers and Tensors over memory of Python: 2)",
                "; drop them first",
            ];
            let reason = refuses_and_says(interpreter, &place, &parts, || drop((one, other)));
            assert!(matches!(reason, Unsettled::Lent { loans: 2 }), "{reason:?}");
            // Neither memory that is read only nor memory of the application's.
            let bytes: Buffer = session.eval("bytes(1000)").unwrap().extract().unwrap();
            let own = Tensor::from_vec(vec![0_u8; 100], &[100]).unwrap();
            let lent = session.object_from(&own).unwrap();
            let back: Tensor = lent.extract().unwrap();
            interpreter.settle(&place).unwrap();
            assert_eq!(bytes.to_vec::<u8>().unwrap(), [0; 1000]);
            drop((lent, back));
        });
    });
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    alone(PATIENCE, || {
        each(|interpreter, _| {
            let parts = [
                "files in /dev/shm are in memory, so nothing would be gained; name a directory on a disk",
            ];
            let reason = refuses_and_says(interpreter, Path::new("/dev/shm"), &parts, || ());
            assert!(matches!(reason, Unsettled::InMemory { .. }), "{reason:?}");
            let absent = directory("absent").join("nothing");
            let name = absent.display().to_string();
            let parts = [&name, ": No such file or directory (os error 2) (check the path)"];
            let reason = refuses_and_says(interpreter, &absent, &parts, || ());
            assert!(matches!(reason, Unsettled::Io { .. }), "{reason:?}");
            let file = directory("file").join("file");
            fs::write(&file, "").unwrap();
            let error = interpreter.settle(&file).unwrap_err();
            assert!(error.to_string().contains("Not a directory"), "{error}");
        });
    });
}

/// A limit on the size of files stands for a full disk: the file system refuses to hold the file.
#[test]
fn an_interpreter_stays_in_memory_where_the_file_finds_no_room() {
    alone(PATIENCE, || {
        let set = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a valid limit.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        };
        each(|interpreter, _| {
            set(1 << 20);
            let place = directory("full");
            let name = place.display().to_string();
            let parts = [&name, ": File too large (os error 27)"];
            let reason = refuses_and_says(interpreter, &place, &parts, || set(libc::RLIM_INFINITY));
            let Unsettled::Io { source, .. } = reason else { panic!("{reason:?}") };
            assert_eq!(source.raw_os_error(), Some(libc::EFBIG));
            assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        });
    });
}

#[test]
fn a_forked_child_does_not_settle_its_parents_interpreters() {
    alone(PATIENCE, || {
        each(|interpreter, session| {
            let other = interpreter.clone();
            let function = session
                .function("settle", move |session, _| {
                    let error = other.settle(directory("forked")).unwrap_err();
                    let text = "this process is a forked child of the one that has started it; settle interpreters before the \
                                fork";
                    let is_forked = matches!(error, Error::Settle { reason: Unsettled::Forked, .. });
                    session.object_from(&(is_forked && error.to_string().ends_with(text)))
                })
                .unwrap();
            let code = "
import os, warnings
warnings.simplefilter('ignore')
def fork(settle):
    child = os.fork()
    if child == 0: os._exit(7 if settle() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
";
            let fork = session.run(code, "fork.py").unwrap().getattr("fork").unwrap();
            assert_eq!(fork.call((&function,)).unwrap().extract::<i64>().unwrap(), 7);
        });
    });
}

#[test]
fn a_pool_without_a_directory_says_where_to_name_one() {
    let builder = builders(1).next().unwrap();
    let pool = builder.build().unwrap();
    let error = pool.settle().unwrap_err();
    assert!(matches!(error, Error::Configuration(_)), "{error:?}");
    says(
        &error,
        &[
            "the pool has no directory to settle its interpreters in",
            ": name one on a disk by Builder::settle_in",
        ],
    );
}

#[test]
fn an_interpreter_that_has_crashed_is_not_settled() {
    alone(PATIENCE, || {
        let builder = builders(1).next().unwrap();
        let pool = builder.contain_crashes(true).replace_crashed(false).build().unwrap();
        let session = pool.acquire().unwrap();
        let crash = session.run("import ctypes; ctypes.string_at(0)", "crash.py").unwrap_err();
        assert!(matches!(crash, Error::Crashed { .. }), "{crash:?}");
        let error = session.interpreter().settle(directory("crashed")).unwrap_err();
        assert!(matches!(error, Error::Crashed { .. }), "{error:?}");
        assert!(session.interpreter().settlings().refused.unwrap().contains("SIGSEGV"));
    });
}

#[test]
fn an_interpreter_without_addresses_of_its_own_is_not_settled() {
    alone(PATIENCE, || {
        let builder = builders(1).next().unwrap();
        // The first interpreter: later ones find addresses that were reserved with its own.
        let status = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
        let bytes = pages * 4096 + (120 << 20);
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let pool = builder.build().unwrap();
        let error = pool.interpreters()[0].settle(directory("window")).unwrap_err();
        assert!(matches!(error, Error::Settle { reason: Unsettled::NoWindow, .. }), "{error:?}");
        says(
            &error,
            &[
                "the system gave it no addresses of its own; raise the limit on address space (ulimit -v)",
            ],
        );
    });
}
