//! Calls that are interrupted from outside, by a handle or by their deadline, and calls that do not react.

#[path = "interrupts/moments.rs"]
mod moments;
mod pythons;

use hydrozoa::{Error, Pool, Session, Stuck};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, each_pool_alone};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A reaction this slow counts as missing. On an idle machine it takes some milliseconds.
const SOON: Duration = Duration::from_secs(5);

const MODULE: &str = "
import ctypes, time
# It keeps the GIL.
usleep = ctypes.PyDLL(None).usleep
def loop():
    while True:
        pass
def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return seconds
def native(seconds):
    usleep(int(seconds * 1e6))
    return seconds
def sleep(seconds):
    time.sleep(seconds)
    return seconds
def stubborn(times):
    caught = []
    while len(caught) < times:
        try:
            loop()
        except BaseException as error:
            caught.append(type(error).__mro__[1].__name__)
    return caught
def through(function):
    try:
        return function()
    except Exception:
        return 'swallowed'
";

fn with_module(pool: Pool) -> Pool {
    pool.register_module("calls", MODULE).unwrap();
    pool
}

/// Calls with a deadline. A busy machine may let it pass before the call has begun, which is an error, and the call is not made: it
/// is tried again then.
fn begun<T>(
    session: &Session,
    limit: Duration,
    call: impl Fn() -> hydrozoa::Result<T>,
) -> hydrozoa::Result<T> {
    loop {
        match session.with_deadline(limit, &call) {
            Err(Error::Deadline { traceback }) if traceback.is_empty() => {}
            outcome => return outcome,
        }
    }
}

/// That nothing is left of an interrupt: bytecode runs for a while.
fn assert_undisturbed(session: &Session) {
    let spun: f64 =
        session.import("calls").unwrap().call_method("spin", (0.03,)).unwrap().extract().unwrap();
    assert_eq!(spun, 0.03);
}

/// Each search for a module, such as that of the interrupts' classes, waits for a while without the GIL.
const SLOW_IMPORTS: &str = "
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        time.sleep(0.1)
sys.meta_path.insert(0, Slow())
";

#[test]
fn a_call_that_ends_while_its_first_interrupt_is_prepared_leaves_the_next_one_undisturbed() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        session.run(SLOW_IMPORTS, "slow.py").unwrap();
        // The exception can only be left when the native code is over, and then the call is as well.
        let limit = Duration::from_millis(10);
        let slept = session.with_deadline(limit, || calls.call_method("native", (0.05,)));
        drop(slept);
        let spun = calls.call_method("spin", (0.5,)).unwrap();
        assert_eq!(spun.extract::<f64>().unwrap(), 0.5);
        let outcome = session.with_deadline(limit, || calls.call_method("loop", ()).map(drop));
        assert!(matches!(outcome, Err(Error::Deadline { .. })), "{outcome:?}");
    });
}

#[test]
fn a_handle_interrupts_bytecode_and_the_next_call_is_undisturbed() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let handle = session.interrupt_handle();
        assert!(!handle.interrupt(), "nothing runs");
        for _ in 0..5 {
            let (begun, begin) = mpsc::channel();
            let other = handle.clone();
            let interrupter = thread::spawn(move || {
                begin.recv().unwrap();
                thread::sleep(Duration::from_millis(20));
                let from = Instant::now();
                while !other.interrupt() {}
                from
            });
            begun.send(()).unwrap();
            let error = calls.call_method("loop", ()).unwrap_err();
            let took = interrupter.join().unwrap().elapsed();
            assert!(took < SOON, "{took:?}");
            let Error::Interrupted { traceback } = &error else { panic!("{error:?}") };
            assert!(traceback.contains("in loop"), "{traceback}");
            let expected = "the call was interrupted by a handle of its session (Error::traceback says where it was)";
            assert_eq!(error.to_string(), expected);
            assert_undisturbed(&session);
        }
        drop(calls);
        drop((session, pool));
        assert!(!handle.interrupt());
    });
}

#[test]
fn a_deadline_ends_bytecode_with_an_error_that_has_the_traceback() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let begin = Instant::now();
        let limit = Duration::from_millis(200);
        let error = session.with_deadline(limit, || calls.call_method("loop", ())).unwrap_err();
        assert!(begin.elapsed() >= limit && begin.elapsed() < SOON, "{:?}", begin.elapsed());
        let Error::Deadline { traceback } = &error else { panic!("{error:?}") };
        assert!(traceback.contains("in loop"), "{traceback}");
        let expected = "the call has exceeded its deadline (Error::traceback says where it was; \
                            Session::with_deadline sets the limit)";
        assert_eq!(error.to_string(), expected);
        assert_undisturbed(&session);
        let nested = session.with_deadline(PATIENCE, || {
            session.with_deadline(limit, || calls.call_method("loop", ()))
        });
        assert!(matches!(nested, Err(Error::Deadline { .. })), "{nested:?}");
        let fast = session.with_deadline(PATIENCE, || calls.call_method("spin", (0.001,)));
        assert_eq!(fast.unwrap().extract::<f64>().unwrap(), 0.001);
    });
}

#[test]
fn a_call_that_has_waited_beyond_its_deadline_does_not_begin() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let list = session.eval("[]").unwrap();
        let limit = Duration::from_millis(50);
        // Makes the stacks readable, which takes the GIL once.
        session.with_deadline(PATIENCE, || session.eval("1").map(drop)).unwrap();
        thread::scope(|scope| {
            let other = pool.acquire_on(0).unwrap();
            let (told, tell) = mpsc::channel();
            let busy = scope.spawn(move || {
                let native = other.import("calls").unwrap().getattr("native").unwrap();
                told.send(()).unwrap();
                native.call((1.0,)).map(drop).unwrap();
            });
            tell.recv().unwrap();
            thread::sleep(Duration::from_millis(200));
            let append = || list.call_method("append", (1,)).map(drop);
            let error = session.with_deadline(limit, append).unwrap_err();
            let Error::Deadline { traceback } = &error else { panic!("{error:?}") };
            assert!(traceback.is_empty() && error.traceback().is_none(), "{traceback}");
            let text = error.to_string();
            assert!(text.starts_with("the call did not begin before its deadline: "), "{text}");
            assert!(text.ends_with("on an interpreter of its own: Pool::acquire_timeout)"));
            busy.join().unwrap();
        });
        assert_eq!(list.len().unwrap(), 0);
        assert_undisturbed(&session);
        // A call that has begun is not reported as not begun: ctypes runs no bytecode that would raise.
        let usleep = calls.getattr("usleep").unwrap();
        let limit = Duration::from_millis(200);
        let outcome = begun(&session, limit, || usleep.call((400_000,))?.extract::<i64>());
        let began = match &outcome {
            Ok(_) => true,
            Err(error) => error.traceback().is_some(),
        };
        assert!(began, "{outcome:?}");
        assert_undisturbed(&session);
        let never = session.with_deadline(Duration::MAX, || calls.call_method("spin", (0.001,)));
        assert_eq!(never.unwrap().extract::<f64>().unwrap(), 0.001);
    });
}

#[test]
fn an_exception_that_comes_too_late_is_taken_back() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let (mut late, mut intime) = (0, 0);
        for round in 0..150_u64 {
            let limit = Duration::from_micros(2_000 + round % 10 * 100);
            match session.with_deadline(limit, || calls.call_method("spin", (0.0025,))) {
                Ok(_) => intime += 1,
                Err(Error::Deadline { .. }) => late += 1,
                Err(other) => panic!("{other:?}"),
            }
            calls.call_method("spin", (0.002,)).unwrap();
        }
        assert_undisturbed(&session);
        println!("{late} late, {intime} in time");
    });
}

#[test]
fn code_that_catches_the_exception_gets_it_again() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let limit = Duration::from_millis(100);
        let caught = begun(&session, limit, || calls.call_method("stubborn", (3,))).unwrap();
        let caught: Vec<String> = caught.extract().unwrap();
        assert_eq!(caught, ["Interrupted"; 3]);
        assert_undisturbed(&session);
    });
}

#[test]
fn an_interrupt_passes_through_host_functions_as_what_it_is() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let session = pool.acquire().unwrap();
        let calls = session.import("calls").unwrap();
        let host = session
            .function("host", |session, _| session.import("calls")?.call_method("loop", ()))
            .unwrap();
        let limit = Duration::from_millis(100);
        let outcome = session.with_deadline(limit, || calls.call_method("through", (&host,)));
        assert!(matches!(outcome, Err(Error::Deadline { .. })), "{outcome:?}");
        assert_undisturbed(&session);
    });
}

/// Calls `function(seconds)` with a deadline on the first of two interpreters.
fn stuck_in(function: &'static str) {
    for builder in builders(2) {
        let reports = Arc::new(Mutex::new(Vec::<Stuck>::new()));
        let (told, tell) = mpsc::channel();
        let kept = reports.clone();
        let pool = builder
            .on_stuck(move |stuck| {
                kept.lock().unwrap().push(stuck.clone());
                let _ = told.send(());
            })
            .build();
        let pool = with_module(pool.unwrap());
        let interpreter = &pool.interpreters()[0];
        assert!(!interpreter.is_stuck());
        thread::scope(|scope| {
            let caller = scope.spawn(|| {
                let session = interpreter.session();
                let calls = session.import("calls").unwrap();
                let limit = Duration::from_millis(200);
                let call = || calls.call_method(function, (1.5,));
                let begin = Instant::now();
                let outcome = begun(&session, limit, call).map(|_| ());
                (begin.elapsed(), outcome)
            });
            tell.recv_timeout(PATIENCE).unwrap();
            assert!(interpreter.is_stuck());
            for _ in 0..3 {
                assert_eq!(pool.acquire().unwrap().interpreter().index(), 1);
            }
            let (took, outcome) = caller.join().unwrap();
            assert!(took >= Duration::from_millis(1400), "{took:?}");
            // The exception is raised after the native code, unless the call ends before.
            assert!(matches!(outcome, Ok(()) | Err(Error::Deadline { .. })), "{outcome:?}");
        });
        assert!(!interpreter.is_stuck());
        assert_undisturbed(&interpreter.session());
        let reports = reports.lock().unwrap();
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.index, &*report.interpreter), (0, "interpreter 0"));
        let place = format!(" in {function}");
        assert!(report.stack.lines().last().is_some_and(|line| line.ends_with(&place)));
        assert!(report.lasted < Duration::from_millis(1400), "{:?}", report.lasted);
        assert!(report.to_string().contains("goes on after"), "{report}");
    }
}

#[test]
fn a_call_that_keeps_the_gil_in_native_code_is_reported_with_its_stack() {
    alone(PATIENCE, || stuck_in("native"));
}

#[test]
fn a_call_that_sleeps_is_reported_with_its_stack() {
    alone(PATIENCE, || stuck_in("sleep"));
}

/// Without a free descriptor no child can be read from.
#[test]
fn the_stack_of_a_call_that_has_let_go_of_the_gil_needs_no_child() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let (told, tell) = mpsc::channel();
            let pool = builder.on_stuck(move |stuck| drop(told.send(stuck.clone()))).build();
            let pool = with_module(pool.unwrap());
            let session = pool.acquire().unwrap();
            let calls = session.import("calls").unwrap();
            // The first interrupt's resources exist already.
            session.interrupt_handle();
            let usual = descriptors(0);
            let call = || calls.call_method("sleep", (1.0,));
            let outcome = session.with_deadline(Duration::from_millis(100), call).map(|_| ());
            descriptors(usual);
            assert!(matches!(outcome, Ok(()) | Err(Error::Deadline { .. })), "{outcome:?}");
            let report = tell.recv_timeout(PATIENCE).unwrap();
            assert!(report.stack.lines().all(|line| line.starts_with("  File \"")), "{report}");
            assert!(report.stack.ends_with(" in sleep"), "{report}");
        }
    });
}

/// Sets the limit of file descriptors. The one before.
fn descriptors(most: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is valid.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, most);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        before
    }
}

#[test]
fn stacks_are_read_while_threads_come_go_and_recurse() {
    each_pool_alone(1, |pool| {
        let pool = with_module(pool);
        let interpreter = &pool.interpreters()[0];
        let session = interpreter.session();
        let handle = session.interrupt_handle();
        thread::scope(|scope| {
            let busy = scope.spawn(|| {
                session
                    .run(
                        "
import threading
def down(n):
    return n and down(n - 1)
def churn():
    while True:
        threads = [threading.Thread(target=down, args=(50,)) for _ in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
churn()",
                        "churn.py",
                    )
                    .map(|_| ())
            });
            let mut seen = 0;
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                seen += usize::from(interpreter.stacks().unwrap().contains("in churn"));
            }
            assert!(seen > 10, "{seen}");
            while !busy.is_finished() {
                handle.interrupt();
                thread::sleep(Duration::from_millis(20));
            }
            let outcome = busy.join().unwrap();
            assert!(matches!(outcome, Err(Error::Interrupted { .. })), "{outcome:?}");
        });
        assert_undisturbed(&session);
    });
}
