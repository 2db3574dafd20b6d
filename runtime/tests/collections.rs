//! While the host imports a module or loads an object, Python seldom looks for garbage. Programs notice nothing else.

mod common;
mod pythons;

use common::archive;
use hydrozoa::package::Archive;
use hydrozoa::{Object, Pool, Session};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{builders, pools};

/// A module that makes containers that live on, and notes how often Python has looked through all objects meanwhile.
const MAKER: &str = "import gc\n\
    def looks(): return gc.get_stats()[2]['collections']\n\
    before = looks()\n\
    made = [[] for _ in range(400_000)]\n\
    looked = looks() - before\n\
    was_enabled = gc.isenabled()\n";

fn with_modules(shop: &Workshop, modules: &[(&str, &str)]) -> impl Iterator<Item = Pool> {
    for (name, source) in modules {
        std::fs::write(shop.path(&format!("{name}.py")), source).unwrap();
    }
    let folder = shop.path(".");
    builders(1).map(move |builder| builder.path(&folder).build().unwrap())
}

/// Whether the collector is enabled, and its thresholds.
fn state(session: &Session) -> (bool, Vec<i64>) {
    let gc = session.import("gc").unwrap();
    let threshold = gc.call_method("get_threshold", ()).unwrap();
    let threshold = (0..3).map(|index| threshold.get_item(index).unwrap().extract().unwrap());
    (gc.call_method("isenabled", ()).unwrap().truth().unwrap(), threshold.collect())
}

/// CPython 3.14 has no collections of all objects: its third threshold is 0.
fn collects_all(session: &Session) -> bool {
    state(session).1[2] > 0
}

/// How many objects are put aside.
fn frozen(session: &Session) -> i64 {
    let gc = session.import("gc").unwrap();
    gc.call_method("get_freeze_count", ()).unwrap().extract().unwrap()
}

fn looked(module: &Object<'_>) -> i64 {
    module.getattr("looked").unwrap().extract().unwrap()
}

#[test]
fn an_import_of_the_host_does_not_look_through_all_objects_and_a_program_s_does() {
    let shop = Workshop::new("collections");
    for pool in with_modules(&shop, &[("imported", MAKER), ("own", MAKER)]) {
        let session = pool.acquire().unwrap();
        let before = state(&session);
        assert!(before.0 && before.1[2] < 100, "{before:?}");
        let module = session.import("imported").unwrap();
        assert_eq!(looked(&module), 0);
        assert!(module.getattr("was_enabled").unwrap().truth().unwrap());
        assert_eq!(state(&session), before);
        // Nor do the calls that follow, but for 3.12, which has objects aside.
        session.run("made = [[] for _ in range(20_000)]", "call.py").unwrap();
        let count: i64 = module.call_method("looks", ()).unwrap().extract().unwrap();
        let earlier: i64 = module.getattr("before").unwrap().extract().unwrap();
        assert!(count == earlier || frozen(&session) > 0, "{count}, {earlier}");
        // The program's own settings stay.
        let own = session.run("import own", "own.py").unwrap().getattr("own").unwrap();
        assert_eq!(looked(&own) > 0, collects_all(&session), "{:?}", session.interpreter());
    }
}

#[test]
fn young_garbage_of_an_import_is_collected_during_it_and_the_rest_after_it() {
    let shop = Workshop::new("collections-garbage");
    let source = "import weakref\n\
                  class Node: pass\n\
                  def make():\n    node = Node(); node.self = node\n    return weakref.ref(node), node\n\
                  made = [make()[0] for _ in range(300_000)]\n\
                  alive = sum(reference() is not None for reference in made)\n\
                  kept = [make() for _ in range(50_000)]\n";
    for pool in with_modules(&shop, &[("garbage", source)]) {
        let session = pool.acquire().unwrap();
        let aside = frozen(&session);
        let garbage = session.import("garbage").unwrap();
        let alive: i64 = garbage.getattr("alive").unwrap().extract().unwrap();
        assert!(alive < 60_000, "{alive} of 300,000 nodes are alive");
        let code = "import garbage, gc\n\
                    rest = [reference for reference, _ in garbage.kept]\n\
                    garbage.kept.clear()\n\
                    gc.collect()\n\
                    rest = sum(reference() is not None for reference in rest)\n";
        let names = session.run(code, "rest.py").unwrap();
        let rest: i64 = names.getattr("rest").unwrap().extract().unwrap();
        assert_eq!((rest, frozen(&session)), (0, aside));
    }
}

#[test]
fn what_a_program_sets_during_an_import_stays() {
    let shop = Workshop::new("collections-own");
    let modules = [
        ("sets", "import gc\ngc.set_threshold(500, 7, 9)"),
        ("first", "import gc\ngc.set_threshold(400)"),
        ("raises", "import gc\ngc.set_threshold(900, 8, 12)\nraise ValueError('its own')"),
        ("stops", "import gc\ngc.disable()"),
        ("asks", MAKER),
        ("freezes", "import gc\ngc.freeze()\nmade = [[] for _ in range(100_000)]"),
        (
            "again",
            "import gc\nread = gc.get_threshold()\ngc.set_threshold(300)\nimport another\ngc.set_threshold(*read)",
        ),
        ("another", "made = [[] for _ in range(20_000)]"),
        ("fails", "made = [[] for _ in range(5000)]\nraise ValueError('as it is')"),
    ];
    for pool in with_modules(&shop, &modules) {
        let session = pool.acquire().unwrap();
        let has_third = collects_all(&session);
        let thresholds = || state(&session).1[..if has_third { 3 } else { 2 }].to_vec();
        let expected = |all: [i64; 3]| all[..if has_third { 3 } else { 2 }].to_vec();
        let before = state(&session);
        let error = session.import("fails").unwrap_err().to_string();
        assert!(error.contains("ValueError") && error.contains("as it is"), "{error}");
        assert_eq!(state(&session), before);
        session.import("again").unwrap();
        assert_eq!(state(&session), before);
        session.import("sets").unwrap();
        assert_eq!(thresholds(), expected([500, 7, 9]));
        session.import("first").unwrap();
        assert_eq!(thresholds(), expected([400, 7, 9]));
        let error = session.import("raises").unwrap_err().to_string();
        assert!(error.contains("its own"), "{error}");
        assert_eq!(thresholds(), expected([900, 8, 12]));
        session.import("stops").unwrap();
        assert!(!state(&session).0);
        // A collector that is disabled stays so.
        let module = session.import("asks").unwrap();
        assert!(!module.getattr("was_enabled").unwrap().truth().unwrap());
        assert_eq!((looked(&module), state(&session).0), (0, false));
        // And so do objects that the program has put aside.
        let gc = session.import("gc").unwrap();
        gc.call_method("enable", ()).unwrap();
        session.import("freezes").unwrap();
        assert!(frozen(&session) > 1000, "{}", frozen(&session));
    }
}

#[test]
fn loads_of_packages_and_movables_do_not_look_through_all_objects() {
    for pool in pools(2) {
        let source = MAKER.to_owned() + "class Kept: pass\n";
        let bytes = archive(&["gc"], &[("big.py", source.as_bytes())]);
        let package = pool.load_archive(Archive::from_bytes("big", &bytes).unwrap());
        let session = pool.acquire_on(0).unwrap();
        let before = state(&session);
        let module = package.import_module(&session, "big").unwrap();
        assert_eq!((looked(&module), state(&session)), (0, before));
        // Another interpreter runs the module when it makes its copy of the object.
        let kept = module.getattr("Kept").unwrap().call(()).unwrap();
        let movable = pool.create_movable(&kept).unwrap();
        let other = pool.acquire_on(1).unwrap();
        let before = state(&other);
        movable.to_object(&other).unwrap();
        assert_eq!(state(&other), before);
        assert_eq!(looked(&package.import_module(&other, "big").unwrap()), 0);
    }
}
