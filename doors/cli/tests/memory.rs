//! `hydrozoa bench --memory` and the trial of `hydrozoa doctor`, with a Python of the machine.

use std::fs;
use std::process::{Command, Output};

use hydrozoa_testkit::libraries::Workshop;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Holds 16 MiB in 1,024 objects.
const HOLDER: &str = "held = [str(i).encode() + bytes(16 << 10) for i in range(1024)]\n";

fn hydrozoa(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hydrozoa")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_further_interpreter_s_memory_is_told_by_owner_library_and_package() {
    let shop = Workshop::new("cli-memory");
    fs::write(shop.path("holder.py"), HOLDER).unwrap();
    let folder = shop.path(".").canonicalize().unwrap();
    let code = format!("import sys\nsys.path.append({folder:?})\nimport holder");
    let file = shop.path("memory.json");
    let file = file.to_str().unwrap();
    let table = text(&hydrozoa(&["bench", "--memory", "--run", &code, "--json", file]));
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[0], "a further interpreter:");
    let json: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let number = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("{name} in {json}"));
    let private = number("private");
    let sum: u64 = ["replicas", "raw_heap", "arenas", "native_heap", "mapped", "stacks"]
        .map(number)
        .iter()
        .sum();
    assert_eq!(sum, private);
    let words = format!("{:.2} MiB  private memory", private as f64 / MIB as f64);
    assert!(rows[1].contains(&words), "{words} in\n{table}");
    let packages = json["packages"].as_object().unwrap();
    let held = packages["holder"].as_u64().unwrap();
    assert!((16 * MIB..17 * MIB).contains(&held), "{held}");
    assert!(private > held, "{json}");
    let (_, packages) = table.split_once("packages with the largest objects").unwrap();
    assert!(packages.lines().nth(1).unwrap().contains("MiB  holder: "), "{packages}");
    let (_, libraries) = table.split_once("libraries with the most private memory:\n").unwrap();
    assert!(libraries.lines().next().unwrap().contains("libpython3."), "{libraries}");
}

#[test]
fn the_memory_of_nothing_to_run_is_that_of_a_bare_interpreter() {
    let table = text(&hydrozoa(&["bench", "--memory"]));
    assert!(table.contains("page tables") && table.contains("mappings"), "{table}");
    let refused = hydrozoa(&["bench"]);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(complaint.contains("<PACKAGE>"), "{complaint}");
    let raised = hydrozoa(&["bench", "--memory", "--run", "1 / 0"]);
    let complaint = String::from_utf8_lossy(&raised.stderr);
    assert!(!raised.status.success() && complaint.contains("ZeroDivisionError"), "{complaint}");
}

#[test]
fn the_doctor_tells_what_a_second_interpreter_takes() {
    let python = hydrozoa::python::find(None).unwrap();
    let prefix = python.prefix().to_str().unwrap();
    let output = hydrozoa(&["doctor", "--venv", prefix]);
    let told = String::from_utf8_lossy(&output.stdout);
    let line =
        told.lines().find(|line| line.contains("tried: ")).unwrap_or_else(|| panic!("{told}"));
    let (_, taken) = line.split_once("the second takes ").unwrap_or_else(|| panic!("{line}"));
    let mib: u64 = taken.split(' ').next().unwrap().parse().unwrap();
    assert!((2..200).contains(&mib), "{line}");
}
