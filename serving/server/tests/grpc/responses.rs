//! The number of responses, through all that clients may call: one rule holds for HTTP and gRPC.

use crate::common::inference::ModelInferRequest;
use crate::common::{Client, FLOATS, PATIENCE, REPEAT, Service, as_floats, decoupled, floats};
use hydrozoa_server::grpc::Options;
use hydrozoa_server::http::{Address, Limits, Listener, Threads, router, serve};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

/// Sends its input, and then fails unless it is positive.
const SENDS_FIRST: &str = "
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        array = request.inputs()[0].as_numpy()
        sender = request.get_response_sender()
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]))
        if array[0][0] <= 0:
            raise ValueError('too late')
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";

/// Serves the same models over HTTP as well.
async fn http(service: &Service) -> SocketAddr {
    let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(&service.service, &Limits::default());
    tokio::spawn(async move {
        let threads = Threads::start(1).unwrap();
        serve(listener, router, &Limits::default(), &threads, std::future::pending()).await
    });
    address
}

/// The status line and the body of an answer to a request with such a value.
async fn post(address: SocketAddr, path: &str, body: String) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v2/models/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = connection.read_to_string(&mut answer);
    tokio::time::timeout(PATIENCE, read).await.expect("an answer comes in time").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    format!("{} {body}", head.split("\r\n").next().unwrap())
}

fn tensor(value: f32) -> String {
    format!(r#"{{"inputs":[{{"name":"IN","datatype":"FP32","shape":[1,1],"data":[{value}]}}]}}"#)
}

/// The values of a stream's responses to a request, or the words of their errors.
async fn streamed(client: &mut Client, request: ModelInferRequest) -> Vec<String> {
    let requests = tonic::codegen::tokio_stream::once(request);
    let mut responses = client.model_stream_infer(requests).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(response) = responses.message().await.unwrap() {
        all.push(if response.error_message.is_empty() {
            as_floats(response.infer_response.as_ref().unwrap())[0].to_string()
        } else {
            response.error_message
        });
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_for_one_response_refuse_a_decoupled_model_whatever_it_would_send() {
    let service = Service::start(Options::default()).await;
    service.model("repeat", &decoupled(), REPEAT);
    let (http, mut client) = (http(&service).await, service.client().await);
    for count in 0..3 {
        let value = count as f32;
        let answer = post(http, "repeat/infer", tensor(value)).await;
        assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
        assert!(answer.contains("support models with decoupled transaction policy"), "{answer}");
        let status = client.model_infer(floats("repeat", &[value])).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        let words = "ModelInfer RPC doesn't support models with decoupled transaction policy";
        assert_eq!(status.message(), words);
        // A stream has as many as there are. A text is generated from exactly one.
        let expected: Vec<_> = (0..count).map(|number| number.to_string()).collect();
        assert_eq!(streamed(&mut client, floats("repeat", &[value])).await, expected);
        let answer = post(http, "repeat/generate", format!(r#"{{"IN":{value}}}"#)).await;
        let (status, words) = match count {
            1 => ("HTTP/1.1 200 ", r#""OUT":0.0"#),
            _ => ("HTTP/1.1 400 ", "exactly 1 response"),
        };
        assert!(answer.starts_with(status) && answer.contains(words), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_the_answer_whatever_came_before_it() {
    let service = Service::start(Options::default()).await;
    service.model("first", FLOATS, SENDS_FIRST);
    let (http, mut client) = (http(&service).await, service.client().await);
    let answer = post(http, "first/infer", tensor(1.0)).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("[1.0]"), "{answer}");
    let answer = client.model_infer(floats("first", &[1.0])).await.unwrap();
    assert_eq!(as_floats(answer.get_ref()), [1.0]);
    assert_eq!(streamed(&mut client, floats("first", &[1.0])).await, ["1"]);

    let words = "ValueError: too late";
    for path in ["first/infer", "first/generate"] {
        let body = if path == "first/infer" { tensor(0.0) } else { r#"{"IN":0}"#.to_owned() };
        let answer = post(http, path, body).await;
        assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains(words), "{path}: {answer}");
    }
    let status = client.model_infer(floats("first", &[0.0])).await.unwrap_err();
    assert!(status.code() == Code::Internal && status.message().contains(words), "{status:?}");
    let all = streamed(&mut client, floats("first", &[0.0])).await;
    assert!(all.len() == 1 && all[0].contains(words), "{all:?}");
}
