//! `hydrozoa serve` as a process: what it says, whom it serves, how it ends.

mod attack;
#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod dense;
mod ends;
mod loads;
mod logs;
mod messages;
mod wire;

use common::{Answer, ECHO, FLOATS, until, variable, venv, whole, write_model};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use wire::post;

struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    seen: String,
}

impl Process {
    fn start(repository: &Path, options: &[&str]) -> Self {
        Self::of(serve(&[repository], options))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, seen: String::new() }
    }

    /// Has another command start it, at its default addresses unless options name some.
    fn start_by(by: &[&str], repository: &Path, options: &[&str]) -> Self {
        let hydrozoa = variable("HYDROZOA_TEST_COMMAND");
        let mut command = match by {
            [] => Command::new(hydrozoa),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(hydrozoa);
                command
            }
        };
        command.arg("serve").arg(repository).arg("--venv").arg(venv());
        command.args(["--http-port", "0", "--metrics-port", "0", "--grpc-port", "0"]);
        command.args(options);
        Self::of(command)
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

/// The command, which listens at ports that are free.
fn serve(places: &[&Path], options: &[&str]) -> Command {
    let mut command = Command::new(variable("HYDROZOA_TEST_COMMAND"));
    command.arg("serve").args(places).arg("--venv").arg(venv());
    command.args(["--http-address", "127.0.0.1", "--http-port", "0", "--metrics-port", "0"]);
    command.args(["--grpc-address", "127.0.0.1", "--grpc-port", "0"]).args(options);
    command
}

fn write(repository: &Path, name: &str, model: &str) {
    write_model(repository, name, 1, FLOATS, model);
}

fn get(address: SocketAddr, path: &str) -> Answer {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    Answer::read(&mut connection)
}

/// Waits until the model has a request.
fn wait_for_execution(address: SocketAddr) {
    let line = "nv_inference_exec_count{model=\"slow\",version=\"1\"} 1";
    until("the model's request", || {
        String::from_utf8(get(address, "/metrics").body).unwrap().contains(line)
    });
}

/// A request whose model takes two seconds.
const REQUEST: &str = r#"{"inputs":[{"name":"IN","datatype":"FP32","shape":[1,1],"data":[2]}]}"#;

const SLOW: &str = "
import time

class TritonPythonModel:
    def execute(self, requests):
        print('began', flush=True)
        time.sleep(2)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy())])
                for request in requests]

    def finalize(self):
        open(pb_utils.get_model_dir() + '/finalized', 'w').close()
";

/// `destroys_at_exit` has the process's exit handlers remove a file, as a library's destroy its objects.
const DESTROYS: &str = "
import ctypes

def destroys_at_exit():
    global path
    path = ctypes.create_string_buffer((pb_utils.get_model_dir() + '/kept').encode())
    open(path.value, 'w').close()
    library = ctypes.CDLL(None)
    remove = ctypes.cast(library.unlink, ctypes.c_void_p)
    library.__cxa_atexit(remove, path, None)
";

#[test]
fn the_command_serves_packages_beside_repositories() {
    let folder = tempfile::tempdir().unwrap();
    common::export(folder.path(), &[]);
    let repository = folder.path().join("repository");
    write(&repository, "first", ECHO);
    let file = folder.path().join("scores.pt");
    let mut process = Process::start(&file, &[repository.to_str().unwrap(), "--instances", "2"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    for row in ["  first   1        READY\n", "  scores  1        READY\n"] {
        assert!(process.seen.contains(row), "{}", process.seen);
    }
    let config = get(http, "/v2/models/scores/config").ok();
    assert_eq!(config["instance_group"][0]["count"], 2);
    let metadata = get(http, "/v2/models/scores").ok();
    assert_eq!(metadata["platform"], "package");
    assert_eq!(metadata["versions"][0], "1");
    let body = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[2,3],"data":[0,1,2,3,4,5]},
        {"name":"lengths","datatype":"FP32","shape":[2],"data":[1,2]}]}"#;
    let mut connection = TcpStream::connect(http).unwrap();
    let answer = post(&mut connection, "/v2/models/scores/infer", body).ok();
    let outputs = answer["outputs"].as_array().unwrap();
    let values = outputs.iter().flat_map(|output| output["data"].as_array().unwrap());
    // The text of a number is the shortest that gives the same bits.
    let bits: Vec<u8> =
        values.flat_map(|value| value.to_string().parse::<f32>().unwrap().to_le_bytes()).collect();
    assert_eq!(bits, fs::read(folder.path().join("scores.expected")).unwrap());
    drop(process);
    for (place, words) in [
        (folder.path().join("silent.pt"), "build it again with the arguments of a call"),
        (folder.path().join("scores.expected"), "is not a zip archive"),
        (folder.path().join("absent.pt"), "absent.pt does not exist"),
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
    connection.write_all(whole("/v2/models/slow/infer", REQUEST).as_bytes()).unwrap();
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
    let kept = folder.path().join("slow/1/kept");
    write(
        folder.path(),
        "slow",
        &SLOW.replace("time.sleep(2)", "destroys_at_exit()\n        time.sleep(100)"),
    );
    let model = folder.path().join("slow/1/model.py");
    fs::write(&model, format!("{DESTROYS}{}", fs::read_to_string(&model).unwrap())).unwrap();
    let mut process = Process::start(folder.path(), &["--exit-timeout-secs", "1"]);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = TcpStream::connect(http).unwrap();
    connection.write_all(whole("/v2/models/slow/infer", REQUEST).as_bytes()).unwrap();
    wait_for_execution(http);
    process.signal("INT");
    process.line("1 requests have not ended in time");
    process.line("models have not ended within 1 s");
    assert_eq!(process.wait().code(), Some(1));
    assert!(kept.exists(), "what the model still uses was destroyed");
}

#[test]
fn the_command_says_what_failed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good", ECHO);
    write(folder.path(), "bad", "raise ImportError('not today')");
    let mut process = Process::start(folder.path(), &[]);
    process.line("hydrozoa: model `bad`, version 1: ImportError: not today");
    process.line("bad/1/model.py\", line 1, in <module>");
    process.line("1 of 2 models cannot be loaded; `--exit-on-error=false` serves the others");
    assert_eq!(process.wait().code(), Some(1));
    for noise in ["tensor", "handle", "Traceback", "_hydrozoa"] {
        assert!(!process.seen.contains(noise), "{}", process.seen);
    }
    assert_eq!(process.seen.matches("not today").count(), 2, "{}", process.seen);

    let socket = folder.path().join("socket");
    let options =
        ["--exit-on-error=false", "--http-address", &format!("unix:{}", socket.display())];
    let mut process = Process::start(folder.path(), &options);
    process.line("bad             UNAVAILABLE: model `bad`");
    process.line("the server is ready");
    let mut connection = UnixStream::connect(&socket).unwrap();
    let request = b"GET /v2/models/good/ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.write_all(request).unwrap();
    Answer::read(&mut connection).ok();

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
    // KServe's agent writes a model's folder and then asks for it.
    write(folder.path(), "later", ECHO);
    for name in ["second", "later"] {
        let mut connection = TcpStream::connect(http).unwrap();
        let path = format!("/v2/repository/models/{name}/load");
        assert_eq!(post(&mut connection, &path, "").status, 200);
        assert_eq!(ready(name), 200);
    }
}

#[test]
fn the_command_without_a_repository_says_what_to_do() {
    let command = std::env::var_os("HYDROZOA_TEST_COMMAND").expect("the suite sets it");
    // A namespace of its own has another /mnt, whatever the machine has.
    let in_namespace = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        unshare.arg(format!("mount -t tmpfs none /mnt && {script}")).arg(&command);
        unshare.stdin(Stdio::null()).output().unwrap()
    };
    let output = in_namespace("exec \"$0\" serve");
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("no models are named, and there is no /mnt/models"), "{words}");
    assert!(words.contains("`hydrozoa serve FOLDER`"), "{words}");
    // With one it comes as far as the next wrong option.
    let output = in_namespace(
        "mkdir /mnt/models && exec \"$0\" serve --load-model m --http-port 0 --grpc-port 0 --metrics-port 0",
    );
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("--load-model needs --model-control-mode=explicit"), "{words}");
}

#[test]
fn the_command_has_a_page_unless_it_should_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), &[]);
    let http = process.address("HTTP at ");
    assert_eq!((get(http, "/").status, get(http, "/status").status), (200, 200));
    let mut process = Process::start(folder.path(), &["--allow-page=false"]);
    let http = process.address("HTTP at ");
    assert_eq!((get(http, "/").status, get(http, "/status").status), (404, 404));
}

/// A collector of traces.
struct Collector(Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        // The test may have seen what it waits for.
        let _ = self.0.send(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

#[test]
fn the_command_sends_traces_to_a_collector() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", ECHO);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let collector = TraceServiceServer::new(Collector(sender));
    runtime.spawn(
        tonic::transport::Server::builder().add_service(collector).serve_with_incoming(incoming),
    );
    let options = ["--otlp-endpoint", &endpoint, "--id", "mine"];
    let mut process = Process::start(folder.path(), &options);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = TcpStream::connect(http).unwrap();
    post(&mut connection, "/v2/models/m/infer", REQUEST).ok();
    drop(connection);
    // The rest is sent at the end.
    process.signal("TERM");
    process.line("the server has ended");
    let request = received.recv_timeout(common::PATIENCE).unwrap();
    let [of_resource] = &request.resource_spans[..] else { panic!("{request:#?}") };
    assert!(format!("{:?}", of_resource.resource).contains("mine"), "{request:#?}");
    let spans = of_resource.scope_spans.iter().flat_map(|scope| &scope.spans);
    let mut names: Vec<&str> = spans.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["compute", "queue", "request"]);

    for (options, words) in [
        (
            &["--otlp-endpoint", "https://x"][..],
            "--otlp-endpoint https://x: it must begin with http://",
        ),
        (&["--otlp-endpoint", "http://x", "--trace-rate", "0"], "--trace-rate must be 1 or more"),
    ] {
        Process::start(folder.path(), options).line(words);
    }
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

#[test]
fn the_command_has_tls_and_tokens() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good", ECHO);
    let papers = tempfile::tempdir().unwrap();
    let path = |name: &str| papers.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(path("cert"), made.cert.pem()).unwrap();
    fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    fs::write(path("tokens"), "secret\n").unwrap();
    let (cert, key, tokens) = (path("cert"), path("key"), path("tokens"));
    for (options, words) in [
        (
            &["--http-use-ssl=true"][..],
            "--http-use-ssl needs --http-server-cert and --http-server-key",
        ),
        (&["--grpc-server-cert", &cert], "--grpc-server-cert needs --grpc-use-ssl=true"),
        (
            &["--grpc-use-ssl-mutual=true", "--grpc-server-cert", &cert, "--grpc-server-key", &key],
            "--grpc-use-ssl-mutual and --grpc-root-cert need each other",
        ),
        (
            &["--http-use-ssl=true", "--http-server-cert", &key, "--http-server-key", &key],
            "has no certificate in PEM",
        ),
        (&["--auth-token-file", "/no/such/file"], "reading /no/such/file"),
    ] {
        let mut process = Process::start(folder.path(), options);
        process.line(words);
        assert_eq!(process.wait().code(), Some(1));
    }

    let options = ["--http-use-ssl=true", "--http-server-cert", &cert, "--http-server-key", &key];
    let more = ["--auth-token-file", &tokens];
    let mut process = Process::start(folder.path(), &[&options[..], &more].concat());
    let address = process.address("HTTP at ");
    process.line("tokens for gRPC go over the network unencrypted");
    process.line("the server is ready");
    let root = CertificateDer::from_pem_file(&cert).unwrap();
    let ask = |token: &str| {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(config.into(), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(address).unwrap());
        let request = format!(
            "GET /v2/models/good HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Answer::read(&mut stream)
    };
    assert_eq!(ask("secret").ok()["name"], "good");
    ask("other").error(401);
}
