//! Replicas of small libraries: separate data, shared text, and the semantics of glibc.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use hydrozoa_loader::{
    Class, Decision, Domain, Interposition, Library, Loader, OpenFlags, Policy, current,
};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// Symbols decide what domains share.
pub fn by_symbols() -> Loader {
    let policy = Policy::default().with_last("*", Decision::Symbols, "its symbols decide");
    Loader::builder().policy(policy).build().unwrap()
}

/// Domains that share what needs nothing of theirs.
pub fn sharing(count: usize) -> Vec<Domain> {
    let loader = by_symbols();
    (0..count).map(|index| loader.domain(&format!("domain {index}")).build().unwrap()).collect()
}

pub fn domains(count: usize) -> Vec<Domain> {
    let loader = Loader::builder().build().unwrap();
    (0..count).map(|index| loader.domain(&format!("domain {index}")).build().unwrap()).collect()
}

pub fn open_in(domains: &[Domain], path: &Path) -> Vec<Library> {
    domains.iter().map(|domain| open(domain, path, OpenFlags::NOW).unwrap()).collect()
}

pub fn call(library: &Library, name: &str) -> c_int {
    // SAFETY: the tests call functions that they declare as `int name(void)`.
    let function: extern "C-unwind" fn() -> c_int = unsafe { function(library, name) };
    function()
}

#[test]
fn data_and_bss_are_separate_and_pointers_point_into_the_own_copy() {
    let shop = Workshop::new("data");
    let path = shop.build(
        "libdata.so",
        "static int zero; int one = 1; int *pointer = &one;
         int step(void) { zero++; (*pointer) += 10; return zero * 1000 + one; }
         int own(void) { return pointer == &one; }",
        &[],
    );
    let libraries = open_in(&domains(3), &path);
    assert_eq!(call(&libraries[0], "step"), 1011);
    assert_eq!(call(&libraries[0], "step"), 2021);
    assert_eq!(call(&libraries[1], "step"), 1011);
    assert_eq!(call(&libraries[2], "step"), 1011);
    assert!(libraries.iter().all(|library| call(library, "own") == 1));
}

#[test]
fn opening_again_in_a_domain_returns_the_same_replica() {
    let shop = Workshop::new("again");
    let path = shop.build("libagain.so", "int x;", &[]);
    let domain = &domains(1)[0];
    let first = open(domain, &path, OpenFlags::NOW).unwrap();
    let link = shop.path("link.so");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let second = open(domain, &link, OpenFlags::NOW).unwrap();
    assert_eq!(first.base(), second.base());
    assert_eq!(domain.replicas().len(), 1);
}

#[test]
fn a_library_s_debug_output_says_what_and_where_it_is_in_few_words() {
    let shop = Workshop::new("debug");
    let path = shop.build("libshown.so", "int f(void) { return 1; }", &[]);
    let library = open(&domains(1)[0], &path, OpenFlags::NOW).unwrap();
    let text = format!("{library:?}");
    assert!(text.contains("libshown.so") && text.contains("domain 0"), "{text}");
    assert!(text.contains(&format!("{:#x}", library.base())), "{text}");
    assert!(text.len() < 1000, "{} bytes", text.len());
}

#[test]
fn text_is_mapped_from_the_file_in_every_replica_and_never_written() {
    let shop = Workshop::new("text");
    let path = shop.build("libtext.so", "int f(void) { return 7; }", &[]);
    let libraries = open_in(&domains(4), &path);
    assert!(libraries.iter().all(|library| call(library, "f") == 7));
    let executable = hydrozoa_testkit::libraries::mappings(&path)
        .iter()
        .filter(|line| line.contains(" r-xp "))
        .count();
    assert_eq!(executable, 4);
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let real = path.canonicalize().unwrap();
    let mut in_text = false;
    for line in smaps.lines() {
        // A mapping's own line has its rights in the second column. Its figures follow.
        if let Some(rights) =
            line.split_whitespace().nth(1).filter(|word| word.len() == 4 && word.ends_with('p'))
        {
            in_text = rights == "r-xp" && line.ends_with(real.to_str().unwrap());
        }
        if in_text && line.starts_with("Anonymous:") {
            assert!(line.contains(" 0 kB"), "a text page is private: {line}");
        }
    }
}

#[test]
fn bytes_of_a_library_on_disk_are_provided_by_its_file() {
    let shop = Workshop::new("provided");
    let path = shop.build("libcount.so", "static int n; int next(void) { return ++n; }", &[]);
    let domain = &domains(1)[0];
    assert_eq!(call(&open(domain, &path, OpenFlags::NOW).unwrap(), "next"), 1);
    let inside = path.with_file_name("container.zip").join("libcount.so");
    hydrozoa_loader::provide(&inside, &std::fs::read(&path).unwrap()).unwrap();
    // Once more, as each opening of a container does.
    hydrozoa_loader::provide(&inside, &std::fs::read(&path).unwrap()).unwrap();
    assert!(hydrozoa_loader::provide(&inside, b"other bytes").is_err());
    assert_eq!(call(&open(domain, &inside, OpenFlags::NOW).unwrap(), "next"), 2);
}

#[test]
fn constructors_run_once_per_replica_dependencies_first() {
    let shop = Workshop::new("order");
    shop.build(
        "liborder_log.so",
        "#include <string.h>
         char text[64]; void note(const char *s) { strcat(text, s); } const char *log_text(void) { return text; }",
        &[],
    );
    let leaf = "void note(const char *); __attribute__((constructor)) static void c(void) { note(\"leaf \"); }
                int leaf; ";
    shop.build("liborder_leaf.so", leaf, &["-L{dir}", "-l:liborder_log.so", "-Wl,-rpath,$ORIGIN"]);
    let root = "void note(const char *); extern int leaf; int use(void) { return leaf; }
                __attribute__((constructor(101))) static void a(void) { note(\"early \"); }
                __attribute__((constructor)) static void b(void) { note(\"root \"); }";
    let path = shop.build(
        "liborder_root.so",
        root,
        &["-L{dir}", "-l:liborder_leaf.so", "-l:liborder_log.so", "-Wl,-rpath,$ORIGIN"],
    );
    // Libraries without a domain's symbols would be shared: a rule makes them private.
    let policy = Policy::default().with("*/liborder_*", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    for name in ["one", "two"] {
        let domain = loader.domain(name).build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        // SAFETY: declared as `const char *log_text(void)`.
        let text: extern "C" fn() -> *const c_char = unsafe { function(&library, "log_text") };
        // SAFETY: the library returns its NUL-terminated buffer.
        let text = unsafe { CStr::from_ptr(text()) };
        assert_eq!(text.to_str().unwrap(), "leaf early root ");
        assert_eq!(domain.replicas().len(), 3);
    }
}

#[test]
fn thread_local_data_is_per_replica_and_per_thread() {
    let shop = Workshop::new("tls");
    // Small and zero (arena), initialised (lazy), large and over-aligned (lazy).
    let path = shop.build(
        "libtls.so",
        "#include <stdint.h>
         __thread int zero; __thread int value = 40; static __thread int local = 2;
         __thread char big[100000]; __thread __attribute__((aligned(512))) int wide = 5;
         int bump(void) { zero++; value++; local++; big[99999]++; return zero * 10000 + value * 100 + local * 10 + big[99999]; }
         int aligned(void) { return (uintptr_t)&wide % 512 == 0 && wide == 5; }",
        &[],
    );
    let libraries = open_in(&domains(3), &path);
    for library in &libraries {
        assert_eq!(call(library, "bump"), 10000 + 4100 + 30 + 1);
        assert_eq!(call(library, "bump"), 20000 + 4200 + 40 + 2);
        assert_eq!(call(library, "aligned"), 1);
    }
    std::thread::scope(|scope| {
        for library in &libraries {
            scope.spawn(move || {
                assert_eq!(call(library, "bump"), 10000 + 4100 + 30 + 1);
                assert_eq!(call(library, "aligned"), 1);
            });
        }
    });
    assert_eq!(call(&libraries[0], "bump"), 30000 + 4300 + 50 + 3);
}

#[test]
fn initial_exec_thread_local_data_is_given_from_the_arena() {
    let shop = Workshop::new("ie");
    let path = shop.build(
        "libie.so",
        "static __thread int counter; int next(void) { return ++counter; }",
        &["-ftls-model=initial-exec"],
    );
    let libraries = open_in(&domains(2), &path);
    assert_eq!((call(&libraries[0], "next"), call(&libraries[0], "next")), (1, 2));
    assert_eq!(call(&libraries[1], "next"), 1);
    let (first, second) = (&libraries[0], &libraries[1]);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((call(first, "next"), call(second, "next")), (1, 1)));
    });
}

#[test]
fn system_thread_local_data_is_the_system_s() {
    let shop = Workshop::new("errno");
    let path = shop.build(
        "liberrno.so",
        "#include <errno.h>\n int set(void) { errno = 77; return 0; }",
        &[],
    );
    let library = &open_in(&domains(1), &path)[0];
    call(library, "set");
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
}

#[test]
fn exceptions_cross_replicas_and_are_caught_by_type() {
    let shop = Workshop::new("throw");
    shop.build(
        "libthrower++.so",
        "#include <stdexcept>
         struct Own : std::runtime_error { using std::runtime_error::runtime_error; virtual ~Own(); };
         Own::~Own() {} void thrower(int kind) { if (kind) throw Own(\"own\"); throw 42; }",
        &[],
    );
    let path = shop.build(
        "libcatcher++.so",
        "#include <stdexcept>
         struct Own : std::runtime_error { using std::runtime_error::runtime_error; virtual ~Own(); };
         void thrower(int);
         extern \"C\" int catch_own() { try { thrower(1); } catch (const Own &e) { return e.what()[0]; } catch (...) { return -1; } return 0; }
         extern \"C\" int catch_int() { try { thrower(0); } catch (int value) { return value; } return 0; }
         extern \"C\" int catch_many() { int n = 0; for (int i = 0; i < 1000; i++) n += catch_int() == 42; return n; }",
        &["-L{dir}", "-l:libthrower++.so", "-Wl,-rpath,$ORIGIN"],
    );
    let policy = Policy::default().with("*/libthrower*", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let libraries: Vec<_> = (0..3)
        .map(|index| {
            let domain = loader.domain(&index.to_string()).build().unwrap();
            open(&domain, &path, OpenFlags::NOW).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for library in &libraries {
            scope.spawn(move || {
                assert_eq!(call(library, "catch_own"), c_int::from(b'o'));
                assert_eq!(call(library, "catch_int"), 42);
                assert_eq!(call(library, "catch_many"), 1000);
            });
        }
    });
}

#[test]
fn unique_symbols_are_one_per_domain() {
    let shop = Workshop::new("unique");
    let header = "template <class T> struct Holder { static int value; }; template <class T> int Holder<T>::value = 0;";
    shop.build(
        "libunique_a++.so",
        &format!("{header} extern \"C\" int set_a() {{ return Holder<int>::value = 9; }}"),
        &[],
    );
    let path = shop.build(
        "libunique_b++.so",
        &format!("{header} extern \"C\" int set_a(); extern \"C\" int run_set() {{ return set_a(); }} extern \"C\" int read_b() {{ return Holder<int>::value; }}"),
        &["-L{dir}", "-l:libunique_a++.so", "-Wl,-rpath,$ORIGIN"],
    );
    let policy = Policy::default().with("*/libunique_*", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let open = |name| open(&loader.domain(name).build().unwrap(), &path, OpenFlags::NOW).unwrap();
    let (one, two) = (open("one"), open("two"));
    call(&one, "run_set");
    assert_eq!((call(&one, "read_b"), call(&two, "read_b")), (9, 0));
}

#[test]
fn indirect_functions_are_resolved_from_calls_and_from_data() {
    let shop = Workshop::new("ifunc");
    let path = shop.build(
        "libifunc.so",
        "static int real(void) { return 5; } static int (*pick(void))(void) { return real; }
         int chosen(void) __attribute__((ifunc(\"pick\")));
         int (*table[])(void) = { chosen };
         static int hidden_real(void) { return 6; } static int (*pick2(void))(void) { return hidden_real; }
         static int hidden(void) __attribute__((ifunc(\"pick2\")));
         int run(void) { return chosen() * 100 + table[0]() * 10 + hidden(); }",
        &[],
    );
    for library in open_in(&domains(2), &path) {
        assert_eq!(call(&library, "run"), 556);
        assert_eq!(call(&library, "chosen"), 5);
    }
}

#[test]
fn the_version_that_was_linked_is_the_one_that_is_called() {
    let shop = Workshop::new("versions");
    let map = shop.path("map");
    std::fs::write(&map, "V1 { global: f; local: *; }; V2 { global: f; } V1;").unwrap();
    let old = shop.path("old.map");
    std::fs::write(&old, "V1 { global: f; local: *; };").unwrap();
    // Linked while the library had V1 only, run when it has V1 and V2.
    shop.build(
        "libversioned.so",
        "int f(void) { return 1; }",
        &["-Wl,--version-script={dir}/old.map"],
    );
    let user = shop.build(
        "libuser.so",
        "int f(void); int call_f(void) { return f(); }",
        &["-L{dir}", "-l:libversioned.so", "-Wl,-rpath,$ORIGIN"],
    );
    shop.build(
        "libversioned.so",
        "int f1(void) { return 1; } int f2(void) { return 2; }
         __asm__(\".symver f1,f@V1\"); __asm__(\".symver f2,f@@V2\");",
        &["-Wl,--version-script={dir}/map"],
    );
    let policy = Policy::default().with("*/libversioned*", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let library = open(&loader.domain("one").build().unwrap(), &user, OpenFlags::NOW).unwrap();
    assert_eq!(call(&library, "call_f"), 1);
    // dlsym without a version takes the default, the newest.
    assert_eq!(call(&library, "f"), 2);
}

#[test]
fn packed_relative_relocations_are_applied() {
    let shop = Workshop::new("relr");
    let path = shop.build(
        "librelr.so",
        "int a, b; int *table[200] = { [0] = &a, [1] = &b, [63] = &a, [64] = &b, [199] = &a };
         static int c = 4; static int *own[3] = { &c, &c, &c };
         int check(void) { return *own[0] + *own[2] + (table[63] == &a) + (table[199] == &a); }",
        &["-Wl,-z,pack-relative-relocs", "-Wl,-Bsymbolic"],
    );
    for library in open_in(&domains(2), &path) {
        assert_eq!(call(&library, "check"), 10);
    }
}

#[test]
fn dlopen_and_its_kin_act_for_the_domain_of_their_caller() {
    let shop = Workshop::new("dl");
    let plugin = shop.build("libplugin.so", "static int n; int plugin(void) { return ++n; }", &[]);
    let policy = Policy::default().with("*/libplugin*", Class::Replicate, "test");
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\n
         int exported = 31;
         int load(const char *path) { void *h = dlopen(path, RTLD_NOW); if (!h) return -1;
             int (*f)(void) = dlsym(h, \"plugin\"); return f ? f() : -2; }
         int self(void) { void *h = dlopen(0, RTLD_NOW); int *p = dlsym(h, \"exported\"); return p == &exported; }
         int fails(void) { void *h = dlopen(\"/no/such/file.so\", RTLD_NOW); const char *e = dlerror();
             return !h && e && strstr(e, \"/no/such/file.so\") && !dlerror(); }
         int address(void) { Dl_info i; return dladdr((void *)load, &i) && !strcmp(i.dli_sname, \"load\") && strstr(i.dli_fname, \"libdl_user\"); }
         int bad_mode(void) { return !dlopen(\"libm.so.6\", 0) && dlerror(); }";
    let path = shop.build("libdl_user.so", source, &[]);
    let loader = Loader::builder().policy(policy).build().unwrap();
    for name in ["one", "two"] {
        let domain = loader.domain(name).build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
        // SAFETY: declared as `int load(const char *)`.
        let load: extern "C" fn(*const c_char) -> c_int = unsafe { function(&library, "load") };
        let plugin = std::ffi::CString::new(plugin.to_str().unwrap()).unwrap();
        assert_eq!((load(plugin.as_ptr()), load(plugin.as_ptr())), (1, 2), "{name}");
        for check in ["self", "fails", "address", "bad_mode"] {
            assert_eq!(call(&library, check), 1, "{check} in {name}");
        }
    }
}

#[test]
fn what_is_loaded_is_opened_by_its_name_when_its_file_is_gone() {
    let shop = Workshop::new("gone");
    let path = shop.build("libgone.so", "int value(void) { return 7; }", &[]);
    let asks = shop.build(
        "libasks_for_gone.so",
        "#include <dlfcn.h>\n int run(void) {
             void *library = dlopen(\"libgone.so\", RTLD_NOW);
             int (*value)(void) = library ? (int (*)(void))dlsym(library, \"value\") : 0;
             return value ? value() : -1; }",
        &[],
    );
    let domain = &domains(1)[0];
    open(domain, &path, OpenFlags::NOW).unwrap();
    let library = open(domain, &asks, OpenFlags::NOW).unwrap();
    std::fs::remove_file(&path).unwrap();
    // As under glibc, which compares the name with those of loaded objects before it looks for a file.
    assert_eq!(call(&library, "run"), 7);
}

#[test]
fn a_thread_made_by_a_replica_begins_in_its_domain() {
    extern "C" fn where_am_i() -> c_int {
        current::domain().map_or(-1, |domain| domain.index() as c_int)
    }
    let shop = Workshop::new("threads");
    let path = shop.build(
        "libthreads.so",
        "#include <pthread.h>\n int where_am_i(void); static void *body(void *out) { *(int *)out = where_am_i(); return 0; }
         int in_thread(void) { pthread_t t; int seen = -2; pthread_create(&t, 0, body, &seen); pthread_join(t, 0); return seen; }",
        &[],
    );
    let loader = Loader::builder().build().unwrap();
    for _ in 0..2 {
        // SAFETY: the library declares it as `int where_am_i(void)`.
        let entry = unsafe { Interposition::function(where_am_i as *const c_void) };
        let domain = loader.domain("threads").interpose("where_am_i", entry).build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        assert_eq!(call(&library, "in_thread"), domain.id().index() as c_int);
    }
    assert_eq!(current::domain(), None);
}

#[test]
fn a_closed_domain_runs_its_destructors_and_leaves_no_mapping() {
    let shop = Workshop::new("close");
    let flag = shop.path("flag");
    let path = shop.build(
        "libclose.so",
        &format!(
            "#include <stdio.h>\n#include <stdlib.h>\n
             static void at_exit_handler(void) {{ FILE *f = fopen(\"{0}\", \"a\"); fputs(\"atexit \", f); fclose(f); }}
             __attribute__((constructor)) static void c(void) {{ atexit(at_exit_handler); }}
             __attribute__((destructor)) static void d(void) {{ FILE *f = fopen(\"{0}\", \"a\"); fputs(\"destructor \", f); fclose(f); }}
             int x(void) {{ return 1; }}",
            flag.display()
        ),
        &[],
    );
    let domain = domains(1).remove(0);
    let library = open(&domain, &path, OpenFlags::NOW).unwrap();
    assert_eq!(call(&library, "x"), 1);
    drop(library);
    // SAFETY: no code of the library runs, and nothing refers to it any more.
    unsafe { domain.close() };
    assert_eq!(std::fs::read_to_string(&flag).unwrap(), "destructor atexit ");
    let executable =
        hydrozoa_testkit::libraries::mappings(&path).iter().any(|line| line.contains("r-xp"));
    assert!(!executable, "the text is still mapped");
}

#[test]
fn a_closed_replica_stays_mapped_until_threads_have_destroyed_its_thread_local_objects() {
    let shop = Workshop::new("pinned");
    let flag = shop.path("flag");
    let path = shop.build(
        "libpinned++.so",
        &format!(
            "#include <cstdio>
             struct Kept {{ int value = 7; ~Kept() {{
                 FILE *f = fopen(\"{}\", \"a\"); fputs(\"gone \", f); fclose(f); }} }};
             thread_local Kept kept; extern \"C\" int touch() {{ return kept.value; }}",
            flag.display()
        ),
        &[],
    );
    let domain = domains(1).remove(0);
    let library = open(&domain, &path, OpenFlags::NOW).unwrap();
    let (touched, is_touched) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    // SAFETY: declared as `int touch()`.
    let touch: extern "C-unwind" fn() -> c_int = unsafe { function(&library, "touch") };
    let thread = std::thread::spawn(move || {
        touched.send(touch()).unwrap();
        ends.recv().unwrap();
    });
    assert_eq!(is_touched.recv().unwrap(), 7);
    drop(library);
    // SAFETY: nothing refers to the library but the thread's object, which `close` allows.
    unsafe { domain.close() };
    let text =
        || hydrozoa_testkit::libraries::mappings(&path).iter().any(|line| line.contains("r-xp"));
    assert!(text(), "unmapped under a thread that has to run its destructor");
    assert!(!flag.exists());
    end.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(std::fs::read_to_string(&flag).unwrap(), "gone ");
    assert!(!text(), "still mapped after the last destructor");
}

/// Runs this test binary again for the test `name` alone, with `variable` set.
pub fn in_child(name: &str, variable: &str) -> std::process::Output {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(variable, "1")
        .output()
        .unwrap()
}

#[test]
fn destructors_run_when_the_process_ends_after_atexit_handlers() {
    let variable = "HYDROZOA_LOADER_EXIT_CHILD";
    if std::env::var_os(variable).is_some() {
        let shop = Workshop::new("exit");
        let path = shop.build(
            "libexit.so",
            "#include <stdio.h>\n#include <stdlib.h>\n
             static void handler(void) { fputs(\"handler \", stderr); }
             __attribute__((constructor)) static void c(void) { atexit(handler); }
             __attribute__((destructor)) static void d(void) { fputs(\"destructor \", stderr); }",
            &[],
        );
        open_in(&domains(2), &path);
        drop(shop);
        std::process::exit(5);
    }
    let output =
        in_child("replicas::destructors_run_when_the_process_ends_after_atexit_handlers", variable);
    assert_eq!(output.status.code(), Some(5));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("handler handler destructor destructor "), "{text}");
}

#[test]
fn calling_a_function_that_nobody_defines_names_it_and_ends_the_process() {
    let variable = "HYDROZOA_LOADER_TRAP_CHILD";
    if std::env::var_os(variable).is_some() {
        let shop = Workshop::new("trap");
        let path =
            shop.build("libtrap.so", "int nobody(void); int f(void) { return nobody(); }", &[]);
        let library = open(&domains(1)[0], &path, OpenFlags::LAZY).unwrap();
        drop(shop);
        call(&library, "f");
        unreachable!("the call above does not return");
    }
    let name = "replicas::calling_a_function_that_nobody_defines_names_it_and_ends_the_process";
    let output = in_child(name, variable);
    assert_eq!(output.status.code(), Some(127));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("libtrap.so: undefined symbol: nobody"), "{text}");
}

#[test]
fn an_inspection_tells_class_cost_and_needs_and_loads_nothing() {
    let shop = Workshop::new("inspect");
    let core = shop.build("libinspect_core.so", "int inspected; int f(void) { return 1; }", &[]);
    let user = shop.build(
        "libinspect_user.so",
        "extern int inspected; int *where = &inspected; static __thread int counter = 3;
         char zeros[100000]; int next(void) { return ++counter + zeros[counter]; }
         void nobody(void); void call(void) { nobody(); }",
        &["-L{dir}", "-l:libinspect_core.so", "-Wl,-rpath,$ORIGIN"],
    );
    let loader = by_symbols();
    let domain = loader.domain("inspection").build().unwrap();
    let alone = domain.inspect(&user).unwrap();
    assert_eq!((alone.class, alone.dependencies[0].class), (Class::System, Some(Class::System)));
    open(&domain, &core, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
    let inspection = domain.inspect(&user).unwrap();
    assert_eq!(inspection.class, Class::Replicate);
    assert!(inspection.reason.contains("inspected"), "{}", inspection.reason);
    assert_eq!(inspection.soname, "libinspect_user.so");
    assert_eq!(inspection.tls.unwrap().initialised, 4);
    assert!(inspection.relocations["R_X86_64_64"] > 0, "{:?}", inspection.relocations);
    assert!(inspection.cost.at_most() > 100_000 && inspection.cost.at_load() < 100_000);
    assert!(inspection.cost.at_load() > 0 && inspection.cost.shared > 0);
    let needed = &inspection.dependencies[0];
    assert_eq!(
        (needed.name.as_str(), needed.class),
        ("libinspect_core.so", Some(Class::Replicate))
    );
    assert_eq!(domain.inspect(&core).unwrap().reason, "the domain holds it already");
    assert_eq!(domain.replicas().len(), 1, "the inspection loaded something");
    // An inspection reports a missing library.
    std::fs::remove_file(&core).unwrap();
    let elsewhere = loader.domain("elsewhere").build().unwrap().inspect(&user).unwrap();
    assert_eq!(elsewhere.dependencies[0].path, None);
    assert!(elsewhere.dependencies[0].reason.starts_with("not found; searched: "));
}

#[test]
fn the_data_of_replicas_is_their_variables_and_what_is_read_only_after_relocation() {
    let shop = Workshop::new("ranges");
    let path = shop.build(
        "libranges.so",
        "int variable = 1; int zeros[10000]; static int other; int *const constant = &other;
         int code(void) { return ++other; }",
        &["-Wl,-z,relro,-z,now"],
    );
    let domains = domains(2);
    for (domain, library) in domains.iter().zip(open_in(&domains, &path)) {
        let data = domain.data();
        let data = data.iter().find(|data| data.path == path.canonicalize().unwrap()).unwrap();
        let address = |name: &str| library.symbol(name).unwrap().addr();
        let is_variable = |name| data.variables.iter().any(|range| range.contains(&address(name)));
        let is_constant = |name| data.constants.iter().any(|range| range.contains(&address(name)));
        let found = ["variable", "zeros", "constant", "code"]
            .map(|name| (is_variable(name), is_constant(name)));
        assert_eq!(found, [(true, false), (true, false), (false, true), (false, false)]);
        let ends =
            data.variables.iter().chain(&data.constants).flat_map(|range| [range.start, range.end]);
        assert!(ends.into_iter().all(|end| end % 4096 == 0), "{data:?}");
    }
}
