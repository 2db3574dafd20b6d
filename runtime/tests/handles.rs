//! References that outlive sessions, and references that keep no pool alive.

mod ending;
mod pythons;

use ending::{assert_ends, ends};
use hydrozoa::{Error, Handle, Interpreter, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{pool, pools};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

struct Plugin {
    interpreter: Interpreter,
    run: Handle,
}

impl Plugin {
    fn run(&self, number: i64) -> i64 {
        let session = self.interpreter.session();
        self.run.attach(&session).unwrap().call((number,)).unwrap().extract().unwrap()
    }
}

#[test]
fn a_plugin_keeps_its_interpreter_and_its_function_together() {
    for pool in pools(1) {
        let interpreter = pool.interpreters()[0].clone();
        let run = interpreter.session().eval("lambda n: n * 2").unwrap().keep();
        let plugin = Plugin { interpreter, run };
        drop(pool);
        thread::scope(|scope| {
            for number in 0..4 {
                let plugin = &plugin;
                scope.spawn(move || assert_eq!(plugin.run(number), number * 2));
            }
        });
    }
}

#[test]
fn a_callback_that_python_registers_is_called_later_from_rust() {
    let pool = pool(1);
    let callbacks: Arc<Mutex<Vec<Handle>>> = Arc::default();
    let session = pool.acquire().unwrap();
    let own = callbacks.clone();
    let register = session
        .function("register", move |session, arguments| {
            own.lock().unwrap().push(arguments.extract(0)?);
            session.none()
        })
        .unwrap();
    let code = "
heard = []
def begin(register):
    register(lambda what: heard.append(('first', what)))
    register(lambda what: heard.append(('second', what)))
";
    let module = session.run(code, "listeners.py").unwrap().keep();
    let begin = module.attach(&session).unwrap().getattr("begin").unwrap();
    begin.call((&register,)).unwrap();
    drop((begin, register));
    drop(session);
    // The session that they came by has ended.
    let kept = std::mem::take(&mut *callbacks.lock().unwrap());
    for callback in &kept {
        let session = callback.session().unwrap();
        callback.attach(&session).unwrap().call(("news",)).unwrap();
    }
    let session = pool.acquire().unwrap();
    let heard = module.attach(&session).unwrap().getattr("heard").unwrap();
    assert_eq!(heard.repr().unwrap(), "[('first', 'news'), ('second', 'news')]");
}

#[test]
fn clones_refer_to_one_object_and_handles_are_arguments_of_calls() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let list = session.eval("[]").unwrap();
    let handle = list.keep();
    let again = handle.clone();
    assert!(handle.attach(&session).unwrap().is(&list));
    assert!(again.attach(&session).unwrap().is(&list));
    session.eval("lambda l, x: l.append(x)").unwrap().call((&handle, &again)).unwrap();
    drop(handle);
    assert!(again.attach(&session).unwrap().get_item(0).unwrap().is(&list));
    assert!(list.extract::<Handle>().unwrap().attach(&session).unwrap().is(&list));
    assert_eq!(format!("{again:?}"), "<an object of interpreter 0>");
}

#[test]
fn a_handle_is_refused_by_other_interpreters_and_after_the_end() {
    let pool = pool(2);
    let (one, other) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
    let handle = one.eval("[1, 2]").unwrap().keep();
    assert!(matches!(handle.attach(&other), Err(Error::Foreign { .. })));
    assert!(matches!(other.object_from(&handle), Err(Error::Foreign { .. })));
    assert_eq!(handle.interpreter().unwrap().index(), 0);
    drop(one);
    pool.replace(0).unwrap().close(PATIENCE).unwrap();
    assert!(handle.interpreter().is_none());
    for error in [handle.attach(&other).unwrap_err(), handle.session().unwrap_err()] {
        assert!(matches!(error, Error::Ended { .. }), "{error:?}");
    }
    // The one that replaced it is another interpreter, although it is in the same place.
    let new = pool.acquire_on(0).unwrap();
    assert!(matches!(handle.attach(&new), Err(Error::Ended { .. })));
}

#[test]
fn an_interpreter_with_kept_objects_ends_and_frees_them() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let ended = ends(&session);
        let freed = Arc::new(std::sync::atomic::AtomicU8::new(0));
        // SAFETY: one byte that the owner keeps alive and that Rust only accesses atomically.
        let flag = unsafe { session.lend_raw(freed.as_ptr(), 1, false, freed.clone()) }.unwrap();
        let code = "
class Noted:
    def __init__(self, flag): self.flag = flag
    def __del__(self): self.flag[0] += 1
";
        let class = session.run(code, "noted.py").unwrap().getattr("Noted").unwrap();
        let kept = class.call((&flag,)).unwrap().keep();
        drop((class, flag));
        drop(session);
        // It has handles still, and does not wait for them.
        pool.close(PATIENCE).unwrap();
        assert_ends(&ended);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
        drop(kept);
    }
}

/// The bytes that the process has in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn objects_that_are_kept_and_dropped_leave_nothing_behind() {
    alone(PATIENCE, || {
        let pool = pool(1);
        let session = pool.acquire().unwrap();
        let list = session.eval("[]").unwrap();
        let count = session.import("sys").unwrap().getattr("getrefcount").unwrap();
        let count = || count.call((&list,)).unwrap().extract::<usize>().unwrap();
        let before = count();
        let round = |handles: usize| {
            // Some are held while others come and go, and they are dropped in another order.
            let mut held: Vec<Handle> = (0..100).map(|_| list.keep()).collect();
            for number in 0..handles {
                held.push(list.keep());
                held.swap_remove(number * 31 % 100);
            }
        };
        round(100_000);
        let settled = resident();
        (0..4).for_each(|_| round(100_000));
        assert_eq!(count(), before);
        let grown = resident().saturating_sub(settled);
        assert!(grown < 4 << 20, "{grown} bytes more after 400,000 handles");
    });
}

#[test]
fn a_handle_is_cloned_and_dropped_while_another_thread_holds_the_gil() {
    alone(PATIENCE, || {
        let pool = pool(1);
        let session = pool.acquire().unwrap();
        let kept: Vec<Handle> =
            (0..100).map(|_| session.eval("object()").unwrap().keep()).collect();
        session.with_gil(|| {
            let dropping = thread::spawn(move || drop((kept.clone(), kept)));
            // With the GIL: a drop that waited for it would not end.
            dropping.join().unwrap();
        });
        assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
    });
}

#[test]
fn threads_keep_attach_and_drop_at_once() {
    let pool = pool(2);
    let kept: Vec<Handle> = pool
        .interpreters()
        .iter()
        .map(|interpreter| interpreter.session().eval("lambda n: n + 1").unwrap().keep())
        .collect();
    thread::scope(|scope| {
        for number in 0..4 {
            let kept = &kept[number % 2];
            scope.spawn(move || {
                for n in 0..2_000 {
                    let session = kept.session().unwrap();
                    let sum = kept.attach(&session).unwrap().call((n,)).unwrap().keep();
                    let sum = sum.attach(&session).unwrap().extract::<i64>().unwrap();
                    assert_eq!(sum, n + 1);
                }
            });
        }
    });
}

#[test]
fn a_handle_that_is_dropped_while_its_interpreter_ends_does_not_disturb_the_end() {
    alone(PATIENCE, || {
        for _ in 0..8 {
            let pool = pool(1);
            let session = pool.acquire().unwrap();
            let ended = ends(&session);
            let kept: Vec<Handle> = (0..64).map(|_| session.eval("[]").unwrap().keep()).collect();
            drop(session);
            let both = Arc::new(Barrier::new(2));
            let own = both.clone();
            let dropping = thread::spawn(move || {
                own.wait();
                kept.into_iter().for_each(drop);
            });
            both.wait();
            drop(pool);
            dropping.join().unwrap();
            assert_ends(&ended);
        }
    });
}

#[test]
fn a_handle_in_a_host_function_makes_no_cycle() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let ended = ends(&session);
    let kept = session.eval("lambda: 42").unwrap().keep();
    let call = session.function("call", move |session, _| kept.attach(session)?.call(())).unwrap();
    session.import("builtins").unwrap().setattr("answer", &call).unwrap();
    assert_eq!(session.eval("answer()").unwrap().extract::<i64>().unwrap(), 42);
    drop(call);
    drop(session);
    drop(pool);
    assert_ends(&ended);
}

/// A function of the session's interpreter that only a reference to the pool leads out of.
fn install<T: Send + Sync + 'static>(
    session: &Session,
    weak: T,
    upgrade: impl Fn(&T) -> bool + Send + Sync + 'static,
) {
    let lives =
        session.function("lives", move |session, _| session.object_from(&upgrade(&weak))).unwrap();
    session.import("builtins").unwrap().setattr("lives", &lives).unwrap();
}

#[test]
fn a_host_function_with_a_weak_pool_lets_the_pool_end() {
    let pool = pool(2);
    let session = pool.acquire().unwrap();
    let ended = ends(&session);
    let weak = pool.downgrade();
    assert_eq!(weak.upgrade().unwrap().interpreters().len(), 2);
    install(&session, weak.clone(), |weak| weak.upgrade().is_some());
    assert!(session.eval("lives()").unwrap().extract::<bool>().unwrap());
    drop(pool);
    // The session keeps its interpreter, and not the pool.
    assert!(!session.eval("lives()").unwrap().extract::<bool>().unwrap());
    assert!(weak.upgrade().is_none());
    drop(session);
    assert_ends(&ended);
}

#[test]
fn a_host_function_with_a_weak_interpreter_lets_the_interpreter_end() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let ended = ends(&session);
    let weak = session.interpreter().downgrade();
    install(&session, weak.clone(), |weak| weak.upgrade().is_some());
    assert!(session.eval("lives()").unwrap().extract::<bool>().unwrap());
    drop((session, pool));
    assert_ends(&ended);
    assert!(weak.upgrade().is_none());
}

#[test]
fn the_last_clone_that_is_dropped_inside_its_interpreter_frees_the_object_at_once() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let (tell, told) = mpsc::channel();
    let note = session
        .function("note", move |session, _| {
            tell.send(()).unwrap();
            session.none()
        })
        .unwrap();
    let code = "
import weakref
class Watched: pass
def make(note):
    watched = Watched()
    weakref.finalize(watched, note)
    return watched
";
    let make = session.run(code, "watched.py").unwrap().getattr("make").unwrap();
    let kept = make.call((&note,)).unwrap().keep();
    let other = kept.clone();
    session.with_gil(|| {
        drop(kept);
        assert!(told.try_recv().is_err());
        drop(other);
        told.recv_timeout(Duration::ZERO).unwrap();
    });
}
