//! Reasons against a Python: [`hydrozoa::python::Refusal`].

use crate::pythons::pythons;
use crate::{directory, says};
use hydrozoa::Error;
use hydrozoa::python::{self, Refusal};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn refusal(path: &Path) -> Refusal {
    match python::find(Some(path)).unwrap_err() {
        Error::PythonNotFound { candidates } => candidates[0].verdict.clone().unwrap_err(),
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_python_is_refused_with_what_to_do() {
    let place = directory("refused");
    let file = |name: &str, content: &[u8]| {
        let path = place.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let missing = refusal(&place.join("missing"));
    assert_eq!(missing, Refusal::Missing);
    says(&missing, &["it does not exist; check the path"]);

    let empty = refusal(&place);
    assert_eq!(empty, Refusal::NotPython);
    says(&empty, &["it is neither a libpython3.X.so, ", "; name one of these"]);

    let absent = refusal(Path::new("3.99"));
    assert!(matches!(absent, Refusal::NotInstalled(_)), "{absent:?}");
    let there = absent.to_string().split_once("that there is: ").unwrap().1.to_owned();
    says(&absent, &["has this version; install it, or name one that there is: ", &there]);
    assert!(there.starts_with("3."), "{there}");

    let old = refusal(&file("libpython3.8.so.1.0", b""));
    assert!(matches!(old, Refusal::Version(_)), "{old:?}");
    says(&old, &["it is Python 3.8; this build serves 3.", "; name one of these"]);

    let threaded = refusal(&file("libpython3.13t.so.1.0", b""));
    assert!(matches!(threaded, Refusal::Flavour(_)), "{threaded:?}");
    says(&threaded, &["it is a free-threaded build", "; name the usual build"]);

    let cut = refusal(&file("libpython3.12.so.1.0", b"\x7fELF"));
    assert!(matches!(cut, Refusal::Machine(_)), "{cut:?}");
    says(&cut, &["it is not for this machine: ", "; install it again, or name another"]);

    let mut whole = fs::read(std::env::current_exe().unwrap()).unwrap();
    whole.truncate(4096);
    let bare = refusal(&file("libpython3.12.so.1.0", &whole));
    assert!(matches!(bare, Refusal::NoStandardLibrary(_)), "{bare:?}");
    says(&bare, &["no lib/python3.12/os.py above it; install Python again"]);

    let script = file("python3", b"#!/bin/sh\necho broken >&2\nexit 1\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let broken = refusal(&script);
    assert!(matches!(broken, Refusal::DoesNotRun(_)), "{broken:?}");
    says(&broken, &["it does not run: broken; install it again, or name another"]);
}

#[test]
fn an_environment_without_its_base_is_refused_with_how_to_make_it_again() {
    let minor = pythons().keys().next().unwrap();
    let venv = directory("without-base");
    fs::write(venv.join("pyvenv.cfg"), format!("home = /nowhere\nversion = 3.{minor}.0\n"))
        .unwrap();
    let broken = refusal(&venv);
    assert!(matches!(broken, Refusal::BrokenVenv(_)), "{broken:?}");
    says(
        &broken,
        &["its pyvenv.cfg ", "/nowhere", "; make the environment again (python -m venv)"],
    );
}

#[test]
fn an_installation_without_a_shared_library_is_refused_with_how_to_build_one() {
    let place = directory("static");
    fs::create_dir_all(place.join("lib/python3.12")).unwrap();
    fs::write(place.join("lib/python3.12/os.py"), "").unwrap();
    fs::create_dir_all(place.join("bin")).unwrap();
    fs::write(place.join("bin/python3.12"), "").unwrap();
    let unshared = refusal(&place);
    assert!(matches!(unshared, Refusal::Static { .. }), "{unshared:?}");
    let parts = ["it is built without a shared library (no libpython3.12.so", "--enable-shared"];
    says(&unshared, &[&parts[..], &["or install the distribution's libpython package"]].concat());
}
