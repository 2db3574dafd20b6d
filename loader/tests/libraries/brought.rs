//! Libraries that a domain brings belong to it, wherever they lie.
//!
//! Libraries that these tests share stay in the program's scope, so their symbols have names that no other test uses.

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::replicas::{call, open_in};
use hydrozoa_loader::{Class, Decision, Domain, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

fn domains(policy: Policy, count: usize) -> Vec<Domain> {
    let loader = Loader::builder().policy(policy).build().unwrap();
    (0..count).map(|index| loader.domain(&format!("domain {index}")).build().unwrap()).collect()
}

/// The arguments for a library that needs `libraries` of its own directory.
fn needing<'a>(libraries: &[&'a str]) -> Vec<&'a str> {
    [&["-L{dir}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"], libraries].concat()
}

/// A registry without a symbol of a domain, and a library that needs it and registers there.
fn registry(shop: &Workshop) -> PathBuf {
    shop.build("libregistry.so", "static int n; int place_add(void) { return ++n; }", &[]);
    let source = "int place_add(void); int run(void) { return place_add(); }";
    shop.build("libuser.so", source, &needing(&["-l:libregistry.so"]))
}

/// Opens `path` by the program's own `dlopen`, and calls its function `name`.
fn call_of_program(path: &Path, name: &str) -> c_int {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let name = CString::new(name).unwrap();
    // SAFETY: a library of these tests, without constructors; its function is `int name(void)`.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let function: extern "C" fn() -> c_int =
            std::mem::transmute(libc::dlsym(handle, name.as_ptr()));
        function()
    }
}

#[test]
fn a_library_belongs_to_the_domain_that_brings_it() {
    let shop = Workshop::new("place");
    let user = registry(&shop);
    let domains = domains(Policy::default(), 3);
    for library in open_in(&domains, &user) {
        assert_eq!([call(&library, "run"), call(&library, "run")], [1, 2]);
    }
    let inspection = domains[0].inspect(&shop.path("libregistry.so")).unwrap();
    assert_eq!(inspection.class, Class::Replicate);
    // By a rule it is shared, as nothing in it belongs to a domain.
    let policy = Policy::default().with("*/libregistry.so", Decision::Symbols, "test");
    for (library, result) in open_in(&self::domains(policy, 2), &user).iter().zip(1..) {
        assert_eq!(call(library, "run"), result);
    }
}

#[test]
fn a_library_of_the_system_s_directories_is_no_exception() {
    let shop = Workshop::new("place-system");
    let source = "const char *zlibVersion(void); int run(void) { return zlibVersion()[0]; }";
    let user = shop.build("libuser.so", source, &["-l:libz.so.1"]);
    let dependencies = domains(Policy::default(), 1)[0].inspect(&user).unwrap().dependencies;
    let class = |name: &str| dependencies.iter().find(|one| one.name == name).unwrap().class;
    assert_eq!(class("libz.so.1"), Some(Class::Replicate), "{dependencies:?}");
    assert_eq!(class("libc.so.6"), Some(Class::System), "{dependencies:?}");
}

#[test]
fn what_the_program_has_opened_later_is_not_the_program_s_own() {
    let shop = Workshop::new("place-opened");
    let user = registry(&shop);
    assert_eq!(call_of_program(&shop.path("libregistry.so"), "place_add"), 1);
    for library in open_in(&domains(Policy::default(), 2), &user) {
        assert_eq!(call(&library, "run"), 1);
    }
    assert_eq!(call_of_program(&shop.path("libregistry.so"), "place_add"), 2);
}

/// Runs a test again, in a process that begins with the libraries `preloaded`. It is inside if `variable` is set.
fn beginning_with(test: &str, preloaded: &[&Path], variable: &str, value: &Path) {
    let preloaded: Vec<_> = preloaded.iter().map(|path| path.to_str().unwrap()).collect();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LD_PRELOAD", preloaded.join(":"))
        .env(variable, value)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("came to its end"), "{said}\n{errors}");
}

#[test]
fn what_the_program_began_with_is_the_program_s_own() {
    const INSIDE: &str = "HYDROZOA_TEST_BEGAN_WITH";
    if let Some(user) = std::env::var_os(INSIDE) {
        let user = PathBuf::from(user);
        assert_eq!(call_of_program(&user.with_file_name("libregistry.so"), "place_add"), 1);
        for (library, result) in open_in(&domains(Policy::default(), 2), &user).iter().zip(2..) {
            assert_eq!(call(library, "run"), result);
        }
        // Its streams and handlers would be the program's.
        let in_cxx = user.with_file_name("libregistry++.so");
        assert_eq!(call_of_program(&in_cxx, "place_add_in_cxx"), 1);
        for library in open_in(&domains(Policy::default(), 2), &in_cxx) {
            assert_eq!(call(&library, "place_add_in_cxx"), 1);
        }
        println!("it came to its end");
        return;
    }
    let shop = Workshop::new("place-began");
    let user = registry(&shop);
    let source = "#include <iostream>
        static int n; extern \"C\" int place_add_in_cxx() { std::cerr << std::hex; return ++n; }";
    let in_cxx = shop.build("libregistry++.so", source, &[]);
    beginning_with(
        "brought::what_the_program_began_with_is_the_program_s_own",
        &[&shop.path("libregistry.so"), &in_cxx],
        INSIDE,
        &user,
    );
}

#[test]
fn an_allocator_in_cxx_that_the_program_began_with_is_every_domain_s() {
    const INSIDE: &str = "HYDROZOA_TEST_ALLOCATOR";
    if let Some(user) = std::env::var_os(INSIDE) {
        for library in open_in(&domains(Policy::default(), 2), Path::new(&user)) {
            assert_eq!(call(&library, "run"), 1);
        }
        println!("it came to its end");
        return;
    }
    let shop = Workshop::new("place-allocator");
    let source = "#include <cstddef>
        extern \"C\" void *__libc_malloc(std::size_t);
        extern \"C\" void *place_malloc(std::size_t size) { return __libc_malloc(size); }
        extern \"C\" __attribute__((alias(\"place_malloc\"))) void *malloc(std::size_t);";
    let allocator = shop.build("liballocator++.so", source, &["-Wl,--no-as-needed", "-lstdc++"]);
    let source = "#include <cstdlib>\n#include <dlfcn.h>\n#include <iostream>
        extern \"C\" int run() {
            std::cerr << std::hex;
            return dlsym(RTLD_DEFAULT, \"place_malloc\") == reinterpret_cast<void *>(&malloc);
        }";
    let user = shop.build("liballocates++.so", source, &[]);
    beginning_with(
        "brought::an_allocator_in_cxx_that_the_program_began_with_is_every_domain_s",
        &[&allocator],
        INSIDE,
        &user,
    );
}

#[test]
fn what_is_shared_has_the_system_s_libstdcxx_and_a_domain_has_its_own() {
    let shop = Workshop::new("place-cxx");
    let pool = "#include <iostream>
        extern \"C\" const void *place_stream() { std::cerr << std::dec; return &std::cerr; }";
    shop.build("libcxx-pool++.so", pool, &[]);
    let user = "#include <iostream>
        extern \"C\" const void *place_stream();
        extern \"C\" int run() { std::cerr << std::dec; return &std::cerr == place_stream(); }";
    let user = shop.build("libuser++.so", user, &needing(&["-l:libcxx-pool++.so"]));
    let policy = Policy::default().with("*-pool++.so", Decision::Symbols, "one pool");
    let domains = domains(policy, 3);
    let flags = OpenFlags::NOW | OpenFlags::GLOBAL;
    // One of them has it globally before anything is shared.
    let needed = domains[0].inspect(&user).unwrap().dependencies;
    let runtime = needed.into_iter().find(|one| one.name == "libstdc++.so.6").unwrap();
    open(&domains[0], &runtime.path.unwrap(), flags).unwrap();
    for domain in &domains {
        assert_eq!(call(&open(domain, &user, flags).unwrap(), "run"), 0);
        let names = domain.replicas().into_iter().map(|one| one.path);
        let names: Vec<_> =
            names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert!(
            names.len() == 2 && names.iter().any(|name| name.contains("libstdc++")),
            "{names:?}"
        );
    }
}

/// A library that is shared by a rule, one that it needs, and users: of the second, of the first, of both. The names
/// hold `name`, since the system loader knows a library of the same name again.
fn pool(shop: &Workshop, name: &str) -> [PathBuf; 3] {
    let (basis, pool) = (format!("lib{name}-basis.so"), format!("lib{name}-pool.so"));
    let [needs_basis, needs_pool] = [&basis, &pool].map(|name| format!("-l:{name}"));
    shop.build(&basis, "static int n; int place_basis(void) { return ++n; }", &[]);
    let source = "int place_basis(void); static int n; int place_pool(void) { return 10 * ++n + place_basis(); }";
    shop.build(&pool, source, &needing(&[&needs_basis]));
    let declarations = "int place_pool(void); int place_basis(void); int run(void)";
    let user = |name: &str, body: &str, needs: &[&str]| {
        shop.build(name, &format!("{declarations} {{ return {body}; }}"), &needing(needs))
    };
    [
        user("libuses_basis.so", "place_basis()", &[&needs_basis]),
        user("libuses_pool.so", "place_pool()", &[&needs_pool]),
        user("libuses_both.so", "place_pool() * 100 + place_basis()", &[&needs_pool, &needs_basis]),
    ]
}

#[test]
fn what_a_shared_library_needs_is_shared_with_it_in_every_order_of_loads() {
    let policy = || Policy::default().with("*-pool.so", Decision::Symbols, "one pool");
    for (order, name) in [[0, 1], [1, 0]].into_iter().zip(["basis-first", "pool-first"]) {
        let shop = Workshop::new(name);
        let users = pool(&shop, name);
        for (domain, round) in domains(policy(), 2).iter().zip(1..) {
            for index in order {
                let library = open(domain, &users[index], OpenFlags::NOW).unwrap();
                // The user of the basis alone has its own; the pool's counts the calls of both domains.
                let expected = [1, 11 * round][index];
                assert_eq!(call(&library, "run"), expected, "{name} {index}");
            }
            let names: Vec<_> = domain.replicas().into_iter().map(|one| one.path).collect();
            assert_eq!(names.len(), 3, "{names:?}");
            assert!(!names.contains(&shop.path(&format!("lib{name}-pool.so"))), "{names:?}");
        }
    }
    let shop = Workshop::new("both");
    let user = &pool(&shop, "both")[2];
    for (library, result) in open_in(&domains(policy(), 2), user).iter().zip([1102, 2304]) {
        // Of the two that it names, one is shared and needs the other.
        assert_eq!(call(library, "run"), result);
    }
}

#[test]
fn a_shared_library_that_needs_a_symbol_of_the_domain_is_replicated() {
    let shop = Workshop::new("place-domain");
    let host = shop.build("libhost.so", "int host_value(void) { return 5; }", &[]);
    let source = "int host_value(void); static int n; int run(void) { return host_value() + ++n; }";
    let user = shop.build("libhost_pool.so", source, &[]);
    let policy = Policy::default().with("*/libhost_pool.so", Decision::Symbols, "one pool");
    for domain in domains(policy, 2) {
        open(&domain, &host, OpenFlags::NOW | OpenFlags::GLOBAL).unwrap();
        let inspection = domain.inspect(&user).unwrap();
        assert_eq!(inspection.class, Class::Replicate, "{}", inspection.reason);
        assert!(inspection.reason.contains("host_value"), "{}", inspection.reason);
        assert_eq!(call(&open(&domain, &user, OpenFlags::NOW).unwrap(), "run"), 6);
    }
}

#[test]
fn what_lies_in_a_container_is_private_like_what_lies_on_disk() {
    let shop = Workshop::new("place-container");
    let user = registry(&shop);
    let inside = |name: &str| shop.path("container.zip").join(name);
    for name in ["libregistry.so", "libuser.so"] {
        // Bytes of their own, or they would be the files on disk.
        let mut bytes = std::fs::read(user.with_file_name(name)).unwrap();
        bytes.push(0);
        hydrozoa_loader::provide(&inside(name), &bytes).unwrap();
    }
    let domains = domains(Policy::default(), 2);
    for library in open_in(&domains, &inside("libuser.so")) {
        assert_eq!(call(&library, "run"), 1);
    }
    assert_eq!(domains[1].replicas().len(), 2);
}
