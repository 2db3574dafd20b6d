//! Interpreters with a ceiling for their memory.

mod pythons;

use hydrozoa::{Error, Session};
use hydrozoa_testkit::alone::alone;
use pythons::builders;
use std::time::Duration;

/// Seconds for one test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const MODULE: &str = "
def large(count):
    return len([bytes(1_000_000) for _ in range(count)])
def small(count):
    return len([(number, str(number)) for number in range(count)])
def growing(count):
    array = bytearray()
    for _ in range(count):
        array += bytes(1_000_000)
    return len(array)
def sub_interpreters(count):
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    for _ in range(count):
        one = interpreters.create()
        interpreters.run_string(one, 'text = [str(number) for number in range(1_000)]')
        interpreters.destroy(one)
    return count
";

fn call(session: &Session, name: &str, count: i64) -> hydrozoa::Result<i64> {
    session.import("eats")?.call_method(name, (count,))?.extract()
}

#[test]
fn python_that_takes_too_much_gets_a_memory_error_and_the_interpreter_goes_on() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let pool = builder.memory_limit(64 << 20).build().unwrap();
            pool.register_module("eats", MODULE).unwrap();
            let [one, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
            for round in 0..20 {
                for (name, modest, much) in
                    [("large", 20, 100), ("small", 10_000, 1_000_000), ("growing", 20, 100)]
                {
                    let error = call(&one, name, much).unwrap_err();
                    let Error::Python { type_name, traceback, .. } = &error else {
                        panic!("{error:?}")
                    };
                    assert_eq!(type_name, "MemoryError", "{name} in round {round}");
                    // Where not even 48 bytes are left, CPython has no traceback.
                    if name != "small" {
                        assert!(traceback.contains(&format!("in {name}")), "{traceback}");
                    }
                    // The exception has the frames, and these what the call has made.
                    drop(error);
                    // The call's memory is free again, and the other interpreter has a ceiling of its own.
                    assert!(call(&one, name, modest).unwrap() >= modest);
                    assert!(call(&other, name, modest).unwrap() >= modest);
                }
            }
        }
    });
}

#[test]
fn the_limit_stays_in_force_when_sub_interpreters_end() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            // CPython keeps arenas of sub-interpreters that have ended, so there is room for some.
            let pool = builder.memory_limit(256 << 20).build().unwrap();
            pool.register_module("eats", MODULE).unwrap();
            let session = pool.acquire().unwrap();
            for round in 0..4 {
                assert_eq!(call(&session, "sub_interpreters", 3).unwrap(), 3, "round {round}");
                assert!(call(&session, "small", 10_000).unwrap() >= 10_000, "round {round}");
                assert!(call(&session, "growing", 20).unwrap() >= 20, "round {round}");
                let error = call(&session, "large", 400).unwrap_err();
                assert!(
                    matches!(&error, Error::Python { type_name, .. } if type_name == "MemoryError"),
                    "round {round}: {error:?}"
                );
            }
        }
    });
}

#[test]
fn an_interpreter_that_cannot_start_below_its_ceiling_says_so() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            for limit in [1, 100_000, 1_000_000] {
                let error = builder.clone().memory_limit(limit).build().unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, Error::Start { .. }), "{text}");
                assert!(text.contains("bytes of memory, and its limit is"), "{text}");
                println!("{text}");
            }
        }
    });
}

#[test]
fn the_memory_that_is_taken_is_told_without_a_limit() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let pool = builder.build().unwrap();
            pool.register_module("keeps", "kept = []\ndef keep(size): kept.append(bytes(size))")
                .unwrap();
            let [one, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
            let taken = |session: &Session| session.interpreter().memory_taken();
            let before = (taken(&one), taken(&other));
            assert!((1 << 20..64 << 20).contains(&before.0), "{before:?}");
            one.import("keeps").unwrap().call_method("keep", (50_000_000,)).unwrap();
            let more = taken(&one) - before.0;
            assert!((50_000_000..55_000_000).contains(&more), "{more}");
            assert_eq!(taken(&other), before.1);
        }
    });
}
