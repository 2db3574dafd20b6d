//! How a server ends.

use crate::common::health::HealthCheckRequest;
use crate::common::health::health_check_response::ServingStatus;
use crate::common::inference::ServerReadyRequest;
use crate::common::{FLOATS, GATE, Service, as_floats, gated, open, until};
use hydrozoa_server::grpc::Options;
use std::time::{Duration, Instant};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_serves_what_it_has() {
    let mut service = Service::start(Options::default()).await;
    service.model("gate", FLOATS, GATE);
    let gate = service.path().join("open");
    let client = service.client().await;
    let mut watch =
        service.health().await.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut health = service.health().await;
    let request = gated(&gate);
    let call = tokio::spawn({
        let mut client = client.clone();
        async move { client.model_infer(request).await }
    });
    let model = service.server.model("gate", None).unwrap();
    until("the request", || model.statistics().executions == 1).await;
    // A stream without requests keeps no server.
    let (sender, mut stream) = open(&mut client.clone()).await;
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    service.stop();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    let mut other = client.clone();
    assert!(!other.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    let status = other.model_infer(gated(&gate)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "GRPC server is shutting down and has stopped accepting new requests.")
    );
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    drop(sender);

    std::fs::write(&gate, "").unwrap();
    assert_eq!(as_floats(call.await.unwrap().unwrap().get_ref()), [1.0]);
    assert!(watch.message().await.unwrap().is_none());
    service.ended().await;
    assert!(service.server.is_ready("gate", ""), "the models stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_in_time_is_cancelled() {
    let drain = Duration::from_millis(300);
    let mut service = Service::start(Options { drain, ..Options::default() }).await;
    service.model("gate", FLOATS, GATE);
    let never = service.path().join("never");
    let mut client = service.client().await;
    let (sender, mut stream) = open(&mut client).await;
    sender.send(gated(&never)).unwrap();
    let request = gated(&never);
    let call = tokio::spawn(async move { client.model_infer(request).await });
    let model = service.server.model("gate", None).unwrap();
    until("both requests", || model.statistics().executions + model.waiting() as u64 == 2).await;
    let since = Instant::now();
    service.stop();
    let (one, other) = (call.await.unwrap().unwrap_err(), stream.message().await.unwrap_err());
    for status in [one, other] {
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("before the request has ended"), "{status:?}");
    }
    service.ended().await;
    assert!(since.elapsed() >= drain);
    until("their end", || model.statistics().failed == 2).await;
}
