//! Objects that exist once beside replicas: those of the system, of the program and of the commons.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::process::Command;

use crate::replicas::{by_symbols, call, open_in, sharing};
use hydrozoa_loader::{Class, Error, Library, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, function, open};

#[test]
fn a_unique_symbol_of_the_system_s_is_the_one_that_the_system_uses() {
    let shop = Workshop::new("unique-system");
    let header = "template <class T> struct Holder { static int value; }; template <class T> int Holder<T>::value = 0;
        extern \"C\" int *";
    let build = |name: &str, function: &str, arguments: &[&str]| {
        let source = format!("{header} {function}() {{ return &Holder<int>::value; }}");
        shop.build(name, &source, arguments)
    };
    let first = build("libfirst++.so", "first", &[]);
    build("libsecond++.so", "second", &[]);
    let user = build(
        "libuser++.so",
        "own",
        &["-L{dir}", "-Wl,--no-as-needed", "-l:libsecond++.so", "-Wl,-rpath,$ORIGIN"],
    );
    // Neither library needs the other. The one that is opened first provides the definition for all.
    let name = CString::new(first.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours, whose constructors do nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    // SAFETY: `int *first(void)` of the library that was just opened.
    let first: extern "C" fn() -> usize =
        unsafe { std::mem::transmute(libc::dlsym(handle, c"first".as_ptr())) };
    let library = open(&sharing(1)[0], &user, OpenFlags::NOW).unwrap();
    // SAFETY: declared as `int *own(void)` and `int *second(void)`.
    let (own, second): (extern "C" fn() -> usize, extern "C" fn() -> usize) =
        unsafe { (function(&library, "own"), function(&library, "second")) };
    assert_eq!(second(), first());
    assert_eq!(own(), first());
}

#[test]
fn dlsym_finds_the_unique_definition_that_references_are_bound_to() {
    let shop = Workshop::new("unique-by-name");
    let header = "template <class T> struct Cell { static int value; }; template <class T> int Cell<T>::value = 0;
        extern \"C\" int *";
    let build = |name: &str, function: &str, arguments: &[&str]| {
        let source = format!("{header} {function}() {{ return &Cell<int>::value; }}");
        shop.build(name, &source, arguments)
    };
    // The system loader loads it, once for all domains.
    build("libof_system++.so", "of_system", &[]);
    let user = build(
        "libof_domain++.so",
        "of_domain",
        &["-L{dir}", "-Wl,--no-as-needed", "-l:libof_system++.so", "-Wl,-rpath,$ORIGIN"],
    );
    let library = open(&sharing(1)[0], &user, OpenFlags::NOW).unwrap();
    // SAFETY: declared as `int *of_domain(void)`.
    let bound: extern "C" fn() -> usize = unsafe { function(&library, "of_domain") };
    assert_eq!(library.symbol("_ZN4CellIiE5valueE").unwrap() as usize, bound());
}

#[test]
fn an_inspection_keeps_nothing_of_the_system_loaded() {
    let shop = Workshop::new("inspected");
    let plain = shop.build("libplain.so", "int plain(void) { return 1; }", &[]);
    let user = shop.build(
        "libinspected.so",
        "int plain(void); int run(void) { return plain(); }",
        &["-L{dir}", "-l:libplain.so", "-Wl,-rpath,$ORIGIN"],
    );
    let name = CString::new(plain.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours, without constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    let inspection = sharing(1)[0].inspect(&user).unwrap();
    assert_eq!(inspection.dependencies[0].class, Some(Class::System));
    // SAFETY: the handle is open, and nothing refers to the library.
    unsafe { libc::dlclose(handle) };
    // SAFETY: as above; nothing is loaded.
    let still = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    assert!(still.is_null(), "the program has closed it, and nothing else needs it");
}

/// Builds a library that needs another. That one names nothing in DT_NEEDED, and works only beside a
/// library that defines `provided`.
fn leaning(shop: &Workshop) -> PathBuf {
    shop.build("libprovider.so", "int provided = 40;", &[]);
    shop.build(
        "libleaning.so",
        "extern int provided; int lean(void) { return provided + 2; }",
        &[],
    );
    shop.build(
        "libbrings.so",
        "int lean(void); int run(void) { return lean(); }",
        &[
            "-L{dir}",
            "-l:libleaning.so",
            "-l:libprovider.so",
            "-Wl,--no-as-needed",
            "-l:libprovider.so",
            "-Wl,-rpath,$ORIGIN",
        ],
    )
}

#[test]
fn a_dependency_that_counts_on_its_users_scope_is_replicated_with_them() {
    let shop = Workshop::new("leaning");
    let path = leaning(&shop);
    let domains = sharing(2);
    for library in open_in(&domains, &path) {
        assert_eq!(call(&library, "run"), 42);
    }
    assert_eq!(domains[1].replicas().len(), 2, "{:?}", domains[1].replicas());
}

#[test]
fn the_language_of_messages_says_nothing_about_what_is_replicated() {
    let variable = "HYDROZOA_LOADER_TRANSLATED";
    let Some(catalogues) = std::env::var_os(variable) else {
        let shop = Workshop::new("translated");
        let folder = shop.path("xx/LC_MESSAGES");
        std::fs::create_dir_all(&folder).unwrap();
        let catalogue = catalogue("undefined symbol: provided", "Symbol nicht definiert");
        std::fs::write(folder.join("libc.mo"), catalogue).unwrap();
        let name = "shared::the_language_of_messages_says_nothing_about_what_is_replicated";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(variable, shop.path(""))
            // gettext(3): it counts in every locale except C.
            .env("LANGUAGE", "xx")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        return;
    };
    unsafe extern "C" {
        fn bindtextdomain(domain: *const c_char, folder: *const c_char) -> *const c_char;
    }
    let catalogues = CString::new(catalogues.into_encoded_bytes()).unwrap();
    // SAFETY: strings end in NUL; this process runs one test.
    unsafe {
        assert!(!libc::setlocale(libc::LC_ALL, c"C.UTF-8".as_ptr()).is_null());
        assert!(!bindtextdomain(c"libc".as_ptr(), catalogues.as_ptr()).is_null());
    }
    let shop = Workshop::new("translated-child");
    let path = leaning(&shop);
    let name = CString::new(shop.path("libleaning.so").into_os_string().into_encoded_bytes());
    // SAFETY: the library cannot be loaded; after a failure dlerror returns a string.
    let message = unsafe {
        assert!(libc::dlopen(name.unwrap().as_ptr(), libc::RTLD_LAZY).is_null());
        CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned()
    };
    assert!(message.ends_with("Symbol nicht definiert"), "not translated: {message}");
    let domains = sharing(1);
    assert_eq!(call(&open_in(&domains, &path)[0], "run"), 42);
}

/// A catalogue of gettext's with one message (GNU gettext's manual, "The Format of GNU MO Files").
fn catalogue(message: &str, translation: &str) -> Vec<u8> {
    const HEADER: u32 = 28;
    let (length, strings) = (message.len() as u32, HEADER + 16);
    let words = [0x9504_12de, 0, 1, HEADER, HEADER + 8, 0, 0].into_iter().chain([
        length,
        strings,
        translation.len() as u32,
        strings + length + 1,
    ]);
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    for text in [message, translation] {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    bytes
}

#[test]
fn a_dependency_that_lacks_a_file_is_no_more_loadable_for_what_the_file_is_called() {
    let shop = Workshop::new("lacking");
    let near = ["-L{dir}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let gone = shop.build("libundefined symbol.so", "int gone(void) { return 1; }", &[]);
    shop.build("libmiddle.so", "int middle(void) { return 1; }", &{
        [&near[..], &["-l:libundefined symbol.so"]].concat()
    });
    std::fs::remove_file(gone).unwrap();
    let user = shop.build(
        "libneeds_middle.so",
        "int middle(void); int run(void) { return middle(); }",
        &{ [&near[..], &["-l:libmiddle.so", "-Wl,--allow-shlib-undefined"]].concat() },
    );
    let domain = &sharing(1)[0];
    let error = open(domain, &user, OpenFlags::NOW).unwrap_err();
    assert!(matches!(error, Error::System { .. }), "{error:?}");
    assert_eq!(domain.replicas(), []);
}

#[test]
fn a_library_without_a_domain_s_symbols_is_shared_and_one_with_them_is_not() {
    let shop = Workshop::new("classes");
    let core =
        shop.build("libcore.so", "int core_state; int core(void) { return ++core_state; }", &[]);
    shop.build("libplain.so", "static int n; int plain(void) { return ++n; }", &[]);
    let user = shop.build(
        "libuses_core.so",
        "int core(void); int plain(void); int both(void) { return core() * 10 + plain(); }",
        &["-L{dir}", "-l:libplain.so", "-Wl,-rpath,$ORIGIN"],
    );
    let loader = by_symbols();
    let open = |name: &str| {
        let domain = loader.domain(name).build().unwrap();
        open(&domain, &core, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
        open(&domain, &user, OpenFlags::NOW).unwrap()
    };
    let (one, two) = (open("one"), open("two"));
    // libcore counts per domain, libplain for the process.
    assert_eq!((call(&one, "both"), call(&two, "both"), call(&one, "both")), (11, 12, 23));
}

#[test]
fn a_library_that_only_names_a_replica_as_needed_is_loaded_once_for_all_domains() {
    let shop = Workshop::new("commons");
    let core = shop.build("libcommon_core.so", "int core_symbol; int core_init; ", &[]);
    let operators = shop.build(
        "liboperators.so",
        "static int n; static int constructed; __attribute__((constructor)) static void c(void) { constructed++; }
         int operators(void) { return constructed * 100 + ++n; }",
        &["-Wl,--no-as-needed", "-L{dir}", "-l:libcommon_core.so", "-Wl,-rpath,$ORIGIN"],
    );
    let user = shop.build(
        "libcommon_user.so",
        "#include <dlfcn.h>\n extern int core_symbol; int *use = &core_symbol;
         int load(const char *path) { void *h = dlopen(path, RTLD_NOW); if (!h) return -1;
             int (*f)(void) = dlsym(h, \"operators\"); return f ? f() : -2; }",
        &[],
    );
    let loader = by_symbols();
    let operators = std::ffi::CString::new(operators.to_str().unwrap()).unwrap();
    for (name, expected) in [("one", 101), ("two", 102)] {
        let domain = loader.domain(name).build().unwrap();
        open(&domain, &core, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
        let library = open(&domain, &user, OpenFlags::NOW).unwrap();
        // SAFETY: declared as `int load(const char *)`.
        let load: extern "C" fn(*const c_char) -> c_int = unsafe { function(&library, "load") };
        assert_eq!(load(operators.as_ptr()), expected, "{name}");
    }
    assert_eq!(loader.commons().replicas().len(), 1);
}

#[test]
fn what_a_library_of_the_commons_was_bound_in_is_the_commons_in_every_domain() {
    let shop = Workshop::new("commons-scope");
    let near = ["-L{dir}", "-Wl,-rpath,$ORIGIN"];
    let linked = |libraries: &[&'static str]| [&near, libraries].concat();
    shop.build("libshared_core.so", "static int n; int core(void) { return ++n; }", &[]);
    shop.build(
        "libshared_operators.so",
        "int core(void); int operators(void) { return core() * 10; }",
        &linked(&["-l:libshared_core.so"]),
    );
    // It names one library of the commons as needed, and also refers to a library that that one needs.
    let user = shop.build(
        "libshared_user.so",
        "int core(void); int operators(void); static int own;
         int run(void) { return operators() * 100 + core() * 10 + ++own; }",
        &linked(&["-l:libshared_operators.so"]),
    );
    let policy = Policy::default().with("*/libshared_*", Class::Commons, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    // The first domain has the commons loaded; the later ones find them there.
    for (name, results) in [("one", [1021, 3042]), ("two", [5061, 7082]), ("three", [9101, 11122])]
    {
        let library = open(&loader.domain(name).build().unwrap(), &user, OpenFlags::NOW).unwrap();
        assert_eq!([0; 2].map(|_| call(&library, "run")), results, "{name}");
    }
    assert_eq!(loader.commons().replicas().len(), 2);
}

#[test]
fn libraries_of_the_commons_see_what_they_need_and_no_others() {
    let shop = Workshop::new("commons-apart");
    let near = ["-L{dir}", "-Wl,-rpath,$ORIGIN"];
    let linked = |libraries: &[&'static str]| [&near, libraries].concat();
    // As two builds of one BLAS, of 64-bit and of 32-bit integers, that export the same names. The second one needs a library that is there
    // by then, and refers to one that only this library names.
    shop.build("libshared_core.so", "int core(void) { return 5; }", &[]);
    shop.build(
        "libshared_base.so",
        "int core(void); int base(void) { return core() + 100; }",
        &linked(&["-l:libshared_core.so"]),
    );
    for (name, number) in [("wide", 64), ("narrow", 32)] {
        let source = format!(
            "int base(void); int core(void); int width(void) {{ return {number}; }}
             int {name}(void) {{ return width() + 1000 * base() + 1000000 * core(); }}"
        );
        shop.build(&format!("libshared_{name}.so"), &source, &linked(&["-l:libshared_base.so"]));
    }
    let users = ["wide", "narrow"].map(|name| {
        let library = format!("-l:libshared_{name}.so");
        let source = format!("int {name}(void); int run(void) {{ return {name}(); }}");
        let arguments = [&near[..], &[&library]].concat();
        shop.build(&format!("lib{name}_user.so"), &source, &arguments)
    });
    let policy = Policy::default().with("*/libshared_*", Class::Commons, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    for index in 0..2 {
        let domain = loader.domain(&format!("domain {index}")).build().unwrap();
        let results =
            users.each_ref().map(|user| call(&open(&domain, user, OpenFlags::NOW).unwrap(), "run"));
        assert_eq!(results, [5_105_064, 5_105_032], "{}", domain.name());
    }
    assert_eq!(loader.commons().replicas().len(), 4);
}

#[test]
fn the_program_s_own_copy_of_a_replicated_library_is_another_world() {
    let shop = Workshop::new("worlds");
    let near = ["-L{dir}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let linked = |libraries: &[&'static str]| [&near, libraries].concat();
    shop.build("libworld.so", "int world; int next(void) { return ++world; }", &[]);
    shop.build(
        "libworld_kernels.so",
        "int next(void); __attribute__((weak)) int added;
         int add(void) { return next() * 10 + ++added; }",
        &linked(&["-l:libworld.so"]),
    );
    // The program opens it, and so has its own copies of both.
    let bridge = shop.build(
        "libworld_bridge.so",
        "int add(void); int by_bridge(void) { return add(); }",
        &linked(&["-l:libworld_kernels.so"]),
    );
    let user = shop.build(
        "libworld_user.so",
        "int add(void); int by_bridge(void);
         int own(void) { return add(); } int program(void) { return by_bridge(); }",
        &linked(&["-l:libworld_bridge.so", "-l:libworld_kernels.so"]),
    );
    let policy = Policy::default().with("*/libworld*", Class::Replicate, "test").with(
        "*/libworld_bridge.so",
        Class::System,
        "test",
    );
    let loader = Loader::builder().policy(policy).build().unwrap();
    // SAFETY: the library was built above; its constructors are the compiler's own.
    let handle = unsafe {
        let path = std::ffi::CString::new(bridge.to_str().unwrap()).unwrap();
        libc::dlopen(path.as_ptr(), libc::RTLD_NOW)
    };
    assert!(!handle.is_null());
    for (name, program) in [("one", [11, 22, 33]), ("two", [44, 55, 66])] {
        let library = open(&loader.domain(name).build().unwrap(), &user, OpenFlags::NOW).unwrap();
        assert_eq!([0; 3].map(|_| call(&library, "program")), program, "{name}");
        // The weak variable is the domain's too. If it were the program's, this would be 14.
        assert_eq!([0; 2].map(|_| call(&library, "own")), [11, 22], "{name}");
    }
}

#[test]
fn what_a_global_library_needs_serves_those_that_name_it_nowhere() {
    let shop = Workshop::new("global-needs");
    shop.build("libneeded.so", "int needed(void) { return 7; }", &[]);
    let provider = shop.build(
        "libprovider.so",
        "int needed(void); int provide(void) { return needed(); }",
        &["-L{dir}", "-lneeded", "-Wl,-rpath,{dir}"],
    );
    let user =
        shop.build("libuser.so", "int needed(void); int use(void) { return needed(); }", &[]);
    let loader = Loader::builder().build().unwrap();
    let domain = loader.domain("without").build().unwrap();
    open(&domain, &provider, OpenFlags::NOW).unwrap();
    let error = open(&domain, &user, OpenFlags::NOW).unwrap_err().to_string();
    assert!(error.contains("undefined symbol: needed"), "{error}");
    assert!(domain.symbol("needed").is_none());

    let domain = loader.domain("with").build().unwrap();
    open(&domain, &provider, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
    let user = open(&domain, &user, OpenFlags::NOW).unwrap();
    assert_eq!(call(&user, "use"), 7);
    // As dlsym(RTLD_DEFAULT) asks.
    assert!(domain.symbol("needed").is_some());
}

#[test]
fn a_library_of_the_commons_that_asks_for_the_process_gets_the_domain_whose_code_runs() {
    let shop = Workshop::new("commons-asks");
    let core = shop.build("libcore.so", "int answer; int *whose(void) { return &answer; }", &[]);
    shop.build(
        "libasks.so",
        "#define _GNU_SOURCE
         #include <dlfcn.h>
         void *by_default(void) { return dlsym(RTLD_DEFAULT, \"answer\"); }
         void *shared_program(void) { return dlopen(0, RTLD_NOW); }
         static void *kept;
         void *by_kept(void) { if (!kept) kept = shared_program(); return dlsym(kept, \"answer\"); }
         void *by_handle(void *handle) { return dlsym(handle, \"answer\"); }",
        &[],
    );
    let own = shop.build(
        "libown.so",
        "#include <dlfcn.h>
         void *program(void) { return dlopen(0, RTLD_NOW); }
         void *core(const char *path) { return dlopen(path, RTLD_NOW); }",
        &["-L{dir}", "-Wl,--no-as-needed", "-l:libasks.so", "-Wl,-rpath,$ORIGIN"],
    );
    let policy = Policy::default().with("*/libasks.so", Class::Commons, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let users: Vec<_> = (0..3)
        .map(|index| {
            let domain = loader.domain(&format!("user {index}")).build().unwrap();
            let core = open(&domain, &core, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
            let own = open(&domain, &own, OpenFlags::NOW).unwrap();
            (domain, core, own)
        })
        .collect();
    type Ask = extern "C-unwind" fn() -> usize;
    type AskBy = extern "C-unwind" fn(usize) -> usize;
    let ask = |library: &Library, name: &str| {
        // SAFETY: the functions are declared so in the sources above.
        let ask: Ask = unsafe { function(library, name) };
        ask()
    };
    let by_handle = |library: &Library, handle: usize| {
        // SAFETY: as above.
        let by_handle: AskBy = unsafe { function(library, "by_handle") };
        by_handle(handle)
    };
    let path = std::ffi::CString::new(core.to_str().unwrap()).unwrap();
    for (domain, core, own) in users.iter().chain(&users) {
        let answer = core.symbol("answer").unwrap().addr();
        {
            // SAFETY: only code of this domain is called meanwhile.
            let _inside = unsafe { hydrozoa_loader::current::enter(domain.id()) };
            assert_eq!(ask(own, "by_default"), answer);
            assert_eq!(ask(own, "by_kept"), answer);
            assert_eq!(by_handle(own, ask(own, "shared_program")), answer);
        }
        // A passed-on handle means the same to its receiver.
        assert_eq!(by_handle(own, ask(own, "program")), answer);
        // SAFETY: as above.
        let open_core: AskBy = unsafe { function(own, "core") };
        let handle = open_core(path.as_ptr().addr());
        assert_eq!(by_handle(own, handle), answer);
        assert_eq!(ask(own, "by_default"), 0, "outside of all domains");
    }
}

#[test]
fn what_the_program_bound_to_its_own_world_is_not_the_domain_s() {
    let shop = Workshop::new("own-world");
    let near = ["-L{dir}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let linked = |libraries: &[&'static str]| [&near, libraries].concat();
    let world = shop.build("libowned.so", "int count; int owned(void) { return ++count; }", &[]);
    // Like an extension module: it names no library for the symbol that it uses.
    let extension = shop.build(
        "libowned_extension.so",
        "int owned(void); int extension(void) { return owned(); }",
        &[],
    );
    shop.build(
        "libowned_middle.so",
        "int extension(void); int middle(void) { return extension(); }",
        &linked(&["-l:libowned_extension.so"]),
    );
    let user = shop.build(
        "libowned_user.so",
        "#include <dlfcn.h>
         #include <stddef.h>
         int middle(void); int by_need(void) { return middle(); }
         static int call(const char *path, int mode) {
             void *library = dlopen(path, mode);
             int (*function)(void) = library ? dlsym(library, \"extension\") : NULL;
             return function ? function() : -1;
         }
         int by_path(void) { return call(PATH, RTLD_NOW); }
         int by_name(void) { return call(\"libowned_extension.so\", RTLD_NOW); }
         int if_loaded(void) { return call(PATH, RTLD_NOW | RTLD_NOLOAD); }",
        &linked(&["-l:libowned_middle.so", "-DPATH=\"{dir}/libowned_extension.so\""]),
    );
    let loner = shop.build(
        "libowned_loner.so",
        "#include <dlfcn.h>
         #include <stddef.h>
         int if_loaded(void) { return dlopen(PATH, RTLD_NOW | RTLD_NOLOAD) != NULL; }
         int by_name(void) { return dlopen(\"libowned_extension.so\", RTLD_NOW) != NULL; }",
        &["-DPATH=\"{dir}/libowned_extension.so\""],
    );
    let program = |path: &std::path::Path, mode| {
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the libraries were built above; their constructors are the compiler's own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), mode) };
        assert!(!handle.is_null(), "{path:?}");
        handle
    };
    program(&world, libc::RTLD_NOW | libc::RTLD_GLOBAL);
    let own = program(&extension, libc::RTLD_NOW);
    program(&shop.path("libowned_middle.so"), libc::RTLD_NOW);
    // SAFETY: declared so above.
    let own: extern "C" fn() -> i32 =
        unsafe { std::mem::transmute(libc::dlsym(own, c"extension".as_ptr())) };
    assert_eq!(own(), 1);

    let loader = Loader::builder().build().unwrap();
    for name in ["one", "two"] {
        let domain = loader.domain(name).build().unwrap();
        open(&domain, &world, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
        let loner = open(&domain, &loner, OpenFlags::NOW).unwrap();
        assert_eq!(call(&loner, "if_loaded"), 0, "{name} was given the program's copy");
        let user = open(&domain, &user, OpenFlags::NOW).unwrap();
        let functions = ["by_need", "by_path", "if_loaded", "by_name"];
        assert_eq!(functions.map(|function| call(&user, function)), [1, 2, 3, 4], "{name}");
    }
    // A name that only the program's loaded objects define.
    let domain = loader.domain("by name").build().unwrap();
    open(&domain, &world, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
    let loner = open(&domain, &loner, OpenFlags::NOW).unwrap();
    assert_eq!(call(&loner, "by_name"), 1);
    assert!(domain.find(&extension).is_some(), "it is a copy of the domain's own");
    assert_eq!(own(), 2);
}
