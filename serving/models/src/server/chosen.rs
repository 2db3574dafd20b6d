//! The model that was chosen for a request.

use super::Server;
use crate::model::{Model, Ticket};
use crate::request::{Event, Failure, Request};
use std::sync::Arc;

/// A version of a model, chosen by name and number for one request ([`Server::choose`]).
pub struct Chosen {
    pub(super) server: Server,
    pub(super) name: String,
    pub(super) version: Option<i64>,
    pub(super) model: Arc<Model>,
}

impl Chosen {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Runs the request. `respond` is that of [`Model::infer`]. The request is cancelled when the ticket is dropped.
    ///
    /// If the version was replaced since it was chosen, and takes no further requests, the request goes to the version that is there
    /// by now. Every request in a queue is served. So a reload refuses no request.
    ///
    /// # Errors
    ///
    /// As [`Server::model`], if the version has gone. Then `respond` is not called.
    pub fn infer(
        self,
        request: Request,
        respond: impl FnMut(Event) + Send + 'static,
    ) -> Result<(Arc<Model>, Ticket), Failure> {
        let Self { server, name, version, mut model } = self;
        let mut call: (Box<Request>, crate::host::Respond) = (request.into(), Box::new(respond));
        loop {
            match model.admit(*call.0, call.1) {
                Ok(ticket) => return Ok((model, ticket)),
                // A model is found by its name no more when it begins to refuse.
                Err(refused) => (call, model) = (refused, server.model(&name, version)?),
            }
        }
    }
}
