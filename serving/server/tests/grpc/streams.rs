//! Streams of requests and responses.

use crate::common::inference::infer_parameter::ParameterChoice;
use crate::common::inference::{ModelInferRequest, ModelStreamInferResponse};
use crate::common::{
    DOUBLE, FLOATS, GATE, PATIENCE, REPEAT, Responses, Service, as_floats, decoupled, floats,
    gated, open, parameter,
};
use hydrozoa_server::grpc::Options;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Request, Status};

async fn next(responses: &mut Responses) -> Result<Option<ModelStreamInferResponse>, Status> {
    tokio::time::timeout(PATIENCE, responses.message()).await.expect("a response comes in time")
}

/// All that is left of a stream.
async fn rest(mut responses: Responses) -> Vec<ModelStreamInferResponse> {
    let mut all = Vec::new();
    while let Some(response) = next(&mut responses).await.unwrap() {
        all.push(response);
    }
    all
}

fn named(id: &str, request: ModelInferRequest) -> ModelInferRequest {
    ModelInferRequest { id: id.to_owned(), ..request }
}

/// A response in short: id, error or value, whether it is the last.
fn short(response: &ModelStreamInferResponse) -> String {
    let inner = response.infer_response.as_ref().unwrap();
    let is_final = match inner.parameters.get("triton_final_response") {
        Some(value) => match value.parameter_choice {
            Some(ParameterChoice::BoolParam(true)) => "final",
            _ => "more",
        },
        None => "none",
    };
    let what = match (&response.error_message, inner.outputs.is_empty()) {
        (error, _) if !error.is_empty() => error.clone(),
        (_, true) => "empty".to_owned(),
        (_, false) => as_floats(inner)[0].to_string(),
    };
    format!("{} {what} {is_final}", inner.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_in_the_order_of_their_requests() {
    let service = Service::start(Options::default()).await;
    service.model("double", FLOATS, DOUBLE);
    service.model("gate", FLOATS, GATE);
    let gate = service.path().join("open");
    let (sender, mut responses) = open(&mut service.client().await).await;
    sender.send(named("first", gated(&gate))).unwrap();
    sender.send(named("second", floats("double", &[2.0]))).unwrap();
    sender.send(named("third", floats("no", &[3.0]))).unwrap();
    sender.send(named("fourth", floats("double", &[4.0]))).unwrap();
    let double = service.server.model("double", None).unwrap();
    crate::common::until("the end of the others", || double.statistics().success == 2).await;
    std::fs::write(&gate, "").unwrap();
    assert_eq!(short(&next(&mut responses).await.unwrap().unwrap()), "first 1 final");
    drop(sender);
    let others: Vec<_> = rest(responses).await.iter().map(short).collect();
    assert_eq!(
        others,
        [
            "second 4 final",
            "third Request for unknown model: 'no' is not found none",
            "fourth 8 final"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoupled_model_sends_any_number_of_responses() {
    let service = Service::start(Options::default()).await;
    service.model("repeat", &decoupled(), REPEAT);
    let (sender, responses) = open(&mut service.client().await).await;
    sender.send(named("none", floats("repeat", &[0.0]))).unwrap();
    let mut three = named("three", floats("repeat", &[3.0]));
    let enabled = parameter(ParameterChoice::BoolParam(true));
    three.parameters.insert("triton_enable_empty_final_response".to_owned(), enabled);
    sender.send(three).unwrap();
    sender.send(named("one", floats("repeat", &[1.0]))).unwrap();
    drop(sender);
    let all: Vec<_> = rest(responses).await.iter().map(short).collect();
    assert_eq!(
        all,
        ["three 0 more", "three 1 more", "three 2 more", "three empty final", "one 0 more"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_a_stream_only_if_its_client_wants_that() {
    let service = Service::start(Options::default()).await;
    let fails = "
class TritonPythonModel:
    def execute(self, requests):
        raise ValueError('the model says so')
";
    service.model("fails", FLOATS, fails);
    let words = "Failed to process the request(s) for model 'fails_0_0', message: ValueError: the model says so";
    let mut client = service.client().await;
    let (sender, responses) = open(&mut client).await;
    sender.send(named("id", floats("fails", &[1.0]))).unwrap();
    let mut wrong = named("wrong", floats("fails", &[1.0]));
    wrong.inputs[0].datatype = "FP31".to_owned();
    sender.send(wrong).unwrap();
    drop(sender);
    let all: Vec<_> = rest(responses).await.iter().map(short).collect();
    assert_eq!((all.len(), all[0].as_str()), (2, format!("id {words} final").as_str()));
    assert!(all[1].starts_with("wrong inference input 'IN' data-type is 'FP31'"), "{}", all[1]);

    let (sender, requests) = mpsc::unbounded_channel();
    let mut request = Request::new(UnboundedReceiverStream::new(requests));
    request.metadata_mut().insert("triton_grpc_error", "true".parse().unwrap());
    let mut responses = client.model_stream_infer(request).await.unwrap().into_inner();
    sender.send(floats("fails", &[1.0])).unwrap();
    let status = next(&mut responses).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Internal, words));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_send_much_before_it_reads() {
    let service = Service::start(Options { max_unread_responses: 4, ..Options::default() }).await;
    service.model("double", FLOATS, DOUBLE);
    let (sender, responses) = open(&mut service.client().await).await;
    // Far more than is read before the client reads: responses of 64 KiB fill all windows.
    let values = vec![1.0; 16 << 10];
    for number in 0..50 {
        sender.send(named(&number.to_string(), floats("double", &values))).unwrap();
    }
    drop(sender);
    let double = service.server.model("double", None).unwrap();
    crate::common::until("the first responses", || double.statistics().success >= 4).await;
    let all = rest(responses).await;
    let expected: Vec<_> = (0..50).map(|number| format!("{number} 2 final")).collect();
    assert_eq!(all.iter().map(short).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_loses_its_stream() {
    let service = Service::start(Options { max_unread_responses: 100, ..Options::default() }).await;
    service.model("repeat", &decoupled(), REPEAT);
    let (sender, mut responses) = open(&mut service.client().await).await;
    sender.send(floats("repeat", &[10_000_000.0])).unwrap();
    let repeat = service.server.model("repeat", None).unwrap();
    // The model sees that its request is cancelled, and stops.
    crate::common::until("the end of the request", || repeat.statistics().success == 1).await;
    let status = loop {
        match next(&mut responses).await {
            Ok(response) => assert!(response.is_some()),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("100 responses of the stream unread"), "{status:?}");
}
