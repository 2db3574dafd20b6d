//! A replica takes as much memory as an inspection says.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hydrozoa_loader::ReplicaInfo;
use hydrozoa_testkit::libraries::Workshop;

use super::replicas::{call, domains, open_in};

const PAGE: usize = 4096;

/// Some pages of each kind. Pointers stand in the whole of `table` and at the beginning of `links`.
const SOURCE: &str = "
    #define PAGE 4096
    #define EIGHT(x) x, x, x, x, x, x, x, x
    #define PAGEFUL(x) EIGHT(EIGHT(EIGHT((x))))
    int target;
    int *const table[4 * 512] __attribute__((aligned(PAGE))) = {
        PAGEFUL(&target), PAGEFUL(&target), PAGEFUL(&target), PAGEFUL(&target) };
    const char text[16 * PAGE] __attribute__((aligned(PAGE))) = { 1 };
    struct { int *first; char rest[2 * PAGE - sizeof (int *)]; } links __attribute__((aligned(PAGE))) = { &target, { 1 } };
    char numbers[8 * PAGE] __attribute__((aligned(PAGE))) = { 1 };
    char zeros[32 * PAGE] __attribute__((aligned(PAGE)));
    __thread char of_thread[1000];
    int first(void) { return of_thread[0] + *table[0] + text[0] + *links.first; }
    int touch(void) { numbers[0] = 2; zeros[5 * PAGE] = 1; return 1; }";

/// Bytes of a replica that are in memory, belong to no file, and are mapped by this process alone (the kernel's
/// Documentation/admin-guide/mm/pagemap.rst: bits 63, 61 and 56).
fn private(replica: &ReplicaInfo) -> usize {
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let pages = replica.base / PAGE..(replica.base + replica.size).div_ceil(PAGE);
    let is_private = |page: usize| {
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, (page * 8) as u64).unwrap();
        let entry = u64::from_ne_bytes(entry);
        entry >> 63 & 1 == 1 && entry >> 61 & 1 == 0 && entry >> 56 & 1 == 1
    };
    pages.filter(|&page| is_private(page)).count() * PAGE
}

#[test]
fn the_cost_of_a_replica_is_computed_by_kinds_and_is_what_it_takes() {
    let shop = Workshop::new("costs");
    for options in [["-Wl,-z,relro", "-Wl,-z,now"], ["-Wl,-z,norelro", "-Wl,-z,now"]] {
        let relro = options[0] == "-Wl,-z,relro";
        let path = shop.build(if relro { "librelro.so" } else { "libplain.so" }, SOURCE, &options);
        let domains = domains(3);
        let cost = domains[0].inspect(&path).unwrap().cost;
        let pages = |bytes: usize| {
            assert_eq!(bytes % PAGE, 0, "{cost:?}");
            bytes / PAGE
        };
        // The linker adds tables of its own: at most three pages to each kind.
        let about = |bytes, expected| {
            assert!((expected..=expected + 3).contains(&pages(bytes)), "{cost:?}");
        };
        about(cost.relocated_constants, if relro { 4 } else { 0 });
        about(cost.relocated_data, if relro { 1 } else { 5 });
        about(cost.data, 9);
        about(cost.zeroed, 32);
        assert!(pages(cost.shared) >= 16, "{cost:?}");
        assert_eq!((cost.relocated_text, cost.thread_local), (0, 1000));

        let libraries = open_in(&domains, &path);
        for (domain, library) in domains.iter().zip(&libraries) {
            let replicas = domain.replicas();
            let [replica] = &replicas[..] else { panic!("{replicas:?}") };
            assert_eq!(private(replica), cost.at_load(), "{cost:?}");
            assert_eq!(call(library, "touch"), 1);
            assert_eq!(private(replica), cost.at_load() + 2 * PAGE, "{cost:?}");
        }
    }
}

#[test]
fn dependencies_that_a_load_replicates_have_a_cost_and_those_of_the_system_have_none() {
    let shop = Workshop::new("costs-of-needs");
    let needs = ["-L{dir}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    shop.build("libcost_base.so", "char numbers[65536] = { 1 };", &[]);
    let with = |name: &str| [&needs[..], &[&format!("-l:{name}")]].concat().join(" ");
    let build = |name: &str, source: &str, needed: &str| {
        let options = with(needed);
        shop.build(name, source, &options.split(' ').collect::<Vec<_>>())
    };
    build("libcost_middle.so", "int middle;", "libcost_base.so");
    let user = build("libcost_user.so", "int user;", "libcost_middle.so");
    let policy = hydrozoa_loader::Policy::default().with(
        "*/libcost_*",
        hydrozoa_loader::Class::Replicate,
        "the test wants it",
    );
    let loader = hydrozoa_loader::Loader::builder().policy(policy).build().unwrap();
    let domain = loader.domain("costs").build().unwrap();
    let inspected = || domain.inspect(&user).unwrap().dependencies;
    let cost = |name: &str| {
        let dependencies = inspected();
        let found = dependencies.iter().find(|dependency| dependency.name == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {dependencies:?}"));
        (found.cost.map(|cost| cost.data >= 15 * PAGE), found.held)
    };
    assert_eq!(cost("libcost_middle.so"), (Some(false), false));
    assert_eq!(cost("libcost_base.so"), (Some(true), false));
    assert_eq!(cost("libc.so.6"), (None, true));
    let base = shop.path("libcost_base.so");
    hydrozoa_testkit::libraries::open(&domain, &base, hydrozoa_loader::OpenFlags::NOW).unwrap();
    assert_eq!(cost("libcost_base.so"), (Some(true), true));
}
