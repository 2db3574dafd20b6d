//! `hydrozoa serve` as a process: what it says, whom it serves, how it ends.

mod common;

use common::{Answer, ECHO, FLOATS};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    seen: String,
}

impl Process {
    fn start(repository: &Path, options: &[&str]) -> Self {
        let of = |name: &str| {
            std::env::var_os(name)
                .unwrap_or_else(|| panic!("{name} is not set; `cargo xtask test` sets it"))
        };
        let mut command = Command::new(of("HYDROZOA_TEST_COMMAND"));
        command.arg("serve").arg(repository).arg("--venv").arg(of("HYDROZOA_TEST_VENV"));
        command.args(["--http-address", "127.0.0.1", "--http-port", "0", "--metrics-port", "0"]);
        command.args(["--grpc-address", "127.0.0.1", "--grpc-port", "0"]);
        let mut child = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, seen: String::new() }
    }

    /// Reads the log up to a line with these words.
    fn line(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).unwrap();
            assert!(length > 0, "the log ends without {words:?}:\n{}", self.seen);
            self.seen.push_str(&line);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The address in the next line with these words.
    fn address(&mut self, words: &str) -> SocketAddr {
        let line = self.line(words);
        line.rsplit(' ')
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + common::PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn write(repository: &Path, name: &str, model: &str) {
    fs::create_dir_all(repository.join(name).join("1")).unwrap();
    fs::write(repository.join(name).join("config.pbtxt"), FLOATS).unwrap();
    fs::write(repository.join(name).join("1/model.py"), model).unwrap();
}

fn get(address: SocketAddr, path: &str) -> Answer {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    Answer::read(&mut connection)
}

/// Waits until the model has a request.
fn wait_for_execution(address: SocketAddr) {
    let deadline = Instant::now() + common::PATIENCE;
    let line = "nv_inference_exec_count{model=\"slow\",version=\"1\"} 1";
    while !String::from_utf8(get(address, "/metrics").body).unwrap().contains(line) {
        assert!(Instant::now() < deadline, "the model has no request");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A request whose model takes two seconds.
const REQUEST: &str = r#"{"inputs":[{"name":"IN","datatype":"FP32","shape":[1,1],"data":[2]}]}"#;

const SLOW: &str = "
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        print('began', flush=True)
        time.sleep(2)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy())])
                for request in requests]

    def finalize(self):
        open(pb_utils.get_model_dir() + '/finalized', 'w').close()
";

#[test]
fn the_command_serves_packages_beside_repositories() {
    let folder = tempfile::tempdir().unwrap();
    common::export(folder.path());
    let repository = folder.path().join("repository");
    write(&repository, "first", ECHO);
    let file = folder.path().join("scores.pt");
    let mut process = Process::start(&file, &[repository.to_str().unwrap(), "--instances", "2"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    assert!(process.seen.contains("  first   1        READY\n  scores  1        READY\n"));
    let config = get(http, "/v2/models/scores/config").ok();
    assert_eq!(config["instance_group"][0]["count"], 2);
    let metadata = get(http, "/v2/models/scores").ok();
    assert_eq!(metadata["platform"], "package");
    assert_eq!(metadata["versions"][0], "1");
    let body = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[2,3],"data":[0,1,2,3,4,5]},
        {"name":"lengths","datatype":"FP32","shape":[2],"data":[1,2]}]}"#;
    let mut connection = TcpStream::connect(http).unwrap();
    let head = format!(
        "POST /v2/models/scores/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let answer = Answer::read(&mut connection).ok();
    let outputs = answer["outputs"].as_array().unwrap();
    let values = outputs.iter().flat_map(|output| output["data"].as_array().unwrap());
    // The text of a number is the shortest that gives the same bits.
    let bits: Vec<u8> =
        values.flat_map(|value| value.to_string().parse::<f32>().unwrap().to_le_bytes()).collect();
    assert_eq!(bits, fs::read(folder.path().join("scores.expected")).unwrap());
    drop(process);
    for (place, words) in [
        (folder.path().join("silent.pt"), "build it again with the arguments of a call"),
        (folder.path().join("scores.expected"), "is no zip archive"),
        (folder.path().join("absent.pt"), "the repository "),
    ] {
        let mut process = Process::start(&place, &[]);
        process.line(words);
        assert_eq!(process.wait().code(), Some(1));
    }
    let mut process = Process::start(&file, &[file.to_str().unwrap()]);
    process.line("there are two models `scores`");
    assert_eq!(process.wait().code(), Some(1));
}

#[test]
fn the_command_serves_until_a_signal_and_ends_what_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "slow", SLOW);
    let mut process = Process::start(folder.path(), &[]);
    let http = process.address("HTTP at ");
    let metrics = process.address("metrics at ");
    // It can be asked while it loads.
    assert_eq!(get(http, "/v2/health/live").status, 200);
    process.line("the server is ready");
    assert!(process.seen.contains("  slow   1        READY\n"), "{}", process.seen);
    assert_eq!(get(http, "/v2/health/ready").status, 200);
    let mut connection = TcpStream::connect(http).unwrap();
    let length = REQUEST.len();
    let head = format!(
        "POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(format!("{head}{REQUEST}").as_bytes()).unwrap();
    wait_for_execution(metrics);
    process.signal("TERM");
    assert_eq!(Answer::read(&mut connection).ok()["outputs"][0]["data"][0], 2.0);
    process.line("the server has ended");
    assert!(process.wait().success());
    assert!(folder.path().join("slow/1/finalized").exists());
}

#[test]
fn the_command_ends_in_time_though_a_model_does_not() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "slow", &SLOW.replace("time.sleep(2)", "time.sleep(100)"));
    let mut process = Process::start(folder.path(), &["--exit-timeout-secs", "1"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = TcpStream::connect(http).unwrap();
    let length = REQUEST.len();
    let head = format!(
        "POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(format!("{head}{REQUEST}").as_bytes()).unwrap();
    wait_for_execution(http);
    process.signal("INT");
    process.line("1 requests have not ended in time");
    process.line("models have not ended within 1 s");
    assert_eq!(process.wait().code(), Some(1));
}

#[test]
fn the_command_says_what_failed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good", ECHO);
    write(folder.path(), "bad", "raise ImportError('not today')");
    let mut process = Process::start(folder.path(), &[]);
    process.line("ImportError: not today");
    process.line(
        "hydrozoa: 1 models cannot be loaded: bad; `--exit-on-error=false` serves the others",
    );
    assert_eq!(process.wait().code(), Some(1));

    let socket = folder.path().join("socket");
    let options =
        ["--exit-on-error=false", "--http-address", &format!("unix:{}", socket.display())];
    let mut process = Process::start(folder.path(), &options);
    process.line("bad             UNAVAILABLE: model `bad`");
    process.line("the server is ready");
    let mut connection = UnixStream::connect(&socket).unwrap();
    connection
        .write_all(b"GET /v2/models/good/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut connection, &mut answer).unwrap();
    Answer::of(&answer).unwrap().ok();

    for (options, words) in [
        (&["--load-model", "good"][..], "--load-model needs --model-control-mode=explicit"),
        (
            &["--http-address", "no.such.host.invalid"],
            "listening at no.such.host.invalid:0 for HTTP",
        ),
        (&["--model-repository", "/no/such/folder"], "the repository /no/such/folder"),
    ] {
        let mut process = Process::start(folder.path(), options);
        process.line(words);
        assert_eq!(process.wait().code(), Some(1));
    }
}

#[test]
fn clients_of_the_command_load_models_if_they_may() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first", ECHO);
    write(folder.path(), "second", ECHO);
    let options = ["--model-control-mode", "explicit", "--load-model", "first"];
    let mut process = Process::start(folder.path(), &options);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let ready = |name: &str| get(http, &format!("/v2/models/{name}/ready")).status;
    assert_eq!((ready("first"), ready("second")), (200, 404));
    let mut connection = TcpStream::connect(http).unwrap();
    let request = "POST /v2/repository/models/second/load HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut connection).status, 200);
    assert_eq!(ready("second"), 200);
}

#[test]
fn the_command_follows_changes_of_files_if_it_should() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first", ECHO);
    let options = ["--model-control-mode", "poll", "--repository-poll-secs", "1"];
    let mut process = Process::start(folder.path(), &options);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    write(folder.path(), "second", ECHO);
    process.line("`second` has changed, and is loaded");
    assert_eq!(get(http, "/v2/models/second/ready").status, 200);
    fs::write(folder.path().join("first/1/model.py"), "raise ImportError('not today')").unwrap();
    process.line("`first` has changed: model `first`, version 1: ImportError: not today");
    assert_eq!(get(http, "/v2/models/first/ready").status, 200, "the former version serves");
    fs::remove_dir_all(folder.path().join("first")).unwrap();
    process.line("`first` is gone, and is unloaded");
    assert_eq!(get(http, "/v2/models/first/ready").status, 400);
}
