//! Streams: any number of requests, each with any number of responses.
//!
//! Responses of usual models come in the order of their requests, those of decoupled models as they are made. A request
//! that fails does not end its stream, unless the client has said so.

mod unread;

use super::admission::{Permit, too_large};
use super::arriving::Held;
use super::life::{Life, Stage};
use super::parameters;
use super::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use super::request::{self, Wanted};
use super::response::{self, Origin};
use super::service::Inference;
use super::status::status;
use crate::guard::Charge;
use crate::shared_memory;
use crate::trace::Trace;
use hydrozoa_serve::{Event, Failure, Model, Response, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::codegen::http::HeaderMap;
use tonic::{Status, Streaming};
use unread::{Counted, Items, Unread};

type Answer = Result<ModelStreamInferResponse, Status>;

/// The parameter of a response that says whether it is the last one of its request.
const FINAL: &str = "triton_final_response";

/// An event of a request, by the request's number. A response is counted.
type Happened = (u64, Event, Option<Counted>);

/// A request under way.
struct Call {
    model: Arc<Model>,
    id: String,
    /// The version that was asked for.
    version: String,
    wanted: Wanted,
    /// The response of a usual model. It is sent when the request has ended.
    held: Option<(Answer, Counted)>,
    /// Dropping it cancels the request.
    ticket: Ticket,
    trace: Trace,
    _held: (Permit, Option<Charge>),
}

struct Conversation {
    service: Inference,
    /// What the client says of the stream.
    headers: HeaderMap,
    ends_at_error: bool,
    /// What messages hold that were not taken.
    held: Option<Held>,
    unread: Arc<Unread>,
    calls: BTreeMap<u64, Call>,
    next: u64,
    /// Requests of usual models that are not answered yet.
    order: VecDeque<u64>,
    /// Answers to these that wait for those before them.
    answers: BTreeMap<u64, (Answer, Counted)>,
    happens: mpsc::UnboundedSender<Happened>,
    out: mpsc::UnboundedSender<(Answer, Counted)>,
}

/// Answers the requests of a stream until the client has sent its last one and all are answered, or until it has gone.
/// `ends_at_error` lets the first error end the stream, with its status.
pub(super) fn start(
    service: &Inference,
    headers: HeaderMap,
    inbound: Streaming<ModelInferRequest>,
    (permit, held): (Option<Permit>, Option<Held>),
    ends_at_error: bool,
) -> BoxStream<ModelStreamInferResponse> {
    let (happens, happened) = mpsc::unbounded_channel();
    let (out, items) = mpsc::unbounded_channel();
    let conversation = Conversation {
        service: service.clone(),
        headers,
        ends_at_error,
        held,
        unread: Arc::default(),
        calls: BTreeMap::new(),
        next: 0,
        order: VecDeque::new(),
        answers: BTreeMap::new(),
        happens,
        out,
    };
    tokio::spawn(async move {
        let (out, unread) = (conversation.out.clone(), conversation.unread.clone());
        if let Err(status) = conversation.run(inbound, happened).await {
            // Nobody listens if the client has gone.
            drop(out.send((Err(status), unread.count())));
        }
        drop(permit);
    });
    Box::pin(Items(items))
}

impl Conversation {
    /// Returns with the status that the stream ends with. All requests that are left are cancelled then.
    async fn run(
        mut self,
        mut inbound: Streaming<ModelInferRequest>,
        mut happened: mpsc::UnboundedReceiver<Happened>,
    ) -> Result<(), Status> {
        let life = self.service.life.clone();
        let (unread, out) = (self.unread.clone(), self.out.clone());
        let most = self.service.options.max_unread_responses;
        let (mut is_open, mut serves) = (true, true);
        loop {
            if self.calls.is_empty() && !(is_open && serves) {
                return if serves { Ok(()) } else { Err(Life::refusal()) };
            }
            let has_room = unread.len() + self.calls.len() < most.max(1);
            tokio::select! {
                message = inbound.message(), if is_open && serves && has_room => {
                    match message.map_err(too_large)? {
                        Some(message) => self.take(message).await?,
                        None => is_open = false,
                    }
                }
                Some((number, event, counted)) = happened.recv() => {
                    self.event(number, event, counted).await?;
                    if unread.len() > most.max(1) {
                        return Err(Status::resource_exhausted(format!(
                            "the client has left {most} responses of the stream unread, as many as it may"
                        )));
                    }
                }
                () = unread.falls(), if !has_room => {}
                () = life.reaches(Stage::Draining), if serves => serves = false,
                () = life.reaches(Stage::Ended) => return Err(Life::cut()),
                () = out.closed() => return Ok(()),
            }
        }
    }

    /// Begins a request.
    async fn take(&mut self, message: ModelInferRequest) -> Result<(), Status> {
        let number = self.next;
        self.next += 1;
        let id = message.id.clone();
        let charge = request::charge(self.held.as_ref(), &message);
        let server = self.service.service.server();
        let model = request::model(server, &message.model_name, &message.model_version);
        let is_decoupled = model.as_ref().is_ok_and(|model| model.config().is_decoupled());
        if !is_decoupled {
            self.order.push_back(number);
        }
        let begun = match model.map_err(status) {
            Ok(_) => match charge {
                Ok(charge) => self.begin(number, message, charge).await,
                Err(failed) => Err(failed),
            },
            Err(failed) => Err(failed),
        };
        match begun {
            Ok(call) => drop(self.calls.insert(number, call)),
            Err(failed) => {
                let about = ModelInferResponse { id, ..ModelInferResponse::default() };
                let answer = self.error(failed, about)?;
                self.answer(number, is_decoupled, (Ok(answer), self.unread.count()));
            }
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        number: u64,
        message: ModelInferRequest,
        mut charge: Option<Charge>,
    ) -> Result<Call, Status> {
        let permit = self.service.admission.request()?;
        let mut trace = self.service.service.tracer().begin(&self.headers, "grpc");
        let (name, version) = (message.model_name.clone(), message.model_version.clone());
        let wanted_version = request::version(&version).map_err(status)?;
        let service = &self.service;
        let (regions, most) = (service.service.regions(), service.options.max_request_size);
        let read = request::read(message, regions, most, charge.as_mut()).await;
        let (request, wanted) = read.map_err(status)?;
        let id = request.id.clone();
        let (happens, unread) = (self.happens.clone(), self.unread.clone());
        let respond = move |event: Event| {
            let counted = event.response.is_some().then(|| unread.count());
            drop(happens.send((number, event, counted)));
        };
        let server = self.service.service.server();
        let (model, ticket) =
            server.infer(&name, wanted_version, request, respond).map_err(status)?;
        trace.queued(&model, &id);
        Ok(Call { model, id, version, wanted, held: None, ticket, trace, _held: (permit, charge) })
    }

    /// Something has happened to a request.
    async fn event(
        &mut self,
        number: u64,
        event: Event,
        counted: Option<Counted>,
    ) -> Result<(), Status> {
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let places = call.wanted.places.clone();
        let response = match event.response {
            Some(Ok(response)) => Some(shared_memory::deliver(response, &places).await),
            other => other,
        };
        let event = Event { response, ..event };
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let is_decoupled = call.model.config().is_decoupled();
        let failure = event.response.as_ref().and_then(|response| response.as_ref().err().cloned());
        let is_final = event.is_final || !is_decoupled;
        let most = self.service.options.max_response_size;
        let answer = match event.response {
            Some(response) => match call.response(response, is_final, most) {
                Ok(answer) => Some(answer),
                Err(failure) => Some(self.error(status(failure), call.about(is_final))?),
            },
            None if is_decoupled && event.is_final && call.wanted.empty_final => {
                Some(sent(call.about(true)))
            }
            None => None,
        };
        let counted = counted.unwrap_or_else(|| self.unread.count());
        let mut answer = answer.map(|answer| (Ok(answer), counted));
        if !is_decoupled && let Some(call) = self.calls.get_mut(&number) {
            call.held = call.held.take().or(answer);
            answer = if event.is_final { call.held.take() } else { None };
        }
        if event.is_final
            && let Some(call) = self.calls.remove(&number)
        {
            call.trace.end(&call.ticket, failure.as_ref());
        }
        if let Some(answer) = answer {
            self.answer(number, is_decoupled, answer);
        }
        Ok(())
    }

    /// An error as a response, or as the end of the stream.
    fn error(
        &self,
        failed: Status,
        about: ModelInferResponse,
    ) -> Result<ModelStreamInferResponse, Status> {
        if self.ends_at_error {
            return Err(failed);
        }
        let error_message = failed.message().to_owned();
        Ok(ModelStreamInferResponse { error_message, infer_response: Some(about) })
    }

    /// Sends an answer when its turn has come.
    fn answer(&mut self, number: u64, is_decoupled: bool, answer: (Answer, Counted)) {
        // That the client has gone is seen elsewhere.
        if is_decoupled {
            return drop(self.out.send(answer));
        }
        self.answers.insert(number, answer);
        while let Some(answer) = self.order.front().and_then(|first| self.answers.remove(first)) {
            self.order.pop_front();
            drop(self.out.send(answer));
        }
    }
}

fn sent(response: ModelInferResponse) -> ModelStreamInferResponse {
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) }
}

impl Call {
    fn response(
        &self,
        response: Result<Response, Failure>,
        is_final: bool,
        most: usize,
    ) -> Result<ModelStreamInferResponse, Failure> {
        let origin = Origin { model: &self.model, id: &self.id, wanted: &self.wanted, most };
        let mut message = response::write(&origin, response?)?;
        message.parameters.insert(FINAL.to_owned(), parameters::flag(is_final));
        Ok(sent(message))
    }

    /// A response without outputs.
    fn about(&self, is_final: bool) -> ModelInferResponse {
        ModelInferResponse {
            model_name: self.model.config().name().to_owned(),
            model_version: self.version.clone(),
            id: self.id.clone(),
            parameters: [(FINAL.to_owned(), parameters::flag(is_final))].into(),
            ..ModelInferResponse::default()
        }
    }
}
