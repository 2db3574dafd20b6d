//! Limits, and who goes away.

use crate::common::{DOUBLE, FLOATS, GATE, Service, as_floats, floats, gated, until};
use hydrozoa_server::grpc::Options;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
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
    let (sender, requests) = mpsc::unbounded_channel();
    sender.send(floats("double", &vec![1.0; 2_600])).unwrap();
    let stream = client.model_stream_infer(UnboundedReceiverStream::new(requests)).await;
    let status = stream.unwrap().into_inner().message().await.unwrap_err();
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
    let (sender, requests) = mpsc::unbounded_channel();
    let stream = client.model_stream_infer(UnboundedReceiverStream::new(requests)).await;
    let mut responses = stream.unwrap().into_inner();
    sender.send(gated(&gate)).unwrap();
    let response = responses.message().await.unwrap().unwrap();
    assert!(response.error_message.contains("2 inferences under way"));
    let (_other, requests) = mpsc::unbounded_channel();
    let status =
        client.model_stream_infer(UnboundedReceiverStream::new(requests)).await.unwrap_err();
    assert!(status.code() == Code::ResourceExhausted && status.message().contains("1 streams"));
    // Questions about the server are always answered.
    service
        .health()
        .await
        .check(crate::common::health::HealthCheckRequest::default())
        .await
        .unwrap();

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
    let (sender, requests) = mpsc::unbounded_channel();
    let mut client = service.client().await;
    let responses =
        client.model_stream_infer(UnboundedReceiverStream::new(requests)).await.unwrap();
    sender.send(gated(&never)).unwrap();
    until("the third request", || model.statistics().executions > before).await;
    drop((responses, client, sender));
    until("the end of the third request", || model.statistics().failed == 3).await;
}
