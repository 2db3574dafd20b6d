//! A server in this process, and clients of it.

use hydrozoa_serve::Server;
use hydrozoa_server::grpc::{self, Options};
use hydrozoa_server::{Control, Settings};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// The client's side of the protocol. Its code is generated, and not the server's.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    dead_code,
    reason = "the code is generated"
)]
pub mod inference {
    tonic::include_proto!("client/inference");
}

/// The client's side of the health protocol.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    dead_code,
    reason = "the code is generated"
)]
pub mod health {
    tonic::include_proto!("client/grpc.health.v1");
}

use health::health_client::HealthClient;
use inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use inference::infer_parameter::ParameterChoice;
use inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use inference::{InferParameter, ModelInferRequest, ModelInferResponse};

pub type Client = GrpcInferenceServiceClient<Channel>;

/// As long as anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Service {
    folder: tempfile::TempDir,
    pub server: Server,
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Result<(), grpc::Error>>>,
}

impl Service {
    pub async fn start(options: Options) -> Self {
        Self::start_with(Settings::default().max_requests, options).await
    }

    /// A server that has at most so many inferences at a time.
    pub async fn start_with(max_requests: usize, options: Options) -> Self {
        Self::start_for(|settings| settings.max_requests = max_requests, options).await
    }

    pub async fn start_for(change: impl FnOnce(&mut Settings), options: Options) -> Self {
        let venv = std::env::var_os("HYDROZOA_TEST_VENV").unwrap_or_else(|| {
            panic!(
                "HYDROZOA_TEST_VENV is not set: this test needs a virtual environment with numpy. `cargo xtask test` makes \
                 one and runs all tests in it."
            )
        });
        let folder = tempfile::tempdir().unwrap();
        let server = Server::new(move || hydrozoa::Pool::builder().venv(&venv));
        server.add_repository(folder.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let mut settings = Settings::default();
        settings.control = Control::Clients;
        change(&mut settings);
        let service = hydrozoa_server::Service::new(server.clone(), settings);
        service.open();
        let task = tokio::spawn(grpc::serve(listener, service, options, shutdown));
        Self { folder, server, address, stop: Some(stop), task: Some(task) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a version of a model.
    pub fn write(&self, name: &str, version: i64, config: &str, model: &str) {
        let directory = self.path().join(name);
        fs::create_dir_all(directory.join(version.to_string())).unwrap();
        fs::write(directory.join("config.pbtxt"), config).unwrap();
        fs::write(directory.join(version.to_string()).join("model.py"), model).unwrap();
    }

    /// Writes a model and loads it.
    pub fn model(&self, name: &str, config: &str, model: &str) {
        self.write(name, 1, config, model);
        tokio::task::block_in_place(|| self.server.load(name))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    pub async fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel().await)
    }

    /// Tells the server to end.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end.
    pub async fn ended(&mut self) {
        let task = self.task.take().expect("it is waited for once");
        tokio::time::timeout(PATIENCE, task).await.expect("it ends in time").unwrap().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
        tokio::task::block_in_place(|| self.server.unload_all());
    }
}

/// Waits until something holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 5 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} does not come");
}

pub fn tensor(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

pub fn output(name: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: name.to_owned(), ..InferRequestedOutputTensor::default() }
}

/// A request with one input of raw bytes.
pub fn raw(model: &str, input: InferInputTensor, data: Vec<u8>) -> ModelInferRequest {
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![data.into()],
        ..ModelInferRequest::default()
    }
}

/// A request with one input of floats named IN, for one place of a batch.
pub fn floats(model: &str, values: &[f32]) -> ModelInferRequest {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    raw(model, tensor("IN", "FP32", &[1, values.len() as i64]), data)
}

pub fn parameter(choice: ParameterChoice) -> InferParameter {
    InferParameter { parameter_choice: Some(choice) }
}

pub fn text(value: impl Into<String>) -> InferParameter {
    parameter(ParameterChoice::StringParam(value.into()))
}

pub fn as_floats(response: &ModelInferResponse) -> Vec<f32> {
    let bytes = &response.raw_output_contents[0];
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// A configuration with one input and one output of floats.
pub const FLOATS: &str = r#"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"#;

/// Doubles its input.
pub const DOUBLE: &str = "
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy() * 2 for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]) for array in arrays]
";

/// Waits until a file is there, whose path is a parameter, or until the request is cancelled, which it counts.
pub const GATE: &str = "
import json, os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name='cancelled', description='', kind=pb_utils.MetricFamily.COUNTER)
        self.cancelled = self.family.Metric(labels={})

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        path = json.loads(request.parameters())['gate']
        end = time.monotonic() + 60
        while not os.path.exists(path) and time.monotonic() < end:
            if request.is_cancelled():
                self.cancelled.increment(1)
                return pb_utils.InferenceResponse([], pb_utils.TritonError('gone', pb_utils.TritonError.CANCELLED))
            time.sleep(0.005)
        array = request.inputs()[0].as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)])
";

/// A request to the model of [`GATE`] under the name `gate`.
pub fn gated(path: &Path) -> ModelInferRequest {
    let mut request = floats("gate", &[1.0]);
    request.parameters.insert("gate".to_owned(), text(path.to_string_lossy()));
    request
}

/// Sends as many responses as its input says, and then says that there is no more.
pub const REPEAT: &str = "
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(request.inputs()[0].as_numpy()[0][0])):
                if request.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([number], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";

/// The configuration of the model of [`REPEAT`].
pub fn decoupled() -> String {
    format!("{FLOATS} model_transaction_policy {{ decoupled: true }}")
}
