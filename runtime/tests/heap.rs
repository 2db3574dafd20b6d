//! An interpreter's memory from malloc: any code may free it, a limit counts it, and an end gives it back.

mod cycling;
mod pythons;

use cycling::{Taken, patience, while_another_serves};
use hydrozoa::{Error, Session};
use hydrozoa_testkit::alone::{alone, alone_with, is_alone};
use hydrozoa_testkit::libraries::Workshop;
use pythons::builders;
use std::ffi::c_long;
use std::path::{Path, PathBuf};

const SOURCE: &str = include_str!("allocating/native.c");

/// A malloc that a program may bring.
const PRELOADED: &str = include_str!("allocating/preloaded.c");

struct Native(PathBuf);

impl Native {
    fn new(shop: &Workshop) -> Self {
        Self(shop.build("libnative.so", SOURCE, &["-Wno-error"]))
    }

    fn ask(&self, session: &Session, call: &str) -> i64 {
        let path: &Path = &self.0;
        let code = format!("__import__('ctypes').CDLL({path:?}).{call}");
        session.eval(&code).unwrap().extract().unwrap()
    }
}

fn is_memory_error(error: &Error) -> bool {
    matches!(error, Error::Python { type_name, .. } if type_name == "MemoryError")
}

#[test]
fn the_c_library_s_functions_enlarge_and_free_an_interpreter_s_blocks() {
    alone(patience(), || {
        let shop = Workshop::new("heap-functions");
        let native = Native::new(&shop);
        for builder in builders(2) {
            let pool = builder.build().unwrap();
            for index in [0, 1, 0] {
                let session = pool.acquire_on(index).unwrap();
                // The line in the source that has found something wrong.
                assert_eq!(native.ask(&session, "the_c_library_enlarges()"), 0);
                assert_eq!(native.ask(&session, "each_function_gives_memory()"), 0);
            }
        }
    });
}

#[test]
fn the_limit_counts_what_libraries_take_from_malloc() {
    alone(patience(), || {
        let shop = Workshop::new("heap-limit");
        let native = Native::new(&shop);
        for builder in builders(2) {
            let pool = builder.memory_limit(96 << 20).build().unwrap();
            let [one, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
            for _ in 0..10 {
                let got = native.ask(&one, "takes(500, 0)");
                assert!((64..96).contains(&got), "{got}");
            }
            // Python's objects cannot have a library's memory.
            let got = native.ask(&one, "takes(60, 1)");
            assert_eq!(got, 60);
            assert!(is_memory_error(&one.eval("len(bytes(60 << 20))").err().unwrap()));
            assert_eq!(
                one.eval("len(bytes(10 << 20))").unwrap().extract::<i64>().unwrap(),
                10 << 20
            );
            assert_eq!(native.ask(&other, "takes(60, 0)"), 60);
        }
    });
}

#[test]
fn what_a_library_leaks_goes_with_its_interpreter() {
    alone(patience(), || {
        let shop = Workshop::new("heap-leaks");
        let native = Native::new(&shop);
        let builder = builders(1).next().unwrap();
        while_another_serves(&builder, || {
            let cycle = || {
                let pool = builder.clone().build().unwrap();
                let session = pool.acquire().unwrap();
                assert_eq!(native.ask(&session, "small_ones(600)"), 600);
                assert_eq!(native.ask(&session, "takes(1, 1)"), 1);
            };
            (0..4).for_each(|_| cycle());
            let before = Taken::now();
            (0..100).for_each(|_| cycle());
            Taken::now().assert_bounded(before, 100, 20 << 10);
        });
    });
}

#[test]
fn an_interpreter_s_memory_is_the_sum_of_what_its_libraries_take() {
    alone(patience(), || {
        let shop = Workshop::new("heap-memory");
        let native = Native::new(&shop);
        let pool = builders(2).next().unwrap().build().unwrap();
        let [one, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
        let both = || [&one, &other].map(|session| session.interpreter().memory().unwrap());
        native.ask(&one, "keeps(1)");
        let before = both();
        native.ask(&one, "takes(20, 1)");
        native.ask(&one, "keeps(3 << 20)");
        native.ask(&one, "small_ones(5000)");
        let after = both();
        let more = [0, 1].map(|index| after[index].native_heap - before[index].native_heap);
        // In whole pages. A block of 1,000 bytes takes 1,008.
        let taken: u64 = (23 << 20) + 5000 * 1008;
        assert!(more[0].abs_diff(taken) < 256 << 10, "{more:?} {taken} {}", after[0]);
        assert_eq!(more[1], 0, "{}", after[1]);
        // Nothing of it is the process's.
        let rest = after[0].unattributed() as i64 - before[0].unattributed() as i64;
        assert!(rest.abs() < 1 << 20, "{rest}");
    });
}

#[test]
fn memory_that_a_library_keeps_is_settled() {
    alone(patience(), || {
        let shop = Workshop::new("heap-settled");
        let native = Native::new(&shop);
        let pool = builders(1).next().unwrap().build().unwrap();
        let interpreter = pool.interpreters()[0].clone();
        let session = interpreter.session();
        native.ask(&session, "small_ones(20000)");
        native.ask(&session, "keeps(3 << 20)");
        let before = interpreter.memory().unwrap().native_heap;
        assert!(before > 23_000_000, "{before}");
        interpreter.settle(std::env::temp_dir()).unwrap();
        let after = interpreter.memory().unwrap().native_heap;
        assert!(after * 10 < before, "{before} -> {after}");
        assert_eq!(native.ask(&session, "is_kept(3 << 20)"), 1);
        native.ask(&session, "small_ones(20000)");
        assert_eq!(native.ask(&session, "the_c_library_enlarges()"), 0);
    });
}

#[test]
fn a_malloc_that_the_program_brings_is_the_program_s_and_sees_no_block_of_an_interpreter() {
    let shop = Workshop::new("heap-preloaded");
    let library = if is_alone() {
        PathBuf::new()
    } else {
        shop.build("libpreloaded.so", PRELOADED, &["-fno-builtin"])
    };
    alone_with(patience(), &[("LD_PRELOAD", library.into())], || {
        let calls = || {
            // SAFETY: the library that the process began with has the function.
            unsafe {
                let found = libc::dlsym(libc::RTLD_DEFAULT, c"preloaded_calls".as_ptr());
                assert!(!found.is_null());
                std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_long>(found)()
            }
        };
        let before = calls();
        drop(std::hint::black_box(vec![1_u8; 1000]));
        assert!(calls() > before);
        let native = Native::new(&shop);
        let pool = builders(2).next().unwrap().build().unwrap();
        for index in [0, 1] {
            let session = pool.acquire_on(index).unwrap();
            assert_eq!(native.ask(&session, "the_c_library_enlarges()"), 0);
            assert_eq!(native.ask(&session, "each_function_gives_memory()"), 0);
            native.ask(&session, "small_ones(1)");
            let before = calls();
            native.ask(&session, "small_ones(20000)");
            // The host takes some for the call itself.
            assert!(calls() - before < 2000, "{}", calls() - before);
        }
    });
}
