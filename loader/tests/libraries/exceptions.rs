//! Exceptions that code of libraries throws where no caller of C++ can catch them: typed errors from a load, the
//! end that C++ has for uncaught exceptions elsewhere. They never reach a frame of Rust.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::atomic::AtomicI32;
use std::thread;

use hydrozoa_loader::{Class, Error, Loader, OpenFlags, Policy};
use hydrozoa_testkit::alone::{PATIENCE, alone_with};
use hydrozoa_testkit::libraries::{Workshop, function, open};

use super::replicas::{call, domains};

fn exception_of(result: Result<hydrozoa_loader::Library, Error>) -> (String, String) {
    match result {
        Err(Error::Exception { object, exception }) => {
            (object.file_name().unwrap().to_string_lossy().into_owned(), exception)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_constructor_s_exception_is_an_error_with_its_type_and_its_text() {
    let shop = Workshop::new("constructor-throws");
    let path = shop.build(
        "libfails++.so",
        "#include <stdexcept>
         #include <exception>
         struct Failure : std::runtime_error { Failure() : runtime_error(\"no device\") {} };
         int runs;
         __attribute__((constructor)) static void begin() { runs++; throw Failure(); }
         __attribute__((constructor(65535))) static void later() { runs += 100; }
         extern \"C\" int uncaught() { return std::uncaught_exceptions(); }",
        &[],
    );
    let counts = shop.build(
        "libcounts++.so",
        "#include <exception>
         extern \"C\" int uncaught() { return std::uncaught_exceptions(); }",
        &[],
    );
    let expected = || ("libfails++.so".to_owned(), "Failure: no device".to_owned());
    for domain in domains(3) {
        assert_eq!(exception_of(open(&domain, &path, OpenFlags::NOW)), expected());
        assert_eq!(exception_of(open(&domain, &path, OpenFlags::NOW)), expected(), "again");
        let noload = OpenFlags::NOW | OpenFlags::NOLOAD;
        assert_eq!(exception_of(open(&domain, &path, noload)), expected());
        // To C++ the exception was caught, and other libraries load.
        assert_eq!(call(&open(&domain, &counts, OpenFlags::NOW).unwrap(), "uncaught"), 0);
    }
}

#[test]
fn exceptions_of_any_kind_are_named() {
    let shop = Workshop::new("kinds");
    let cases = [
        ("throw 7;", "int"),
        ("throw \"text\";", "char const*"),
        ("struct Local {}; throw Local();", "begin()::Local"),
        ("throw Both();", "Both"),
        (
            "std::rethrow_exception(std::make_exception_ptr(std::logic_error(\"again\")));",
            "std::logic_error: again",
        ),
        (
            "try { throw std::bad_alloc(); } catch (...) { throw; }",
            "std::bad_alloc: std::bad_alloc",
        ),
        (
            "std::string().at(5);",
            "std::out_of_range: basic_string::at: __n (which is 5) >= this->size() (which is 0)",
        ),
    ];
    let domain = &domains(1)[0];
    for (index, (body, expected)) in cases.into_iter().enumerate() {
        let source = format!(
            "#include <exception>\n#include <stdexcept>\n#include <string>\n#include <new>
             struct Other {{ virtual ~Other() {{}} }}; struct Both : Other, std::exception {{}};
             __attribute__((constructor)) static void begin() {{ {body} }}"
        );
        let path = shop.build(&format!("libkind{index}++.so"), &source, &["-fno-builtin"]);
        let (_, exception) = exception_of(open(domain, &path, OpenFlags::NOW));
        assert_eq!(exception, expected);
    }
}

#[test]
fn what_needs_a_library_whose_constructor_has_thrown_is_refused_with_the_same_error() {
    let shop = Workshop::new("needs-failed");
    shop.build(
        "libfails++.so",
        "__attribute__((constructor)) static void begin() { throw 1; }
         extern \"C\" int fails() { return 1; }",
        &[],
    );
    let options = ["-L{dir}", "-l:libfails++.so", "-Wl,-rpath,$ORIGIN"];
    let source = "int fails(void); int runs; __attribute__((constructor)) static void begin(void) { runs++; }
                  int user(void) { return fails() + runs; }";
    let users = ["libfirst.so", "libsecond.so"].map(|name| shop.build(name, source, &options));
    let fine = shop.build("libfine.so", "int fine(void) { return 5; }", &[]);
    for class in [Class::Replicate, Class::Commons] {
        let policy = Policy::default().with("*/libfails++.so", class, "test");
        let loader = Loader::builder().policy(policy).build().unwrap();
        for domain in [1, 2].map(|_| loader.domain("user").build().unwrap()) {
            for path in users.iter().chain(&users) {
                let (object, exception) = exception_of(open(&domain, path, OpenFlags::NOW));
                assert_eq!((&*object, &*exception), ("libfails++.so", "int"));
            }
            assert_eq!(call(&open(&domain, &fine, OpenFlags::NOW).unwrap(), "fine"), 5);
        }
    }
}

#[test]
fn an_exception_of_a_callback_passes_through_dl_iterate_phdr() {
    let shop = Workshop::new("iterate-throws");
    let path = shop.build(
        "libiterates++.so",
        "#include <link.h>
         static int look(dl_phdr_info *, size_t, void *left) { if (--*(int *)left == 0) throw 42; return 0; }
         extern \"C\" int iterate(int after) {
             try { dl_iterate_phdr(look, &after); } catch (int n) { return n; } return after; }",
        &[],
    );
    for domain in domains(2) {
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        // SAFETY: declared so in the source above.
        let iterate: extern "C-unwind" fn(c_int) -> c_int =
            unsafe { function(&library, "iterate") };
        assert_eq!(iterate(1), 42, "among the system's objects");
        let count = -(iterate(0));
        // Other tests load and close meanwhile; this library may not be the last one, but it is there.
        assert_eq!(iterate(count.min(6)), 42);
    }
}

/// glibc holds a lock, and unwinders rely on it.
#[test]
fn callbacks_of_dl_iterate_phdr_never_run_at_once() {
    let shop = Workshop::new("iterate-alone");
    let path = shop.build(
        "libiteratesalone.so",
        "#define _GNU_SOURCE
         #include <link.h>
         #include <sched.h>
         struct seen { int inside, overlaps; };
         static int look(struct dl_phdr_info *info, size_t size, void *data) {
             struct seen *seen = data;
             if (__atomic_fetch_add(&seen->inside, 1, __ATOMIC_SEQ_CST)) __atomic_fetch_add(&seen->overlaps, 1, __ATOMIC_SEQ_CST);
             sched_yield();
             __atomic_fetch_sub(&seen->inside, 1, __ATOMIC_SEQ_CST);
             return 0; }
         void iterate(struct seen *seen) { for (int i = 0; i < 200; i++) dl_iterate_phdr(look, seen); }",
        &[],
    );
    let seen = [0, 0].map(AtomicI32::new);
    let domains = domains(2);
    let libraries: Vec<_> =
        domains.iter().map(|domain| open(domain, &path, OpenFlags::NOW).unwrap()).collect();
    thread::scope(|scope| {
        for library in libraries.iter().chain(&libraries) {
            // SAFETY: declared so in the source above.
            let iterate: extern "C-unwind" fn(*const AtomicI32) =
                unsafe { function(library, "iterate") };
            let seen = &seen;
            scope.spawn(move || iterate(seen.as_ptr()));
        }
    });
    assert_eq!(seen.map(AtomicI32::into_inner), [0, 0]);
}

/// Code that uncaught exceptions end: the name of a function of `SOURCE`, and the line before that of C++.
const ENDS: [(&str, &str); 4] = [
    ("in_thread", "the start routine of a thread threw an exception"),
    ("in_destructor", "a destructor threw an exception"),
    ("in_fork", "a handler of fork threw an exception"),
    ("in_thread_destructor", "a thread's destructor threw an exception"),
];

const SOURCE: &str = "
    #include <pthread.h>
    #include <unistd.h>
    #include <stdexcept>
    static bool fails;
    [[noreturn]] static void fail() { throw std::domain_error(\"never caught\"); }
    static void *start(void *) { fail(); }
    static void at_fork() { if (fails) fail(); }
    struct Late { ~Late() noexcept(false) { if (fails) fail(); } };
    static thread_local Late late;
    static void *touch(void *) { (void)*(volatile char *)&late; return nullptr; }
    static void run(void *(*routine)(void *)) { pthread_t t; pthread_create(&t, 0, routine, 0); pthread_join(t, 0); }
    __attribute__((destructor)) static void end() { if (fails) fail(); }
    extern \"C\" {
    int in_thread() { run(start); return 0; }
    int in_destructor() { fails = true; return 0; }
    int in_fork() { fails = true; pthread_atfork(at_fork, nullptr, nullptr); fork(); return 0; }
    int in_thread_destructor() { fails = true; run(touch); return 0; }
    }";

const WHAT: &str = "HYDROZOA_TEST_EXCEPTION";

#[test]
fn an_exception_that_nobody_can_catch_ends_the_process_as_c_plus_plus_ends_it() {
    for (what, line) in ENDS {
        // In its own process, the exception ends the process. Here, the panic shows the output.
        let outcome = catch_unwind(|| {
            alone_with(PATIENCE, &[(WHAT, what.into())], || {
                throw_where_nobody_catches();
            });
        });
        let Err(panic) = outcome else { panic!("{what}: the exception was caught") };
        let text = panic.downcast::<String>().unwrap();
        let expected = "terminate called after throwing an instance of 'std::domain_error'";
        assert!(text.contains(line) && text.contains(expected), "{what}: {text}");
        assert!(text.contains("what():  never caught"), "{what}: {text}");
        assert!(text.contains("signal: 6"), "{what}: {text}");
    }
}

fn throw_where_nobody_catches() {
    let what = std::env::var(WHAT).unwrap();
    let shop = Workshop::new("ends");
    let path = shop.build("libends++.so", SOURCE, &["-pthread"]);
    let library = open(&domains(1)[0], &path, OpenFlags::NOW).unwrap();
    drop(shop);
    call(&library, &what);
    if what == "in_destructor" {
        // SAFETY: nothing of the test harness relies on what its exit handlers do.
        unsafe { libc::exit(0) };
    }
}
