//! One worker: an interpreter with the application in it. Another one takes its place when it is replaced.

use crate::asgi::Asgi;
use crate::error::{Error, trace};
use crate::exchange::Exchanges;
use crate::fleet::Command;
use crate::host::Host;
use crate::roster::Roster;
use crate::scrape::Answers;
use crate::served::Served;
use crate::settings::{Interface, Settings};
use hydrozoa::{Handle, Interpreter, Object, Session};
use hydrozoa_server::http::Lane;
use hyper::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often the end of a worker's requests is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// How long the application's end may take when its requests have used up the time.
const MOMENT: Duration = Duration::from_secs(1);

/// The things that the workers of a server share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) settings: Arc<Settings>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// Connections, which the event loops of as many workers serve.
    pub(crate) lanes: Arc<[Lane]>,
    pub(crate) commands: Sender<Command>,
    pub(crate) roster: Arc<Roster>,
}

/// An interpreter with the application.
pub(crate) struct Worker {
    pub(crate) context: Context,
    pub(crate) interpreter: Interpreter,
    /// The function that answers a request.
    pub(crate) handle: Handle,
    pub(crate) exchanges: Arc<Exchanges>,
    /// Of an application of ASGI.
    pub(crate) asgi: Option<Asgi>,
    pub(crate) answers: Answers,
    is_leaving: AtomicBool,
    pub(crate) served: Arc<Served>,
}

impl Worker {
    /// Loads the application into an interpreter, and starts it.
    pub(crate) fn load(interpreter: Interpreter, context: &Context) -> Result<Self, Error> {
        let settings = &context.settings;
        let exchanges: Arc<Exchanges> = Arc::default();
        context.roster.add(interpreter.name(), &exchanges);
        let served = Served::new(&context.commands, settings);
        let served = Arc::new(served);
        let host = Host {
            exchanges: exchanges.clone(),
            served: served.clone(),
            runtime: context.runtime.clone(),
        };
        let session = interpreter.session();
        let raised = |error| of_load(&settings.application, error);
        let (application, interface) = application(&session, settings).map_err(raised)?;
        let (handle, asgi) = match interface {
            Interface::Wsgi => {
                (wsgi(&session, application, &host, settings).map_err(raised)?, None)
            }
            Interface::Asgi => {
                let (handle, asgi) = Asgi::start(&session, application, &host, context)?;
                (handle, Some(asgi))
            }
        };
        drop(session);
        let taken = interpreter.memory_taken();
        if let Some(most) = settings.max_memory
            && taken > most
        {
            return Err(Error::Memory { application: settings.application.clone(), taken, most });
        }
        Ok(Self {
            context: context.clone(),
            interpreter,
            handle,
            exchanges,
            asgi,
            answers: Answers::default(),
            is_leaving: AtomicBool::new(false),
            served,
        })
    }

    pub(crate) fn interface(&self) -> Interface {
        if self.asgi.is_some() { Interface::Asgi } else { Interface::Wsgi }
    }

    /// The worker's number, from 1.
    pub(crate) fn number(&self) -> usize {
        self.interpreter.index() + 1
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    /// Whether it answers requests.
    pub(crate) fn is_ready(&self) -> bool {
        !self.exchanges.is_stuck() && !self.is_leaving() && !self.interpreter.has_crashed()
    }

    /// It gets no further requests.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        self.exchanges.leave();
    }

    /// Waits for its requests, for so long at most, and has the application end. It must have been told to leave.
    pub(crate) fn end(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.exchanges.count() > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let late = self.exchanges.count();
        if late > 0 {
            tracing::warn!(
                "worker {}: {late} requests have not ended within {} s (--graceful-timeout), and are given up",
                self.number(),
                patience.as_secs_f64()
            );
        }
        if let Some(asgi) = &self.asgi
            && let Err(error) =
                asgi.end(&self.context.runtime, deadline.max(Instant::now() + MOMENT))
        {
            tracing::error!(
                "worker {}: the application has failed to end:\n{}",
                self.number(),
                trace(&error)
            );
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Those that are late end with the interpreter.
        self.exchanges.abandon(StatusCode::BAD_GATEWAY);
    }
}

/// An error of the application's module, or of the command line.
pub(crate) fn of_load(application: &str, error: hydrozoa::Error) -> Error {
    match error {
        hydrozoa::Error::Python { type_name, message, .. }
            if type_name == "_hydrozoa_web.Refused" =>
        {
            Error::Application(message)
        }
        source => Error::Load { application: application.to_owned(), source: Box::new(source) },
    }
}

fn application<'s>(
    session: &'s Session,
    settings: &Settings,
) -> hydrozoa::Result<(Object<'s>, Interface)> {
    let interface = match settings.interface {
        None => "auto",
        Some(Interface::Wsgi) => "wsgi",
        Some(Interface::Asgi) => "asgi",
    };
    let web = session.import("_hydrozoa_web")?;
    let loaded = web.call_method("load", (&*settings.application, settings.factory, interface))?;
    let (application, interface): (Object<'s>, String) = loaded.extract()?;
    let interface = if interface == "asgi" { Interface::Asgi } else { Interface::Wsgi };
    Ok((application, interface))
}

/// The function that answers a request by an application of WSGI.
fn wsgi(
    session: &Session,
    application: Object<'_>,
    host: &Host,
    settings: &Settings,
) -> hydrozoa::Result<Handle> {
    let wsgi = session.import("_hydrozoa_wsgi")?;
    let software = concat!("hydrozoa/", env!("CARGO_PKG_VERSION"));
    let (threads, workers) = (settings.threads > 1, settings.workers > 1);
    let base = wsgi.call_method("base", (&*settings.root_path, threads, workers, software))?;
    let (read, reply) = (host.read(session)?, host.reply(session, true)?);
    let (send, finish) = (host.send(session)?, host.finish(session)?);
    let arguments = (application, base, read, reply, send, finish, host.reply_file(session)?);
    Ok(wsgi.call_method("handler", arguments)?.keep())
}
