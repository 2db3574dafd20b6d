//! How the command ends: SIGTERM and SIGINT in any state, with status 0 and within the limit.

use super::common::{FLOATS, PATIENCE, until, whole};
use super::wire::post;
use super::{DESTROYS, Process, REQUEST, get, serve, write};
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Says where it is by files beside it, and stays for a second where the file `slow` says.
const PHASES: &str = "
import os
import time

def phase(name):
    here = os.path.dirname(__file__)
    open(os.path.join(here, name), 'w').close()
    slow = os.path.join(here, 'slow')
    if os.path.exists(slow) and open(slow).read() == name:
        time.sleep(1)

phase('imports')

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        phase('auto_complete_config')
        return config

    def initialize(self, args):
        phase('initialize')

    def execute(self, requests):
        phase('execute')
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy())])
                for request in requests]

    def finalize(self):
        phase('finalize')
";

const WARM_UP: &str = r#"
model_warmup [ { name: "s" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } } ]
"#;

/// Has a client ask for something whose answer nobody needs.
fn ask(http: SocketAddr, path: &'static str, body: &'static str) {
    thread::spawn(move || {
        let mut connection = TcpStream::connect(http).unwrap();
        drop(connection.write_all(whole(path, body).as_bytes()));
        drop(std::io::copy(&mut connection, &mut std::io::sink()));
    });
}

#[test]
fn a_signal_in_any_state_ends_the_command_with_status_0() {
    const INFER: (&str, &str) = ("/v2/models/m/infer", REQUEST);
    const LOAD: (&str, &str) = ("/v2/repository/models/m/load", "");
    const UNLOAD: (&str, &str) = ("/v2/repository/models/m/unload", "");
    for (state, request, signals) in [
        ("imports", None, &["TERM"][..]),
        ("auto_complete_config", None, &["INT"]),
        ("initialize", None, &["TERM"]),
        // It is the warm-up.
        ("execute", None, &["TERM"]),
        ("execute", Some(INFER), &["TERM"]),
        ("execute", Some(INFER), &["TERM", "TERM", "INT", "TERM"]),
        ("initialize", Some(LOAD), &["TERM"]),
        // The former version ends.
        ("finalize", Some(LOAD), &["INT", "TERM"]),
        ("finalize", Some(UNLOAD), &["TERM"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "m", PHASES);
        let path = |name: &str| folder.path().join("m/1").join(name);
        fs::write(folder.path().join("m/config.pbtxt"), format!("{FLOATS}{WARM_UP}")).unwrap();
        if request.is_none() {
            fs::write(path("slow"), state).unwrap();
        }
        let options = ["--model-control-mode", "explicit", "--load-model", "*"];
        let mut process = Process::start(folder.path(), &options);
        let http = process.address("HTTP at ");
        let held: Vec<_> = (0..3).map(|_| TcpStream::connect(http).unwrap()).collect();
        if let Some((target, body)) = request {
            process.line("the server is ready");
            drop(fs::remove_file(path(state)));
            fs::write(path("slow"), state).unwrap();
            ask(http, target, body);
        }
        until(state, || path(state).exists());
        for signal in signals {
            process.signal(signal);
        }
        process.line("the server has ended");
        assert_eq!(process.wait().code(), Some(0), "{state}, {request:?}");
        assert!(request.is_none() || path("finalize").exists(), "{state}, {request:?}");
        drop(held);
    }
}

#[test]
fn a_signal_before_the_command_can_serve_ends_it_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    assert!(Command::new("mkfifo").arg(&tokens).status().unwrap().success());
    let options = ["--auth-token-file", tokens.to_str().unwrap(), "--exit-timeout-secs", "1"];
    let mut process = Process::start(folder.path(), &options);
    // It waits for the tokens from here on.
    let held = File::options().write(true).open(&tokens).unwrap();
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    drop(held);
}

/// Python code that runs when the interpreter is finalized, and takes longer than the server once waited. The objects that the
/// process's exit handlers destroy must exist until it has ended.
const LATE: &str = "
import atexit
import os
import time

def late():
    time.sleep(2.5)
    if os.path.exists(path.value):
        open(os.path.dirname(path.value) + b'/in-order', 'w').close()

class TritonPythonModel:
    def initialize(self, args):
        destroys_at_exit()
        atexit.register(late)

    def execute(self, requests):
        return []
";

#[test]
fn an_interpreter_that_is_finalized_for_long_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", &format!("{DESTROYS}{LATE}"));
    let mut process = Process::start(folder.path(), &[]);
    process.line("the server is ready");
    process.signal("TERM");
    process.line("the server has ended");
    assert_eq!(process.wait().code(), Some(0));
    assert!(folder.path().join("m/1/in-order").exists(), "{}", process.seen);
}

/// A thread that computes in memory which an exit handler of the process gives back, as libraries of C++ have it.
const SPINS: &str = "
#include <sys/mman.h>

extern int __cxa_atexit(void (*)(void *), void *, void *);
static volatile char *memory;

static void destroy(void *unused) { munmap((void *)memory, 4096); }

void spin(void) {
    memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __cxa_atexit(destroy, 0, 0);
    for (;;) memory[0]++;
}
";

const COMPUTES: &str = "
import ctypes
import os
import threading

class TritonPythonModel:
    def initialize(self, args):
        library = ctypes.CDLL(os.path.dirname(__file__) + '/libspins.so')
        threading.Thread(target=library.spin, daemon=True).start()
        # Standard output is a pipe, so this waits in the stream.
        ctypes.CDLL(None).printf(b'printed by C\\n')

    def execute(self, requests):
        return []
";

#[test]
fn a_thread_of_a_model_inside_of_native_code_meets_no_exit_handler() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "m", COMPUTES);
    let source = folder.path().join("spins.c");
    fs::write(&source, SPINS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join("m/1/libspins.so"));
    assert!(compiler.arg(&source).status().unwrap().success());
    let mut command = serve(&[folder.path()], &["--exit-timeout-secs", "5"]);
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let mut process = Process::of(command);
    process.line("the server is ready");
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.seen);
    let mut printed = String::new();
    std::io::Read::read_to_string(&mut reader, &mut printed).unwrap();
    assert_eq!(printed, "printed by C\n");
}

/// Has torch compute, if the environment has torch.
const RANDOM: &str = "
try:
    import torch
except ModuleNotFoundError:
    torch = None

class TritonPythonModel:
    def initialize(self, args):
        self.weights = None if torch is None else torch.rand(300, 300)

    def execute(self, requests):
        if torch is not None:
            self.weights = torch.nn.functional.normalize(self.weights @ self.weights)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy())])
                for request in requests]
";

/// Ends a server at a random moment of its life under load, so many times as `HYDROZOA_TEST_ENDS` says (by default 3).
#[test]
fn a_signal_at_a_random_moment_ends_the_command_with_status_0() {
    let rounds = std::env::var("HYDROZOA_TEST_ENDS").map_or(3, |text| text.parse().unwrap());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = std::env::var("HYDROZOA_TEST_SEED");
    let seed = seed.map_or(now.as_nanos() as u64, |text| text.parse().unwrap());
    println!("HYDROZOA_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("models");
    write(&repository, "m", RANDOM);
    let config = format!("{FLOATS}instance_group [ {{ count: 2 }} ]\n");
    fs::write(repository.join("m/config.pbtxt"), config).unwrap();
    // The first one is ended when it is ready.
    let mut longest = None;
    for round in 0..rounds {
        let began = Instant::now();
        let moment = longest.map(|longest: Duration| longest.mul_f64(random.f64()));
        let (status, ready, took, log) = one_life(&repository, folder.path(), moment);
        assert_eq!(status.code(), Some(0), "{round}: signal {:?}\n{log}", status.signal());
        assert!(took < Duration::from_secs(31), "{round}: {took:?}\n{log}");
        // Half of the signals come while models are loaded.
        longest = ready.map(|ready| ready * 2).or(longest);
        println!("{round}: {:?}, the end took {took:?}, ready after {ready:?}", began.elapsed());
    }
}

/// Starts a server, loads it with requests and reloads, and ends it at a moment, or when it is ready. Returns how it has ended, after how
/// long it was ready if it was, how long its end took, and its log.
fn one_life(
    repository: &Path,
    folder: &Path,
    moment: Option<Duration>,
) -> (ExitStatus, Option<Duration>, Duration, String) {
    let (socket, log) = (folder.join("socket"), folder.join("log"));
    let _ = fs::remove_file(&socket);
    let address = format!("unix:{}", socket.display());
    let options =
        ["--http-address", &address, "--model-control-mode", "explicit", "--load-model", "*"];
    let mut command = serve(&[repository], &options);
    command.stdin(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    // It has a handler for SIGTERM: bit 14 of the signals that are caught (proc(5)).
    let status = format!("/proc/{}/status", child.id());
    until("a handler", || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0)
    });
    let began = Instant::now();
    let paths = ["/v2/models/m/infer", "/v2/models/m/infer", "/v2/repository/models/m/load"];
    let mut ready = None;
    thread::scope(|scope| {
        for path in paths.into_iter().filter(|_| moment.is_some()) {
            let (socket, end) = (&socket, began + moment.unwrap_or_default());
            scope.spawn(move || client(socket, path, end));
        }
        let is_over = |ready: Option<Duration>| match moment {
            Some(moment) => began.elapsed() >= moment,
            None => ready.is_some(),
        };
        while !is_over(ready) {
            assert!(began.elapsed() < 5 * PATIENCE, "it is not ready");
            let text = fs::read_to_string(&log).unwrap_or_default();
            if ready.is_none() && text.contains("the server is ready") {
                ready = Some(began.elapsed());
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let kill = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let ends = Instant::now();
    let status = child.wait().unwrap();
    (status, ready, ends.elapsed(), fs::read_to_string(&log).unwrap())
}

/// Sends requests until then, whatever the answers are. The last one may be under way.
fn client(socket: &Path, path: &str, end: Instant) {
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
        let Ok(mut connection) = UnixStream::connect(socket) else { continue };
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        connection.set_read_timeout(Some(left)).unwrap();
        let body = if path.ends_with("infer") { REQUEST } else { "" };
        let request = whole(path, body).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let sent = connection.write_all(request.as_bytes());
        let answer = sent.and_then(|()| std::io::copy(&mut connection, &mut std::io::sink()));
        if answer.is_err() {
            // An answer that is under way comes while the server ends.
            std::mem::forget(connection);
        }
    }
}

/// A model's own `print` fails as in plain python: with an error of the write, in the request that prints.
#[test]
fn what_a_model_prints_itself_fails_as_in_plain_python() {
    let folder = tempfile::tempdir().unwrap();
    let prints = "
class TritonPythonModel:
    def execute(self, requests):
        print('a line', flush=True)
        return [pb_utils.InferenceResponse([]) for _ in requests]
";
    write(folder.path(), "m", prints);
    let mut command = serve(&[folder.path()], &[]);
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    let mut process = Process::of(command);
    let http = process.address("HTTP at ");
    process.line("the server is ready");
    let mut connection = TcpStream::connect(http).unwrap();
    let answer = post(&mut connection, "/v2/models/m/infer", REQUEST);
    assert!(answer.error(500).contains("OSError: [Errno 28] No space left on device"));
    assert_eq!(get(http, "/v2/health/live").status, 200);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.seen);
}
