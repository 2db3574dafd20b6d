//! Every error of the loader is provoked. Its text says what failed, on which object, and what to do.

use std::path::Path;
use std::time::Duration;

use hydrozoa_loader::{Class, Domain, Error, Loader, OpenFlags, Policy};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, open};
use hydrozoa_testkit::refusal::{Point, count, points, refusing, watch};

/// Seconds for a test in a process of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// The relocation of an offset from the thread pointer.
const OFFSET: &str = if cfg!(target_arch = "x86_64") {
    "(R_X86_64_TPOFF64) at "
} else {
    "(R_AARCH64_TLS_TPREL) at "
};

fn domain() -> Domain {
    Loader::builder().build().unwrap().domain("failing").build().unwrap()
}

fn failure(path: &Path) -> Error {
    open(&domain(), path, OpenFlags::NOW).unwrap_err()
}

#[test]
fn a_file_that_cannot_be_opened_says_what_to_check() {
    let shop = Workshop::new("error-io");
    let path = shop.path("libabsent.so");
    let error = failure(&path);
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    let expected = format!(
        "{}: cannot open: No such file or directory (os error 2) (check the path)",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_file_that_is_no_image_says_what_it_lacks_and_what_to_do() {
    let shop = Workshop::new("error-malformed");
    let path = shop.path("libtext.so");
    std::fs::write(&path, [b'x'; 4096]).unwrap();
    let error = failure(&path);
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("libtext.so: not a loadable ELF image: "), "{text}");
    assert!(text.ends_with("(name a shared object, or install the file again)"), "{text}");
}

#[test]
fn an_image_that_is_refused_says_why_and_how_to_link_it() {
    let shop = Workshop::new("error-refused");
    let path = shop.build("libclosed.so", "int f(void) { return 1; }", &["-Wl,-z,nodlopen"]);
    let error = failure(&path);
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let expected = "libclosed.so: refused: shared object cannot be dlopen()ed (DF_1_NOOPEN); \
                    link it without -z nodlopen";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_needed_library_that_is_missing_is_named_with_where_it_was_sought() {
    let shop = Workshop::new("error-needed");
    shop.build("libgone.so", "int gone(void) { return 1; }", &[]);
    let path = shop.build(
        "libneeds.so",
        "int gone(void); int f(void) { return gone(); }",
        &["-L{dir}", "-l:libgone.so", "-Wl,-rpath,$ORIGIN"],
    );
    std::fs::remove_file(shop.path("libgone.so")).unwrap();
    let error = failure(&path);
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("libgone.so: cannot open shared object file: no such file in "));
    let searched = path.parent().unwrap().canonicalize().unwrap();
    assert!(text.contains(searched.to_str().unwrap()), "{text}");
    assert!(text.contains("libneeds.so); install it, or name its directory in LD_LIBRARY_PATH"));
}

#[test]
fn a_symbol_without_a_definition_is_named_with_the_library_that_wants_it() {
    let shop = Workshop::new("error-undefined");
    let source = "int nobody(void); int f(void) { return nobody(); }";
    let path = shop.build("libwants.so", source, &[]);
    let error = failure(&path);
    assert!(matches!(error, Error::UndefinedSymbol { .. }), "{error:?}");
    let expected = "libwants.so: undefined symbol: nobody (install the versions of its needed libraries that it was \
                    built with)";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_relocation_that_cannot_be_applied_is_named_with_how_to_compile() {
    let shop = Workshop::new("error-relocation");
    shop.build("liblarge.so", "__thread char large[100000];", &[]);
    let path = shop.build(
        "libreaches.so",
        "extern __thread char large[]; char *f(void) { return large; }",
        &["-ftls-model=initial-exec", "-L{dir}", "-l:liblarge.so", "-Wl,-rpath,$ORIGIN"],
    );
    let policy = Policy::default().with("*/liblarge.so", Class::System, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let domain = loader.domain("error").build().unwrap();
    let error = open(&domain, &path, OpenFlags::NOW).unwrap_err();
    assert!(matches!(error, Error::Relocation { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("libreaches.so: relocation ") && text.contains(OFFSET));
    assert!(text.ends_with("(compile it with -fPIC, and link it with -shared)"), "{text}");
}

#[test]
fn thread_local_data_without_room_says_how_much_there_is_and_the_way_out() {
    let shop = Workshop::new("error-tls");
    let source = "static __thread char all[1 << 20]; int f(void) { return all[5]++; }";
    let path = shop.build("libgreedy.so", source, &["-ftls-model=initial-exec"]);
    let error = failure(&path);
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("libgreedy.so: thread-local storage: it asks for 1048576 bytes"));
    assert!(text.ends_with("a rule that shares it needs them once for all domains"), "{text}");
}

#[test]
fn what_the_system_loader_refuses_has_its_words_and_how_to_see_more() {
    let shop = Workshop::new("error-system");
    let source = "static __thread char all[1 << 20]; int f(void) { return all[5]++; }";
    shop.build("libsystem.so", source, &["-ftls-model=initial-exec"]);
    let user = "int f(void); int g(void) { return f(); }";
    let path = shop.build("libuser.so", user, &["-L{dir}", "-lsystem", "-Wl,-rpath,$ORIGIN"]);
    let policy = Policy::default().with("*/libsystem.so", Class::System, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let domain = loader.domain("failing").build().unwrap();
    let error = open(&domain, &path, OpenFlags::NOW).unwrap_err();
    assert!(matches!(error, Error::System { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("libsystem.so: the system loader refused it: "), "{text}");
    assert!(text.contains("static TLS"), "{text}");
    assert!(text.ends_with("(LD_DEBUG=libs shows its search)"), "{text}");
}

#[test]
fn a_process_that_cannot_be_prepared_says_what_it_lacks() {
    alone(PATIENCE, || {
        watch();
        // Its first file is the list of mappings, which tells whether the table of libgcc_s is writable.
        let no_files = |point: &Point| point.is("openat") && point.error == libc::EMFILE;
        let point = points(&[1; 8]).into_iter().find(no_files).unwrap();
        let error = refusing(point, || Loader::builder().build()).0.unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("the process cannot host replicas: "), "{text}");
        let expected = "libgcc_s.so.1: its table cannot be written: Too many open files (os error 24) (raise the process's \
                        limit of open files: ulimit -n)";
        assert!(text.ends_with(expected), "{text}");
        // Nothing is left half prepared.
        Loader::builder().build().unwrap();
    });
}

#[test]
fn memory_that_the_kernel_refuses_is_named_with_the_limit() {
    let shop = Workshop::new("error-memory");
    let path = shop.build("libsmall.so", "int data = 1; int *f(void) { return &data; }", &[]);
    alone(PATIENCE, || {
        let loader = Loader::builder().build().unwrap();
        // Made before: a refusal counts the load's requests alone.
        let [first, second, third] = [1, 2, 3].map(|_| loader.domain("small").build().unwrap());
        let load = |domain: &Domain| open(domain, &path, OpenFlags::NOW).map(drop);
        load(&first).unwrap();
        watch();
        let counts = count(|| load(&second).unwrap());
        let refused = |point: &Point| point.is("mprotect") && point.error == libc::ENOMEM;
        let point = points(&counts).into_iter().rfind(refused).unwrap();
        let error = refusing(point, || load(&third)).0.unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("libsmall.so: cannot ") && text.contains(" bytes: "), "{text}");
        let remedy = "(a limit is reached: of mappings, see vm.max_map_count, or of address space, see ulimit -v)";
        assert!(text.ends_with(remedy), "{text}");
    });
}

#[test]
fn a_constructor_s_exception_says_what_was_thrown_and_how_to_try_again() {
    let shop = Workshop::new("error-exception");
    let source = "#include <stdexcept>
                  static int fail() { throw std::runtime_error(\"no licence\"); }
                  int value = fail();";
    let path = shop.build("libthrows++.so", source, &[]);
    let error = failure(&path);
    assert!(matches!(error, Error::Exception { .. }), "{error:?}");
    let expected = "libthrows++.so: a constructor threw an exception: std::runtime_error: no licence \
                    (mend its cause, and load it into a new domain)";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_symbol_that_a_library_lacks_is_named_with_where_names_are_found() {
    let shop = Workshop::new("error-symbol");
    let path = shop.build("libhas.so", "int present(void) { return 1; }", &[]);
    let library = open(&domain(), &path, OpenFlags::NOW).unwrap();
    let error = library.symbol("absent").unwrap_err();
    assert!(matches!(error, Error::NoSuchSymbol { .. }), "{error:?}");
    let expected = "libhas.so: symbol absent is not defined by it or its dependencies (give the name that `nm -D` prints)";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_library_that_is_not_loaded_yet_says_how_to_load_it() {
    let shop = Workshop::new("error-noload");
    let path = shop.build("liblater.so", "int f(void) { return 1; }", &[]);
    let error = open(&domain(), &path, OpenFlags::NOW | OpenFlags::NOLOAD).unwrap_err();
    assert!(matches!(error, Error::NotLoaded { .. }), "{error:?}");
    let expected =
        "liblater.so: is not loaded, and was asked for with NOLOAD (open it without NOLOAD first)";
    assert!(error.to_string().ends_with(expected), "{error}");
}
