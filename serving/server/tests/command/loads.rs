//! Loads and unloads of clients: what the log says of them, and what is left of them.

use super::common::{ECHO, FLOATS, source};
use super::wire::post;
use super::{Process, get, serve, write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const EXPLICIT: [&str; 3] = ["--model-control-mode", "explicit", "--allow-client-files=true"];

/// A server whose folder for temporary files is `temporary`.
fn start(repository: &Path, temporary: &Path, options: &[&str]) -> Process {
    let mut command = serve(&[repository], &[&EXPLICIT[..], options].concat());
    command.env("TMPDIR", temporary);
    Process::of(command)
}

/// A load with files.
fn load(model: &str) -> String {
    let config = r#"{"input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]}],"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[-1]}]}"#;
    json!({"parameters": {"config": config, "file:1/model.py": STANDARD.encode(source(model))}})
        .to_string()
}

fn left(temporary: &Path) -> usize {
    let entries = fs::read_dir(temporary).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("hydrozoa-")).count()
}

#[test]
fn the_log_says_who_has_changed_which_model() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    let tokens = temporary.path().join("tokens");
    fs::write(&tokens, "one\n\ntwo\n").unwrap();
    let mut process =
        start(folder.path(), temporary.path(), &["--auth-token-file", tokens.to_str().unwrap()]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let change = |name: &str, verb: &str, body: &str| {
        let mut connection = TcpStream::connect(http).unwrap();
        let own = connection.local_addr().unwrap();
        let path = format!(
            "/v2/repository/models/{name}/{verb} HTTP/1.1\r\nAuthorization: Bearer two\r\nX:"
        );
        (post(&mut connection, &path, body), own)
    };
    let (answer, own) = change("m", "load", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let line = process.line("load by a client: done");
    let by = format!("by={own} with the token of line 3 model=\"m\" versions=\"1\"");
    assert!(line.contains(&by) && line.starts_with("20"), "{line}");
    change("own", "load", &load(ECHO)).0.ok_empty();
    let line = process.line("load by a client: done");
    assert!(line.contains("model=\"own\" versions=\"1\" files=\"1/model.py\""), "{line}");
    change("own", "unload", "").0.ok_empty();
    process.line("unload by a client: done");
    let (answer, _) = change("bad", "load", &load("raise ValueError('a\\nb')"));
    assert!(answer.error(400).contains("ValueError: a\nb"));
    let line = process.line("load by a client: failed");
    assert!(line.contains(r"ValueError: a\nb") && line.contains("model=\"bad\""), "{line}");
    let (answer, _) = change("absent", "load", "");
    assert_eq!(answer.status, 404);
    process.line("load by a client: failed");
    // A name that would look like something else.
    for (name, shown) in
        [("a%0Ab", r"a\nb"), ("a%1B%5B2J", r"a\u{1b}[2J"), ("a%E2%80%AEb", r"a\u{202e}b")]
    {
        let (answer, _) = change(name, "load", &load(ECHO));
        assert!(
            answer.error(400).contains(&format!("`{shown}` is not the name of a model")),
            "{answer:?}"
        );
        let line = process.line("load by a client: failed");
        assert!(line.contains(shown), "{line}");
    }
}

#[test]
fn failed_loads_and_unloaded_models_of_clients_leave_nothing_in_the_index_and_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    write(folder.path(), "bad", "raise ImportError('not today')");
    let mut process = start(folder.path(), temporary.path(), &["--load-model", "m"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let size = |path: &str| get(http, path).body.len();
    let names = || {
        let answer = get(http, "/status").ok();
        let models = answer["models"].as_array().unwrap().clone();
        let names = models.iter().map(|model| model["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let before = size("/status");
    let mut connection = TcpStream::connect(http).unwrap();
    let count = if crate::attack::is_long() { 3_000 } else { 300 };
    for number in 0..count {
        let path = format!("/v2/repository/models/x{number}/load");
        // The configuration is wrong, so no interpreter starts.
        let body = load(ECHO).replace("TYPE_FP32", "TYPE_FP33");
        assert_eq!(post(&mut connection, &path, &body).status, 400);
    }
    for body in [load("raise ImportError('not today')"), load(ECHO)] {
        post(&mut connection, "/v2/repository/models/own/load", &body);
    }
    assert_eq!(names(), ["bad", "m", "own"]);
    post(&mut connection, "/v2/repository/models/own/unload", "").ok_empty();
    assert_eq!(names(), ["bad", "m"]);
    // Numbers have changed, and nothing else.
    let after = size("/status");
    assert!(after < before + 200, "{before} to {after}");
    // A model of a repository says why it does not serve.
    post(&mut connection, "/v2/repository/models/bad/load", "").error(400);
    let answer = get(http, "/status").ok();
    assert!(answer["models"][0]["reason"].as_str().unwrap().contains("not today"));
    assert_eq!(get(http, "/v2/health/live").status, 200);
}

#[test]
fn files_of_clients_are_removed_at_the_end_and_those_of_a_killed_server_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let loaded = |process: &mut Process| {
        let http = process.address("HTTP at ");
        process.line("the server is ready");
        let mut connection = TcpStream::connect(http).unwrap();
        for name in ["a", "b"] {
            let path = format!("/v2/repository/models/{name}/load");
            post(&mut connection, &path, &load(ECHO)).ok_empty();
        }
    };
    let mut first = start(folder.path(), temporary.path(), &[]);
    loaded(&mut first);
    let mut killed = start(folder.path(), temporary.path(), &[]);
    loaded(&mut killed);
    assert_eq!(left(temporary.path()), 2);
    killed.signal("KILL");
    killed.wait();
    let mut next = start(folder.path(), temporary.path(), &[]);
    next.line("1 folders of clients' files are removed");
    loaded(&mut next);
    // That of the first lives.
    assert_eq!(left(temporary.path()), 2);
    for mut process in [first, next] {
        process.signal("TERM");
        process.line("the server has ended");
        assert_eq!(process.wait().code(), Some(0));
    }
    assert_eq!(left(temporary.path()), 0);
}

#[test]
fn folders_that_name_no_model_are_named_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    for name in [&b"caf\xe9"[..], b"new\nline", "right\u{202e}left".as_bytes()] {
        let version = folder.path().join(OsStr::from_bytes(name)).join("1");
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("model.py"), ECHO).unwrap();
        fs::write(version.join("../config.pbtxt"), FLOATS).unwrap();
    }
    let mut process = Process::start(folder.path(), &[]);
    process.line("the server is ready");
    for name in [r"`caf\xe9`", r"`new\nline`", r"`right\u{202e}left`"] {
        let line = format!("the folder {name} of ");
        assert_eq!(process.seen.matches(&line).count(), 1, "{line}: {}", process.seen);
    }
    assert!(!process.seen.contains('\u{202e}') && process.seen.contains("  m      1        READY"));
}
