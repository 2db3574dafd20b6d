//! What the protocols share: models, readiness, and how many requests are under way.

use crate::memory::Memory;
use crate::shared_memory::Regions;
use crate::tokens::Tokens;
use crate::trace::Tracer;
use axum::http::HeaderValue;
use hydrozoa_serve::host::Overrides;
use hydrozoa_serve::{Code, Failure, Indexed, LoadError, Server, State, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Who loads and unloads models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The program that has the server.
    #[default]
    Program,
    /// Clients, too.
    Clients,
}

/// Settings of a [`Service`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// What the server calls itself.
    pub id: String,
    /// Who loads and unloads models.
    pub control: Control,
    /// Whether the server is ready only if all models that it should serve are, with all of their instances.
    pub strict_readiness: bool,
    /// Whether `/` is a page for people, and `/status` its figures as JSON.
    pub page: bool,
    /// Requests that are under way at once. Further ones are refused with a code that says "later".
    pub max_requests: usize,
    /// Whether clients on the same machine may name objects of POSIX shared memory, which the server reads inputs from and writes
    /// outputs to. Who may, can read and write all such objects that the server's user can.
    pub client_shared_memory: bool,
    /// Tokens, of which clients must show one. Only whether the server lives and is ready is told to all.
    pub tokens: Option<Tokens>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Triton's own clients compare it.
            id: "triton".to_owned(),
            control: Control::Program,
            strict_readiness: true,
            page: true,
            max_requests: 4096,
            client_shared_memory: false,
            tokens: None,
        }
    }
}

/// Models that clients reach.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    server: Server,
    settings: Settings,
    requests: Arc<Semaphore>,
    /// Loads and unloads that clients have asked for.
    changes: Semaphore,
    regions: Regions,
    is_open: AtomicBool,
    began: Instant,
    memory: Memory,
    tracer: Tracer,
}

/// As long as it lives, a request counts as under way.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "its drop is what counts")] OwnedSemaphorePermit);

/// Changes of models that clients may have under way at once.
const CHANGES: usize = 4;

impl Service {
    /// What clients reach of a server's models. It is not ready before [`Service::open`].
    ///
    /// With the feature `otel` requests are traced by the tracer provider that the process has now
    /// (`opentelemetry::global::set_tracer_provider`).
    pub fn new(server: Server, settings: Settings) -> Self {
        let requests = settings.max_requests.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            server,
            requests: Arc::new(Semaphore::new(requests)),
            changes: Semaphore::new(CHANGES),
            regions: Regions::new(settings.client_shared_memory),
            is_open: AtomicBool::new(false),
            began: Instant::now(),
            memory: Memory::default(),
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

    /// From now on the service is ready if its models are.
    pub fn open(&self) {
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    /// From now on it is not ready. Requests are still served.
    pub fn close(&self) {
        self.0.is_open.store(false, Ordering::Relaxed);
    }

    /// Whether clients should send requests.
    pub fn is_ready(&self) -> bool {
        let is_missing = |line: &Indexed| match &line.state {
            State::Impaired(_) => true,
            State::Loading | State::Failed(_) => line.version.is_none(),
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

    /// Loads models that have changed since `watch` has looked, and unloads those that are gone, again and again. The
    /// log says what becomes of them. This never ends by itself.
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
                    // One that was never loaded is no loss.
                    if server.unload(&name).is_ok() {
                        tracing::info!("`{name}` is gone, and is unloaded");
                    }
                }
                watch
            })
            .await;
        }
    }

    /// How long it has been there.
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

    /// What is known of the interpreters' memory.
    pub(crate) fn figures(&self) -> &Memory {
        &self.0.memory
    }

    /// Whether a client that has sent this header may ask for more than the server's health.
    pub(crate) fn knows(&self, authorization: Option<&HeaderValue>) -> bool {
        self.settings().tokens.as_ref().is_none_or(|tokens| tokens.admit(authorization))
    }

    /// Counts a request.
    ///
    /// # Errors
    ///
    /// [`Code::Unavailable`] if there are as many as may be.
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

    /// Loads a model for a client, with what the client has sent in the place of the repository's.
    ///
    /// # Errors
    ///
    /// With words for the client.
    pub async fn load(&self, name: &str, overrides: Overrides) -> Result<(), Failure> {
        let load = move |server: &Server, name: &str| server.load_with(name, &overrides);
        self.change(name, load, "load").await
    }

    /// Unloads a model for a client, when what waits for it is served.
    ///
    /// # Errors
    ///
    /// With words for the client.
    pub async fn unload(&self, name: &str) -> Result<(), Failure> {
        self.change(name, Server::unload, "unload").await
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
                LoadError::Busy { .. } => Code::Unavailable,
                LoadError::Thread { .. } | LoadError::File { .. } => Code::Internal,
                _ => Code::InvalidArgument,
            };
            Failure::new(code, format!("failed to {verb} '{name}', {error}"))
        })
    }
}

/// Runs work that waits, on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        // Nobody aborts the task.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
