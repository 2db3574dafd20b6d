//! Loads that are refused, and what they leave. `errors.rs` and the oracle's cases `refuse_*` have each refusal once.

use hydrozoa_loader::{Decision, Domain, Error, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

fn domain() -> Domain {
    Loader::builder().build().unwrap().domain("refusing").build().unwrap()
}

#[test]
fn a_file_truncated_anywhere_is_refused_and_the_process_goes_on() {
    let shop = Workshop::new("truncated");
    let path = shop.build("libwhole.so", "int x = 1; int *p = &x; int f(void) { return *p; }", &[]);
    let whole = std::fs::read(&path).unwrap();
    let domain = domain();
    let mut refused = 0;
    for length in (0..whole.len()).step_by(97) {
        // A new file each time: a loaded one must not be written to.
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
    // Together these loads ask for more static TLS than exists.
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
