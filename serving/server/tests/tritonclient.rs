//! The client that users have: tritonclient, unmodified.

mod common;

use common::{ECHO, FLOATS, Site, config_of, variable};
use hydrozoa_models::DataType;
use hydrozoa_server::Control;
use std::process::Command;

#[test]
fn tritonclient_works_unmodified() {
    let environment = variable("HYDROZOA_TEST_CLIENTS");
    let site = Site::with(Default::default(), |settings| {
        settings.control = Control::Clients;
        settings.client_shared_memory = true;
        settings.client_files = true;
    });
    site.model("floats", FLOATS, ECHO);
    site.model("types", &config_of(DataType::ALL, "[ -1 ]"), ECHO);
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
