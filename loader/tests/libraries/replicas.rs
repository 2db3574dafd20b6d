//! Replicas of small libraries: shared text, ends, inspection. The oracle (`cargo xtask linker`) has the cases in which
//! replicas behave as under glibc.

use std::ffi::{c_int, c_void};
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

/// Domains that share libraries which need nothing of theirs.
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
    let word = if cfg!(target_arch = "x86_64") { "R_X86_64_64" } else { "R_AARCH64_ABS64" };
    assert!(inspection.relocations[word] > 0, "{:?}", inspection.relocations);
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
