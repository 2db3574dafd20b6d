//! A server in this process, and clients of it.

#![allow(dead_code, reason = "other tests use the rest")]

#[path = "../../../models/tests/common/repository.rs"]
mod repository;
#[path = "../common/shared_object.rs"]
pub mod shared_object;

use hydrozoa_models::Server;
use hydrozoa_server::grpc::{self, Options};
use hydrozoa_server::{Control, Settings};
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

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
use inference::{InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};

pub use repository::*;

pub type Client = GrpcInferenceServiceClient<Channel>;

pub struct Service {
    repository: Repository,
    pub server: Server,
    /// For other protocols.
    pub service: hydrozoa_server::Service,
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
        let repository = Repository::new();
        let server = repository.server.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let mut settings = Settings::default();
        settings.control = Control::Clients;
        change(&mut settings);
        let service = hydrozoa_server::Service::new(server.clone(), settings);
        service.open();
        let task = tokio::spawn(grpc::serve(listener, service.clone(), options, shutdown));
        Self { repository, server, service, address, stop: Some(stop), task: Some(task) }
    }

    pub fn path(&self) -> &Path {
        self.repository.path()
    }

    /// Writes a version of a model.
    pub fn write(&self, name: &str, version: i64, config: &str, model: &str) {
        self.repository.write(name, version, config, model);
    }

    /// Writes a model and loads it.
    pub fn model(&self, name: &str, config: &str, model: &str) {
        tokio::task::block_in_place(|| self.repository.load(name, config, model));
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
pub async fn until(what: &str, holds: impl FnMut() -> bool) {
    tokio::task::block_in_place(|| repository::until(what, holds));
}

pub type Responses = Streaming<ModelStreamInferResponse>;

/// Opens a stream. Requests that are sent go into it.
pub async fn try_open(
    client: &mut Client,
) -> Result<(mpsc::UnboundedSender<ModelInferRequest>, Responses), Status> {
    let (sender, requests) = mpsc::unbounded_channel();
    let responses = client.model_stream_infer(UnboundedReceiverStream::new(requests)).await?;
    Ok((sender, responses.into_inner()))
}

pub async fn open(client: &mut Client) -> (mpsc::UnboundedSender<ModelInferRequest>, Responses) {
    try_open(client).await.unwrap()
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
    raw(model, tensor("IN", "FP32", &[1, values.len() as i64]), float_bytes(values))
}

pub fn parameter(choice: ParameterChoice) -> InferParameter {
    InferParameter { parameter_choice: Some(choice) }
}

pub fn text(value: impl Into<String>) -> InferParameter {
    parameter(ParameterChoice::StringParam(value.into()))
}

pub fn as_floats(response: &ModelInferResponse) -> Vec<f32> {
    floats_of(&response.raw_output_contents[0])
}

/// Doubles its input.
pub const DOUBLE: &str = "
class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy() * 2 for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]) for array in arrays]
";

/// Waits until a file is there, whose path is a parameter, or until the request is cancelled, which it counts.
pub const GATE: &str = "
import json, os, time

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
