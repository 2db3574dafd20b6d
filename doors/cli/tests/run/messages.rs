//! The words of the command about an application that it cannot serve. It ends before it listens.

use crate::process::{Server, command};

fn refused(application: &str, options: &[&str]) -> String {
    let mut server = Server::of(command(application, options));
    let status = server.wait();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let log = server.log.text();
    assert!(!matches!(status.code(), None | Some(0)), "{application}: {log}");
    assert!(!log.contains(" application plain,"), "it listens: {log}");
    log
}

#[test]
fn an_application_that_is_not_there_is_named() {
    let one = |application: &str| refused(application, &["--workers", "1"]);
    for (application, words) in [
        ("nowhere:app", "there is no module 'nowhere' for 'nowhere'"),
        ("nowhere.inside:app", "there is no module 'nowhere' for 'nowhere.inside'"),
        ("plain:nothing", "'plain' has no attribute 'nothing'"),
        ("plain:application.nothing", "'plain.application' has no attribute 'nothing'"),
        ("json", "the module 'json' has neither `application` nor `app`"),
        ("plain:closed", "an object of int, and neither a WSGI nor an ASGI application"),
        ("plain:create(closed)", "the arguments of a factory are literals"),
        ("plain:1 +", "is neither an attribute of 'plain' nor a call of one with literals"),
    ] {
        let log = one(application);
        assert!(log.contains(words), "{application}: {log}");
        assert!(!log.contains("Traceback"), "{log}");
    }
}

#[test]
fn an_application_that_raises_at_its_start_shows_its_traceback() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("raising.py"), "import nothing_of_this_name\n").unwrap();
    let log = refused("raising:app", &["--app-dir", folder.path().to_str().unwrap()]);
    for words in [
        "Traceback (most recent call last):",
        "raising.py\", line 1, in <module>",
        "ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "the application raising:app has raised when it was loaded",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let log = refused("coroutines:failing", &["--workers", "2"]);
    assert!(log.contains("lifespan.startup.failed: there is no database"), "{log}");
    assert!(log.contains("the application coroutines:failing has failed to start"), "{log}");
}

#[test]
fn a_loop_that_is_not_installed_is_named() {
    let log = refused("coroutines:application", &["--workers", "1", "--loop", "uvloop"]);
    let words = "--loop uvloop: No module named 'uvloop': install uvloop, or use --loop asyncio";
    assert!(log.contains(words) && !log.contains("Traceback"), "{log}");
}

#[test]
fn options_that_cannot_be_met_are_refused_in_words() {
    for (options, words) in [
        (&["--bind", "nonsense"][..], "`nonsense` is neither HOST:PORT nor unix:PATH"),
        (&["--fd", "99"], "the descriptor 99 is not that of a socket that listens"),
        (&["--root-path", "a"], "a path begins with a slash"),
        (&["--forwarded-allow-ips", "x"], "neither an address nor a network"),
        (&["--max-requests-jitter", "5"], "--max-requests-jitter needs --max-requests"),
        (&["--env-file", "/nowhere"], "--env-file /nowhere"),
        (&["--dense", "/nowhere"], "--dense: /nowhere is neither `off` nor a folder"),
        (&["--certfile", "a"], "--keyfile"),
        (&["--preload"], "unexpected argument '--preload'"),
        (&["--reload-include", "*.html"], "--reload"),
        (&["--reload", "--reload-dir", "/nowhere"], "--reload-dir: /nowhere is not a folder"),
        (&["--reload", "--reload-exclude", "["], "--reload-exclude"),
        (&["--workers", "0"], "a number from 1"),
        (&["--max-memory", "much"], "a number of bytes, such as 1000000 or 500M"),
        (&["--max-memory", "1M"], "bytes as soon as it is loaded, and --max-memory is 1048576"),
    ] {
        let log = refused("plain", options);
        assert!(log.contains(words), "{options:?}: {log}");
    }
}

#[test]
fn every_option_is_in_the_documentation() {
    let help =
        std::process::Command::new(env!("CARGO_BIN_EXE_hydrozoa")).args(["run", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/web.md");
    let page = std::fs::read_to_string(page).unwrap();
    let options = help.lines().filter_map(|line| {
        line.trim_start().split("--").nth(1).filter(|_| line.trim_start().starts_with('-'))
    });
    let mut count = 0;
    for option in
        options.map(|rest| rest.split([' ', ',']).next().unwrap()).filter(|name| *name != "help")
    {
        assert!(page.contains(&format!("`--{option}`")), "--{option}");
        count += 1;
    }
    assert!(count > 30, "{count}: {help}");
}
