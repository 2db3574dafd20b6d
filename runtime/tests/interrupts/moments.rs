//! Interrupts at random moments of code that Python relies on: afterwards its locks are free, and it goes on as before.

use crate::pythons::{builders, pools};
use crate::{PATIENCE, SOON};
use hydrozoa::{Error, Pool, Session, Stuck};
use hydrozoa_testkit::alone::alone;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How many interrupts each Python gets for each kind of work. `HYDROZOA_TEST_INTERRUPTS` says another number.
const USUAL: u64 = 100;

/// Work without an end, and a look at what it relies on.
const WORK: &str = "
import _imp, asyncio, importlib, queue, sys, threading, time, weakref

PACKAGE = ('wsgiref', 'wsgiref.util', 'wsgiref.headers', 'xml', 'xml.sax', 'xml.sax.handler', 'colorsys')

def imports():
    while True:
        for name in PACKAGE:
            sys.modules.pop(name, None)
        for name in PACKAGE:
            importlib.import_module(name)

def nothing():
    pass

def threads():
    while True:
        some = [threading.Thread(target=nothing, daemon=True) for _ in range(3)]
        for one in some: one.start()
        for one in some: one.join()

QUEUE = queue.Queue(2)

def queues():
    while True:
        try:
            QUEUE.put(1, timeout=0.0001)
            QUEUE.put(2, timeout=0.0001)
            QUEUE.get()
            QUEUE.get_nowait()
            QUEUE.get(timeout=0.0001)
        except (queue.Empty, queue.Full):
            pass

CONDITION = threading.Condition()
EVENT = threading.Event()
SEMAPHORE = threading.Semaphore(1)

def conditions():
    while True:
        with CONDITION:
            CONDITION.notify_all()
            CONDITION.wait(0.0001)
            nothing()
        EVENT.wait(0.0001)
        EVENT.set()
        EVENT.clear()
        with SEMAPHORE:
            nothing()

LOOP = asyncio.new_event_loop()
LOOP.set_exception_handler(lambda *_: None)

async def ticks():
    while True:
        await asyncio.sleep(0)
        nothing()

def loops():
    LOOP.run_until_complete(ticks())

class Node:
    def __del__(self):
        for _ in range(5): nothing()

def dead(reference):
    for _ in range(5): nothing()

WEAK = weakref.WeakSet()

def finalizers():
    while True:
        node = Node()
        WEAK.add(node)
        reference = weakref.ref(node, dead)
        node = None
        weakref.finalize(nothing.__class__(nothing.__code__, {}), nothing)

IGNORED = []
sys.unraisablehook = lambda one: IGNORED.append(f'{one.exc_value!r} in {one.object!r}')

def free(name, lock):
    # A thread that an interrupted call has started may be at its end just now.
    if not lock.acquire(timeout=5):
        return [f'{name} stays locked']
    lock.release()
    return []

def look(kind):
    # What waits in C code without the GIL may come to a finalizer before CPython looks. The interrupt comes again.
    wrong = [] if kind == 'loops' else list(IGNORED)
    IGNORED.clear()
    if _imp.lock_held():
        return wrong + ['the import lock is held']
    bootstrap = sys.modules['importlib._bootstrap']
    # The thread that interrupts imports as well.
    end = time.monotonic() + 5
    while held := [name for name, lock in list(bootstrap._module_locks.items())
                   if lock() is not None and lock().owner is not None]:
        if time.monotonic() > end:
            wrong.append(f'locks of modules are held: {held}')
            break
        time.sleep(0.001)
    for name in PACKAGE:
        parent, _, child = name.rpartition('.')
        if name in sys.modules and parent in sys.modules and not hasattr(sys.modules[parent], child):
            wrong.append(f'{parent} has no attribute {child}')
    wrong += free('_active_limbo_lock', threading._active_limbo_lock)
    wrong += free('the mutex of the queue', QUEUE.mutex)
    return wrong

def look_closely(kind):
    wrong = look(kind)
    def other():
        # The locks of these belong to the thread that has them.
        wrong.extend(free('the condition', CONDITION))
        wrong.extend(free('the semaphore', SEMAPHORE._cond))
        wrong.extend(free('the event', EVENT._cond))
        sys.modules.pop('sched', None)
        import sched
        done.append(sched.__name__)
    LOOP.run_until_complete(asyncio.sleep(0.001))
    done = []
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    thread.join(20)
    if done != ['sched']:
        wrong.append('another thread does not import')
    if threading._limbo:
        wrong.append(f'threads in limbo: {list(threading._limbo)}')
    return wrong
";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

fn with_work(pool: Pool) -> Pool {
    pool.register_module("work", WORK).unwrap();
    pool
}

fn wrongs(session: &Session, look: &str, kind: &str) -> Vec<String> {
    session.import("work").unwrap().call_method(look, (kind,)).unwrap().extract().unwrap()
}

/// Interrupts one kind of work so many times, by a deadline or by a handle. The longest time from interrupt to end.
fn interrupt(session: &Session, kind: &str, times: u64, random: &mut fastrand::Rng) -> Duration {
    let work = session.import("work").unwrap();
    let handle = session.interrupt_handle();
    let mut longest = Duration::ZERO;
    for time in 0..times {
        let limit = Duration::from_micros(200 + random.u64(..3000));
        let begin = Instant::now();
        let error = if random.u8(..4) > 0 {
            session.with_deadline(limit, || work.call_method(kind, ())).map(drop)
        } else {
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(limit);
                    while !handle.interrupt() {}
                });
                work.call_method(kind, ()).map(drop)
            })
        };
        let took = begin.elapsed().saturating_sub(limit);
        longest = longest.max(took);
        let error = error.unwrap_err();
        let interrupted = matches!(error, Error::Deadline { .. } | Error::Interrupted { .. });
        assert!(interrupted, "{kind}, interrupt {time}: {error:?}");
        let wrong = wrongs(session, "look", kind);
        assert!(
            wrong.is_empty() && took < 4 * SOON,
            "{kind}, interrupt {time}: {wrong:?} after {took:?}\n{error}\n{:?}",
            error.traceback()
        );
    }
    let wrong = wrongs(session, "look_closely", kind);
    assert!(wrong.is_empty(), "{kind}: {wrong:?}");
    longest
}

fn times() -> u64 {
    number("HYDROZOA_TEST_INTERRUPTS", USUAL)
}

fn patience(kinds: u32) -> Duration {
    PATIENCE + Duration::from_millis(100) * u32::try_from(times()).unwrap() * kinds
}

fn stress(kinds: &[&str]) {
    let seed = number("HYDROZOA_TEST_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    for pool in pools(1).map(with_work) {
        let session = pool.acquire().unwrap();
        let version: String = session.eval("__import__('sys').version").unwrap().extract().unwrap();
        for kind in kinds {
            let begin = Instant::now();
            // A loop without work is in the code of asyncio for most of the time.
            let times = if *kind == "loops" { times().div_ceil(4) } else { times() };
            let longest = interrupt(&session, kind, times, &mut random);
            let took = begin.elapsed();
            println!(
                "{}, {kind}: {times} interrupts in {took:.1?}, the longest took {longest:.1?}",
                &version[..4]
            );
        }
    }
}

#[test]
fn interrupts_of_imports_leave_no_lock_held() {
    alone(patience(1), || stress(&["imports"]));
}

#[test]
fn interrupts_of_threads_and_queues_leave_no_lock_held() {
    alone(patience(4), || stress(&["threads", "queues", "conditions", "loops"]));
}

#[test]
fn an_interrupt_is_not_lost_in_a_finalizer() {
    alone(patience(1), || stress(&["finalizers"]));
}

/// Its finalizer takes longer than the call may.
const FINALIZER: &str = "
import sys, time
IGNORED = []
sys.unraisablehook = lambda one: IGNORED.append(repr(one.exc_value))
def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
class Slow:
    def __init__(self, seconds):
        self.seconds = seconds
    def __del__(self):
        spin(self.seconds)
def forever():
    while True:
        pass
def work(seconds):
    slow = Slow(seconds)
    slow = None
    forever()
";

/// Calls `work` with a deadline that passes in a finalizer that takes so long. Returns the exceptions swallowed there, how long
/// the call took, and its reports as stuck.
fn deadline_in_a_finalizer(
    builder: hydrozoa::Builder,
    seconds: f64,
) -> (Vec<String>, Duration, Vec<Stuck>) {
    let reports = Arc::new(Mutex::new(Vec::<Stuck>::new()));
    let kept = reports.clone();
    let pool = builder.on_stuck(move |stuck| kept.lock().unwrap().push(stuck.clone())).build();
    let pool = pool.unwrap();
    pool.register_module("finalizer", FINALIZER).unwrap();
    let session = pool.acquire().unwrap();
    let module = session.import("finalizer").unwrap();
    let limit = Duration::from_millis(50);
    // The modules for the first one are imported.
    session.with_deadline(limit, || module.call_method("forever", ()).map(drop)).unwrap_err();
    let begin = Instant::now();
    let error = session.with_deadline(limit, || module.call_method("work", (seconds,)));
    let took = begin.elapsed();
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error:?}");
    let ignored = module.getattr("IGNORED").unwrap().extract().unwrap();
    // That of the first call may come late.
    let mut reports = reports.lock().unwrap().clone();
    reports.retain(|stuck| stuck.stack.contains("in work"));
    (ignored, took, reports)
}

#[test]
fn a_deadline_in_a_finalizer_is_raised_after_it_and_the_call_is_not_stuck() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let (ignored, took, reports) = deadline_in_a_finalizer(builder, 0.3);
            assert!(ignored.is_empty(), "{ignored:?}");
            assert!(took >= Duration::from_millis(300) && took < SOON, "{took:?}");
            assert!(reports.is_empty(), "{reports:?}");
        }
    });
}

#[test]
fn a_finalizer_that_takes_for_ever_is_interrupted() {
    alone(PATIENCE, || {
        // One by which each of the two ways is taken.
        for builder in builders(1).step_by(2) {
            let (ignored, took, _) = deadline_in_a_finalizer(builder, 1e9);
            assert_eq!(ignored.len(), 1, "{ignored:?}");
            assert!(took >= Duration::from_secs(1) && took < 2 * SOON, "{took:?}");
        }
    });
}
