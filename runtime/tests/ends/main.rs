//! Interpreters end with their last handle, whatever their own objects refer to. The tests run on every
//! Python of the machine.

mod children;
#[path = "../cycling/mod.rs"]
#[expect(dead_code, reason = "nothing is served meanwhile")]
mod cycling;
#[path = "../ending/mod.rs"]
mod ending;
mod exits;
mod native;
mod printing;
#[path = "../pythons/mod.rs"]
mod pythons;
mod waiting;

use ending::ends;
use hydrozoa::{Buffer, DataType, Device, Object, Pool, Session, Tensor};
use pythons::pools;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Makes the interpreter of a pool refer to an object for good, by a module or by its queue. Then drops
/// the pool, and asserts that the interpreter has ended.
fn ends_although(pool: Pool, what: &str, own: impl Fn(&Session) -> Object<'_>) {
    let session = pool.acquire().unwrap();
    let ended = ends(&session);
    let object = own(&session);
    session.import("sys").unwrap().setattr("kept", &object).unwrap();
    // No thread enters the interpreter any more: the reference stays in its queue.
    drop(object);
    drop((session, pool));
    assert_eq!(ended.load(Ordering::SeqCst), 1, "{what} keeps its interpreter");
}

fn tensor(session: &Session) -> Tensor {
    let tensor = Tensor::from_vec(vec![1_i32, 2, 3, 4], &[4]).unwrap();
    // Exported by the interpreter, as a torch or numpy tensor would be.
    session.lend_tensor(&tensor).unwrap().extract().unwrap()
}

fn buffer(session: &Session) -> Buffer {
    session.eval("bytearray(range(8))").unwrap().extract().unwrap()
}

#[test]
fn an_interpreter_ends_although_its_own_memory_came_back_to_it() {
    for pool in pools(1) {
        ends_although(pool, "a tensor", |session| session.object_from(&tensor(session)).unwrap());
    }
    for pool in pools(1) {
        ends_although(pool, "a view of a tensor", |session| {
            let whole = tensor(session);
            // SAFETY: the second half of the four elements, which the whole keeps.
            let half = unsafe {
                let data = whole.data_ptr().cast::<i32>().add(2).cast();
                let (shape, strides) = (&[2], &[1]);
                Tensor::from_raw_parts(
                    data,
                    DataType::I32,
                    Device::CPU,
                    shape,
                    strides,
                    false,
                    whole.clone(),
                )
            };
            drop(whole);
            assert_eq!(half.to_vec::<i32>().unwrap(), [3, 4]);
            session.lend_tensor(&half).unwrap()
        });
    }
    for pool in pools(1) {
        ends_although(pool, "a buffer", |session| session.object_from(&buffer(session)).unwrap());
    }
    for pool in pools(1) {
        ends_although(pool, "a view of a buffer", |session| {
            let whole = buffer(session);
            // SAFETY: the second half of the eight bytes, which the whole keeps.
            let half = unsafe { session.lend_raw(whole.data_ptr().add(4), 4, true, whole) };
            let half = half.unwrap();
            assert_eq!(
                half.call_method("tobytes", ()).unwrap().repr().unwrap(),
                r"b'\x04\x05\x06\x07'"
            );
            half
        });
    }
}

#[test]
fn an_interpreter_lives_as_long_as_another_has_its_memory() {
    for (owner, user) in pools(1).zip(pools(1)) {
        let session = owner.acquire().unwrap();
        let ended = ends(&session);
        let (tensor, buffer) = (tensor(&session), buffer(&session));
        let other = user.acquire().unwrap();
        let carrier = other.lend_tensor(&tensor).unwrap();
        // SAFETY: the eight bytes, which the buffer keeps; nothing of Rust's refers to them.
        let view = unsafe { other.lend_raw(buffer.data_ptr(), 8, true, buffer) }.unwrap();
        drop((session, owner, tensor));
        let elements: Tensor = carrier.extract().unwrap();
        assert_eq!(elements.to_vec::<i32>().unwrap(), [1, 2, 3, 4]);
        assert_eq!(view.get_item(7).unwrap().extract::<u8>().unwrap(), 7);
        drop((elements, carrier));
        user.interpreters()[0].drain();
        assert_eq!(ended.load(Ordering::SeqCst), 0, "its memory is in use");
        drop(view);
        user.interpreters()[0].drain();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_thread_of_python_is_finished_before_its_interpreter_ends_if_it_is_no_daemon() {
    const CODE: &str = "
import threading, time
def work(seconds, done):
    time.sleep(seconds)
    done()
def start(*arguments, **options):
    threading.Thread(target=work, args=arguments, **options).start()
";
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let start = session.run(CODE, "start.py").unwrap().getattr("start").unwrap();
        let marker = |name: &str| {
            let file = std::env::temp_dir().join(format!("hydrozoa-{name}-{}", std::process::id()));
            let _ = std::fs::remove_file(&file);
            let touch = session.import("pathlib").unwrap().call_method("Path", (file.to_str(),));
            (touch.unwrap().getattr("touch").unwrap(), file)
        };
        let ((finished, kept), (cut, lost)) = (marker("finished"), marker("cut"));
        start.call_kwargs((0.3, &finished), [("daemon", false)]).unwrap();
        // As the thread that starts it: the application's threads are daemons to Python.
        start.call((600.0, &cut)).unwrap();
        drop((finished, cut, start));
        drop((session, pool));
        assert!(kept.exists() && !lost.exists());
        std::fs::remove_file(kept).unwrap();
    }
}

/// Its message would be printed while the interpreter closes `sys.stderr`, and CPython ends the process for that.
#[test]
fn a_daemon_thread_in_a_host_function_ends_with_its_interpreter_without_a_word() {
    const CODE: &str = "
import os, threading
def note(raised):
    os.write(file, raised.exc_type.__name__.encode() + b' ')
threading.excepthook = note
def ask(wait, began):
    began.set()
    while True: wait()
def start(wait, path):
    global file
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = threading.Event()
    threading.Thread(target=ask, args=(wait, began), daemon=True).start()
    began.wait()
";
    let path = std::env::temp_dir().join(format!("hydrozoa-raised-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    for pool in (0..5).flat_map(|_| pools(1)) {
        let session = pool.acquire().unwrap();
        let wait = session.function("wait", |session, _| {
            session.without_gil(|| thread::sleep(Duration::from_millis(1)));
            session.none()
        });
        let start = session.run(CODE, "start.py").unwrap().getattr("start").unwrap();
        start.call((&wait.unwrap(), path.to_str())).unwrap();
        drop(start);
        drop((session, pool));
    }
    let raised = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    // One that the interpreter's end has overtaken raises nothing.
    assert!(raised.split_whitespace().all(|name| name == "SystemExit"), "{raised}");
}

#[test]
fn a_function_that_reaches_its_pool_by_its_session_keeps_nothing_alive() {
    for pool in pools(2) {
        let session = pool.acquire_on(0).unwrap();
        let ended = ends(&session);
        let ask = session.function("ask", |session, _| {
            let other = session.interpreter().pool().acquire_on(1)?;
            session.object_from(&other.eval("6 * 7")?.extract::<i64>()?)
        });
        let ask = ask.unwrap();
        session.import("sys").unwrap().setattr("kept", &ask).unwrap();
        assert_eq!(ask.call(()).unwrap().extract::<i64>().unwrap(), 42);
        drop(ask);
        drop((session, pool));
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }
}
