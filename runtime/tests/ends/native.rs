//! Interpreters that end while threads of theirs are inside native code.

use crate::ending::ends;
use crate::pythons::{each_pool_alone, pools};
use hydrozoa::Session;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Functions that no exception may leave: unwinding by force through one ends the process (`std::terminate`). Each writes
/// a byte to a descriptor when it is about to want the GIL.
const SOURCE: &str = r#"
#include <chrono>
#include <thread>
#include <unistd.h>

extern "C" int PyGILState_Ensure();
extern "C" void PyGILState_Release(int);
extern "C" void* PyEval_SaveThread();
extern "C" void PyEval_RestoreThread(void*);

static void work(int milliseconds, int descriptor) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    if (write(descriptor, "n", 1) != 1) _exit(9);
}
extern "C" void releases(int milliseconds, int descriptor) noexcept {
    void* state = PyEval_SaveThread();
    work(milliseconds, descriptor);
    PyEval_RestoreThread(state);
}
extern "C" void comes(int milliseconds, int descriptor) noexcept {
    work(milliseconds, descriptor);
    int state = PyGILState_Ensure();
    PyGILState_Release(state);
}
extern "C" void calls(void (*function)()) noexcept { function(); }
extern "C" void starts(int milliseconds, int descriptor) {
    std::thread([=]() noexcept { comes(milliseconds, descriptor); }).detach();
}
"#;

/// Starts a daemon thread in each function of the library, and waits until each has begun.
const CODE: &str = "
import ctypes, os, threading, time
def start(path, descriptor):
    library, held = ctypes.CDLL(path), ctypes.PyDLL(path)
    begun = threading.Barrier(6)
    def sleep():
        begun.wait()
        while True:
            os.write(descriptor, b'n')
            time.sleep(0.05)
    sleep = ctypes.CFUNCTYPE(None)(sleep)
    def run(function, *arguments):
        if function is not library.calls:
            begun.wait()
        function(*arguments)
    for function, arguments in [
        (held.releases, (300, descriptor)),
        (library.comes, (300, descriptor)),
        (library.starts, (300, descriptor)),
        (library.calls, (sleep,)),
        (held.calls, (sleep,)),
    ]:
        threading.Thread(target=run, args=(function, *arguments), daemon=True).start()
    begun.wait()
    time.sleep(0.02)
";

/// Starts the threads, and returns where their bytes come from, and what keeps the other end.
fn start(session: &Session, path: &str) -> (PipeReader, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    let writer = OwnedFd::from(writer);
    let start = session.run(CODE, "native.py").unwrap().getattr("start").unwrap();
    start.call((path, i64::from(writer.as_raw_fd()))).unwrap();
    (reader, writer)
}

#[test]
fn a_thread_inside_native_code_is_left_where_it_is_when_its_interpreter_ends() {
    alone(PATIENCE, || {
        let shop = Workshop::new("native_ends");
        let library = shop.build("libnative++.so", SOURCE, &["-std=c++17", "-pthread"]);
        for pool in pools(2) {
            let session = pool.acquire_on(0).unwrap();
            let ended = ends(&session);
            let (mut reader, writer) = start(&session, library.to_str().unwrap());
            drop(session);
            let begun = "a byte for each thread that wants the GIL";
            let mut bytes = [0; 2];
            reader.read_exact(&mut bytes).expect(begun);
            pool.replace(0).unwrap().close(Duration::from_secs(60)).unwrap();
            assert_eq!(ended.load(Ordering::SeqCst), 1);
            // The three that slept 300 ms want the GIL of an interpreter that has ended.
            let mut bytes = [0; 3];
            reader.read_exact(&mut bytes).expect(begun);
            thread::sleep(Duration::from_millis(100));
            for index in 0..2 {
                let session = pool.acquire_on(index).unwrap();
                assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
            }
            // Threads that are left may write to it still.
            std::mem::forget(writer);
            std::mem::forget(reader);
        }
    });
}

#[test]
fn a_thread_in_a_host_function_is_left_there_when_its_interpreter_ends() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (tell, released) = (std::sync::Mutex::new(tell), std::sync::Mutex::new(released));
        let wait = session.function("wait", move |session, _| {
            session.without_gil(|| {
                let _dropped = tell.lock().unwrap();
                _dropped.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                _dropped.send(()).unwrap();
            });
            session.none()
        });
        let code =
            "import threading\ndef start(wait): threading.Thread(target=wait, daemon=True).start()";
        let start = session.run(code, "start.py").unwrap().getattr("start").unwrap();
        start.call((&wait.unwrap(),)).unwrap();
        drop(start);
        told.recv().unwrap();
        drop(session);
        // The function has a reference to the interpreter, so it ends after the function.
        let old = pool.replace(0).unwrap();
        let _ = old.close(Duration::from_millis(100));
        release.send(()).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(200));
        for index in 0..2 {
            let session = pool.acquire_on(index).unwrap();
            assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
        }
    });
}
