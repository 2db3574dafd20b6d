//! Limits, and who goes away.

use crate::common::health::HealthCheckRequest;
use crate::common::health::health_check_response::ServingStatus;
use crate::common::inference::{ServerLiveRequest, ServerMetadataRequest};
use crate::common::{
    DOUBLE, FLOATS, GATE, Service, as_floats, floats, gated, open, try_open, until,
};
use hydrozoa_server::grpc::Options;
use std::convert::Infallible;
use std::io::Read;
use std::time::Duration;
use tonic::codegen::tokio_stream::{StreamExt, once, pending};
use tonic::{Code, Request};

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_too_large_are_refused() {
    let options =
        Options { max_request_size: 10_000, max_response_size: 6_000, ..Options::default() };
    let service = Service::start(options).await;
    service.model("double", FLOATS, DOUBLE);
    let mut client = service.client().await;
    for (count, code, words) in [
        (2_600, Code::ResourceExhausted, "10000"),
        (2_000, Code::InvalidArgument, "which exceeds gRPC's byte size limit 6000."),
    ] {
        let status = client.model_infer(floats("double", &vec![1.0; count])).await.unwrap_err();
        assert!(status.code() == code && status.message().contains(words), "{status:?}");
    }
    assert!(client.model_infer(floats("double", &[1.0; 1_000])).await.is_ok());
    let (sender, mut responses) = open(&mut client).await;
    sender.send(floats("double", &vec![1.0; 2_600])).unwrap();
    let status = responses.message().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_server_may_have_at_a_time_are_refused() {
    let service = Service::start_with(2, Options { max_streams: 1, ..Options::default() }).await;
    service.model("gate", FLOATS, GATE);
    let gate = service.path().join("open");
    let client = service.client().await;
    let under_way: Vec<_> = (0..2)
        .map(|_| {
            let (mut client, request) = (client.clone(), gated(&gate));
            tokio::spawn(async move { client.model_infer(request).await })
        })
        .collect();
    let model = service.server.model("gate", None).unwrap();
    until("both requests", || model.statistics().executions + model.waiting() as u64 == 2).await;
    let mut client = client.clone();
    let status = client.model_infer(gated(&gate)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("2 inferences under way"), "{status:?}");
    let (sender, mut responses) = open(&mut client).await;
    sender.send(gated(&gate)).unwrap();
    let response = responses.message().await.unwrap().unwrap();
    assert!(response.error_message.contains("2 inferences under way"));
    let status = try_open(&mut client).await.unwrap_err();
    assert!(status.code() == Code::ResourceExhausted && status.message().contains("1 streams"));
    // Questions about the server are always answered.
    let health = service.health().await.check(HealthCheckRequest::default()).await;
    assert_eq!(health.unwrap().into_inner().status(), ServingStatus::Serving);

    std::fs::write(&gate, "").unwrap();
    for call in under_way {
        assert_eq!(as_floats(call.await.unwrap().unwrap().get_ref()), [1.0]);
    }
    assert!(client.model_infer(gated(&gate)).await.is_ok());
    sender.send(gated(&gate)).unwrap();
    assert_eq!(responses.message().await.unwrap().unwrap().error_message, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_away_or_waits_no_longer_cancels_his_request() {
    let service = Service::start(Options::default()).await;
    service.model("gate", FLOATS, GATE);
    let never = service.path().join("never");
    let model = service.server.model("gate", None).unwrap();

    // The call is given up.
    let mut client = service.client().await;
    let request = gated(&never);
    let call = tokio::spawn(async move { client.model_infer(request).await });
    until("the first request", || model.statistics().executions == 1).await;
    call.abort();
    until("the end of the first request", || model.statistics().failed == 1).await;
    assert!(service.server.metrics().text().contains("cancelled 1\n"), "the model has seen it");

    // Its time is over.
    let mut request = Request::new(gated(&never));
    request.set_timeout(Duration::from_millis(300));
    let status = service.client().await.model_infer(request).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    until("the end of the second request", || model.statistics().failed == 2).await;
    // It may not have come to the model in that time.
    let before = model.statistics().executions;

    // The stream is dropped, and its connection.
    let mut client = service.client().await;
    let (sender, responses) = open(&mut client).await;
    sender.send(gated(&never)).unwrap();
    until("the third request", || model.statistics().executions > before).await;
    drop((responses, client, sender));
    until("the end of the third request", || model.statistics().failed == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_messages_are_bounded_and_come_back() {
    let change = |settings: &mut hydrozoa_server::Settings| {
        settings.max_bytes_in_flight = 2 << 20;
        settings.max_bytes_in_flight_per_client = 1 << 20;
    };
    let service = Service::start_for(change, Options::default()).await;
    service.model("double", FLOATS, DOUBLE);
    service.model("gate", FLOATS, GATE);
    let gate = service.path().join("open");
    let mut client = service.client().await;
    let large = vec![1.0; 200 << 10];
    let mut request = gated(&gate);
    request.inputs[0].shape = vec![1, large.len() as i64];
    request.raw_input_contents = floats("gate", &large).raw_input_contents;
    let (mut other, held) = (client.clone(), request.clone());
    let first = tokio::spawn(async move { other.model_infer(held).await });
    let model = service.server.model("gate", None).unwrap();
    until("the first request", || model.statistics().executions == 1).await;
    let status = client.model_infer(floats("double", &large)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("--max-bytes-in-flight-per-client"), "{status:?}");
    client.model_infer(floats("double", &[1.0])).await.unwrap();
    // A message that is small when compressed counts with its full size.
    let mut packed =
        service.client().await.send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let status = packed.model_infer(floats("double", &large)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    std::fs::write(&gate, "").unwrap();
    first.await.unwrap().unwrap();
    let status = client.model_infer(floats("double", &vec![1.0; 600 << 10])).await.unwrap_err();
    assert!(status.message().contains("needs more than the 1048576 bytes"), "{status:?}");
    // A stream holds what its requests hold that are not answered.
    let (sender, mut responses) = open(&mut client).await;
    for _ in 0..8 {
        sender.send(floats("double", &large)).unwrap();
        let response = responses.message().await.unwrap().unwrap();
        assert_eq!(response.error_message, "");
    }
    packed.model_infer(floats("double", &large)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_too_slowly_is_not_waited_for() {
    let (min_message_rate, message_patience) = (1 << 20, Duration::from_millis(300));
    let options = Options { min_message_rate, message_patience, ..Options::default() };
    let service = Service::start(options).await;
    service.model("double", FLOATS, DOUBLE);
    // Such a stream owes nothing.
    let (sender, mut responses) = open(&mut service.client().await).await;
    for path in ["ModelInfer", "ModelStreamInfer"] {
        let status = half_a_message(&service, path).await;
        assert!(status.message().contains("comes too slowly"), "{status:?}");
    }
    sender.send(floats("double", &[1.0])).unwrap();
    assert_eq!(responses.message().await.unwrap().unwrap().error_message, "");
}

/// The answer to a message of 1,000 bytes of which only the first ones come.
async fn half_a_message(service: &Service, method: &str) -> tonic::Status {
    use http_body::Body as _;
    let first = Ok::<_, Infallible>(&[0, 0, 0, 3, 232, 1][..]);
    let body = axum::body::Body::from_stream(once(first).chain(pending()));
    let body = tonic::body::Body::new(body);
    let request = tonic::codegen::http::Request::builder()
        .method("POST")
        .uri(format!("http://{}/inference.GRPCInferenceService/{method}", service.address))
        .header("content-type", "application/grpc")
        .body(body)
        .unwrap();
    let mut channel = service.channel().await;
    std::future::poll_fn(|context| tonic::codegen::Service::poll_ready(&mut channel, context))
        .await
        .unwrap();
    let response = tonic::codegen::Service::call(&mut channel, request).await.unwrap();
    if let Some(status) = tonic::Status::from_header_map(response.headers()) {
        return status;
    }
    let mut body = response.into_body();
    loop {
        let next =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
        let frame = next.expect("it ends with a status").unwrap();
        if let Ok(trailers) = frame.into_trailers() {
            return tonic::Status::from_header_map(&trailers).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_whatever_other_connections_do() {
    let options =
        Options { max_connections: 2, max_connections_per_client: Some(2), ..Options::default() };
    let service = Service::start(options).await;
    service.model("gate", FLOATS, GATE);
    // Those that say nothing go first.
    let mut silent: Vec<_> =
        (0..8).map(|_| std::net::TcpStream::connect(service.address).unwrap()).collect();
    let mut client = service.client().await;
    client.server_live(ServerLiveRequest {}).await.unwrap();
    silent[0].set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let began = std::time::Instant::now();
    let mut read = Vec::new();
    // The server may have begun to speak.
    drop(tokio::task::block_in_place(|| silent[0].read_to_end(&mut read)));
    assert!(began.elapsed() < crate::common::PATIENCE, "it is not closed");
    drop(silent);
    let gate = service.path().join("open");
    let mut calls = Vec::new();
    for _ in 0..2 {
        let (mut client, request) = (service.client().await, gated(&gate));
        calls.push(tokio::spawn(async move { client.model_infer(request).await }));
    }
    let model = service.server.model("gate", None).unwrap();
    until("both requests", || model.statistics().executions + model.waiting() as u64 == 2).await;
    let mut late = service.client().await;
    late.server_live(ServerLiveRequest {}).await.unwrap();
    let status = late.server_metadata(ServerMetadataRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("as many connections as it may"), "{status:?}");
    std::fs::write(&gate, "").unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
