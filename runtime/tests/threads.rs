//! Threads that come, wait and end, and interpreters that end on any of them.

mod ending;
mod pythons;

use ending::{assert_ends, ends};
use hydrozoa::movable::shared_memory;
use hydrozoa::{Error, Interpreter, Movable, Object, Pool, Tensor, ToPython};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::process::in_child;
use pythons::{each_pool_alone, pools};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread that has used the pool, and ends when the sender is dropped.
fn visitor(pool: &Pool) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let pool = pool.clone();
    let (used, wait) = mpsc::channel();
    let (leave, stay) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let two: i64 = pool.acquire().unwrap().eval("1 + 1").unwrap().extract().unwrap();
        assert_eq!(two, 2);
        drop(pool);
        used.send(()).unwrap();
        let _ = stay.recv();
    });
    wait.recv().unwrap();
    (leave, thread)
}

#[test]
fn a_thread_that_used_an_interpreter_ends_while_its_gil_is_held() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let (leave, thread) = visitor(&pool);
        session.with_gil(|| {
            drop(leave);
            thread.join().unwrap();
        });
        let thread = Mutex::new(Some(visitor(&pool)));
        let join = session
            .function("join", move |session, _| {
                let (leave, thread) = thread.lock().unwrap().take().unwrap();
                drop(leave);
                thread.join().unwrap();
                session.none()
            })
            .unwrap();
        join.call(()).unwrap();
    });
}

#[test]
fn who_frees_the_state_of_another_thread_keeps_its_own() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let code = "
import threading, weakref
local = threading.local()
class Kept: pass
def keep():
    local.kept = Kept()
    return weakref.ref(local.kept)
";
        let keep = session.run(code, "keep.py").unwrap().getattr("keep").unwrap();
        let own = keep.call(()).unwrap();
        for _ in 0..20 {
            let theirs = thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..3).map(|_| scope.spawn(|| keep.call(()).unwrap())).collect();
                threads.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
            });
            let deadline = Instant::now() + Duration::from_secs(10);
            while theirs.iter().any(|one| !one.call(()).unwrap().is_none()) {
                assert!(Instant::now() < deadline, "a state still exists");
            }
            assert!(!own.call(()).unwrap().is_none(), "this thread has lost its state");
        }
    });
}

#[test]
fn a_forked_child_frees_no_state_of_a_thread_that_it_does_not_have() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let enter = pool.clone();
        let function = session
            .function("enter", move |session, _| {
                enter.acquire().unwrap().eval("[0] * 1000").unwrap();
                session.none()
            })
            .unwrap();
        let code = "
import os, threading, warnings
def fork(enter):
    warnings.simplefilter('ignore')
    child = os.fork()
    if child == 0:
        for _ in range(10): threading.local().kept = [enter()]
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
";
        let fork = session.run(code, "fork.py").unwrap().getattr("fork").unwrap();
        for _ in 0..10 {
            session.with_gil(|| {
                let (leave, thread) = visitor_outside(&pool, &session);
                drop(leave);
                thread.join().unwrap();
                let status: i64 = fork.call((&function,)).unwrap().extract().unwrap();
                assert_eq!(status, 7);
            });
        }
    });
}

/// The child frees objects, counts shared memory and enters another interpreter, as the threads of its parent did at
/// the moment of the fork.
#[test]
fn a_forked_child_finds_no_lock_of_a_thread_that_it_does_not_have() {
    alone(PATIENCE, || {
        let pool = Pool::builder().interpreters(2).build().unwrap();
        let session = pool.acquire_on(0).unwrap();
        let other = pool.clone();
        let work = session
            .function("work", move |session, _| {
                let object = session.eval("[0] * 10")?;
                session.without_gil(|| drop(object));
                shared_memory();
                other.acquire_on(1)?.eval("[0] * 10")?;
                session.none()
            })
            .unwrap();
        let code = "
import os, signal, time, warnings
warnings.simplefilter('ignore')
def fork(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(7)
    for _ in range(2000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return 'it hangs'
";
        let fork = session.run(code, "fork.py").unwrap().getattr("fork").unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    shared_memory();
                }
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // They are queued, since the thread drops them without the GIL.
                    let kept: Vec<_> = session.with_gil(|| vec![work.clone(); 1000]);
                    drop(kept);
                }
            });
            for _ in 0..200 {
                let status: String = fork.call((&work,)).unwrap().str().unwrap();
                assert_eq!(status, "7");
            }
            over.store(true, Ordering::Relaxed);
        });
    });
}

/// A [`visitor`] while this thread holds the GIL.
fn visitor_outside(pool: &Pool, session: &hydrozoa::Session) -> (mpsc::Sender<()>, JoinHandle<()>) {
    session.without_gil(|| visitor(pool))
}

#[test]
fn a_host_function_lets_go_of_the_gil_to_wait() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        let other = pool.clone();
        let wait = session
            .function("wait", move |session, arguments| {
                let list = arguments.get(0).unwrap();
                let pool = other.clone();
                // The thread needs both interpreters, and the object that this one holds.
                let append = list.getattr("append")?;
                let append = &append;
                session.without_gil(|| {
                    thread::scope(|scope| {
                        scope.spawn(|| append.call((1,)).unwrap()).join().unwrap();
                        let visit = |index| pool.acquire_on(index).unwrap().eval("2").is_ok();
                        assert!(scope.spawn(move || visit(0) && visit(1)).join().unwrap());
                    });
                    // The GIL is taken again inside, and released again inside that.
                    session.with_gil(|| {
                        append.call((2,)).unwrap();
                        session.without_gil(|| {
                            thread::scope(|scope| {
                                scope.spawn(|| append.call((3,)).unwrap());
                            });
                        });
                        append.call((4,)).unwrap();
                    });
                    pool.acquire_on(1).unwrap().eval("5").unwrap();
                    append.call((5,)).unwrap();
                });
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    session.without_gil(|| panic!("on purpose"));
                }));
                assert!(panicked.is_err());
                append.call((6,))
            })
            .unwrap();
        let list = session.eval("[]").unwrap();
        wait.call((&list,)).unwrap();
        assert_eq!(list.extract::<Vec<i64>>().unwrap(), [1, 2, 3, 4, 5, 6]);
        // A thread that holds no GIL has none to release.
        assert_eq!(session.without_gil(|| list.len().unwrap()), 6);
    });
}

#[test]
fn a_session_of_one_interpreter_lets_go_of_the_gil_of_another() {
    each_pool_alone(2, |pool| {
        let (inner, outer) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
        outer.with_gil(|| {
            inner.without_gil(|| {
                let pool = pool.clone();
                let visit = move || pool.acquire_on(1).unwrap().eval("1").is_ok();
                assert!(thread::spawn(visit).join().unwrap());
            });
        });
    });
}

#[test]
fn the_last_handle_dropped_by_a_call_on_a_thread_of_python_ends_the_interpreter() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let ended = ends(&session);
        let (inside, wait) = mpsc::channel();
        let (leave, stay) = mpsc::channel::<()>();
        let stay = Mutex::new(stay);
        let call = session
            .function("call", move |session, _| {
                inside.send(()).unwrap();
                // Under the GIL. No other thread needs it.
                let _ = stay.lock().unwrap().recv();
                session.none()
            })
            .unwrap();
        let code = "
import threading
# Later: the call holds the GIL that this thread needs to return.
def begin(call): threading.Timer(0.2, call).start()
";
        let begin = session.run(code, "begin.py").unwrap().getattr("begin").unwrap();
        begin.call((&call,)).unwrap();
        wait.recv().unwrap();
        drop((begin, call));
        drop((session, pool));
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        drop(leave);
        assert_ends(&ended);
    });
}

#[test]
fn the_last_handle_dropped_with_a_function_on_a_thread_of_python_ends_the_interpreter() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let ended = ends(&session);
        let (leave, stay) = mpsc::channel::<()>();
        let stay = Mutex::new(stay);
        let wait = session
            .function("wait", move |session, _| {
                let _ = session.without_gil(|| stay.lock().unwrap().recv());
                session.none()
            })
            .unwrap();
        // The thread's end drops the function, and that drops the handle.
        let handle = session.interpreter().clone();
        let last = session
            .function("last", move |session, _| session.object_from(&handle.index()))
            .unwrap();
        let code = "
import threading
def begin(wait, last):
    functions = [last]
    def run():
        wait()
        functions.clear()
    threading.Thread(target=run).start()
";
        let begin = session.run(code, "begin.py").unwrap().getattr("begin").unwrap();
        // Under the GIL, so that the next thread to enter has nothing left to do.
        session.with_gil(|| begin.call((wait, last)).map(drop)).unwrap();
        drop(begin);
        drop((session, pool));
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        drop(leave);
        assert_ends(&ended);
    });
}

/// Enters an interpreter when it is dropped, once another owner is about to do the same.
struct Entering {
    bytes: [u8; 1],
    interpreter: Interpreter,
    meet: Arc<Barrier>,
    done: mpsc::Sender<usize>,
}

impl AsRef<[u8]> for Entering {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        self.meet.wait();
        let session = self.interpreter.session();
        let index = session.eval("sum(range(100))").unwrap().extract::<usize>().unwrap();
        self.done.send(index).unwrap();
    }
}

/// Two interpreters. In each, `start` makes a thread drop an owner that enters the other one. Both
/// threads are inside their own interpreter before either enters.
fn cross(code: &str, start: impl Fn(Object<'_>) -> Option<JoinHandle<()>>) {
    for pool in pools(2) {
        let meet = Arc::new(Barrier::new(2));
        let (done, wait) = mpsc::channel();
        let mut threads = Vec::new();
        for index in 0..2 {
            let session = pool.acquire_on(index).unwrap();
            let owner = Entering {
                bytes: [0],
                interpreter: pool.interpreters()[1 - index].clone(),
                meet: meet.clone(),
                done: done.clone(),
            };
            let begin = session.run(code, "begin.py").unwrap().getattr("begin").unwrap();
            let lent = session.lend(owner).unwrap();
            // Under the GIL, so that the next thread to enter has nothing left to do.
            threads.extend(session.with_gil(|| start(begin.call((lent,)).unwrap())));
        }
        for _ in 0..2 {
            assert_eq!(wait.recv().unwrap(), 4950);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn owners_dropped_on_threads_of_python_enter_each_others_interpreters() {
    let code = "
import threading
def begin(lent):
    # The thread gives up the only reference, under the GIL, when both threads have been started.
    kept = [lent]
    threading.Timer(0.5, kept.clear).start()
";
    alone(PATIENCE, || cross(code, |_| None));
}

#[test]
fn owners_dropped_in_callbacks_of_ctypes_enter_each_others_interpreters() {
    let code = "
import ctypes
callbacks = []
def begin(lent):
    kept = [lent]
    def clear(): kept.clear()
    callbacks.append(ctypes.CFUNCTYPE(None)(clear))
    return ctypes.cast(callbacks[-1], ctypes.c_void_p).value
";
    alone(PATIENCE, || {
        cross(code, |address| {
            let address: usize = address.extract().unwrap();
            // A thread that enters by a plain function pointer, as threads of C libraries do.
            Some(thread::spawn(move || {
                let pointer: *const () = std::ptr::with_exposed_provenance(address);
                // SAFETY: a function without arguments that ctypes keeps as long as its module's list.
                let callback: extern "C" fn() = unsafe { std::mem::transmute(pointer) };
                thread::sleep(Duration::from_millis(300));
                callback();
            }))
        });
    });
}

#[test]
fn what_needs_no_torch_is_moved_while_a_thread_imports_torch() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        // As other threads see these modules before their import has come to its end.
        let code = "
import sys, types
for name in 'numpy', 'torch', 'torch.jit', 'torch.storage':
    sys.modules[name] = types.ModuleType(name)
torch = sys.modules['torch']
torch.storage = sys.modules['torch.storage']
torch.UntypedStorage = torch.storage.TypedStorage = type('Storage', (), {})
";
        session.run(code, "part.py").unwrap();
        let object = session.eval("[1, {'two': b'three'}]").unwrap();
        let movable = session.create_movable(&object).unwrap();
        let other = pool.acquire_on(1).unwrap();
        assert_eq!(movable.to_object(&other).unwrap().repr().unwrap(), object.repr().unwrap());
        let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap().to_python(&session);
        tensor.unwrap().getattr("__dlpack__").unwrap();
    });
}

#[test]
fn movables_that_need_each_other_on_two_threads_are_refused() {
    each_pool_alone(2, |pool| {
        let code = "
import time
def make(number): return Needing(number)
class Needing:
    def __init__(self, number):
        # Both threads are loading before either of them needs the other's movable.
        time.sleep(0.5)
        hook(1 - number)
    def __reduce__(self): return make, (self.number,)
";
        pool.register_module("needing", code).unwrap();
        let movables = Arc::new(Mutex::new(Vec::new()));
        for index in 0..2 {
            let session = pool.acquire_on(index).unwrap();
            let movables = movables.clone();
            let hook = session
                .function("hook", move |session, arguments| {
                    let other: Option<Movable> = {
                        let movables: &Vec<Movable> = &movables.lock().unwrap();
                        movables.get(arguments.extract::<usize>(0)?).cloned()
                    };
                    match other {
                        Some(other) => other.to_object(session),
                        None => session.none(),
                    }
                })
                .unwrap();
            session.import("needing").unwrap().setattr("hook", &hook).unwrap();
        }
        let session = pool.acquire_on(0).unwrap();
        let made: Vec<Movable> = (0..2)
            .map(|number: usize| {
                let needing = session.import("needing").unwrap();
                let object = needing.getattr("Needing").unwrap().call((number,)).unwrap();
                object.setattr("number", number).unwrap();
                session.create_movable(&object).unwrap()
            })
            .collect();
        *movables.lock().unwrap() = made.clone();
        let errors: Vec<String> = thread::scope(|scope| {
            let threads: Vec<_> = made
                .iter()
                .map(|movable| {
                    let pool = &pool;
                    scope.spawn(move || {
                        let session = pool.acquire_on(1).unwrap();
                        movable.to_object(&session).unwrap_err().to_string()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for error in errors {
            assert_eq!(error, "RecursionError: a movable is needed to load itself");
        }
        // The functions keep the movables, and those keep the pool.
        movables.lock().unwrap().clear();
    });
}

#[test]
fn the_destructor_of_a_thread_local_may_call_with_a_deadline() {
    struct AtEnd(Pool, mpsc::Sender<Result<i64, String>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let session = self.0.acquire().unwrap();
            let call = || session.eval("1 + 1")?.extract::<i64>();
            let limit = Duration::from_secs(50);
            let sum = session.with_deadline(limit, || session.with_deadline(limit, call));
            self.1.send(sum.map_err(|error| error.to_string())).unwrap();
            let code = "while True: pass";
            let stopped =
                session.with_deadline(Duration::from_millis(20), || session.run(code, "l"));
            self.1.send(stopped.map(|_| 0).map_err(|error| error.to_string())).unwrap();
            let waited = self.0.acquire_timeout(Duration::from_millis(1));
            self.1.send(waited.map(|_| 0).map_err(|error| error.to_string())).unwrap();
        }
    }
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    each_pool_alone(1, |pool| {
        let (tell, told) = mpsc::channel();
        let ending = pool.clone();
        thread::spawn(move || {
            // The destructors of what is used first run last.
            AT_END.set(Some(AtEnd(ending.clone(), tell)));
            let session = ending.acquire().unwrap();
            session.with_deadline(Duration::from_secs(50), || session.eval("1").map(drop)).unwrap();
        })
        .join()
        .unwrap();
        let told: Vec<_> = told.iter().collect();
        assert_eq!(told[0], Ok(2));
        assert!(told[1].as_ref().is_err_and(|text| text.contains("deadline")), "{told:?}");
        assert!(told[2].as_ref().is_err_and(|text| text.contains("session")), "{told:?}");
    });
}

/// Has the children of this process be the first of a new namespace each.
fn number_children_from_one() {
    // SAFETY: neither call changes this process. A user who is not root needs a namespace of users too.
    let refused = unsafe {
        libc::unshare(libc::CLONE_NEWPID) != 0
            && libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) != 0
    };
    assert!(!refused, "this test needs namespaces of processes (unshare -Up true)");
}

#[test]
fn a_forked_child_that_is_process_1_like_its_parent_is_another_process() {
    alone(PATIENCE, || {
        let told = in_child(50, || {
            number_children_from_one();
            let first = in_child(45, || {
                assert_eq!(std::process::id(), 1);
                let pool = pools(1).next().unwrap();
                let session = pool.acquire().unwrap();
                let late = || {
                    let limit = Duration::from_millis(50);
                    let waited =
                        session.with_deadline(limit, || session.run("while True: pass", "w"));
                    assert!(matches!(waited, Err(Error::Deadline { .. })), "{waited:?}");
                };
                late();
                // Its thread has a state in the interpreter when the child begins.
                let other = pool.clone();
                let visited = thread::spawn(move || other.acquire().unwrap().eval("1").map(drop));
                visited.join().unwrap().unwrap();
                let kept = pool.interpreters()[0].clone();
                number_children_from_one();
                let second = in_child(40, || {
                    assert_eq!(std::process::id(), 1);
                    late();
                    (0..10).for_each(|_| kept.drain());
                    assert!(matches!(kept.settle("/tmp"), Err(Error::Settle { .. })));
                    "right".into()
                });
                late();
                format!("{second:?}")
            });
            format!("{first:?}")
        });
        assert_eq!(
            told,
            Ok(format!("{:?}", Ok::<_, String>(format!("{:?}", Ok::<_, String>("right")))))
        );
    });
}
