//! Finding a Python: what the runtime accepts, and what it refuses and why.

mod pythons;

use hydrozoa::python::{self, Refusal};
use hydrozoa::{Error, Pool};
use pythons::pythons;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of its own for a test.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("discovery").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn refusal(path: &Path) -> Refusal {
    match python::find(Some(path)).unwrap_err() {
        Error::PythonNotFound { candidates } => candidates[0].verdict.clone().unwrap_err(),
        other => panic!("{other}"),
    }
}

#[test]
fn library_executable_and_prefix_lead_to_the_same_python() {
    for (minor, library) in pythons() {
        let by_library = python::find(Some(library)).unwrap();
        assert_eq!(by_library.minor(), *minor);
        if let Some(executable) = by_library.executable() {
            assert_eq!(python::find(Some(executable)).unwrap(), by_library);
        }
        // A prefix may hold several versions. The newest is taken.
        let by_prefix = python::find(Some(by_library.prefix())).unwrap();
        assert!(by_prefix.minor() >= *minor);
        assert_eq!(by_prefix.prefix(), by_library.prefix());
    }
}

#[test]
fn a_virtual_environment_leads_to_its_base_and_its_packages() {
    for (minor, library) in pythons() {
        let base = python::find(Some(library)).unwrap();
        let Some(executable) = base.executable() else { continue };
        let venv = directory(&format!("venv-3.{minor}"));
        let made = Command::new(executable)
            .args(["-m", "venv", "--without-pip"])
            .arg(&venv)
            .output()
            .unwrap();
        if !made.status.success() {
            // Distributions put venv into a package of its own.
            println!("3.{minor} has no venv: {}", String::from_utf8_lossy(&made.stderr));
            continue;
        }
        for named in [venv.clone(), venv.join("bin/python")] {
            let found = python::find(Some(&named)).unwrap();
            assert_eq!(found.library(), base.library());
            assert_eq!(found.venv(), Some(venv.as_path()));
        }
        fs::write(
            venv.join(format!("lib/python3.{minor}/site-packages/only_here.py")),
            "answer = 42",
        )
        .unwrap();
        for builder in [
            Pool::builder().venv(&venv),
            Pool::builder().python(library).venv(&venv),
            Pool::builder().python(&venv),
        ] {
            let pool = builder.interpreters(1).build().unwrap();
            let session = pool.acquire().unwrap();
            let answer = session.import("only_here").unwrap().getattr("answer").unwrap();
            assert_eq!(answer.extract::<i32>().unwrap(), 42);
            let sys = session.import("sys").unwrap();
            assert_eq!(sys.getattr("prefix").unwrap().str().unwrap(), venv.to_str().unwrap());
            assert_eq!(
                sys.getattr("base_prefix").unwrap().str().unwrap(),
                base.prefix().to_str().unwrap()
            );
        }
    }
}

#[test]
fn a_version_names_the_best_python_of_that_version() {
    for minor in pythons().keys() {
        let found = python::find(Some(Path::new(&format!("3.{minor}")))).unwrap();
        assert_eq!(found.minor(), *minor);
        let Some(executable) = found.executable() else { continue };
        let asked = Command::new(executable).arg("--version").output().unwrap();
        let version = String::from_utf8(asked.stdout).unwrap();
        let exact = version.trim().strip_prefix("Python ").unwrap();
        assert_eq!(python::find(Some(Path::new(exact))).unwrap(), found);
    }
}

#[test]
fn a_virtual_environment_of_a_debug_build_is_refused_and_not_given_the_usual_build() {
    let (minor, library) = pythons().iter().next().unwrap();
    let place = directory("beside-debug");
    let home = place.join("base/bin");
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(place.join(format!("base/lib/python3.{minor}"))).unwrap();
    fs::write(place.join(format!("base/lib/python3.{minor}/os.py")), "").unwrap();
    fs::copy(library, place.join(format!("base/lib/libpython3.{minor}.so.1.0"))).unwrap();
    let debug = home.join(format!("python3.{minor}d"));
    for executable in [&debug, &home.join(format!("python3.{minor}"))] {
        fs::write(executable, "").unwrap();
    }
    let venv = place.join("venv");
    fs::create_dir_all(venv.join("bin")).unwrap();
    let described = |line: &str| {
        let text = format!("home = {}\nversion = 3.{minor}.0\n{line}", home.display());
        fs::write(venv.join("pyvenv.cfg"), text).unwrap();
    };
    // Made with the usual build, as far as anything says.
    described("");
    fs::write(venv.join("bin/python"), "").unwrap();
    assert_eq!(python::find(Some(&venv)).unwrap().minor(), *minor);
    described(&format!("executable = {}\n", debug.display()));
    assert_eq!(refusal(&venv), Refusal::Flavour("debug"));
    described("");
    fs::remove_file(venv.join("bin/python")).unwrap();
    std::os::unix::fs::symlink(&debug, venv.join("bin/python")).unwrap();
    assert_eq!(refusal(&venv), Refusal::Flavour("debug"));
    let error = python::choose(Some(library), Some(&venv)).unwrap_err().to_string();
    assert!(error.contains("venv") && error.contains("debug build"), "{error}");
}

#[test]
fn a_debug_build_alone_is_refused_as_one() {
    let place = directory("debug");
    fs::create_dir_all(place.join("lib/python3.12")).unwrap();
    fs::write(place.join("lib/python3.12/os.py"), "").unwrap();
    fs::write(place.join("lib/libpython3.12d.so"), "").unwrap();
    assert_eq!(refusal(&place), Refusal::Flavour("debug"));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_system_s_reason() {
    let place = directory("unreadable");
    let says = |path: &Path, reason: &str| match refusal(path) {
        Refusal::Unreadable(said) => assert!(said.contains(reason), "{said}"),
        other => panic!("{other:?}"),
    };
    let endless = place.join("libpython3.12.so.1.0");
    std::os::unix::fs::symlink("libpython3.12.so.1.0", &endless).unwrap();
    says(&endless, "Too many levels of symbolic links");
    let closed = place.join("closed");
    fs::create_dir_all(closed.join("lib/python3.12")).unwrap();
    fs::write(closed.join("lib/python3.12/os.py"), "").unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // root may read everything. This thread is somebody else for the system from here on.
    // SAFETY: it changes whose files this thread may open, and nothing else. It ends with the test.
    unsafe { libc::setfsuid(65534) };
    for path in [closed.clone(), closed.join("python3"), closed.join("lib/python3.12")] {
        says(&path, "Permission denied");
    }
}

#[test]
fn every_candidate_says_what_it_is() {
    for candidate in python::discover() {
        let line = candidate.to_string();
        assert!(line.starts_with(candidate.path.to_str().unwrap()), "{line}");
        assert!(!line.ends_with(": "), "{line}");
        println!("{line}");
    }
}
