//! gRPC's health checking protocol.

use super::life::{Life, Readiness, Stage};
use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_server::{Health, HealthServer};
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

/// How often a model's state is checked for watching clients.
const INTERVAL: Duration = Duration::from_millis(250);

/// Answers questions about a server's health.
pub(super) struct Checks {
    pub(super) readiness: Readiness,
    pub(super) life: Life,
}

/// The services that have a state, which is the server's.
const SERVICES: [&str; 3] = ["", "inference.GRPCInferenceService", "grpc.health.v1.Health"];

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn state(readiness: &Readiness) -> ServingStatus {
    if readiness.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

#[tonic::async_trait]
impl Health for Checks {
    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !SERVICES.contains(&request.into_inner().service.as_str()) {
            return Err(Status::not_found("no service has this name"));
        }
        Ok(Response::new(response(state(&self.readiness))))
    }

    /// Sends the state, and each change of it. The stream ends with the server.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = SERVICES.contains(&request.into_inner().service.as_str());
        let (sender, receiver) = mpsc::channel(1);
        let (readiness, life) = (self.readiness.clone(), self.life.clone());
        tokio::spawn(async move {
            let mut last = None;
            loop {
                let now = if is_known { state(&readiness) } else { ServingStatus::ServiceUnknown };
                if last != Some(now) && sender.send(Ok(response(now))).await.is_err() {
                    return;
                }
                last = Some(now);
                let stage = if life.serves() { Stage::Draining } else { Stage::Ended };
                tokio::select! {
                    () = tokio::time::sleep(INTERVAL) => {}
                    () = life.reaches(stage) => if stage == Stage::Ended { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(super::channel_stream::stream(receiver)))
    }
}

/// The service.
pub(super) fn service(checks: Checks) -> HealthServer<Checks> {
    HealthServer::new(checks)
}
