//! Bad input: a typed error that names the object and the symbol, and no trace.

use hydrozoa_loader::{Decision, Domain, Error, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

fn domain() -> Domain {
    Loader::builder().build().unwrap().domain("refusing").build().unwrap()
}

fn malformed(bytes: &[u8], name: &str) -> String {
    let shop = Workshop::new(&format!("malformed-{name}"));
    let path = shop.path("bad.so");
    std::fs::write(&path, bytes).unwrap();
    match open(&domain(), &path, OpenFlags::NOW) {
        Err(Error::Malformed { object, reason }) => {
            assert_eq!(object.file_name().unwrap(), "bad.so");
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_are_no_elf_objects_are_named_as_such() {
    assert!(malformed(b"", "empty").contains("empty"));
    assert!(malformed(b"\x7fELF", "short").contains("less than an ELF header"));
    assert!(malformed(&[b'x'; 4096], "text").contains("magic"));
}

#[test]
fn a_file_truncated_anywhere_is_refused_and_the_process_goes_on() {
    let shop = Workshop::new("truncated");
    let path = shop.build("libwhole.so", "int x = 1; int *p = &x; int f(void) { return *p; }", &[]);
    let whole = std::fs::read(&path).unwrap();
    let domain = domain();
    let mut refused = 0;
    for length in (0..whole.len()).step_by(97) {
        // A file of its own each time: one that is loaded must not be written to.
        let cut_path = shop.path(&format!("cut-{length}.so"));
        std::fs::write(&cut_path, &whole[..length]).unwrap();
        match open(&domain, &cut_path, OpenFlags::NOW) {
            Err(Error::Malformed { .. }) => refused += 1,
            // Section headers and symbol names for debuggers lie at the end and are not needed.
            Ok(_) => assert!(length > whole.len() / 2, "accepted with {length} bytes"),
            Err(other) => panic!("{length} bytes: {other}"),
        }
    }
    assert!(refused > 50, "{refused}");
    assert!(open(&domain, &path, OpenFlags::NOW).is_ok());
}

#[test]
fn what_a_rule_refuses_is_not_loaded_and_neither_is_what_needs_it() {
    let shop = Workshop::new("ruled-out");
    let refused = shop.build("libtakes.so", "int take(void) { return 1; }", &[]);
    let link = [format!("-L{}", shop.path("").display()), "-Wl,-rpath,$ORIGIN".to_owned()];
    let user = shop.build(
        "libuser.so",
        "int take(void); int use(void) { return take(); }",
        &[&link[0], &link[1], "-ltakes"],
    );
    let policy = Policy::default().with("*/libtakes.so", Decision::Refused, "it takes everything");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let domain = loader.domain("ruled").build().unwrap();
    for path in [&refused, &user] {
        match open(&domain, path, OpenFlags::NOW) {
            Err(Error::Refused { object, reason }) => {
                assert_eq!((object, reason.as_str()), (refused.clone(), "it takes everything"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(domain.replicas().is_empty());
}

#[test]
fn a_missing_symbol_is_named_and_nothing_stays_mapped() {
    let shop = Workshop::new("missing");
    let path = shop.build(
        "libmissing.so",
        "int nowhere_defined(void); int f(void) { return nowhere_defined(); }",
        &[],
    );
    let domain = domain();
    match open(&domain, &path, OpenFlags::NOW) {
        Err(Error::UndefinedSymbol { object, symbol, .. }) => {
            assert_eq!(object, path.canonicalize().unwrap());
            assert_eq!(symbol, "nowhere_defined");
        }
        other => panic!("{other:?}"),
    }
    assert!(domain.replicas().is_empty());
    assert!(!hydrozoa_testkit::libraries::mappings(&path).iter().any(|line| line.contains("r-xp")));
    // Lazily bound it loads, as under glibc: the function may never be called.
    assert!(open(&domain, &path, OpenFlags::LAZY).is_ok());
}

#[test]
fn a_load_that_fails_gives_its_static_tls_back() {
    let shop = Workshop::new("static-tls");
    shop.build("liblarge.so", "__thread char large[100000];", &[]);
    let source = "__thread int value = 7; static __thread char zeroes[800];
                  int next(void) { return value++ + zeroes[0]++; }";
    let model = "-ftls-model=initial-exec";
    let alone = shop.build("libalone.so", source, &[model]);
    let source =
        format!("{source} extern __thread char large[]; char *f(void) {{ return large; }}");
    let both = shop.build(
        "libboth.so",
        &source,
        &[model, "-L{dir}", "-l:liblarge.so", "-Wl,-rpath,$ORIGIN"],
    );
    let domain = &crate::replicas::sharing(1)[0];
    // The library that it needs is the system's. Its data is at a different offset in each thread.
    // Together these loads ask for more static TLS than there is.
    for _ in 0..100 {
        let error = open(domain, &both, OpenFlags::NOW).unwrap_err();
        assert!(matches!(&error, Error::Relocation { object, .. } if *object == both), "{error}");
    }
    let library = open(domain, &alone, OpenFlags::NOW).unwrap();
    let next = library.symbol("next").unwrap();
    // SAFETY: it has this type.
    let next: extern "C" fn() -> i32 = unsafe { std::mem::transmute(next) };
    assert_eq!((next(), next()), (7, 9));
}

#[test]
fn missing_data_is_an_error_even_when_binding_lazily() {
    let shop = Workshop::new("missing-data");
    let path =
        shop.build("libmissing_data.so", "extern int absent; int f(void) { return absent; }", &[]);
    let error = open(&domain(), &path, OpenFlags::LAZY).unwrap_err();
    assert!(
        matches!(&error, Error::UndefinedSymbol { symbol, .. } if symbol == "absent"),
        "{error}"
    );
}

#[test]
fn a_missing_dependency_is_named_with_its_requester() {
    let shop = Workshop::new("needed");
    shop.build("libgone.so", "int gone(void) { return 1; }", &[]);
    let path = shop.build(
        "libneeds.so",
        "int gone(void); int f(void) { return gone(); }",
        &["-L{dir}", "-l:libgone.so", "-Wl,-rpath,$ORIGIN"],
    );
    std::fs::remove_file(shop.path("libgone.so")).unwrap();
    match open(&domain(), &path, OpenFlags::NOW) {
        Err(Error::NotFound { object, requester, .. }) => {
            assert_eq!(object, "libgone.so");
            assert!(requester.ends_with("libneeds.so"), "{requester}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_executable_stack_is_refused_to_code_that_would_use_it_and_not_granted_to_other_code() {
    let shop = Workshop::new("stacks");
    let nested = "static int apply(int (*f)(int)) { return f(1); }
        int f(int n) { int add(int m) { return n + m; } return apply(add); }";
    let path = shop.build("libnested.so", nested, &["-fno-inline", "-O0"]);
    let error = open(&domain(), &path, OpenFlags::NOW).unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("nested functions")),
        "{error}"
    );
    let asking = shop.build("libasking.so", "int f(void) { return 1; }", &["-Wl,-z,execstack"]);
    open(&domain(), &asking, OpenFlags::NOW).unwrap();
    let here = std::ptr::from_ref(&path).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let stack = maps.lines().find(|line| {
        let (start, rest) = line.split_once('-').unwrap();
        let [start, end] = [start, &rest[..rest.find(' ').unwrap()]]
            .map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&here)
    });
    assert!(stack.unwrap().contains(" rw-p "), "{stack:?}");
}

#[test]
fn initialised_static_tls_and_exhaustion_are_refused_with_the_reason() {
    let shop = Workshop::new("tls-refused");
    let huge = shop.build(
        "libhuge.so",
        "static __thread char b[1 << 20]; int f(void) { return b[5]++; }",
        &["-ftls-model=initial-exec"],
    );
    let error = open(&domain(), &huge, OpenFlags::NOW).unwrap_err();
    assert!(
        matches!(&error, Error::Tls { reason, .. } if reason.contains("static TLS")),
        "{error}"
    );
}
