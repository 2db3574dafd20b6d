//! `hydrozoa serve` over gRPC.

use crate::common::health::HealthCheckRequest;
use crate::common::health::health_check_response::ServingStatus;
use crate::common::health::health_client::HealthClient;
use crate::common::inference::ModelInferRequest;
use crate::common::{
    Client, DOUBLE, FLOATS, PATIENCE, as_floats, export, float_bytes, floats, tensor, variable,
    venv, write_model,
};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use tonic::transport::{Channel, Endpoint};

struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Process {
    /// Starts the command, and connects to its gRPC when it is ready.
    async fn start(place: &Path, options: &[&str]) -> (Self, Channel) {
        let mut command = Command::new(variable("HYDROZOA_TEST_COMMAND"));
        command.arg("serve").arg(place).arg("--venv").arg(venv()).args(options);
        command.args(["--http-address", "127.0.0.1", "--http-port", "0"]);
        command.args(["--grpc-address", "127.0.0.1", "--grpc-port", "0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut process = Self { child, log };
        let line = process.line("gRPC at ");
        process.line("the server is ready");
        let address = line.rsplit(' ').next().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        (process, endpoint.timeout(PATIENCE).connect().await.unwrap())
    }

    /// The next line of the log with these words.
    fn line(&mut self, words: &str) -> String {
        let mut lines = self.log.by_ref().lines().map(Result::unwrap);
        lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("no line with {words}"))
    }

    /// Ends by a signal.
    fn end(mut self) {
        let kill = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        self.line("the server has ended");
        assert!(self.child.wait().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_grpc_beside_http_until_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path(), "double", 1, FLOATS, DOUBLE);
    let (process, channel) = Process::start(folder.path(), &["--metrics-port", "0"]).await;
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    assert_eq!(health.unwrap().into_inner().status(), ServingStatus::Serving);
    let answer = Client::new(channel).model_infer(floats("double", &[1.0, 2.5])).await.unwrap();
    assert_eq!(as_floats(answer.get_ref()), [2.0, 5.0]);
    process.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_a_package_over_grpc() {
    let folder = tempfile::tempdir().unwrap();
    export(folder.path(), &[]);
    let file = folder.path().join("scores.pt");
    let (process, channel) = Process::start(&file, &["--allow-metrics=false"]).await;
    let x = float_bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let request = ModelInferRequest {
        model_name: "scores".to_owned(),
        inputs: vec![tensor("x", "FP32", &[2, 3]), tensor("lengths", "FP32", &[2])],
        raw_input_contents: vec![x.into(), float_bytes(&[1.0, 2.0]).into()],
        ..ModelInferRequest::default()
    };
    let answer = Client::new(channel).model_infer(request).await.unwrap().into_inner();
    let names: Vec<_> = answer.outputs.iter().map(|output| &*output.name).collect();
    assert_eq!(names, ["scores", "sums"]);
    let expected = fs::read(folder.path().join("scores.expected")).unwrap();
    assert_eq!(answer.raw_output_contents.concat(), expected);
    process.end();
}
