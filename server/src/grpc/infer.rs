//! One request, one response.

use super::admission::Permit;
use super::arriving::Held;
use super::life::{Life, Stage};
use super::proto::inference::{ModelInferRequest, ModelInferResponse};
use super::request;
use super::response::{self, Origin};
use super::service::Inference;
use super::status::status;
use crate::shared_memory;
use hydrozoa_serve::{Code, Event, Failure};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

impl Inference {
    /// Runs a request. If this future is dropped, because the client has gone or waits no longer, the request is cancelled.
    pub(super) async fn infer(
        &self,
        mut request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let _permit = request.extensions_mut().remove::<Permit>();
        let held = request.extensions_mut().remove::<Held>();
        let mut trace = self.service.tracer().begin(request.metadata().as_ref(), "grpc");
        let message = request.into_inner();
        let model =
            request::model(self.service.server(), &message.model_name, &message.model_version)
                .map_err(status)?;
        if model.config().is_decoupled() {
            let words = "ModelInfer RPC doesn't support models with decoupled transaction policy";
            return Err(Status::unimplemented(words));
        }
        drop(model);
        let name = message.model_name.clone();
        let version = request::version(&message.model_version).map_err(status)?;
        let (regions, most) = (self.service.regions(), self.options.max_request_size);
        let mut charge = request::charge(held.as_ref(), &message)?;
        let read = request::read(message, regions, most, charge.as_mut()).await;
        let (request, wanted) = read.map_err(status)?;
        let id = request.id.clone();
        let (sender, events) = mpsc::unbounded_channel();
        // Nobody listens if the client has gone.
        let respond = move |event| drop(sender.send(event));
        let server = self.service.server();
        let (model, ticket) = server.infer(&name, version, request, respond).map_err(status)?;
        trace.queued(&model, &id);
        let answer = tokio::select! {
            answer = only(events) => answer,
            () = self.life.reaches(Stage::Ended) => return Err(Life::cut()),
        };
        trace.end(&ticket, answer.as_ref().err());
        drop(ticket);
        let answer = answer.map_err(status)?;
        let answer = shared_memory::deliver(answer, &wanted.places).await.map_err(status)?;
        let most = self.options.max_response_size;
        let origin = Origin { model: &model, id: &id, wanted: &wanted, most };
        response::write(&origin, answer).map(Response::new).map_err(status)
    }
}

/// The response of a model that sends one. It is given when the request has ended.
async fn only(
    mut events: mpsc::UnboundedReceiver<Event>,
) -> Result<hydrozoa_serve::Response, Failure> {
    let mut answer = None;
    while let Some(event) = events.recv().await {
        answer = answer.or(event.response);
        if event.is_final {
            break;
        }
    }
    answer.unwrap_or_else(|| Err(Failure::new(Code::Internal, "expected a single response, got 0")))
}
