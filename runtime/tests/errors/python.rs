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
    let is = |path: &Path, expected: Refusal, parts: &[&str]| {
        let found = refusal(path);
        assert_eq!(found, expected);
        says(&found, parts);
    };
    is(&place.join("missing"), Refusal::Missing, &["it does not exist; check the path"]);
    let neither = ["it is neither a libpython3.X.so, ", "; name one of these"];
    is(&place, Refusal::NotPython, &neither);
    is(&file("libpython3.so", b""), Refusal::NotPython, &neither);
    let served = ["it is Python 3.8; this build serves 3.", "; name one of these"];
    is(&file("libpython3.8.so.1.0", b""), Refusal::Version("3.8".to_owned()), &served);
    let usual = ["it is a free-threaded build", "; name the usual build"];
    is(&file("libpython3.13t.so.1.0", b""), Refusal::Flavour("free-threaded"), &usual);

    let absent = refusal(Path::new(&format!("3.{}.999", pythons().keys().next().unwrap())));
    assert!(matches!(absent, Refusal::NotInstalled(_)), "{absent:?}");
    let there = absent.to_string().split_once("that there is: ").unwrap().1.to_owned();
    says(&absent, &["has this version; install it, or name one that there is: ", &there]);
    assert!(there.starts_with("3."), "{there}");

    let mut whole = fs::read(std::env::current_exe().unwrap()).unwrap();
    whole.truncate(4096);
    let mut foreign = whole.clone();
    foreign[18] ^= 0xff;
    for damaged in [&b"\x7fELF"[..], &foreign] {
        let refused = refusal(&file("libpython3.12.so.1.0", damaged));
        assert!(matches!(refused, Refusal::Machine(_)), "{refused:?}");
        says(&refused, &["it is not for this machine: ", "; install it again, or name another"]);
    }
    let bare = refusal(&file("libpython3.12.so.1.0", &whole));
    assert!(matches!(bare, Refusal::NoStandardLibrary(_)), "{bare:?}");
    says(&bare, &["no lib/python3.12/os.py above it; install Python again"]);

    let endless = place.join("libpython3.12.so.1");
    std::os::unix::fs::symlink("libpython3.12.so.1", &endless).unwrap();
    let unreadable = refusal(&endless);
    assert!(matches!(unreadable, Refusal::Unreadable(_)), "{unreadable:?}");
    let parts = ["it cannot be read: ", ": Too many levels of", "; let this user read it, "];
    says(&unreadable, &[&parts[..], &["or name another"]].concat());

    let script = file("python3", b"#!/bin/sh\necho broken >&2\nexit 1\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let again = ["it does not run: broken; install it again, or name another"];
    is(&script, Refusal::DoesNotRun("broken".to_owned()), &again);
}

#[test]
fn a_version_that_is_not_served_is_refused_with_those_that_are() {
    for version in ["2.7", "2.7.18", "3.9", "3.99"] {
        let old = refusal(Path::new(version));
        assert!(matches!(old, Refusal::NotServed { .. }), "{old:?}");
        let parts = [&format!("Python {version} is not supported: "), "serves 3.10 to 3.15; this"];
        let there = pythons().keys().map(|minor| format!("3.{minor}")).collect::<Vec<_>>();
        says(&old, &[&parts[..], &["machine has 3.", there.last().unwrap()]].concat());
    }
}

#[test]
fn a_program_that_is_no_python_is_told_from_a_python() {
    let place = directory("programs");
    let script = |name: &str, mode: u32, lines: &str| {
        let path = place.join(name);
        fs::write(&path, lines).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    // Complains about `-I`, and quotes what it does not know.
    let other = script(
        "other",
        0o755,
        "#!/bin/sh\n[ \"$1\" = --version ] && echo other 9.1 && exit\necho \"cannot use '$4'\" >&2; exit 2\n",
    );
    assert_eq!(refusal(&other), Refusal::NotPython);
    assert_eq!(refusal(Path::new("/bin/ls")), Refusal::NotPython);
    // Without a `--version` either.
    let mute = script("mute", 0o755, "#!/bin/sh\nexit 1\n");
    assert_eq!(refusal(&mute), Refusal::DoesNotRun("exit status: 1".to_owned()));
    let program = script("train.py", 0o644, "print('hello')\n");
    assert_eq!(refusal(&program), Refusal::NotPython);
    // Python 2 has no `-I`, and says its version on standard error.
    let two = script(
        "python2",
        0o755,
        "#!/bin/sh\n[ \"$1\" = --version ] && echo Python 2.7.18 >&2 && exit\necho Unknown option: -I >&2; exit 2\n",
    );
    assert_eq!(refusal(&two), Refusal::Version("2.7.18".to_owned()));
    fs::create_dir_all(place.join("two/lib/python2.7")).unwrap();
    fs::write(place.join("two/lib/python2.7/os.py"), "").unwrap();
    assert_eq!(refusal(&place.join("two")), Refusal::Version("2.7".to_owned()));
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
    for named in [place.clone(), place.join("bin/python3.12")] {
        let unshared = refusal(&named);
        assert!(matches!(unshared, Refusal::Static { .. }), "{unshared:?}");
        let parts =
            ["it is built without a shared library (no libpython3.12.so", "--enable-shared"];
        says(
            &unshared,
            &[&parts[..], &["or install the distribution's libpython package"]].concat(),
        );
    }
}
