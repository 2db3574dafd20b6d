//! A log that cannot be written loses lines and nothing else.

use super::common::{PATIENCE, until};
use super::wire::{post, ready};
use super::{Process, REQUEST, get, serve, write};
use std::fs::{self, File};
use std::io::{PipeReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Requests for each log that cannot be written: as many as `HYDROZOA_TEST_ANSWERS` says, else 300.
fn requests() -> usize {
    std::env::var("HYDROZOA_TEST_ANSWERS").map_or(300, |text| text.parse().unwrap())
}

/// Logs each request, and fails every third.
const LOGS: &str = "
class TritonPythonModel:
    def initialize(self, args):
        self.count = 0

    def execute(self, requests):
        self.count += 1
        pb_utils.Logger.log_info('a request ' + 100 * 'x')
        if self.count % 3 == 0:
            raise ValueError('the third')
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy())])
                for request in requests]
";

/// A server at a socket in the file system.
fn command(repository: &Path, socket: &Path) -> Command {
    let address = format!("unix:{}", socket.display());
    serve(&[repository], &["--http-address", &address, "--allow-grpc=false"])
}

/// The same by a shell, which does something with its descriptors first.
fn through_shell(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" \"$@\" {script}")]).arg(command.get_program());
    shell.args(command.get_args());
    shell
}

struct Server(Child);

impl Server {
    fn ends(&mut self) -> ExitStatus {
        let kill = Command::new("kill").args(["-s", "TERM", &self.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
        until("the end", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// All answers are those of a server whose log can be written.
fn answers(connection: &mut UnixStream, count: usize) {
    for number in 1..=count {
        let answer = post(connection, "/v2/models/m/infer", REQUEST);
        match number % 3 {
            0 => assert!(answer.error(500).contains("ValueError: the third"), "{number}"),
            _ => assert_eq!(answer.ok()["outputs"][0]["data"][0], 2.0, "{number}"),
        }
    }
}

fn lost(connection: &mut UnixStream) -> u64 {
    let head = b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    connection.write_all(head).unwrap();
    super::Answer::read(connection).ok()["log_lines_lost"].as_u64().unwrap()
}

#[test]
fn a_log_that_cannot_be_written_loses_lines_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("models");
    write(&repository, "m", LOGS);
    let socket = folder.path().join("socket");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = |reader: PipeReader| drop(reader);
    // A file that may become no larger is short.
    for stream in ["closed", "full", "gone", "not read", "short"] {
        let _ = fs::remove_file(&socket);
        let mut command = command(&repository, &socket);
        let mut reader = None;
        let mut command = match stream {
            "closed" => through_shell(">&- 2>&-", &command),
            "short" => {
                command.stderr(File::create(folder.path().join("log")).unwrap());
                command
            }
            "full" => {
                command.stdout(full()).stderr(full());
                command
            }
            _ => {
                let (read, written) = std::io::pipe().unwrap();
                reader = Some(read);
                command.stdout(written.try_clone().unwrap()).stderr(written);
                command
            }
        };
        let mut server = Server(command.stdin(Stdio::null()).spawn().unwrap());
        // The pipe is the child's alone.
        drop(command);
        let mut connection = ready(&socket);
        match stream {
            "gone" => gone(reader.take().unwrap()),
            "short" => {
                let process = server.0.id().to_string();
                let mut limit = Command::new("prlimit");
                limit.args(["--fsize=8192", "--pid", &process]);
                assert!(limit.status().unwrap().success());
            }
            _ => {}
        }
        answers(&mut connection, requests());
        let lost = lost(&mut connection);
        match stream {
            "closed" | "not read" => {}
            _ => assert!(lost > 100, "{stream}: {lost}"),
        }
        drop(connection);
        assert_eq!(server.ends().code(), Some(0), "{stream}");
    }
}

/// Has all descriptors that the process may have, when it is asked for the first time, and gives them back when it is asked for 5.
const TAKES: &str = "
import os

class TritonPythonModel:
    def initialize(self, args):
        self.taken = []

    def execute(self, requests):
        pb_utils.Logger.log_info('a request')
        array = pb_utils.get_input_tensor_by_name(requests[0], 'IN').as_numpy()
        if not self.taken:
            try:
                while True:
                    self.taken.append(os.open('/dev/null', os.O_RDONLY))
            except OSError:
                pass
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)])]
";

#[test]
fn a_server_without_a_log_and_without_descriptors_serves_whom_it_has_and_others_later() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("models");
    write(&repository, "m", TAKES);
    let socket = folder.path().join("socket");
    let mut command = command(&repository, &socket);
    command.stderr(File::options().write(true).open("/dev/full").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 200; exec \"$0\" \"$@\" 2>/dev/full"]).arg(command.get_program());
    let mut server = Server(shell.args(command.get_args()).spawn().unwrap());
    let mut connection = ready(&socket);
    let mut ask = |number: f32| {
        let body = REQUEST.replace("[2]", &format!("[{number}]"));
        let answer = post(&mut connection, "/v2/models/m/infer", &body);
        assert_eq!(answer.ok()["outputs"][0]["data"][0], f64::from(number));
    };
    ask(1.0);
    for _ in 0..50 {
        ask(2.0);
    }
    // The server cannot take it now, says so in vain, and closes the connection that waits for its client.
    let mut waiting = UnixStream::connect(&socket).unwrap();
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(lost(&mut waiting) > 50);
    drop(connection);
    assert_eq!(server.ends().code(), Some(0));
}

/// Logs what it is told to.
const FORGES: &str = "
class TritonPythonModel:
    def execute(self, requests):
        pb_utils.Logger.log_info('first\\n2026-01-01T00:00:00Z ERROR forged \\x1b[2J\\u202e \\udc80')
        raise ValueError('why\\n2026-01-01T00:00:00Z ERROR forged \\udc80')
";

#[test]
fn what_a_model_says_begins_no_line_of_the_log_and_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", FORGES);
    let mut process = Process::start(folder.path(), &[]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = std::net::TcpStream::connect(http).unwrap();
    let answer = post(&mut connection, "/v2/models/m/infer", REQUEST);
    // The words of the model, whatever is in them.
    let words = "message: ValueError: why\n2026-01-01T00:00:00Z ERROR forged \\udc80";
    assert!(answer.error(500).ends_with(words), "{answer:?}");
    let line = process.line("first");
    let expected = r"first\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e} \udc80";
    assert!(line.contains(expected), "{line}");
    process.line(r"message: ValueError: why\n2026-01-01T00:00:00Z ERROR forged \udc80");
    // The traceback's lines do not look like the beginning of an entry.
    process.line("  | Traceback (most recent call last):");
    process.line("  | 2026-01-01T00:00:00Z ERROR forged");
    assert!(!process.seen.lines().any(|line| line.starts_with("2026-01-01")), "{}", process.seen);
    let metrics = String::from_utf8(get(http, "/metrics").body).unwrap();
    assert!(metrics.contains("\nhydrozoa_log_lost_total 0\n"), "{metrics}");
}
