//! The cost of a directory's libraries for a further interpreter, on every Python of the machine.

mod pythons;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hydrozoa::loader::{self, Class};
use hydrozoa::{Error, LibraryRules, Survey, Surveyed, python, survey};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{pools, pythons};

/// A package in a directory of packages: an extension module, which needs Python; a library, which needs nothing;
/// a BLAS and a library that it needs; each with variables.
fn environment(shop: &Workshop) -> PathBuf {
    let site = shop.path("site-packages");
    fs::create_dir_all(site.join("things")).unwrap();
    fs::create_dir_all(site.join("things.libs")).unwrap();
    let build = |name: &str, source: &str, arguments: &[&str]| {
        let built = shop.build(name, source, arguments);
        let folder = if name.starts_with("lib") { "things.libs" } else { "things" };
        fs::rename(built, site.join(folder).join(name)).unwrap();
    };
    let beside = ["-L{dir}/site-packages/things.libs", "-Wl,-rpath,$ORIGIN/../things.libs"];
    let needs = |name: &'static str| [beside[0], beside[1], "-Wl,--no-as-needed", name];
    build("libfortran-1.so.5", "char numbers[40000] = { 1 };", &[]);
    build("libopenblas-1.so", "int n = 1;", &needs("-l:libfortran-1.so.5"));
    build("libplain-1.so", "int n = 1; char zeros[200000];", &[]);
    build(
        "module.so",
        "extern void *PyLong_FromLong(long); char big[400000] = { 1 };
         void *PyInit_module(void) { return PyLong_FromLong(1); }",
        &needs("-l:libopenblas-1.so"),
    );
    build("other.so", "int n;", &needs("-l:libplain-1.so"));
    site
}

fn survey_of(places: &[PathBuf], rules: &LibraryRules) -> Vec<Survey> {
    let survey = |library: &PathBuf| {
        let python = python::find(Some(library)).unwrap();
        survey(places, &python, rules).unwrap()
    };
    pythons().values().map(survey).collect()
}

fn library<'a>(survey: &'a Survey, name: &str) -> &'a Surveyed {
    let named = |one: &&Surveyed| one.path.file_name().is_some_and(|file| file == name);
    survey.libraries.iter().find(named).unwrap_or_else(|| panic!("{name}: {survey:?}"))
}

// The rule for a BLAS is an adapter's.
#[cfg(feature = "adapters")]
#[test]
fn a_survey_tells_the_class_and_cost_of_each_library_and_the_most_costly_first() {
    let shop = Workshop::new("survey");
    let site = environment(&shop);
    for survey in survey_of(std::slice::from_ref(&site), &LibraryRules::new()) {
        assert!(survey.failed.is_empty(), "{:?}", survey.failed);
        let classes: Vec<_> = ["module.so", "other.so", "libplain-1.so", "libopenblas-1.so"]
            .map(|name| library(&survey, name).class)
            .into();
        assert_eq!(classes, [Class::Replicate, Class::Replicate, Class::Replicate, Class::System]);
        // Opened on its own it would be replicated. The BLAS, which needs it, exists once.
        let fortran = library(&survey, "libfortran-1.so.5");
        assert_eq!(fortran.class, Class::System, "{fortran:?}");
        assert!(fortran.reason.contains("libopenblas-1.so"), "{fortran:?}");
        assert!(library(&survey, "module.so").reason.contains("PyLong_FromLong"));
        assert!(library(&survey, "libopenblas-1.so").reason.contains("one BLAS"));

        // Pages of the arrays, less those at their ends that hold other things too.
        assert!((95..100).contains(&(library(&survey, "module.so").cost.data / 4096)));
        assert!((46..50).contains(&(library(&survey, "libplain-1.so").cost.zeroed / 4096)));
        let replicated = survey.libraries.iter().filter(|one| one.is_replicated());
        let at_most: usize = replicated.clone().map(|one| one.cost.at_most()).sum();
        assert_eq!(survey.replicated().at_most(), at_most);
        assert_eq!(replicated.count(), 3);
        assert!(survey.shared() > 40_000 && survey.shared() < 400_000);
        let is_replicated: Vec<_> = survey.libraries.iter().map(Surveyed::is_replicated).collect();
        assert_eq!(is_replicated, [true, true, true, false, false]);
        let costs =
            survey.libraries[..3].iter().map(|one| (one.cost.at_load(), one.cost.at_most()));
        assert!(costs.is_sorted_by(|one, next| one >= next), "{survey:?}");
        let sizes = survey.libraries[3..].iter().map(Surveyed::once);
        assert!(sizes.is_sorted_by(|one, next| one >= next), "{survey:?}");
    }
}

#[test]
fn rules_of_a_user_count_in_a_survey() {
    let shop = Workshop::new("survey-rules");
    let site = environment(&shop);
    let rules = LibraryRules::new().share("*/libplain*").replicate("*/libopenblas*");
    for survey in survey_of(&[site], &rules) {
        let class = |name| library(&survey, name).class;
        assert_ne!(class("libplain-1.so"), Class::Replicate);
        assert_eq!(class("libopenblas-1.so"), Class::Replicate);
        assert_eq!(class("libfortran-1.so.5"), Class::Replicate);
    }
}

#[test]
fn a_file_that_is_no_library_is_named_and_the_others_go_on() {
    let shop = Workshop::new("survey-broken");
    let site = environment(&shop);
    let things = site.join("things");
    let whole = fs::read(things.join("module.so")).unwrap();
    fs::write(things.join("truncated.so"), &whole[..whole.len() / 2]).unwrap();
    fs::write(things.join("script.so"), "INPUT(libother.so)").unwrap();
    fs::write(things.join("empty.so.1"), "").unwrap();
    fs::write(things.join("notes.so.txt"), "no library").unwrap();
    symlink("nowhere.so", things.join("dangling.so")).unwrap();
    // Further names of a file do not count as libraries, and a link upwards is not followed.
    symlink("module.so", things.join("again.so")).unwrap();
    symlink("..", things.join("up")).unwrap();
    for survey in survey_of(&[site], &LibraryRules::new()) {
        assert_eq!(survey.libraries.len(), 5, "{survey:?}");
        let failed: Vec<_> = survey
            .failed
            .iter()
            .map(|(path, error)| (path.file_name().unwrap().to_str().unwrap(), error))
            .collect();
        let error = |name| failed.iter().find(|(other, _)| *other == name).unwrap().1;
        assert_eq!(failed.len(), 4, "{failed:?}");
        for (name, words) in [
            ("truncated.so", "truncated"),
            ("script.so", "not a loadable ELF image"),
            ("empty.so.1", "the file is empty"),
        ] {
            let error = error(name);
            assert!(
                matches!(error, Error::Load(loader::Error::Malformed { .. }))
                    && error.to_string().contains(words),
                "{error}"
            );
        }
        assert!(matches!(error("dangling.so"), Error::Io { .. }));
    }
}

#[test]
fn needs_that_were_not_found_are_named() {
    let shop = Workshop::new("survey-missing");
    let site = environment(&shop);
    fs::remove_file(site.join("things.libs/libfortran-1.so.5")).unwrap();
    for survey in survey_of(&[site], &LibraryRules::new()) {
        let missing = |name| library(&survey, name).missing.clone();
        assert_eq!(missing("libopenblas-1.so"), ["libfortran-1.so.5"]);
        assert_eq!(missing("module.so"), ["libfortran-1.so.5"]);
        assert!(missing("other.so").is_empty());
    }
}

#[test]
fn an_empty_directory_has_no_libraries_and_one_that_is_missing_is_an_error() {
    let shop = Workshop::new("survey-empty");
    fs::create_dir(shop.path("nothing")).unwrap();
    for survey in survey_of(&[shop.path("nothing")], &LibraryRules::new()) {
        assert!(survey.libraries.is_empty() && survey.failed.is_empty());
    }
    let missing = shop.path("missing");
    let library = pythons().values().next().unwrap();
    let python = python::find(Some(library)).unwrap();
    let places = [missing.clone()];
    let error = survey(&places, &python, &LibraryRules::new()).unwrap_err();
    assert!(matches!(error, Error::Io { ref path, .. } if *path == missing), "{error}");
}

#[test]
fn libraries_belong_to_the_distribution_that_installed_them() {
    let shop = Workshop::new("survey-records");
    let site = environment(&shop);
    let information = site.join("all_things-1.0.dist-info");
    fs::create_dir(&information).unwrap();
    fs::write(
        information.join("RECORD"),
        "things/module.so,sha256=x,1\n\"things/other.so\",,\nthings.libs/libplain-1.so,,\n",
    )
    .unwrap();
    let package = |survey: &Survey, name| library(survey, name).package.clone();
    for survey in survey_of(std::slice::from_ref(&site), &LibraryRules::new()) {
        for name in ["module.so", "other.so", "libplain-1.so"] {
            assert_eq!(package(&survey, name), "all_things");
        }
        // No RECORD has it.
        assert_eq!(package(&survey, "libopenblas-1.so"), "things");
    }
    // The records are found from a part of the directory, too.
    for survey in survey_of(&[site.join("things")], &LibraryRules::new()) {
        assert_eq!(package(&survey, "module.so"), "all_things");
    }
}

#[test]
fn a_survey_for_an_interpreter_is_of_what_it_would_load_and_loads_nothing() {
    let shop = Workshop::new("survey-interpreter");
    let site = environment(&shop);
    for pool in pools(1) {
        let interpreter = &pool.interpreters()[0];
        let domain = interpreter.domain();
        let before = domain.replicas();
        let survey = Survey::of(domain, std::slice::from_ref(&site)).unwrap();
        assert_eq!(survey.libraries.len(), 5);
        assert_eq!(domain.replicas(), before);
        assert!(!mapped(&site.join("things.libs/libopenblas-1.so")));
    }
}

/// Whether this process has code of `file`.
fn mapped(file: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let file = file.canonicalize().unwrap();
    maps.lines().any(|line| line.contains(" r-xp ") && line.ends_with(file.to_str().unwrap()))
}
