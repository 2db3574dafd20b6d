//! The state that the protocols share: models, readiness, and how many requests are under way.

use crate::access::{Client, Tokens};
use crate::figures::MemoryFigures;
use crate::guard::{Account, Budget, Hosts, default_bytes};
use crate::inference::shared_memory::Regions;
use crate::inference::trace::Tracer;
use crate::process::Log;
use axum::http::HeaderValue;
use hydrozoa_models::host::Overrides;
use hydrozoa_models::{Code, Failure, Indexed, LoadError, ModelState, Server, Watch, escaped};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// The party that loads and unloads models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The program that owns the server.
    #[default]
    Program,
    /// Clients, too.
    Clients,
}

/// Settings of a [`Service`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The server's name in its metadata.
    pub id: String,
    /// The party that loads and unloads models.
    pub control: Control,
    /// Whether the server is ready only if all models that it should serve are, with all of their instances.
    pub strict_readiness: bool,
    /// Whether `/` is a page for people, and `/status` its figures as JSON.
    pub page: bool,
    /// The most requests under way at once. Further ones are refused with a code that says "later".
    pub max_requests: usize,
    /// Whether clients on the same machine may name objects of POSIX shared memory, which the server reads inputs from and writes
    /// outputs to. Such clients can read and write all such objects that the server's user can.
    pub client_shared_memory: bool,
    /// Whether clients that load models may bring files for them. A file of a model is code, which the server runs.
    pub client_files: bool,
    /// The hosts that clients may name besides the addresses that the server listens at.
    pub hosts: Hosts,
    /// Bytes of requests held at once: of bodies that arrive, and of unanswered requests. Further ones are refused with a code
    /// that says "later". By default an eighth of the memory that the process may use, from 64 MiB to 1 GiB.
    pub max_bytes_in_flight: usize,
    /// The same for the requests of one address. By default half of the former.
    pub max_bytes_in_flight_per_client: usize,
    /// Tokens, of which clients must show one. Only the liveness and readiness of the server are open to all.
    pub tokens: Option<Tokens>,
    /// The log, whose lost lines the metrics and `/status` count.
    pub log: Option<Log>,
}

impl Default for Settings {
    fn default() -> Self {
        let bytes = default_bytes();
        Self {
            // Triton's own clients compare it.
            id: "triton".to_owned(),
            control: Control::Program,
            strict_readiness: true,
            page: true,
            max_requests: 4096,
            client_shared_memory: false,
            client_files: false,
            hosts: Hosts::default(),
            max_bytes_in_flight: bytes,
            max_bytes_in_flight_per_client: bytes / 2,
            tokens: None,
            log: None,
        }
    }
}

/// The models within reach of clients.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    server: Server,
    settings: Settings,
    requests: Arc<Semaphore>,
    /// Loads and unloads that clients have asked for.
    changes: Semaphore,
    regions: Regions,
    budget: Arc<Budget>,
    is_open: AtomicBool,
    /// Whether the server ends.
    is_closed: watch::Sender<bool>,
    began: Instant,
    memory: MemoryFigures,
    tracer: Tracer,
}

/// As long as it lives, a request counts as under way.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "its drop is what counts")] OwnedSemaphorePermit);

/// Changes of models that clients may have under way at once.
const CHANGES: usize = 4;

impl Service {
    /// Puts a server's models within reach of clients. It is not ready before [`Service::open`].
    ///
    /// With the feature `otel` requests are traced by the tracer provider that the process has now
    /// (`opentelemetry::global::set_tracer_provider`).
    pub fn new(server: Server, settings: Settings) -> Self {
        let requests = settings.max_requests.clamp(1, Semaphore::MAX_PERMITS);
        let (bytes, of_client) =
            (settings.max_bytes_in_flight, settings.max_bytes_in_flight_per_client);
        Self(Arc::new(Shared {
            server,
            requests: Arc::new(Semaphore::new(requests)),
            changes: Semaphore::new(CHANGES),
            regions: Regions::new(settings.client_shared_memory),
            budget: Arc::new(Budget::new(bytes, of_client)),
            is_open: AtomicBool::new(false),
            is_closed: watch::Sender::new(false),
            began: Instant::now(),
            memory: MemoryFigures::default(),
            tracer: Tracer::default(),
            settings,
        }))
    }

    /// The models.
    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The memory that clients share with the server.
    pub(crate) fn regions(&self) -> &Regions {
        &self.0.regions
    }

    /// The account charged for requests of this client.
    pub(crate) fn account(&self, client: Option<IpAddr>) -> Account {
        self.0.budget.account(client)
    }

    /// Bytes of requests that are held now.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.0.budget.held()
    }

    /// From now on the service is ready if its models are.
    pub fn open(&self) {
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    /// From now on it is not ready, and loads nothing: clients do not wait for loads that are under way. Requests are still served.
    pub fn close(&self) {
        self.0.is_open.store(false, Ordering::Relaxed);
        self.server().refuse_loads();
        self.0.is_closed.send_replace(true);
    }

    /// Whether clients should send requests.
    pub fn is_ready(&self) -> bool {
        let is_missing = |line: &Indexed| match &line.state {
            ModelState::Impaired(_) => true,
            ModelState::Loading | ModelState::Failed(_) => line.version.is_none(),
            _ => false,
        };
        self.0.is_open.load(Ordering::Relaxed)
            && (!self.0.settings.strict_readiness || !self.server().loaded().iter().any(is_missing))
    }

    /// Loads these models, so many at once. Returns those that failed.
    pub async fn load_all(&self, names: Vec<String>, at_once: usize) -> Vec<(String, LoadError)> {
        let turns = Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)));
        let mut loads = JoinSet::new();
        for name in names {
            let (server, turns) = (self.server().clone(), turns.clone());
            loads.spawn(async move {
                let _turn = turns.acquire().await.expect("nobody closes it");
                blocking(move || server.load(&name).err().map(|error| (name, error))).await
            });
        }
        let mut failed: Vec<_> = loads.join_all().await.into_iter().flatten().collect();
        failed.sort_by(|(one, _), (other, _)| one.cmp(other));
        failed
    }

    /// Loads models that have changed since `watch` last looked, and unloads those that are gone, again and again. The
    /// log records each outcome. This never ends by itself.
    pub async fn follow(&self, mut watch: Watch, pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            let server = self.server().clone();
            watch = blocking(move || {
                let changes = watch.look(&server);
                for name in changes.changed {
                    match server.load(&name) {
                        Ok(()) => tracing::info!("`{name}` has changed, and is loaded"),
                        Err(error) => tracing::error!("`{name}` has changed: {error}"),
                    }
                }
                for name in changes.gone {
                    // A model that was never loaded needs no unloading.
                    if server.unload(&name).is_ok() {
                        tracing::info!("`{name}` is gone, and is unloaded");
                    }
                }
                watch
            })
            .await;
        }
    }

    /// The age of the service.
    pub(crate) fn age(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Requests that are under way.
    pub(crate) fn under_way(&self) -> usize {
        let most = self.0.settings.max_requests.clamp(1, Semaphore::MAX_PERMITS);
        most - self.0.requests.available_permits()
    }

    /// Traces requests.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.0.tracer
    }

    /// The known figures of the interpreters' memory.
    pub(crate) fn figures(&self) -> &MemoryFigures {
        &self.0.memory
    }

    /// Whether a client that has sent this header may ask for more than the server's health.
    pub(crate) fn knows(&self, authorization: Option<&HeaderValue>) -> bool {
        self.settings().tokens.as_ref().is_none_or(|tokens| tokens.admit(authorization))
    }

    /// The line of the token that a client has sent by this header.
    pub(crate) fn token(&self, authorization: Option<&HeaderValue>) -> Option<usize> {
        self.settings().tokens.as_ref()?.line(authorization)
    }

    /// Lines of the log that are lost.
    pub(crate) fn lost_lines(&self) -> u64 {
        self.settings().log.as_ref().map_or(0, Log::lost)
    }

    /// Counts a request.
    ///
    /// # Errors
    ///
    /// [`Code::Unavailable`] at the limit of requests.
    pub fn admit(&self) -> Result<Permit, Failure> {
        let permit = self.0.requests.clone().try_acquire_owned();
        permit.map(Permit).map_err(|_| {
            let most = self.0.settings.max_requests;
            Failure::new(
                Code::Unavailable,
                format!("the server has {most} requests under way, and takes no more at once"),
            )
        })
    }

    /// Loads a model for a client, with the client's files in the place of the repository's. The log names client and model.
    ///
    /// # Errors
    ///
    /// With words for the client.
    pub async fn load(
        &self,
        client: Client,
        name: &str,
        overrides: Overrides,
    ) -> Result<(), Failure> {
        let files = overrides.paths();
        let has_files = !overrides.files.is_empty();
        if has_files && self.0.settings.control == Control::Clients && !self.0.settings.client_files
        {
            let words = "the load has files, which would run in the server, and the server was not started with \
                         --allow-client-files=true";
            return Err(Failure::new(Code::Unsupported, words));
        }
        let load = move |server: &Server, name: &str| server.load_with(name, &overrides);
        let mut is_closed = self.0.is_closed.subscribe();
        let outcome = tokio::select! {
            outcome = self.change(name, load, "load") => outcome,
            // It goes on, and the loaded model ends at once.
            _ = is_closed.wait_for(|is_closed| *is_closed) => {
                let error = LoadError::Ends { model: name.to_owned() };
                Err(Failure::new(Code::Unavailable, error.to_string()))
            }
        };
        self.tell(client, "load", name, &files, &outcome);
        outcome
    }

    /// Unloads a model for a client, after its waiting requests are served. The log names the client and the model.
    ///
    /// # Errors
    ///
    /// With words for the client.
    pub async fn unload(&self, client: Client, name: &str) -> Result<(), Failure> {
        let outcome = self.change(name, Server::unload, "unload").await;
        self.tell(client, "unload", name, "", &outcome);
        outcome
    }

    fn tell(
        &self,
        client: Client,
        action: &str,
        name: &str,
        files: &str,
        outcome: &Result<(), Failure>,
    ) {
        let versions: Vec<_> = self.server().versions(name).iter().map(i64::to_string).collect();
        let versions = versions.join(", ");
        let outcome = outcome.as_ref().map(|()| &*versions).map_err(|failure| &*failure.message);
        client.tell(action, name, files, outcome);
    }

    async fn change(
        &self,
        name: &str,
        change: impl FnOnce(&Server, &str) -> Result<(), LoadError> + Send + 'static,
        verb: &str,
    ) -> Result<(), Failure> {
        if self.0.settings.control != Control::Clients {
            let words = "explicit model load / unload is not allowed: the server was not started with \
                         --model-control-mode=explicit";
            return Err(Failure::new(Code::Unavailable, words));
        }
        let _turn = self.0.changes.acquire().await.expect("nobody closes it");
        let (server, model) = (self.server().clone(), name.to_owned());
        blocking(move || change(&server, &model)).await.map_err(|error| {
            let code = match &error {
                LoadError::Unknown { .. } => Code::NotFound,
                LoadError::Busy { .. } | LoadError::Ends { .. } => Code::Unavailable,
                LoadError::Thread { .. } | LoadError::File { .. } => Code::Internal,
                _ => Code::InvalidArgument,
            };
            Failure::new(code, format!("failed to {verb} '{}', {error}", escaped(name)))
        })
    }
}

/// Bytes that are processed on the thread that received them. Larger work would keep other requests waiting.
const LARGE: usize = 128 << 10;

/// Runs work on so many bytes, on a thread for blocking work if they are many.
pub(crate) async fn blocking_if_large<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if size < LARGE { work() } else { blocking(work).await }
}

/// Runs blocking work, on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        // Nobody aborts the task.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
