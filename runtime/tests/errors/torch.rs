//! Reasons against policy `shared` that need no torch, but folders that look like one:
//! [`hydrozoa::torch::AdapterError`]. A process has one adapter, so each runs in a process of its own.

use crate::pythons::pythons;
use crate::{directory, says};
use hydrozoa::torch::AdapterError;
use hydrozoa::{Builder, Error, Pool, TorchPolicy, python};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::Workshop;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// An environment with a folder `torch` that states this version; and that folder's `lib`.
fn environment(name: &str, version: &str) -> (Builder, PathBuf) {
    let (minor, library) = pythons().iter().next().unwrap();
    let venv = directory(name);
    let home = python::find(Some(library)).unwrap().prefix().join("bin");
    fs::write(venv.join("pyvenv.cfg"), format!("home = {}\n", home.display())).unwrap();
    let torch = venv.join(format!("lib/python3.{minor}/site-packages/torch"));
    fs::create_dir_all(torch.join("lib")).unwrap();
    fs::write(torch.join("__init__.py"), "").unwrap();
    fs::write(torch.join("version.py"), format!("__version__ = '{version}'\n")).unwrap();
    let builder = Pool::builder().python(library).venv(venv).interpreters(1);
    (builder.torch(TorchPolicy::Shared), torch.join("lib"))
}

/// A library that defines nothing of torch's.
fn stub(library: &Path) {
    let shop = Workshop::new("stub-torch");
    fs::copy(shop.build("libstub.so", "int stub = 1;", &[]), library).unwrap();
}

fn refusal(builder: Builder) -> AdapterError {
    match builder.build().unwrap_err() {
        Error::Torch(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_that_is_not_known_says_which_are_and_the_way_out() {
    let (builder, _) = environment("unknown-release", "1.0.0");
    let error = refusal(builder);
    assert!(matches!(error, AdapterError::UnknownRelease { .. }), "{error:?}");
    let parts = [
        "torch 1.0.0 in ",
        "(it knows 2.11); use policy `isolated`, which works with every release",
    ];
    says(&error, &parts);
    let transparent = Error::from(error);
    assert!(matches!(transparent, Error::Torch(_)) && transparent.to_string().contains("1.0.0"));
}

#[test]
fn a_torch_without_its_own_library_is_named_with_the_way_out() {
    let (builder, library) = environment("no-library", "2.11.0");
    let error = refusal(builder);
    assert!(matches!(error, AdapterError::NoLibrary { .. }), "{error:?}");
    let missing = library.join("libtorch_cpu.so");
    let parts = [
        " has no ",
        missing.to_str().unwrap(),
        ": policy `shared` serves ",
        "use policy `isolated`",
    ];
    says(&error, &parts);
}

#[test]
fn torch_that_the_program_has_loaded_is_named_with_the_way_out() {
    alone(PATIENCE, || {
        let (builder, library) = environment("program-has", "2.11.0");
        stub(&library.join("libtorch_cpu.so"));
        let bridge = library.join("libtorch_python.so");
        stub(&bridge);
        let name = std::ffi::CString::new(bridge.to_str().unwrap()).unwrap();
        // SAFETY: a stub without code.
        assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
        let error = refusal(builder);
        assert!(matches!(error, AdapterError::ProgramHasTorch { .. }), "{error:?}");
        let parts = [
            "the program's own Python has loaded ",
            bridge.to_str().unwrap(),
            "use policy `isolated`",
        ];
        says(&error, &parts);
    });
}

#[test]
fn libtorch_that_cannot_be_loaded_is_named_with_what_to_do() {
    alone(PATIENCE, || {
        let (builder, library) = environment("damaged-torch", "2.11.0");
        fs::write(library.join("libtorch_cpu.so"), [b'x'; 4096]).unwrap();
        let error = refusal(builder);
        assert!(matches!(error, AdapterError::Load { .. }), "{error:?}");
        let parts =
            ["libtorch_cpu.so: cannot load torch for policy `shared`: ", "; install torch again"];
        says(&error, &parts);
    });
}

#[test]
fn a_build_without_the_adapter_s_functions_names_one_and_the_way_out() {
    alone(PATIENCE, || {
        let (builder, library) = environment("other-build", "2.11.0");
        stub(&library.join("libtorch_cpu.so"));
        let error = refusal(builder);
        assert!(matches!(error, AdapterError::MissingSymbols { .. }), "{error:?}");
        let parts = ["torch 2.11.0 in ", " does not export ", ", e.g. _Z", "use policy `isolated`"];
        says(&error, &parts);
    });
}

#[test]
fn a_second_torch_is_named_with_the_first_and_the_way_out() {
    alone(PATIENCE, || {
        let (first, library) = environment("first-torch", "2.11.0");
        stub(&library.join("libtorch_cpu.so"));
        refusal(first);
        let (second, library) = environment("second-torch", "2.11.0");
        stub(&library.join("libtorch_cpu.so"));
        let error = refusal(second);
        assert!(matches!(error, AdapterError::OtherRelease { .. }), "{error:?}");
        let parts =
            ["this process already shares torch 2.11.0 in ", "first-torch", "; torch 2.11.0 in "];
        let parts =
            [&parts[..], &["second-torch", "can join it only under policy `isolated`"]].concat();
        says(&error, &parts);
    });
}
