//! `hydrozoa serve` over gRPC.

use crate::common::health::HealthCheckRequest;
use crate::common::health::health_check_response::ServingStatus;
use crate::common::health::health_client::HealthClient;
use crate::common::inference::ModelInferRequest;
use crate::common::{Client, DOUBLE, FLOATS, PATIENCE, as_floats, floats, tensor};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tonic::transport::Endpoint;

#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_grpc_beside_http_until_a_signal() {
    let of = |name: &str| {
        std::env::var_os(name)
            .unwrap_or_else(|| panic!("{name} is not set; `cargo xtask test` sets it"))
    };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("double/1")).unwrap();
    fs::write(folder.path().join("double/config.pbtxt"), FLOATS).unwrap();
    fs::write(folder.path().join("double/1/model.py"), DOUBLE).unwrap();
    let mut command = Command::new(of("HYDROZOA_TEST_COMMAND"));
    command.arg("serve").arg(folder.path()).arg("--venv").arg(of("HYDROZOA_TEST_VENV"));
    command.args(["--http-address", "127.0.0.1", "--http-port", "0", "--metrics-port", "0"]);
    command.args(["--grpc-address", "127.0.0.1", "--grpc-port", "0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("gRPC at ")).expect("it says where gRPC is");
    let address = line.rsplit(' ').next().unwrap();
    log.find(|line| line.contains("the server is ready")).expect("it becomes ready");

    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.timeout(PATIENCE).connect().await.unwrap();
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    assert_eq!(health.unwrap().into_inner().status(), ServingStatus::Serving);
    let answer = Client::new(channel).model_infer(floats("double", &[1.0, 2.5])).await.unwrap();
    assert_eq!(as_floats(answer.get_ref()), [2.0, 5.0]);

    let kill = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    log.find(|line| line.contains("the server has ended")).expect("it says that it ends");
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_a_package_over_grpc() {
    let of = |name: &str| {
        std::env::var_os(name)
            .unwrap_or_else(|| panic!("{name} is not set; `cargo xtask test` sets it"))
    };
    let folder = tempfile::tempdir().unwrap();
    let mut export = Command::new(Path::new(&of("HYDROZOA_TEST_VENV")).join("bin/python"));
    export.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../serve/tests/packages/export.py"));
    export.arg(folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    assert!(export.status().unwrap().success());
    let mut command = Command::new(of("HYDROZOA_TEST_COMMAND"));
    command.arg("serve").arg(folder.path().join("scores.pt"));
    command.arg("--venv").arg(of("HYDROZOA_TEST_VENV")).arg("--allow-metrics=false");
    command.args(["--http-address", "127.0.0.1", "--http-port", "0"]);
    command.args(["--grpc-address", "127.0.0.1", "--grpc-port", "0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("gRPC at ")).expect("it says where gRPC is");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    log.find(|line| line.contains("the server is ready")).expect("it becomes ready");

    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = Client::new(endpoint.timeout(PATIENCE).connect().await.unwrap());
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let request = ModelInferRequest {
        model_name: "scores".to_owned(),
        inputs: vec![tensor("x", "FP32", &[2, 3]), tensor("lengths", "FP32", &[2])],
        raw_input_contents: vec![bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), bytes(&[1.0, 2.0])],
        ..ModelInferRequest::default()
    };
    let answer = client.model_infer(request).await.unwrap().into_inner();
    let names: Vec<_> = answer.outputs.iter().map(|output| &*output.name).collect();
    assert_eq!(names, ["scores", "sums"]);
    let expected = fs::read(folder.path().join("scores.expected")).unwrap();
    assert_eq!(answer.raw_output_contents.concat(), expected);

    let kill = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(child.wait().unwrap().success());
}
