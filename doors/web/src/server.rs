//! A server of an application: its workers, and what answers requests by them.

use crate::access_log::AccessLog;
use crate::error::Error;
use crate::figures::Figures;
use crate::fleet::{self, Command, Fleet};
use crate::request::ListenerPlace;
use crate::service::Service;
use crate::settings::{Interface, Settings};
use crate::worker::Context;
use axum::Router;
use axum::routing::get;
use hydrozoa_server::http::{Listener, Threads};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The modules of Python that each worker has.
const MODULES: [(&str, &str); 4] = [
    ("_hydrozoa_web", include_str!("../python/_hydrozoa_web.py")),
    ("_hydrozoa_wsgi", include_str!("../python/_hydrozoa_wsgi.py")),
    ("_hydrozoa_asgi", include_str!("../python/_hydrozoa_asgi.py")),
    ("_hydrozoa_metrics", include_str!("../python/_hydrozoa_metrics.py")),
];

/// Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An application with its workers.
pub struct Server {
    fleet: Arc<Fleet>,
    figures: Arc<Figures>,
    commands: Sender<Command>,
    manager: thread::JoinHandle<()>,
}

/// Has all workers of a server replaced, one after the other.
#[derive(Clone)]
pub struct Reload(Sender<Command>);

impl Reload {
    /// Begins. The requests under way go on, and none is refused. An application that cannot be loaded is tried again.
    pub fn begin(&self) {
        // Nobody hears it where the server ends.
        drop(self.0.send(Command::Reload { once: false }));
    }

    /// The same for an application that is being written: if it cannot be loaded, the workers stay until the next call.
    pub fn begin_once(&self) {
        drop(self.0.send(Command::Reload { once: true }));
    }
}

impl Server {
    /// Starts the interpreters of `builder` with the application in each. It sets what the settings say. `runtime` has the timers
    /// of threads that wait for clients; it must have threads of its own. The event loops of the first workers serve the connections of
    /// `threads` while they wait, a worker for a thread: a request that meets its worker there changes no thread.
    ///
    /// # Errors
    ///
    /// [`Error`]. No interpreter is left then.
    pub fn start(
        builder: hydrozoa::Builder,
        settings: Settings,
        runtime: &tokio::runtime::Handle,
        threads: &Threads,
    ) -> Result<Self, Error> {
        let (commands, heard) = mpsc::channel();
        let context = Context {
            settings: Arc::new(settings),
            runtime: runtime.clone(),
            lanes: threads.lanes().into(),
            commands: commands.clone(),
            roster: Arc::default(),
        };
        let builder = builder.interpreters(context.settings.workers);
        let builder = match &context.settings.dense {
            Some(folder) => builder.dense(folder),
            None => builder,
        };
        let builder = fleet::reporting(builder, &context, &commands);
        let pool = builder.build().map_err(|error| Error::Workers(error.into()))?;
        for (name, source) in MODULES {
            pool.register_module(name, source).map_err(|error| Error::Workers(error.into()))?;
        }
        let fleet = Arc::new(Fleet::start(pool, context)?);
        fleet::watch(&fleet)?;
        let manager = {
            let fleet = Arc::clone(&fleet);
            let named = thread::Builder::new().name("workers".to_owned()).stack_size(8 << 20);
            named.spawn(move || fleet.run(&heard)).map_err(Error::Threads)?
        };
        Ok(Self { fleet, figures: Arc::default(), commands, manager })
    }

    /// The interface of the application.
    pub fn interface(&self) -> Interface {
        self.fleet.interface
    }

    /// Answers requests of a listener.
    pub fn service(&self, listener: &Listener, log: Option<AccessLog>) -> Service {
        let path = listener.path().map(|path| path.to_string_lossy().into());
        let place = ListenerPlace { path, has_tls: listener.has_tls() };
        Service::new(Arc::clone(&self.fleet), Arc::clone(&self.figures), place, log)
    }

    /// Answers questions about the server: `/healthz` and `/metrics`.
    pub fn admin(&self) -> Router {
        let (fleet, figures) = (Arc::clone(&self.fleet), Arc::clone(&self.figures));
        let asked = Arc::clone(&self.fleet);
        let health = async move || match asked.ready() {
            0 => (StatusCode::SERVICE_UNAVAILABLE, "no worker answers requests\n"),
            _ => (StatusCode::OK, "ok\n"),
        };
        let metrics = async move || ([(CONTENT_TYPE, PROMETHEUS)], figures.text(&fleet).await);
        Router::new().route("/healthz", get(health)).route("/metrics", get(metrics))
    }

    /// A handle that has the workers replaced.
    pub fn reload(&self) -> Reload {
        Reload(self.commands.clone())
    }

    /// Has the application end in each worker, and ends the interpreters, within a time.
    pub fn end(self, within: Duration) {
        drop(self.commands.send(Command::End));
        self.fleet.end(within);
        // It may be loading an application, and then ends with the process.
        if self.manager.is_finished() {
            drop(self.manager.join());
        }
    }
}
