//! `--reload`: changes of the application's files.

use crate::client::get;
use crate::process::{PATIENCE, Server, command};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// An application that answers with a word. Each word has another length, so no source passes for a compiled one.
fn of(word: &str) -> String {
    format!("def app(environ, start):\n    start('200 OK', [])\n    return [b'{word}']\n")
}

fn start(folder: &Path, options: &[&str]) -> Server {
    fs::write(folder.join("changing.py"), of("one")).unwrap();
    let own = ["--app-dir", folder.to_str().unwrap(), "--reload"];
    Server::start("changing", &[&own, options].concat())
}

fn word(server: &Server) -> String {
    get(server.address(), "/").text().to_owned()
}

/// Waits until the application answers so.
fn wait_for_word(server: &Server, expected: &str) {
    let end = Instant::now() + PATIENCE;
    while word(server) != expected {
        assert!(Instant::now() < end, "{expected}: {}", server.log.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_change_of_files_replaces_the_workers_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--reload-include", "*.html"]);
    assert_eq!(word(&server), "one");
    fs::write(folder.path().join("changing.py"), of("second")).unwrap();
    wait_for_word(&server, "second");
    // There is one worker.
    assert!(!server.log.wait_for("worker 1 is replaced", 1).contains("worker 2"));
    for name in ["first.py", "a.html", "changing.py"] {
        fs::write(folder.path().join(name), of("the third")).unwrap();
    }
    wait_for_word(&server, "the third");
    // A module that comes into being, and one that goes.
    fs::create_dir(folder.path().join("inside")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(folder.path().join("inside/new.py"), "").unwrap();
    server.log.wait_for("worker 1 is replaced", 3);
    fs::remove_file(folder.path().join("first.py")).unwrap();
    server.log.wait_for("worker 1 is replaced", 4);
    std::thread::sleep(Duration::from_millis(300));
    let (log, _) = server.end();
    assert_eq!(log.matches(" has changed").count(), 4, "{log}");
}

#[test]
fn an_application_that_cannot_be_loaded_waits_for_the_next_change() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--workers", "2"]);
    fs::write(folder.path().join("changing.py"), "def app(:\n").unwrap();
    let log = server.log.wait_for("serve the former application until the next change", 1);
    assert!(log.contains("SyntaxError"), "{log}");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.log.text().matches("ERROR").count(), 1, "{}", server.log.text());
    assert_eq!(word(&server), "one");
    fs::write(folder.path().join("changing.py"), of("mended")).unwrap();
    for number in [1, 2] {
        server.log.wait_for(&format!("worker {number} is replaced"), 1);
    }
    assert_eq!(word(&server), "mended");
}

#[test]
fn files_that_are_left_out_change_nothing() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::create_dir_all(other.path().join("venv/lib")).unwrap();
    let watched = other.path().to_str().unwrap();
    let options = ["--reload-dir", watched, "--reload-exclude", "venv", "--reload-exclude", "b*"];
    let server = start(folder.path(), &options);
    fs::write(folder.path().join("changing.py"), of("second")).unwrap();
    for name in ["venv/lib/a.py", "b.py", ".a.py", "a.txt"] {
        fs::write(other.path().join(name), "a").unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(word(&server), "one");
    fs::write(other.path().join("a.py"), "a").unwrap();
    let log = server.log.wait_for("worker 1 is replaced", 1);
    assert_eq!(log.matches(" has changed").count(), 1, "{log}");
    assert_eq!(word(&server), "second");
}

#[test]
fn a_reload_that_is_asked_for_while_the_application_is_loaded_comes_afterwards() {
    for asks_by_signal in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("changing.py");
        let slow = "import time\nprint('loading', flush=True)\ntime.sleep(1)\n";
        fs::write(&file, format!("{slow}{}", of("one"))).unwrap();
        let path = folder.path().to_str().unwrap();
        let mut options = vec!["--app-dir", path];
        options.extend((!asks_by_signal).then_some("--reload"));
        let server = Server::of(command("changing", &options));
        server.output.wait_for("loading", 1);
        fs::write(&file, of("second")).unwrap();
        if asks_by_signal {
            server.signal("HUP");
        }
        server.log.wait_for("the server is ready", 1);
        wait_for_word(&server, "second");
    }
}
