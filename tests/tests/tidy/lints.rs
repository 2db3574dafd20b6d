//! The lints of the workspace hold for each crate.

use crate::sources::{assert_none, sources};

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let sources = sources();
    let text = |path: &str| {
        sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    };
    let workspace = text("Cargo.toml").expect("a workspace");
    for lint in [
        "unsafe_op_in_unsafe_fn",
        "undocumented_unsafe_blocks",
        "missing_safety_doc",
        "allow_attributes_without_reason",
    ] {
        assert!(workspace.contains(&format!("{lint} = \"deny\"")), "{lint} is not denied");
    }
    let found = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
        .filter(|source| !source.text.contains("[lints]\nworkspace = true"))
        .map(|source| source.path.clone())
        .collect();
    assert_none("a crate without the workspace's lints", found);
}
