//! Interpositions: the definitions that references of a domain's replicas bind to instead.

use std::ffi::{c_int, c_void};
use std::path::Path;

use hydrozoa_loader::{
    Class, Domain, Interposition, Loader, LoaderBuilder, Located, OpenFlags, Policy,
};
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
fn an_address_tells_its_image_what_is_constant_and_what_is_behind_an_interposition() {
    let shop = Workshop::new("located");
    shop.build("libasked.so", "int ask(int value) { return -value; }", &[]);
    let source = "int ask(int); int variable = 1, zero; const char constant[] = \"stays\"; \
                  int *const moved = &variable; int run(void) { return ask(5); }";
    let folder = format!("-L{}", shop.path("").display());
    let path =
        shop.build("libasks.so", source, &[&*folder, "-l:libasked.so", "-Wl,-rpath,$ORIGIN"]);
    let loader = Loader::builder().build().unwrap();
    let ended = [100, 200].map(|context| {
        // SAFETY: `ask` takes an int; `answer` takes it and the context.
        let entry = unsafe { Interposition::with_context(answer as *const c_void, 1, context) };
        let domain = loader.domain("asks").interpose("ask", entry).build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        let at = |name: &str| library.symbol(name).unwrap();
        let located = Located::at(at("run")).unwrap();
        assert_eq!(located.base() + located.offset(), at("run").addr());
        assert!(!located.is_shared());
        let is_constant = ["run", "constant", "moved", "variable", "zero"]
            .map(|name| located.has_constant(at(name)));
        assert_eq!(is_constant, [true, true, false, false, false]);
        assert!(!located.has_constant(std::ptr::without_provenance(located.base() - 1)));
        for definition in [located.definition("ask"), domain.definition("ask")] {
            let definition = definition.unwrap();
            assert_ne!(Some(definition), domain.symbol("ask"));
            // SAFETY: libasked defines it so.
            let ask: extern "C" fn(c_int) -> c_int = unsafe { std::mem::transmute(definition) };
            assert_eq!(ask(5), -5);
        }
        assert_eq!(located.definition("nobody_at_all"), None);
        let (constant, image, base) = (at("constant"), located.image(), located.base());
        drop((located, library));
        // SAFETY: none of its code runs, and what is read below is constant.
        unsafe { domain.retire(|| ()) };
        // SAFETY: it has six bytes.
        let text = unsafe { std::ffi::CStr::from_ptr(constant.cast()) };
        assert_eq!(text, c"stays");
        assert!(Located::at(constant).is_none());
        (image, base)
    });
    // The second one took the first one's place.
    assert_eq!(ended[0], ended[1]);
}

#[test]
fn references_of_one_replica_are_interposed_and_no_other_ones() {
    let shop = Workshop::new("reference");
    let source = "int size_of(int value) { return value < 0 ? -value : value; }";
    shop.build("libsize.so", source, &[]);
    let folder = format!("-L{}", shop.path("").display());
    let arguments = [&*folder, "-l:libsize.so", "-Wl,-rpath,$ORIGIN"];
    let calls = "int size_of(int); int run(void) { return size_of(-5); }";
    let (one, other) =
        (shop.build("libone.so", calls, &arguments), shop.build("libother.so", calls, &arguments));
    let policy = Policy::default().with("*/lib*", Class::Replicate, "the test wants it");
    let loader = Loader::builder().policy(policy).build().unwrap();
    // SAFETY: `size_of` takes an int; `answer` takes it and the context.
    let [first, second] = [100, 200]
        .map(|context| unsafe { Interposition::with_context(answer as *const c_void, 1, context) });
    let result =
        |domain: &Domain, path: &Path| call(&open(domain, path, OpenFlags::NOW).unwrap(), "run");

    let domain = loader.domain("asks").interpose_in("libone.so", "size_of", first).build().unwrap();
    assert_eq!((result(&domain, &one), result(&domain, &other)), (95, 5));
    // It counts before interpositions for all.
    let builder = loader.domain("asks").interpose("size_of", second);
    let domain = builder.interpose_in("libother.so", "size_of", first).build().unwrap();
    assert_eq!((result(&domain, &one), result(&domain, &other)), (195, 95));
}

#[test]
fn a_function_is_interposed_in_what_defines_c_plus_plus_for_a_replica_too() {
    extern "C" fn hundred_more(argument: c_int) -> c_int {
        argument + 100
    }
    // An inline function is the first one of the scope: that of the library that exists once.
    const INLINE: &str = "extern \"C\" int ask(int);
        __attribute__((noinline)) inline int asks() { return ask(1); }\n";
    for (class, name) in [(Class::System, "system"), (Class::Commons, "commons")] {
        let shop = Workshop::new(name);
        let link = |needed: &str| {
            [
                format!("-L{}", shop.path("").display()),
                format!("-l:{needed}"),
                "-Wl,-rpath,$ORIGIN".into(),
            ]
        };
        let base = format!("libbase-{name}.so");
        let (once, user) = (format!("libonce-{name}++.so"), format!("libuser-{name}++.so"));
        shop.build(&base, "int ask(int value) { return value; }", &[]);
        let build = |name: &str, source: &str, needed: &[String]| {
            let arguments: Vec<&str> = needed.iter().map(String::as_str).collect();
            shop.build(name, &format!("{INLINE}{source}"), &arguments)
        };
        build(&once, "int once() { return asks(); }", &link(&base));
        let needed = [&link(&once)[..], &link(&base)[1..2]].concat();
        let path = build(&user, "extern \"C\" int run() { return asks(); }", &needed);
        let policy = Policy::default()
            .with("*/libonce*", class, "the test wants it")
            .with("*/libbase*", Class::System, "the test wants it")
            .with("*/libuser*", Class::Replicate, "the test wants it");
        let result = |builder: LoaderBuilder| {
            let loader = builder.policy(policy.clone()).build().unwrap();
            let domain = loader.domain("user").build().unwrap();
            call(&open(&domain, &path, OpenFlags::NOW).unwrap(), "run")
        };
        assert_eq!(result(Loader::builder()), 1);
        // SAFETY: `ask` takes an int and returns one.
        let entry = unsafe { Interposition::function(hundred_more as *const c_void) };
        assert_eq!(result(Loader::builder().interpose_everywhere("ask", entry)), 101, "{name}");
    }
}
