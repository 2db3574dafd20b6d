//! The contents of an application can be looked at.

use crate::application::{application, run, seal};
use std::fs;
use std::process::Command;

fn look(option: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
    command.args(["seal", option]).arg(application().file());
    command
}

#[test]
fn two_seals_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hello.py");
    fs::write(&script, "print('hello')\n").unwrap();
    let [one, two] = ["one", "two"].map(|name| {
        let file = folder.path().join(name);
        run(seal(&file).arg("--script").arg(&script));
        fs::read(file).unwrap()
    });
    assert!(one == two, "{} and {} bytes", one.len(), two.len());
}

#[test]
fn it_shows_what_it_carries() {
    let text = run(&mut look("--show"));
    assert!(text.contains("shop") && text.contains("1.2") && text.contains("MIT"), "{text}");
    let bill: serde_json::Value = serde_json::from_str(&run(&mut look("--cyclonedx"))).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let components = bill["components"].as_array().unwrap();
    assert!(components.iter().any(|one| one["purl"] == "pkg:pypi/shop@1.2"), "{bill:#}");
    run(&mut look("--verify"));
}

#[test]
fn it_is_extracted_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    run(look("--extract").arg(folder.path()));
    let library = crate::application::found().library().canonicalize().unwrap();
    let inside = folder.path().join("lib").join(library.file_name().unwrap());
    assert!(fs::read(&inside).unwrap() == fs::read(&library).unwrap(), "{}", inside.display());
    let packages = format!("lib/python3.{}/site-packages", crate::application::found().minor());
    let prices =
        fs::read_to_string(folder.path().join(format!("{packages}/shop/data/prices.txt"))).unwrap();
    assert_eq!(prices, "apples 3\n");
}
