//! Packages and movables without torch, on any Python of the machine.

mod common;

use common::{alone, archive};
use hydrozoa::movable::shared_memory;
use hydrozoa::package::{Archive, PackageError};
use hydrozoa::{Error, Pool, Session};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn pool(interpreters: usize) -> Pool {
    Pool::builder().interpreters(interpreters).build().unwrap()
}

fn load(pool: &Pool, externs: &[&str], records: &[(&str, &[u8])]) -> hydrozoa::Package {
    load_bytes(pool, &archive(externs, records))
}

fn load_bytes(pool: &Pool, bytes: &[u8]) -> hydrozoa::Package {
    pool.load_archive(Archive::from_bytes("test", bytes).unwrap())
}

/// `gc.collect()`, after the interpreter has released objects that other threads dropped.
fn collect(session: &Session) {
    session.interpreter().drain();
    session.import("gc").unwrap().call_method("collect", ()).unwrap();
}

#[test]
fn an_extension_module_for_another_python_is_named_with_what_to_do() {
    let _alone = alone();
    let pool = pool(1);
    let library = "things/_fast.cpython-36m-x86_64-linux-gnu.so";
    let sources: [(&str, &[u8]); 4] = [
        ("things/__init__.py", b""),
        (library, b"\x7fELF"),
        ("plain.py", b"import things._fast"),
        ("named.py", b"from things import _fast"),
    ];
    let package = load(&pool, &[], &sources);
    for module in ["plain", "named", "things._fast"] {
        let session = pool.interpreters()[0].session();
        let error = package.import_module(&session, module);
        let text = error.unwrap_err().to_string();
        let told = [library, "for another Python", "export it again with Python 3."];
        assert!(told.iter().all(|part| text.contains(part)), "{module}: {text}");
    }
}

#[test]
fn a_package_without_torch_loads_where_torch_is_not_imported() {
    let _alone = alone();
    let pool = pool(2);
    let package = load(
        &pool,
        &["sys"],
        &[
            ("m.py", b"import sys\nclass C:\n    def greet(self, name, mark='!'): return f'{self.hello} {name}{mark}'\n    def has_torch(self): return 'torch' in sys.modules\n"),
            ("d/c.pkl", b"\x80\x03cm\nC\n)\x81}X\x05\x00\x00\x00helloX\x02\x00\x00\x00hisb."),
            ("d/t.txt", "grüß".as_bytes()),
        ],
    );
    assert_eq!(package.load_text("d", "t.txt").unwrap(), "grüß");
    assert_eq!(package.load_binary("d", "t.txt").unwrap(), "grüß".as_bytes());
    assert_eq!(package.extern_modules(), ["sys"]);
    let greeter = package.load_pickle("d", "c.pkl").unwrap();
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let object = greeter.to_object(&session).unwrap();
        let text: String = object
            .call_method_kwargs("greet", ("you",), [("mark", "?")])
            .unwrap()
            .extract()
            .unwrap();
        assert_eq!(text, "hi you?");
        assert!(!object.call_method("has_torch", ()).unwrap().extract::<bool>().unwrap());
    }
    let reply = greeter.call_method("greet", ("all",)).unwrap();
    assert_eq!(reply.extract::<String>().unwrap(), "hi all!");
}

#[test]
fn two_packages_with_equal_names_keep_their_code_apart() {
    let _alone = alone();
    let pool = pool(1);
    let one = load(&pool, &[], &[("m.py", b"def f(): return 1\n")]);
    let two = load(&pool, &[], &[("m.py", b"def f(): return 2\n")]);
    let session = pool.acquire().unwrap();
    for (package, expected) in [(&one, 1), (&two, 2), (&one, 1)] {
        let module = package.import_module(&session, "m").unwrap();
        assert_eq!(module.call_method("f", ()).unwrap().extract::<i64>().unwrap(), expected);
    }
    assert!(session.import("m").is_err());
}

#[test]
fn code_sees_only_what_the_package_declares() {
    let _alone = alone();
    let pool = pool(1);
    let package = load(&pool, &[], &[("m.py", b"import json\n")]);
    let session = package.acquire_session().unwrap();
    let error = package.import_module(&session, "m").unwrap_err();
    let Error::Python { type_name, message, traceback, .. } = &error else { panic!("{error}") };
    assert_eq!(type_name, "ModuleNotFoundError");
    assert!(message.contains("json") && message.contains("extern"), "{message}");
    assert!(traceback.contains("import json"), "{traceback}");
}

#[test]
fn a_corrupt_package_is_a_typed_error_and_the_interpreter_goes_on() {
    let _alone = alone();
    let pool = pool(1);
    let missing = pool.load_package("/nonexistent/model.pt").unwrap_err();
    assert!(matches!(&missing, Error::Package(PackageError::Open { .. })));

    let mut bytes =
        archive(&[], &[("m.py", b"x = 1 # to be damaged\n"), ("d/x.pkl", b"\x80\x03K\x01.")]);
    let at = bytes.windows(6).position(|window| window == b"x = 1 ").unwrap();
    bytes[at] = b'y';
    let error = Archive::from_bytes("damaged.pt", &bytes).unwrap_err();
    assert!(matches!(error, PackageError::Checksum { .. }));
    let text = error.to_string();
    assert!(text.contains("damaged.pt") && text.contains("m.py") && text.contains("CRC"), "{text}");

    // The loader checks this record only when Python reads it.
    let mut bytes = archive(&[], &[("d/t.txt", b"to be damaged"), ("d/x.pkl", b"\x80\x03K\x01.")]);
    let at = bytes.windows(6).position(|window| window == b"to be ").unwrap();
    bytes[at] = b'T';
    let package = load_bytes(&pool, &bytes);
    let session = pool.acquire().unwrap();
    let importer = package.importer(&session).unwrap();
    let error = importer.call_method("load_binary", ("d", "t.txt")).unwrap_err();
    assert!(
        matches!(error, Error::Package(PackageError::Checksum { .. }))
            && error.to_string().contains("d/t.txt"),
        "{error}"
    );
    let absent = package.load_pickle("d", "y.pkl").unwrap_err();
    assert!(matches!(&absent, Error::Package(PackageError::NoRecord { .. })));
    let one = package.load_pickle("d", "x.pkl").unwrap();
    assert_eq!(one.to_object(&session).unwrap().extract::<i64>().unwrap(), 1);
}

#[test]
fn dropping_a_package_removes_its_modules_everywhere() {
    let _alone = alone();
    let pool = pool(2);
    let package = load(&pool, &[], &[("m.py", b"class C: pass\n")]);
    let mark = format!("<torch_package_{}>", package.identity());
    for interpreter in pool.interpreters() {
        package.import_module(&interpreter.session(), "m").unwrap();
    }
    drop(package);
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        collect(&session);
        let left: i64 = session
            .eval(&format!("sum(name.startswith('{mark}') for name in __import__('sys').modules)"))
            .unwrap()
            .extract()
            .unwrap();
        assert_eq!(left, 0);
    }
}

/// The class counts how often each interpreter loads it, and how many copies live.
const COUNTED: &[u8] = b"
import time, weakref
loads = 0
alive = weakref.WeakSet()
class Counted:
    def __init__(self): self.payload = [1, 2, 3]
    def __setstate__(self, state):
        global loads
        time.sleep(0.2)
        loads += 1
        alive.add(self)
        self.__dict__.update(state)
    def total(self): return sum(self.payload)
";

fn count(package: &hydrozoa::Package, session: &Session, expression: &str) -> i64 {
    let module = package.import_module(session, "counted").unwrap();
    match expression {
        "loads" => module.getattr("loads").unwrap().extract().unwrap(),
        _ => module.getattr("alive").unwrap().len().unwrap() as i64,
    }
}

#[test]
fn a_module_is_compiled_by_one_interpreter_for_all_of_its_pool() {
    let _alone = alone();
    let pool = pool(3);
    let source: &[u8] =
        b"import b\ndef f():\n    return b.g()\ndef fails():\n    raise ValueError\n";
    let package = load(&pool, &[], &[("a.py", source), ("b.py", b"def g(): return 'g'\n")]);
    let first = pool.acquire_on(0).unwrap();
    let b = package.import_module(&first, "b").unwrap();
    assert_eq!(b.call_method("g", ()).unwrap().extract::<String>().unwrap(), "g");
    // The others compile only code that no interpreter has compiled before.
    let log = "from _hydrozoa import package\ncompiled = []\ndef note(source, file, *rest, **options):\n    \
               compiled.append(file.rpartition('.')[0][-1])\n    return compile(source, file, *rest, **options)\n\
               package.compile = note\n";
    for (index, expected) in [(1, "a"), (2, "")] {
        let session = pool.acquire_on(index).unwrap();
        let log = session.run(log, "log.py").unwrap();
        let a = package.import_module(&session, "a").unwrap();
        assert_eq!(a.call_method("f", ()).unwrap().extract::<String>().unwrap(), "g");
        let compiled: Vec<String> = log.getattr("compiled").unwrap().extract().unwrap();
        assert_eq!(compiled.concat(), expected);
        // Code that another interpreter compiled shows its source.
        let error = a.call_method("fails", ()).unwrap_err();
        let traceback = error.traceback().unwrap();
        assert!(traceback.contains("a.py\", line 5") && traceback.contains("raise ValueError"));
    }
}

#[test]
fn a_movable_loads_once_in_each_interpreter_however_many_threads_ask() {
    let _alone = alone();
    let pool = pool(2);
    let package = load(&pool, &["time", "weakref"], &[("counted.py", COUNTED)]);
    let movable = {
        let session = pool.acquire().unwrap();
        let class = package.import_module(&session, "counted").unwrap().getattr("Counted").unwrap();
        pool.create_movable(&class.call(()).unwrap()).unwrap()
    };
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for index in 0..8 {
            let (movable, pool, start) = (&movable, &pool, &start);
            scope.spawn(move || {
                let session = pool.acquire_on(index % 2).unwrap();
                start.wait();
                // Half of them hold the GIL while they ask.
                let total = if index < 4 {
                    session.with_gil(|| movable.to_object(&session)?.call_method("total", ()))
                } else {
                    movable.to_object(&session).and_then(|object| object.call_method("total", ()))
                };
                assert_eq!(total.unwrap().extract::<i64>().unwrap(), 6);
            });
        }
    });
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        assert_eq!(count(&package, &session, "loads"), 1);
        assert_eq!(count(&package, &session, "alive"), 1);
    }
    // The last handle is dropped while this thread holds one interpreter's GIL.
    let session = pool.acquire_on(0).unwrap();
    session.with_gil(|| drop(movable));
    drop(session);
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        collect(&session);
        assert_eq!(count(&package, &session, "alive"), 0);
    }
}

#[test]
fn unloading_and_using_again_loads_again() {
    let _alone = alone();
    let pool = pool(1);
    let package = load(&pool, &["time", "weakref"], &[("counted.py", COUNTED)]);
    let session = pool.acquire().unwrap();
    let class = package.import_module(&session, "counted").unwrap().getattr("Counted").unwrap();
    let movable = pool.create_movable(&class.call(()).unwrap()).unwrap();
    movable.to_object(&session).unwrap();
    assert!(movable.is_loaded(session.interpreter()));
    movable.unload(&session);
    assert!(!movable.is_loaded(session.interpreter()));
    collect(&session);
    assert_eq!(count(&package, &session, "alive"), 0);
    movable.to_object(&session).unwrap();
    assert_eq!(count(&package, &session, "loads"), 2);
}

#[test]
fn what_cannot_be_pickled_is_a_python_error() {
    let _alone = alone();
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let lambda = session.eval("lambda: 0").unwrap();
    let error = pool.create_movable(&lambda).unwrap_err();
    assert!(matches!(error, Error::Python { .. }), "{error}");
}

#[test]
fn the_pool_prefers_an_interpreter_that_holds_the_movable() {
    let _alone = alone();
    let pool = pool(3);
    let movable = {
        let session = pool.acquire_on(2).unwrap();
        let movable = pool.create_movable(&session.eval("[1, 2]").unwrap()).unwrap();
        movable.to_object(&session).unwrap();
        movable
    };
    assert_eq!(movable.acquire_session().unwrap().interpreter().index(), 2);
    // A busy interpreter is not worth waiting for.
    let busy = pool.acquire_on(2).unwrap();
    assert_ne!(movable.acquire_session().unwrap().interpreter().index(), 2);
    drop(busy);
}

#[test]
fn movables_are_dropped_from_any_thread_without_waiting() {
    let _alone = alone();
    let pool = pool(2);
    let before = shared_memory();
    thread::scope(|scope| {
        for index in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..50 {
                    let session = pool.acquire_on((index + round) % 2).unwrap();
                    let list = session.eval("[bytearray(100) for _ in range(10)]").unwrap();
                    let movable = pool.create_movable(&list).unwrap();
                    drop(list);
                    drop(session);
                    let other = movable.clone();
                    let far = pool.acquire_on((index + round + 1) % 2).unwrap();
                    assert_eq!(other.to_object(&far).unwrap().len().unwrap(), 10);
                    drop(far);
                    thread::spawn(move || drop(other));
                    drop(movable);
                }
            });
        }
    });
    for interpreter in pool.interpreters() {
        collect(&interpreter.session());
    }
    assert_eq!(shared_memory(), before);
}

#[test]
fn storages_that_two_interpreters_ask_for_at_once_are_counted_once_each() {
    const STORAGES: usize = 200;
    let _alone = alone();
    let pool = pool(2);
    let before = shared_memory();
    let records: Vec<(String, Vec<u8>)> =
        (0..STORAGES).map(|number| (format!("{number}.storage"), vec![7; 1000])).collect();
    let records: Vec<(&str, &[u8])> =
        records.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let package = load(&pool, &[], &records);
    let arrived = AtomicUsize::new(0);
    thread::scope(|scope| {
        for index in 0..2 {
            let (pool, package, arrived) = (&pool, &package, &arrived);
            scope.spawn(move || {
                let session = pool.acquire_on(index).unwrap();
                let importer = package.importer(&session).unwrap();
                let storage = importer.getattr("archive").unwrap().getattr("storage").unwrap();
                for number in 0..STORAGES {
                    let name = session.object_from(&format!("{number}.storage")).unwrap();
                    // At the same moment, each under its own GIL.
                    session.with_gil(|| {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        while arrived.load(Ordering::SeqCst) < 2 * (number + 1) {
                            std::hint::spin_loop();
                        }
                        storage.call((&name,)).unwrap();
                    });
                }
            });
        }
    });
    let counted = shared_memory();
    assert_eq!(counted.ranges, before.ranges + STORAGES);
    assert_eq!(counted.bytes, before.bytes + STORAGES * 1000);
    drop(package);
    for interpreter in pool.interpreters() {
        collect(&interpreter.session());
    }
    assert_eq!(shared_memory(), before);
}

#[test]
fn a_sessions_movable_is_its_pools_and_a_miss_is_counted() {
    let _alone = alone();
    let pool = pool(2);
    let movable = {
        let session = pool.acquire_on(1).unwrap();
        session.create_movable(&session.eval("[1, 2, 3]").unwrap()).unwrap()
    };
    assert_eq!(movable.misses().count, 0);
    for (index, count) in [(0, 1), (0, 1), (1, 2), (0, 2)] {
        let session = pool.acquire_on(index).unwrap();
        assert_eq!(movable.to_object(&session).unwrap().len().unwrap(), 3);
        assert_eq!(movable.misses().count, count);
    }
    assert!(movable.misses().time > std::time::Duration::ZERO);
    let (first, second) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
    let foreign = first.create_movable(&second.eval("[]").unwrap());
    assert!(matches!(foreign.unwrap_err(), Error::Foreign { .. }));
}

#[test]
fn an_objects_own_hook_says_how_it_is_made_elsewhere() {
    let _alone = alone();
    let pool = pool(2);
    let source: &[u8] = b"
def make(importer, value):
    return importer.import_module('hook').Hooked(value, 'made by the hook')
class Hooked:
    def __init__(self, value, how='made by the caller'):
        self.value, self.how = value, how
    def __reduce_deploy__(self, importer):
        return make, (self.value,)
    def __reduce__(self):
        raise TypeError('not to be pickled')
";
    let package = load(&pool, &[], &[("hook.py", source)]);
    let movable = {
        let session = pool.acquire_on(0).unwrap();
        let class = package.import_module(&session, "hook").unwrap().getattr("Hooked").unwrap();
        let object = class.call((41,)).unwrap();
        // An object that occurs twice stays one object.
        session.create_movable(&session.object_from(&vec![&object, &object]).unwrap()).unwrap()
    };
    let session = pool.acquire_on(1).unwrap();
    let pair = movable.to_object(&session).unwrap();
    let (one, other) = (pair.get_item(0).unwrap(), pair.get_item(1).unwrap());
    assert!(one.is(&other));
    assert_eq!(one.getattr("value").unwrap().extract::<i64>().unwrap(), 41);
    assert_eq!(one.getattr("how").unwrap().extract::<String>().unwrap(), "made by the hook");
}

#[test]
fn an_archive_opens_from_a_reader_and_its_records_are_found_by_pattern() {
    let bytes = archive(&[], &[("a/b/x.pkl", b"\x80\x03K\x01."), ("a/y.pkl", b"\x80\x03K\x01.")]);
    let archive = Archive::from_reader("read", &bytes[..]).unwrap();
    let found = |pattern: &str| archive.find(pattern).collect::<Vec<_>>();
    assert_eq!(found("a/*.pkl"), ["a/y.pkl"]);
    assert_eq!(found("**/*.pkl"), ["a/b/x.pkl", "a/y.pkl"]);
    assert!(found("[").is_empty());
}

/// Flips, zeroes, cuts out or doubles byte ranges of a small archive, 5,000 times. An archive that opens
/// loads and computes the right result, or the error says what is wrong.
#[test]
fn five_thousand_damaged_archives_give_typed_errors_or_right_results() {
    let _alone = alone();
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let whole = archive(
        &["sys"],
        &[
            ("m.py", b"def f(x):\n    return x * 2 + 1\n"),
            ("d/value.pkl", b"\x80\x03cm\nf\nK\x14\x85R."),
            ("d/t.txt", "some text to be read".as_bytes()),
        ],
    );
    // A linear congruential generator (Knuth's MMIX): the cases are the same in every run.
    let mut state = 20_250_101_u64;
    let mut random = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let (mut opened, mut refused) = (0, 0);
    for case in 0..5000 {
        let mut bytes = whole.clone();
        let at = random(bytes.len());
        let len = (1 + random(16)).min(bytes.len() - at);
        match case % 5 {
            0 => bytes[at] ^= 1 << random(8),
            1 => bytes[at..at + len].fill(0),
            2 => drop(bytes.drain(at..at + len)),
            3 => bytes.truncate(at),
            _ => {
                let range = bytes[at..at + len].to_vec();
                bytes.splice(at..at, range);
            }
        }
        let archive = match Archive::from_bytes("damaged", &bytes) {
            Ok(archive) => archive,
            Err(error) => {
                assert!(error.to_string().contains("damaged"), "case {case}: {error}");
                refused += 1;
                continue;
            }
        };
        opened += 1;
        let package = pool.load_archive(archive);
        match package.load_pickle("d", "value.pkl") {
            Ok(value) => {
                let value: i64 = value.to_object(&session).unwrap().extract().unwrap();
                assert_eq!(value, 41, "case {case}");
            }
            Err(error) => {
                let typed = matches!(error, Error::Package(_) | Error::Python { .. });
                assert!(typed, "case {case}: {error:?}");
            }
        }
        if let Ok(text) = package.load_text("d", "t.txt") {
            assert_eq!(text, "some text to be read", "case {case}");
        }
    }
    println!("{refused} refused when opened, {opened} opened");
    assert!(refused > 1000 && opened > 100, "{refused} refused, {opened} opened");
}
