//! Streams: any number of requests, each with any number of responses.
//!
//! Responses of usual models come in the order of their requests, those of decoupled models as they are made. A request
//! that fails does not end its stream, unless the client asked for that.

mod unread;

use super::admission::{Permit, too_large};
use super::body::Held;
use super::life::{Life, Stage};
use super::parameters;
use super::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use super::request::{self, Wanted};
use super::response::{self, Origin};
use super::service::Inference;
use super::status::status;
use crate::guard::Charge;
use crate::inference::{Running, Single, expected_one, shared_memory};
use hydrozoa_models::{Chosen, Event, Failure, Response};
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
    running: Running,
    /// The version that was asked for.
    version: String,
    wanted: Wanted,
    /// The response of a usual model.
    single: Single,
    _held: (Permit, Option<Charge>),
}

struct Conversation {
    service: Inference,
    /// The client's headers for the stream.
    headers: HeaderMap,
    ends_at_error: bool,
    /// The bytes charged for messages that were not taken.
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
    /// Returns the status that ends the stream. The remaining requests are then cancelled.
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
        let chosen = request::choose(self.service.service.server(), &message);
        let is_decoupled =
            chosen.as_ref().is_ok_and(|chosen| chosen.model().config().is_decoupled());
        if !is_decoupled {
            self.order.push_back(number);
        }
        let begun = match (chosen.map_err(status), charge) {
            (Ok(chosen), Ok(charge)) => self.begin(number, chosen, message, charge).await,
            (Err(failed), _) | (_, Err(failed)) => Err(failed),
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
        chosen: Chosen,
        message: ModelInferRequest,
        mut charge: Option<Charge>,
    ) -> Result<Call, Status> {
        let permit = self.service.admission.request()?;
        let trace = self.service.service.tracer().begin(&self.headers, "grpc");
        let version = message.model_version.clone();
        let service = &self.service;
        let (regions, most) = (service.service.regions(), service.options.max_request_size);
        let read = request::read(message, regions, most, charge.as_mut()).await;
        let (request, wanted) = read.map_err(status)?;
        let (happens, unread) = (self.happens.clone(), self.unread.clone());
        let respond = move |event: Event| {
            let counted = event.response.is_some().then(|| unread.count());
            drop(happens.send((number, event, counted)));
        };
        let running = Running::begin(chosen, request, trace, respond).map_err(status)?;
        let _held = (permit, charge);
        Ok(Call { running, version, wanted, single: Single::default(), _held })
    }

    /// Something has happened to a request.
    async fn event(
        &mut self,
        number: u64,
        event: Event,
        counted: Option<Counted>,
    ) -> Result<(), Status> {
        let Some(mut call) = self.calls.remove(&number) else { return Ok(()) };
        let Event { response, is_final } = event;
        let is_decoupled = call.running.model.config().is_decoupled();
        let response = match response {
            response if is_decoupled => response,
            response => {
                // It is sent when the request has ended.
                response.into_iter().for_each(|response| call.single.add(response));
                is_final.then(|| std::mem::take(&mut call.single).end(expected_one))
            }
        };
        let response = match response {
            Some(Ok(response)) => Some(shared_memory::deliver(response, &call.wanted.places).await),
            other => other,
        };
        if is_final {
            call.running.end(response.as_ref().and_then(|response| response.as_ref().err()));
        }
        let most = self.service.options.max_response_size;
        let answer = match response {
            Some(response) => match call.response(response, is_final, most) {
                Ok(answer) => Some(answer),
                Err(failure) => Some(self.error(status(failure), call.about(is_final))?),
            },
            None if is_final && call.wanted.empty_final => Some(sent(call.about(true))),
            None => None,
        };
        if !is_final {
            self.calls.insert(number, call);
        }
        if let Some(answer) = answer {
            let counted = counted.unwrap_or_else(|| self.unread.count());
            self.answer(number, is_decoupled, (Ok(answer), counted));
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
        // A client that has gone is noticed elsewhere.
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
        let Running { model, id, .. } = &self.running;
        let origin = Origin { model, id, wanted: &self.wanted, most };
        let mut message = response::write(&origin, response?)?;
        message.parameters.insert(FINAL.to_owned(), parameters::flag(is_final));
        Ok(sent(message))
    }

    /// A response without outputs.
    fn about(&self, is_final: bool) -> ModelInferResponse {
        ModelInferResponse {
            model_name: self.running.model.config().name().to_owned(),
            model_version: self.version.clone(),
            id: self.running.id.clone(),
            parameters: [(FINAL.to_owned(), parameters::flag(is_final))].into(),
            ..ModelInferResponse::default()
        }
    }
}
