//! The command's messages to somebody who tries it for the first time.

use super::common::{ECHO, variable};
use super::{Process, write};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The message of a start that fails, in an empty environment.
fn words(places: &[&Path], options: &[&str]) -> String {
    let mut command = Command::new(variable("HYDROZOA_TEST_COMMAND"));
    command.arg("serve").args(places).args(options);
    command.args(["--http-port", "0", "--metrics-port", "0", "--grpc-port", "0"]);
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH").stdin(Stdio::null());
    let output = command.output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    words
}

#[test]
fn a_folder_that_is_no_repository_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    write(&models, "double", ECHO);
    let above = format!("`hydrozoa serve {}`", models.display());
    let model = words(&[&models.join("double")], &[]);
    assert!(model.contains("is the folder of a model") && model.contains(&above), "{model}");
    let version = words(&[&models.join("double/1")], &[]);
    assert!(
        version.contains("is the folder of a version") && version.contains(&above),
        "{version}"
    );
    let package = words(&[&folder.path().join("resnet.pt")], &[]);
    assert!(package.contains("the package ") && package.contains("resnet.pt does not exist"));
    assert!(!package.contains("repository"), "{package}");
}

#[test]
fn a_module_that_is_missing_is_named_once_with_where_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody has it.
    write(folder.path(), "m", "import no_such_module_of_anybody\n");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let words = words(&[folder.path()], &["--model-control-mode=explicit", "--load-model=m"]);
    let said: Vec<_> = words.lines().filter(|line| line.contains("finds no module")).collect();
    assert_eq!(said.len(), 1, "{words}");
    assert!(said[0].contains("--venv DIR"), "{words}");
    assert!(!words.contains("Traceback") && !words.contains("_hydrozoa"), "{words}");
    // Without numpy it is numpy, which the module of Triton's needs.
    if !said[0].contains("`numpy`") {
        assert!(said[0].contains("m/1/model.py:1 imports"), "{words}");
    }
}

#[test]
fn a_model_that_says_nothing_of_its_tensors_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("m/1")).unwrap();
    fs::write(folder.path().join("m/1/model.py"), "class TritonPythonModel:\n    pass\n").unwrap();
    let mut process = Process::start(folder.path(), &[]);
    let line = process.line("nothing says which inputs and outputs it has");
    assert!(line.contains("m/config.pbtxt") && line.contains("auto_complete_config"), "{line}");
    assert_eq!(process.wait().code(), Some(1));
}
