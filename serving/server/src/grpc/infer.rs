//! One request, one response.

use super::admission::Permit;
use super::body::Held;
use super::life::{Life, Stage};
use super::proto::inference::{ModelInferRequest, ModelInferResponse};
use super::request;
use super::response::{self, Origin};
use super::service::Inference;
use super::status::status;
use crate::inference::{Responses, Running, expected_one, shared_memory};
use tonic::{Request, Response, Status};

impl Inference {
    /// Runs a request. If this future is dropped, because the client has gone or waits no longer, the request is cancelled.
    pub(super) async fn infer(
        &self,
        mut request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let _permit = request.extensions_mut().remove::<Permit>();
        let held = request.extensions_mut().remove::<Held>();
        let trace = self.service.tracer().begin(request.metadata().as_ref(), "grpc");
        let message = request.into_inner();
        let chosen = request::choose(self.service.server(), &message).map_err(status)?;
        if chosen.model().config().is_decoupled() {
            let words = "ModelInfer RPC doesn't support models with decoupled transaction policy";
            return Err(Status::unimplemented(words));
        }
        let (regions, most) = (self.service.regions(), self.options.max_request_size);
        let mut charge = request::charge(held.as_ref(), &message)?;
        let read = request::read(message, regions, most, charge.as_mut()).await;
        let (request, wanted) = read.map_err(status)?;
        let begun = Responses::begin(chosen, request, trace, usize::MAX);
        let mut responses = begun.map_err(status)?;
        let answer = tokio::select! {
            answer = responses.single(expected_one) => answer.map_err(status)?,
            () = self.life.reaches(Stage::Ended) => return Err(Life::cut()),
        };
        let Running { model, id, .. } = &responses.running;
        let answer = shared_memory::deliver(answer, &wanted.places).await.map_err(status)?;
        let most = self.options.max_response_size;
        let origin = Origin { model, id, wanted: &wanted, most };
        response::write(&origin, answer).map(Response::new).map_err(status)
    }
}
