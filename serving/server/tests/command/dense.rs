//! Memory that instances do not use lies in files.

use crate::{Process, serve, write};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const IDLE: &str = "
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for request in requests]
";

/// A folder on a disk.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Starts the command with a model, and returns it when it is ready.
fn start(repository: &Path, temporary: &Path, options: &[&str]) -> Process {
    write(repository, "m", IDLE);
    let mut command = serve(&[repository], options);
    command.env("TMPDIR", temporary);
    let mut process = Process::of(command);
    process.line("the server is ready");
    process
}

/// How many mappings the process has of files without names in the folder.
fn mapped(process: &Process, folder: &Path) -> usize {
    let maps = PathBuf::from(format!("/proc/{}/maps", process.child.id()));
    let folder = folder.canonicalize().unwrap();
    let lies_there = |line: &&str| {
        line.ends_with("(deleted)") && line.contains(&format!("{}/", folder.display()))
    };
    fs::read_to_string(maps).unwrap().lines().filter(lies_there).count()
}

#[test]
fn memory_of_an_instance_lies_in_files_unless_an_option_says_otherwise() {
    let (repository, temporary, other) = (folder(), folder(), folder());
    let [models, temporary, other] = [&repository, &temporary, &other].map(|one| one.path());
    let process = start(models, temporary, &[]);
    assert!(mapped(&process, temporary) > 0);
    assert_eq!(fs::read_dir(temporary).unwrap().count(), 0, "the files have no names");
    drop(process);
    let process = start(models, temporary, &["--dense", other.to_str().unwrap()]);
    assert!(mapped(&process, other) > 0);
    assert_eq!(mapped(&process, temporary), 0);
    drop(process);
    let process = start(models, temporary, &["--dense=off"]);
    assert_eq!(mapped(&process, temporary), 0);
}

#[test]
fn a_folder_that_no_disk_holds_is_told_of_once_and_the_server_serves() {
    let (repository, temporary) = (folder(), folder());
    write(repository.path(), "n", IDLE);
    let mut process = start(repository.path(), temporary.path(), &["--dense=/dev/shm"]);
    let words = "interpreters are not settled, and stay in memory";
    let line = process.line(words);
    assert!(line.contains("files in /dev/shm are in memory"), "{line}");
    std::thread::sleep(Duration::from_secs(2));
    process.signal("TERM");
    assert!(process.wait().success());
    let mut rest = String::new();
    process.log.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains(words), "{rest}");
}
