//! `hydrozoa inspect` and `hydrozoa doctor` on libraries that the tests build, with a Python of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hydrozoa_testkit::libraries::Workshop;
use serde_json::Value;

/// An extension module with a mebibyte of variables, the library that it needs, and a BLAS.
fn libraries(shop: &Workshop) -> PathBuf {
    let directory = shop.path("site-packages");
    fs::create_dir_all(directory.join("things")).unwrap();
    let build = |name: &str, source: &str, arguments: &[&str]| {
        let built = shop.build(name, source, arguments);
        fs::rename(built, directory.join("things").join(name)).unwrap();
    };
    build("libneeded.so", "char numbers[500000] = { 1 };", &[]);
    build("libopenblas-x.so", "int n = 1;", &[]);
    build(
        "module.so",
        "extern void *PyLong_FromLong(long); char numbers[1 << 20] = { 1 };
         void *PyInit_module(void) { return PyLong_FromLong(1); }",
        &[
            "-L{dir}/site-packages/things",
            "-Wl,-rpath,$ORIGIN",
            "-Wl,--no-as-needed",
            "-l:libneeded.so",
        ],
    );
    directory
}

fn hydrozoa(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hydrozoa")).args(arguments).arg(path).output().unwrap()
}

/// Status and standard output.
fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    let (status, text) = told(output);
    assert_eq!(status, Some(0), "{}", complaint(output));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_file_is_told_with_what_its_replicated_needs_cost() {
    let shop = Workshop::new("cli-file");
    let module = libraries(&shop).join("things/module.so");
    let report = json(&hydrozoa(&["inspect", "--json"], &module));
    let dependencies = report["dependencies"].as_array().unwrap();
    let needed = dependencies.iter().find(|one| one["name"] == "libneeded.so").unwrap();
    assert_eq!(needed["class"], "replicated");
    let figure =
        |report: &Value, name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{report}"));
    assert!(figure(needed, "data") >= 480_000 && figure(&report, "data") >= 1_000_000);
    let sum = figure(&report, "private_at_most") + figure(needed, "private_at_most");
    assert_eq!(figure(&report["with_dependencies"], "private_at_most"), sum);
    let (status, text) = told(&hydrozoa(&["inspect"], &module));
    assert_eq!(status, Some(0));
    assert!(text.contains("with what it brings, a further interpreter costs"), "{text}");
}

#[test]
fn a_directory_is_told_library_by_library_with_totals() {
    let shop = Workshop::new("cli-directory");
    let directory = libraries(&shop);
    fs::write(directory.join("things/script.so"), "GROUP(libneeded.so)").unwrap();
    let module = fs::read(directory.join("things/module.so")).unwrap();
    fs::write(directory.join("things/truncated.so"), &module[..300_000]).unwrap();

    let report = json(&hydrozoa(&["inspect", "--json"], &directory));
    let listed = report["libraries"].as_array().unwrap();
    let name = |one: &Value| one["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let names: Vec<String> = listed.iter().map(name).collect();
    assert_eq!(names, ["module.so", "libneeded.so", "libopenblas-x.so"]);
    let classes: Vec<&str> = listed.iter().map(|one| one["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["replicated", "replicated", "system"]);
    let most = |one: &Value| one["private_at_most"].as_u64().unwrap();
    assert_eq!(most(&report["replicated"]), most(&listed[0]) + most(&listed[1]));
    let mut failed: Vec<String> = report["failed"].as_array().unwrap().iter().map(name).collect();
    failed.sort();
    assert_eq!(failed, ["script.so", "truncated.so"]);

    let (status, text) = told(&hydrozoa(&["inspect"], &directory));
    assert_eq!(status, Some(0));
    for words in [
        "total of 2 libraries: ",
        "things/libopenblas-x.so  a rule: one BLAS",
        "total of 1 library: ",
        "script.so: not a loadable ELF image",
        "truncated.so: not a loadable ELF image: the file is truncated",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("not found"), "{text}");
    fs::rename(directory.join("things/libneeded.so"), shop.path("libneeded.so")).unwrap();
    let (_, text) = told(&hydrozoa(&["inspect"], &directory));
    let (_, missing) = text.split_once("needs that were not found").unwrap();
    assert!(missing.contains("things/module.so: libneeded.so"), "{text}");
    fs::rename(shop.path("libneeded.so"), directory.join("things/libneeded.so")).unwrap();
    let ruled = ["inspect", "--json", "--share", "*/libneeded.so"];
    let report = json(&hydrozoa(&ruled, &directory));
    let classes = report["libraries"].as_array().unwrap().iter().map(|one| &one["class"]);
    assert_eq!(classes.filter(|class| *class == "system").count(), 2, "{report}");
}

#[test]
fn a_directory_without_a_library_that_can_be_inspected_is_an_error() {
    let shop = Workshop::new("cli-nothing");
    let directory = shop.path("nothing");
    fs::create_dir(&directory).unwrap();
    let output = hydrozoa(&["inspect"], &directory);
    assert_eq!(output.status.code(), Some(1));
    let words = "nothing: there is no shared library below it";
    assert!(complaint(&output).contains(words), "{}", complaint(&output));
    fs::write(directory.join("script.so"), "GROUP(libneeded.so)").unwrap();
    let output = hydrozoa(&["inspect"], &directory);
    assert_eq!(output.status.code(), Some(1));
    let words = "none of its 1 libraries can be inspected: ";
    let complaint = complaint(&output);
    assert!(complaint.contains(words) && complaint.contains("script.so"), "{complaint}");
}

#[test]
fn the_doctor_tells_what_the_packages_of_a_venv_cost_and_what_they_share() {
    let shop = Workshop::new("cli-doctor");
    let built = libraries(&shop);
    let python = hydrozoa::python::find(None).unwrap();
    let minor = python.minor();
    let venv = shop.path("venv");
    let lib = venv.join(format!("lib/python3.{minor}"));
    let site = lib.join("site-packages");
    fs::create_dir_all(&lib).unwrap();
    fs::rename(built, &site).unwrap();
    let home = python.executable().expect("an installation with an executable").parent().unwrap();
    let about = format!("home = {}\nversion = 3.{minor}.0\n", home.display());
    fs::write(venv.join("pyvenv.cfg"), about).unwrap();

    let output = hydrozoa(&["doctor", "--quick", "--venv"], &venv);
    let (status, text) = told(&output);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("things: 2 libraries"), "{text}");
    assert!(text.contains("libopenblas-x.so: a rule: one BLAS"), "{text}");
    assert!(text.contains("libpython3."), "{text}");

    // Plain python loads it, on a stack that glibc then makes executable.
    let nested = "int apply(int (*)(int));
                  int f(int a) { int g(int b) { return a + b; } return apply(g); }";
    let nested = shop.build("nested.so", nested, &[]);
    fs::copy(nested, site.join("nested.so")).unwrap();
    fs::write(site.join("script.so"), "GROUP(libneeded.so)").unwrap();
    let (status, text) = told(&hydrozoa(&["doctor", "--quick", "--venv"], &venv));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("not inspected: 2 files"), "{text}");
    let (_, fixes) = text.split_once("what would fail").unwrap();
    assert!(fixes.contains("nested.so: refused") && !fixes.contains("script.so"), "{fixes}");
}
