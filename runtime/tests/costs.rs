//! The cost of a call beside its own work. The tests compare the shortest rounds of one run as ratios:
//! other work of the machine only makes rounds longer.

mod pythons;

use hydrozoa::{Movable, Pool};
use pythons::{builders, pools};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The shortest time of each action. The actions take turns.
fn shortest<const N: usize>(mut actions: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut shortest = [Duration::MAX; N];
    for _ in 0..60 {
        for (action, shortest) in actions.iter_mut().zip(&mut shortest) {
            let begin = Instant::now();
            for _ in 0..100 {
                action();
            }
            *shortest = begin.elapsed().min(*shortest);
        }
    }
    shortest
}

fn newest(interpreters: usize) -> Pool {
    builders(interpreters).last().unwrap().build().unwrap()
}

/// A movable that does almost nothing, loaded in every interpreter of its pool.
fn movable(pool: &Pool) -> Movable {
    let session = pool.acquire_on(0).unwrap();
    let object = session.import("operator").unwrap().getattr("not_").unwrap();
    let movable = pool.create_movable(&object).unwrap();
    drop(object);
    drop(session);
    for interpreter in pool.interpreters() {
        movable.to_object(&interpreter.session()).unwrap();
    }
    movable
}

#[test]
fn the_choice_among_many_interpreters_costs_no_more_than_of_one() {
    let (one, many) = (newest(1), newest(32));
    let (alone, chosen) = (movable(&one), movable(&many));
    let [alone, chosen] =
        shortest([&mut || drop(black_box(alone.call((1,)).unwrap())), &mut || {
            drop(black_box(chosen.call((1,)).unwrap()))
        }]);
    assert!(chosen < alone * 8 / 5, "{chosen:?} of 32, {alone:?} of 1");
}

/// Python's frames lie in chunks of 16 KiB. At some depth of calls the next frame is the first one of a chunk.
const CHUNKS: &str = "
import resource

def leaf():
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = s = t = 1

def at(depth):
    if depth:
        return at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(500):
        leaf()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

worst = max(at(depth) for depth in range(600))
";

/// In plain python each call faults there.
#[test]
fn a_loop_of_calls_maps_no_memory_wherever_python_s_stack_ends() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let names = session.run(CHUNKS, "chunks.py").unwrap();
        let worst: i64 = names.getattr("worst").unwrap().extract().unwrap();
        assert!(worst < 100, "{worst} faults in 500 calls on {:?}", pool.interpreters()[0]);
    }
}

#[test]
fn a_result_is_taken_in_the_turn_of_its_call() {
    let pool = newest(1);
    let movable = movable(&pool);
    let [apart, together] = shortest([
        &mut || assert!(!movable.call((1,)).unwrap().extract::<bool>().unwrap()),
        &mut || assert!(!movable.call_extract::<bool>((1,)).unwrap()),
    ]);
    assert!(together * 20 < apart * 19, "{together:?} together, {apart:?} apart");
}

#[test]
fn a_module_that_is_imported_is_found_at_once() {
    let pool = newest(1);
    let session = pool.acquire().unwrap();
    let module = session.import("collections").unwrap();
    session.with_gil(|| {
        let [attribute, import] =
            shortest([&mut || drop(black_box(module.getattr("deque").unwrap())), &mut || {
                drop(black_box(session.import("collections.abc").unwrap()))
            }]);
        assert!(import < attribute * 2, "{import:?} to import, {attribute:?} for an attribute");
    });
}

#[test]
fn whoever_holds_the_gil_takes_it_at_a_fraction_of_its_cost() {
    let pool = newest(1);
    let session = pool.acquire().unwrap();
    let [outside] = shortest([&mut || session.with_gil(|| ())]);
    let [inside] = session.with_gil(|| shortest([&mut || session.with_gil(|| ())]));
    assert!(inside * 2 < outside, "{inside:?} inside, {outside:?} outside");
}

#[test]
fn an_object_that_is_kept_is_attached_at_the_cost_of_a_reference() {
    let pool = newest(1);
    let session = pool.acquire().unwrap();
    let object = session.eval("object()").unwrap();
    let handle = object.keep();
    session.with_gil(|| {
        let [cloned, attached] = shortest([&mut || drop(black_box(object.clone())), &mut || {
            drop(black_box(handle.attach(&session).unwrap()))
        }]);
        assert!(attached < cloned * 2, "attached in {attached:?}, cloned in {cloned:?}");
    });
}
