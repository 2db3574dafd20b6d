//! The client that users have: tritonclient, unmodified.

mod common;

use common::{ECHO, FLOATS, Site, types};
use hydrozoa_server::Control;
use std::process::Command;

#[test]
fn tritonclient_works_unmodified() {
    let environment = std::env::var_os("HYDROZOA_TEST_CLIENTS").unwrap_or_else(|| {
        panic!(
            "HYDROZOA_TEST_CLIENTS is not set: this test needs a virtual environment with tritonclient and \
             geventhttpclient. `cargo xtask test` makes one."
        )
    });
    let site = Site::with(Default::default(), |settings| {
        settings.control = Control::Clients;
        settings.client_shared_memory = true;
        settings.client_files = true;
    });
    site.model("floats", FLOATS, ECHO);
    site.model("types", &types().1, ECHO);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http_client.py");
    let python = std::path::Path::new(&environment).join("bin/python");
    let output =
        Command::new(&python).arg(program).arg(site.address.to_string()).output().unwrap_or_else(
            |error| {
                panic!("{}: {error}", python.display());
            },
        );
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.trim() == "passed", "{printed}{complaint}");
}
