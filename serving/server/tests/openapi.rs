//! The description of the endpoints, `docs/openapi.json`.

mod common;

use common::{ECHO, FLOATS, Site};
use serde_json::Value;

#[test]
fn every_endpoint_of_the_description_exists() {
    let text = include_str!("../../../docs/openapi.json");
    let description: Value = serde_json::from_str(text).unwrap();
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let mut count = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        let target =
            path.replace("{model}", "m").replace("{version}", "1").replace("{region}", "r");
        for (method, operation) in methods.as_object().unwrap() {
            // A load would need a configuration that is complete, and an unload would end the model.
            if target.ends_with("/unload") {
                continue;
            }
            let answer = site.request(&method.to_uppercase(), &target, &[], b"");
            let status = answer.status.to_string();
            let words = String::from_utf8_lossy(&answer.body);
            assert!(operation["responses"].get(&status).is_some(), "{path}: {status}, {words}");
            assert!(!words.contains("Not Found") && status != "405", "{path}: {words}");
            count += 1;
        }
        // The description names all methods of a path.
        for method in ["GET", "POST"] {
            if methods.get(method.to_lowercase()).is_none() {
                site.request(method, &target, &[], b"").error(405);
            }
        }
    }
    assert!(count > 25, "{count}");
}
