//! The rule of place: what lies outside of the system's library directories belongs to the domain that loads it.
//!
//! What these tests share is in the program's scope from then on, so its symbols have names that no other test uses.

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::replicas::{call, open_in};
use hydrozoa_loader::{Class, Decision, Domain, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

const REASON: &str = "it lies outside";

fn policy() -> Policy {
    Policy::default().replicate_outside_system(REASON)
}

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
fn a_library_outside_of_the_system_s_directories_belongs_to_its_domain() {
    let shop = Workshop::new("place");
    let user = registry(&shop);
    let domains = domains(policy(), 3);
    for library in open_in(&domains, &user) {
        assert_eq!([call(&library, "run"), call(&library, "run")], [1, 2]);
    }
    let inspection = domains[0].inspect(&shop.path("libregistry.so")).unwrap();
    assert_eq!(inspection.class, Class::Replicate);
    // Without the rule it is shared, as nothing in it belongs to a domain.
    for (library, result) in open_in(&crate::replicas::domains(2), &user).iter().zip(1..) {
        assert_eq!(call(library, "run"), result);
    }
}

#[test]
fn a_library_of_the_system_is_left_to_its_symbols() {
    let shop = Workshop::new("place-system");
    let source = "const char *zlibVersion(void); int run(void) { return zlibVersion()[0]; }";
    let user = shop.build("libuser.so", source, &["-l:libz.so.1"]);
    let dependencies = domains(policy(), 1)[0].inspect(&user).unwrap().dependencies;
    let zlib = dependencies.iter().find(|one| one.name == "libz.so.1").expect("it is needed");
    assert_eq!(zlib.class, Some(Class::System), "{zlib:?}");
    let user = dependencies.iter().find(|one| one.path.as_deref() == Some(&user));
    assert!(user.is_none());
}

#[test]
fn what_the_program_has_opened_later_is_not_the_program_s_own() {
    let shop = Workshop::new("place-opened");
    let user = registry(&shop);
    assert_eq!(call_of_program(&shop.path("libregistry.so"), "place_add"), 1);
    for library in open_in(&domains(policy(), 2), &user) {
        assert_eq!(call(&library, "run"), 1);
    }
    assert_eq!(call_of_program(&shop.path("libregistry.so"), "place_add"), 2);
}

#[test]
fn what_the_program_began_with_is_the_program_s_own() {
    const INSIDE: &str = "HYDROZOA_TEST_BEGAN_WITH";
    if let Some(user) = std::env::var_os(INSIDE) {
        let user = PathBuf::from(user);
        assert_eq!(call_of_program(&user.with_file_name("libregistry.so"), "place_add"), 1);
        for (library, result) in open_in(&domains(policy(), 2), &user).iter().zip(2..) {
            assert_eq!(call(library, "run"), result);
        }
        println!("it came to its end");
        return;
    }
    let shop = Workshop::new("place-began");
    let user = registry(&shop);
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "places::what_the_program_began_with_is_the_program_s_own",
            "--nocapture",
        ])
        .env("LD_PRELOAD", shop.path("libregistry.so"))
        .env(INSIDE, &user)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("came to its end"), "{said}\n{errors}");
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
    let policy = || policy().with("*-pool.so", Decision::Symbols, "one pool");
    for (order, name) in [[0, 1], [1, 0]].into_iter().zip(["basis-first", "pool-first"]) {
        let shop = Workshop::new(name);
        let users = pool(&shop, name);
        for (domain, round) in domains(policy(), 2).iter().zip(1..) {
            for index in order {
                let library = open(domain, &users[index], OpenFlags::NOW).unwrap();
                // What uses the basis alone has its own; the pool's counts the calls of both domains.
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
    let policy = policy().with("*/libhost_pool.so", Decision::Symbols, "one pool");
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
    let domains = domains(policy(), 2);
    for library in open_in(&domains, &inside("libuser.so")) {
        assert_eq!(call(&library, "run"), 1);
    }
    assert_eq!(domains[1].replicas().len(), 2);
}
