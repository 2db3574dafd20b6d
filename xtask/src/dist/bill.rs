//! The bill of materials: all crates that are compiled into a release, as CycloneDX 1.6 in JSON
//! (<https://cyclonedx.org/docs/1.6/json/>).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Machine, VERSION};
use crate::workspace;

/// The packages that users get.
const TOPS: [&str; 3] = ["hydrozoa-cli", "hydrozoa-capi", "hydrozoa-triton"];

/// Writes the bill.
pub fn write(machine: Machine, path: &Path) -> Result<()> {
    let output = workspace::cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &machine.target(),
        ])
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout)?;
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    let bill = bill(&metadata, &digests(&lock))?;
    fs::write(path, serde_json::to_string_pretty(&bill)? + "\n")
        .with_context(|| format!("writing {}", path.display()))
}

fn bill(metadata: &Value, digests: &BTreeMap<(String, String), String>) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let needs: BTreeMap<String, BTreeSet<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            (
                text(&node["id"]),
                list(&node["deps"])
                    .iter()
                    .filter(is_compiled_in)
                    .map(|dep| text(&dep["pkg"]))
                    .collect(),
            )
        })
        .collect();
    let is_top = |package: &&Value| TOPS.contains(&package["name"].as_str().unwrap_or_default());
    let mut found = BTreeSet::new();
    let mut next: Vec<String> =
        packages.values().filter(is_top).map(|top| text(&top["id"])).collect();
    ensure!(next.len() == TOPS.len(), "the workspace lacks one of {TOPS:?}");
    while let Some(id) = next.pop() {
        if found.insert(id.clone()) {
            next.extend(needs.get(&id).into_iter().flatten().cloned());
        }
    }
    let reference = |id: &String| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let component = |id: &String| {
        let package = &packages[id];
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": "library", "bom-ref": reference(id), "purl": reference(id),
            "name": name, "version": version,
        });
        if let Some(license) = package["license"].as_str() {
            // Before SPDX's expressions a slash meant a choice.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(digest) = digests.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
        }
        component
    };
    let dependency = |id: &String| {
        let needs = needs.get(id).into_iter().flatten().map(reference).collect::<BTreeSet<_>>();
        json!({ "ref": reference(id), "dependsOn": needs })
    };
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": { "component": { "type": "application", "bom-ref": "hydrozoa", "name": "hydrozoa", "version": VERSION } },
        "components": found.iter().map(component).collect::<Vec<_>>(),
        "dependencies": found.iter().map(dependency).collect::<Vec<_>>(),
    }))
}

/// Whether a dependency is compiled into its user, and not into its tests or its build script.
fn is_compiled_in(dependency: &&Value) -> bool {
    dependency["dep_kinds"]
        .as_array()
        .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// The digests of packages by their names and versions, from the lock file.
fn digests(lock: &str) -> BTreeMap<(String, String), String> {
    let package = |part: &str| {
        let field = |name: &str| {
            let prefix = format!("{name} = \"");
            let line = part.lines().find_map(|line| line.strip_prefix(&prefix))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::{bill, digests};
    use serde_json::json;

    #[test]
    fn the_bill_has_what_is_compiled_in() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let needs =
            |on: &str, kind: Option<&str>| json!({ "pkg": on, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: serde_json::Value| json!({ "id": name, "deps": deps });
        let names = ["hydrozoa-cli", "hydrozoa-capi", "hydrozoa-triton", "used", "tested", "other"];
        let metadata = json!({
            "packages": names.map(package),
            "resolve": { "nodes": [
                node("hydrozoa-cli", json!([needs("used", None), needs("tested", Some("dev"))])),
                node("hydrozoa-capi", json!([])), node("hydrozoa-triton", json!([])),
                node("used", json!([])), node("tested", json!([])), node("other", json!([])),
            ] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&metadata, &digests(lock)).unwrap();
        let components = bill["components"].as_array().unwrap();
        let used = components.iter().find(|component| component["name"] == "used").unwrap();
        assert_eq!(components.len(), 4);
        assert_eq!(used["hashes"][0]["content"], "abc");
        assert_eq!(used["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][1]["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
    }
}
