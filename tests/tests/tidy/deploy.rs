//! The files of `serving/deploy/`: their tools can read them, and the options that they name exist.

use std::collections::BTreeSet;

use syn::{Attribute, Item, LitStr, Meta};
use yaml_rust2::{Yaml, YamlLoader};

use crate::sources::{Source, sources};

fn source(path: &str) -> Source {
    let found = sources().into_iter().find(|source| source.path == path);
    found.unwrap_or_else(|| panic!("there is no {path}"))
}

/// The long names that an option has, if it has any.
fn long(attribute: &Attribute, field: &str) -> Vec<String> {
    let mut names = Vec::new();
    let Meta::List(list) = &attribute.meta else { return names };
    if !list.path.is_ident("arg") {
        return names;
    }
    // The rest may be any expression: only the names matter.
    let text = list.tokens.to_string();
    for part in text.split(',').map(str::trim) {
        let value = part.split_once('=').map(|(_, value)| value.trim());
        let literal = value.and_then(|value| syn::parse_str::<LitStr>(value).ok());
        match (part.split([' ', '=']).next(), literal) {
            (Some("long" | "alias"), Some(name)) => names.push(name.value()),
            (Some("long"), None) => names.push(field.replace('_', "-")),
            _ => {}
        }
    }
    names
}

/// The options of `hydrozoa serve`.
fn options() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in [
        "doors/cli/src/main.rs",
        "doors/cli/src/network.rs",
        "doors/cli/src/serve.rs",
        "doors/cli/src/traces.rs",
    ] {
        let file = syn::parse_file(&source(path).text).expect("the source is Rust");
        for item in file.items {
            let Item::Struct(item) = item else { continue };
            for field in &item.fields {
                let Some(name) = &field.ident else { continue };
                found.extend(
                    field.attrs.iter().flat_map(|attribute| long(attribute, &name.to_string())),
                );
            }
        }
    }
    for known in ["model-repository", "http-port", "venv", "allow-page", "otlp-endpoint"] {
        assert!(found.contains(known), "the options are not found: {found:?}");
    }
    found
}

fn assert_option(options: &BTreeSet<String>, argument: &str, place: &str) {
    let name = argument.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or(rest));
    let name = name.unwrap_or_else(|| panic!("{place}: {argument} is not an option"));
    assert!(options.contains(name), "{place}: `hydrozoa serve` has no option --{name}");
}

fn texts(list: &Yaml) -> Vec<&str> {
    let list = list.as_vec().expect("it is a list");
    list.iter().map(|text| text.as_str().expect("it is a text")).collect()
}

#[test]
fn the_runtime_for_kserve_names_options_and_endpoints_that_exist() {
    let text = source("serving/deploy/kserve.yaml").text;
    let documents = YamlLoader::load_from_str(&text).expect("it is YAML");
    let [runtime, service] = &documents[..] else { panic!("{} documents", documents.len()) };
    assert_eq!(runtime["kind"].as_str(), Some("ServingRuntime"));
    let container = &runtime["spec"]["containers"][0];
    let (options, arguments) = (options(), texts(&container["args"]));
    for argument in &arguments {
        assert_option(&options, argument, "serving/deploy/kserve.yaml");
    }
    assert!(arguments.contains(&"--model-repository=/mnt/models"), "{arguments:?}");
    let port = container["ports"][0]["containerPort"].as_i64().expect("a port");
    assert!(arguments.contains(&format!("--http-port={port}").as_str()), "{arguments:?}");
    let routes = source("serving/server/src/http/routes.rs").text;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let request = &container[probe]["httpGet"];
        assert_eq!(request["port"].as_i64(), Some(port), "{probe}");
        let path = request["path"].as_str().expect("a path");
        assert!(routes.contains(&format!("\"{path}\"")), "{probe}: the server has no {path}");
    }
    assert_eq!(service["kind"].as_str(), Some("InferenceService"));
    let model = &service["spec"]["predictor"]["model"];
    assert_eq!(model["runtime"].as_str(), runtime["metadata"]["name"].as_str());
    let formats = runtime["spec"]["supportedModelFormats"].as_vec().expect("formats");
    let wanted = model["modelFormat"]["name"].as_str();
    assert!(formats.iter().any(|format| format["name"].as_str() == wanted), "{wanted:?}");
    let protocols = texts(&runtime["spec"]["protocolVersions"]);
    assert!(protocols.contains(&model["protocolVersion"].as_str().expect("a protocol")));
}

#[test]
fn the_image_starts_the_command_with_options_that_exist() {
    let text = source("serving/deploy/Dockerfile").text;
    let last = |word: &str| {
        let line = text.lines().rfind(|line| line.starts_with(&format!("{word} ")));
        line.map(|line| line[word.len()..].trim()).unwrap_or_else(|| panic!("no {word}"))
    };
    let entry: Vec<String> = serde_json::from_str(last("ENTRYPOINT")).expect("a list");
    assert_eq!(entry[..2], ["hydrozoa", "serve"]);
    let options = options();
    for argument in entry[2..].iter().filter(|argument| argument.starts_with('-')) {
        assert_option(&options, argument, "serving/deploy/Dockerfile");
    }
    assert_ne!(last("USER"), "0");
    // The ports of the command's defaults.
    let serve = source("doors/cli/src/network.rs").text;
    for port in last("EXPOSE").split_whitespace() {
        assert!(serve.contains(&format!("default_value_t = {port})")), "{port} is not a default");
    }
    let version = source("Cargo.toml").text;
    let rust = text.lines().find_map(|line| line.strip_prefix("FROM rust:")?.split('-').next());
    let rust = rust.expect("a stage with Rust");
    assert!(
        version.contains(&format!("rust-version = \"{rust}\"")),
        "Rust {rust} is not the workspace's"
    );
}
