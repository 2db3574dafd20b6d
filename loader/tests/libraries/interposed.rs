//! Interpositions: what references of a domain's replicas bind to instead.

use std::ffi::{c_int, c_void};
use std::path::Path;

use hydrozoa_loader::{Class, Domain, Interposition, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

use crate::replicas::call;

extern "C" fn answer(argument: c_int, context: usize) -> c_int {
    argument + context as c_int
}

#[test]
fn interposition_is_per_domain() {
    let shop = Workshop::new("interpose");
    let path = shop.build("libasks.so", "int ask(int); int run(void) { return ask(5); }", &[]);
    let loader = Loader::builder().build().unwrap();
    for context in [100, 200] {
        // SAFETY: `ask` takes an int; `answer` takes it and the context.
        let entry = unsafe { Interposition::with_context(answer as *const c_void, 1, context) };
        let domain = loader.domain("asks").interpose("ask", entry).build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        assert_eq!(call(&library, "run"), 5 + context as c_int);
    }
}

#[test]
fn a_definition_of_one_system_object_is_interposed_and_no_other_one() {
    const SOURCE: &str = "int size_of(int value) { return value < 0 ? -value : value; }";
    let shop = Workshop::new("definition");
    let build = |name: &str, source: &str, needed: &str| {
        let (folder, need) = (format!("-L{}", shop.path("").display()), format!("-l:{needed}"));
        let arguments = [&*folder, &need, "-Wl,-rpath,$ORIGIN"];
        shop.build(name, source, if needed.is_empty() { &[] } else { &arguments })
    };
    build("libonce.so", SOURCE, "");
    build("libown.so", SOURCE, "");
    let calls = "int size_of(int); int run(void) { return size_of(-5); }";
    let (asks, asks_own) =
        (build("libasks.so", calls, "libonce.so"), build("libasksown.so", calls, "libown.so"));
    let policy = Policy::default()
        .with("*/libonce.so", Class::System, "the test wants it")
        .with("*/libasks*", Class::Replicate, "the test wants it")
        .with("*/libown.so", Class::Replicate, "the test wants it");
    let loader = Loader::builder().policy(policy).build().unwrap();
    // SAFETY: `size_of` takes an int; `answer` takes it and the context.
    let entry = unsafe { Interposition::with_context(answer as *const c_void, 1, 100) };
    let domain = |soname| {
        loader.domain("asks").interpose_definition(soname, "size_of", entry).build().unwrap()
    };
    let result =
        |domain: &Domain, path: &Path| call(&open(domain, path, OpenFlags::NOW).unwrap(), "run");

    assert_eq!(result(&domain("libonce.so"), &asks), 95);
    assert_eq!(result(&domain("libonce.so"), &asks_own), 5);
    assert_eq!(result(&domain("libc.so.6"), &asks), 5);
    assert_eq!(result(&loader.domain("asks").build().unwrap(), &asks), 5);
}
