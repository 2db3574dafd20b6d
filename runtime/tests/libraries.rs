//! Native libraries that interpreters bring: each has its own state in each interpreter, unless a rule shares it. The
//! tests run on every Python of the machine.

mod pythons;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{builders, pools};

/// Copies that run at once.
const COPIES: usize = 3;

/// How often they do.
const ROUNDS: usize = 20;

/// A library without a Python symbol that keeps names. A name can be registered once.
const REGISTRY: &str = "
    #include <string.h>
    static char names[64][32]; static int count;
    int register_name(const char *name) {
        for (int i = 0; i < count; i++) if (!strcmp(names[i], name)) return -1;
        strncpy(names[count], name, 31);
        return count++;
    }";

/// An extension module that registers names with it. It declares the parts of Python's C API that it uses, so that one
/// build serves all versions.
const EXTENSION: &str = r#"
    extern void *PyModule_Create2(void *, int), *PyLong_FromLong(long);
    extern const char *PyUnicode_AsUTF8(void *);
    extern int register_name(const char *);
    static void *enter(void *self, void *name) { return PyLong_FromLong(register_name(PyUnicode_AsUTF8(name))); }
    static struct { const char *name; void *function; int flags; const char *doc; } methods[2] = {
        { "enter", enter, 8 /* METH_O */, 0 } };
    static void *definition[13] = { (void *)1, 0, 0, 0, 0, "typed", 0, (void *)-1, methods };
    void *PyInit_typed(void) { return PyModule_Create2(definition, 1013); }"#;

/// Runs `work` in all interpreters of a pool at once.
fn at_once(pool: &Pool, work: impl Fn(usize, &Session) + Sync) {
    let count = pool.interpreters().len();
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        for index in 0..count {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                let session = pool.acquire_on(index).unwrap();
                barrier.wait();
                work(index, &session);
            });
        }
    });
}

/// A function of the library at `path`, by ctypes.
fn call(session: &Session, path: &Path, function: &str) -> i64 {
    let library = session.import("ctypes").unwrap().call_method("CDLL", (path.to_str().unwrap(),));
    library.unwrap().call_method(function, ()).unwrap().extract().unwrap()
}

#[test]
fn each_interpreter_has_its_own_registry_however_it_loads_it() {
    alone(PATIENCE, || {
        let shop = Workshop::new("registry");
        let registry = shop.build("libregistry.so", REGISTRY, &[]);
        let needs = ["-L{dir}", "-l:libregistry.so", "-Wl,-rpath,$ORIGIN"];
        let extension = shop.build("typed.so", EXTENSION, &needs);
        let code = format!(
            "
import ctypes, sys
sys.path.insert(0, {:?})
import typed
library = ctypes.CDLL({registry:?})
def register(name):
    return typed.enter(name), library.register_name(name.encode())
",
            extension.parent().unwrap()
        );
        for pool in pools(COPIES) {
            at_once(&pool, |_, session| {
                let names = session.run(&code, "registry.py").unwrap();
                let register = names.getattr("register").unwrap();
                for round in 0..ROUNDS {
                    let name = format!("pandas.period.{round}");
                    // The extension's library is the one that ctypes opens, and no other interpreter's.
                    let found: (i64, i64) = register.call((name,)).unwrap().extract().unwrap();
                    assert_eq!(found, (round as i64, -1));
                }
            });
        }
    });
}

#[test]
fn generated_files_that_register_as_they_are_loaded_do_so_in_each_interpreter() {
    alone(PATIENCE, || {
        let shop = Workshop::new("generated");
        shop.build(
            "libdescriptors.so",
            "#include <stdlib.h>
             #include <string.h>
             static const char *files[32]; static int count;
             void add_file(const char *name) {
                 for (int i = 0; i < count; i++) if (!strcmp(files[i], name)) abort();
                 files[count++] = name;
             }
             int file_count(void) { return count; }",
            &[],
        );
        let needs = ["-L{dir}", "-l:libdescriptors.so", "-Wl,-rpath,$ORIGIN"];
        let generated: Vec<_> = (0..ROUNDS)
            .map(|round| {
                let source = format!(
                    "void add_file(const char *); int file_count(void);
                     __attribute__((constructor)) static void begin(void) {{ add_file(\"{round}.proto\"); }}
                     int files(void) {{ return file_count(); }}"
                );
                shop.build(&format!("lib{round}.so"), &source, &needs)
            })
            .collect();
        for pool in pools(COPIES) {
            for (round, path) in generated.iter().enumerate() {
                at_once(&pool, |_, session| {
                    assert_eq!(call(session, path, "files"), round as i64 + 1);
                });
            }
        }
    });
}

#[test]
fn code_that_looks_up_symbols_of_the_process_finds_its_interpreter_s() {
    alone(PATIENCE, || {
        let shop = Workshop::new("jit");
        // As a compiler does that links what it has just compiled. Nothing of it names Python.
        let jit = shop.build(
            "libjit.so",
            "#define _GNU_SOURCE
             #include <dlfcn.h>
             void *find(const char *name) { return dlsym(dlopen(0, RTLD_NOW), name); }",
            &[],
        );
        let code = format!(
            "
import ctypes
library = ctypes.CDLL({jit:?})
library.find.restype = ctypes.c_void_p
found = library.find(b'PyLong_Type')
own = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, 'PyLong_Type'))
same = (found, found == own == id(int))
"
        );
        for pool in pools(COPIES) {
            for _ in 0..ROUNDS {
                let found = Mutex::new(BTreeSet::new());
                at_once(&pool, |_, session| {
                    let names = session.run(&code, "jit.py").unwrap();
                    let (address, is_own): (i64, bool) =
                        names.getattr("same").unwrap().extract().unwrap();
                    assert!(is_own);
                    found.lock().unwrap().insert(address);
                });
                assert_eq!(found.into_inner().unwrap().len(), COPIES);
            }
        }
    });
}

// The rules for these names are adapters'.
#[cfg(feature = "adapters")]
#[test]
fn what_is_bound_to_the_process_exists_once_for_all_interpreters() {
    alone(PATIENCE, || {
        let shop = Workshop::new("bound");
        for pool in pools(COPIES) {
            // The system loader knows a library by its soname, so each version of Python has its own here.
            let version = pool.python().minor();
            for (name, end) in [
                ("libscipy_openblas64_-", ".so"),
                ("libmkl_rt", ".so.3"),
                ("libomp-", ".so.5"),
                ("libcudart-", ".so.12"),
                ("libmpi_", ".so.12"),
                ("libjvm.so.", ""),
            ] {
                let name = format!("{name}{version}{end}");
                let path = shop.build(&name, "static int n; int next(void) { return ++n; }", &[]);
                for index in 0..COPIES {
                    let session = pool.acquire_on(index).unwrap();
                    assert_eq!(call(&session, &path, "next"), index as i64 + 1, "{name}");
                }
            }
        }
    });
}

#[test]
fn rules_of_a_user_share_and_replicate_libraries() {
    alone(PATIENCE, || {
        let shop = Workshop::new("rules");
        for (builder, number) in builders(2).zip(0..) {
            let source = "static int n; int next(void) { return ++n; }";
            let [plain, blas] = ["libplain", "libopenblas-"]
                .map(|name| shop.build(&format!("{name}{number}.so"), source, &[]));
            let counts = |pool: &Pool, path: &Path| {
                [0, 1].map(|index| call(&pool.acquire_on(index).unwrap(), path, "next"))
            };
            let by_default = builder.clone().build().unwrap();
            assert_eq!(counts(&by_default, &plain), [1, 1]);
            // The rule for a BLAS is an adapter's.
            let shared = if cfg!(feature = "adapters") { [1, 2] } else { [1, 1] };
            assert_eq!(counts(&by_default, &blas), shared);
            let ruled = builder.share("*/libplain*.so").replicate("*/libopenblas-*.so");
            let ruled = ruled.build().unwrap();
            assert_eq!(counts(&ruled, &plain), [1, 2]);
            assert_eq!(counts(&ruled, &blas), [1, 1]);
        }
    });
}

/// In plain python the program has one thread, so its child finds all locks free. Digests and contexts are OpenSSL's.
#[test]
fn a_forked_child_finds_no_lock_of_another_interpreter_s_libraries() {
    const USES: &str = "
import hashlib, lzma, os, signal, sqlite3, ssl, zlib
def use():
    hashlib.new('sha3_256', b'a').digest()
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_default_certs()
    lzma.decompress(lzma.compress(zlib.compress(b'a' * 1000)))
    with sqlite3.connect(':memory:') as database:
        database.execute('create table t (x)')
def fork_and_use(times):
    failed = []
    for _ in range(times):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            use()
            os._exit(0)
        failed.append(os.waitpid(child, 0)[1])
    return sum(map(bool, failed))";
    alone(PATIENCE, || {
        for pool in pools(COPIES) {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                for index in 1..COPIES {
                    let (pool, over) = (&pool, &over);
                    scope.spawn(move || {
                        let session = pool.acquire_on(index).unwrap();
                        let work = session.run(USES, "uses.py").unwrap().getattr("use").unwrap();
                        while !over.load(Ordering::Relaxed) {
                            work.call(()).unwrap();
                        }
                    });
                }
                let session = pool.acquire_on(0).unwrap();
                let fork = session.run(USES, "uses.py").unwrap().getattr("fork_and_use").unwrap();
                let failed: i64 = fork.call((40,)).unwrap().extract().unwrap();
                over.store(true, Ordering::Relaxed);
                assert_eq!(failed, 0, "{}", pool.python().minor());
            });
        }
    });
}

/// A library in C++ that keeps what it is given, and throws.
const KEEPS: &str = r#"
    #include <stdexcept>
    #include <string>
    static std::string kept;
    void keep(std::string &&text) { kept = std::move(text); }
    std::string kept_text() { return kept; }
    void forget() { std::string().swap(kept); }
    void refuse(const std::string &text) { throw std::invalid_argument(text); }"#;

/// Its user in an interpreter.
const GIVES: &str = r#"
    #include <stdexcept>
    #include <string>
    void keep(std::string &&);
    std::string kept_text();
    void forget();
    void refuse(const std::string &);
    extern "C" int give() {
        for (int round = 0; round < 200; ++round) keep(std::string(round * 20 + 40, 'a'));
        int length = int(kept_text().size());
        forget();
        try { refuse("no more"); }
        catch (const std::logic_error &error) { length += int(std::string(error.what()).size()); }
        return length;
    }"#;

#[test]
fn a_library_in_cxx_that_a_rule_shares_frees_what_interpreters_hand_over() {
    alone(PATIENCE, || {
        let shop = Workshop::new("keeps");
        shop.build("libkeeps++.so", KEEPS, &[]);
        let gives = shop.build(
            "libgives++.so",
            GIVES,
            &["-L{dir}", "-l:libkeeps++.so", "-Wl,-rpath,{dir}"],
        );
        let builder = builders(COPIES).next().unwrap();
        let pool = builder.share("*/libkeeps++.so").build().unwrap();
        for round in 0..ROUNDS {
            let session = pool.acquire_on(round % COPIES).unwrap();
            assert_eq!(call(&session, &gives, "give"), 199 * 20 + 40 + 7);
        }
    });
}

#[test]
fn a_pattern_that_is_none_is_an_error_that_names_it() {
    for builder in builders(1) {
        let error = builder.share("lib[x.so").build().unwrap_err();
        let Error::Configuration(text) = error else { panic!("{error}") };
        assert!(text.contains("lib[x.so"), "{text}");
    }
}

#[test]
fn static_tls_that_many_copies_use_up_is_an_error_that_says_what_to_do() {
    alone(PATIENCE, || {
        let shop = Workshop::new("static-tls");
        let source =
            "static __thread char block[1000] __attribute__((tls_model(\"initial-exec\")));
                      int next(void) { return ++block[0]; }";
        let library = shop.build("libblock.so", source, &[]);
        let open = format!("__import__('ctypes').CDLL({library:?}).next()");
        let builder = builders(24).next().unwrap();
        let pool = builder.clone().build().unwrap();
        let outcomes: Vec<_> =
            (0..24).map(|index| pool.acquire_on(index).unwrap().eval(&open).map(drop)).collect();
        let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let messages: Vec<String> = refused.map(Error::to_string).collect();
        assert!(!messages.is_empty() && messages.len() < 24, "{}", messages.len());
        for message in messages {
            assert!(message.contains("static TLS") && message.contains("a rule"), "{message}");
        }
        let pool = builder.share("*/libblock.so").build().unwrap();
        for index in 0..24 {
            pool.acquire_on(index).unwrap().eval(&open).unwrap();
        }
    });
}
