//! Requests of ASGI: each is a coroutine on the event loop of the worker whose thread has read it, or of the least loaded one.

use crate::error::{Error, trace};
use crate::exchange::{Exchange, Exchanges};
use crate::host::Host;
use crate::local::{LoopId, Serving};
use crate::request::Scope;
use crate::settings::Settings;
use crate::worker::{Context, Worker, of_load};
use bytes::Bytes;
use hydrozoa::{EventLoop, Handle, Object, Reactor, Session, Task};
use hyper::StatusCode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::time::timeout_at;

/// The part of a worker that only applications of ASGI have.
pub(crate) struct Asgi {
    events: EventLoop,
    pub(crate) id: LoopId,
    lifespan: Handle,
    /// Makes a coroutine that does nothing.
    beat: Handle,
    /// The last such coroutine.
    beating: Mutex<Option<Beat>>,
}

impl Asgi {
    /// Starts the application on the interpreter's event loop. Returns the function that answers a request.
    pub(crate) fn start(
        session: &Session,
        application: Object<'_>,
        host: &Host,
        context: &Context,
    ) -> Result<(Handle, Self), Error> {
        let settings = &context.settings;
        let id = LoopId::new();
        let made = || -> hydrozoa::Result<_> {
            let module = session.import("_hydrozoa_asgi")?;
            let mode = settings.lifespan.name();
            let lifespan = module.call_method("Lifespan", (&application, mode))?;
            let interpreter = session.interpreter();
            let lane = context.lanes.get(interpreter.index());
            let serving =
                lane.map(|lane| Box::new(Serving::new(lane.clone(), id)) as Box<dyn Reactor>);
            let events =
                interpreter.event_loop_of(|session| loop_of(session, settings), serving)?;
            let (receive, reply) = (host.receive(session)?, host.reply(session, false)?);
            let (send, left) = (host.send_later(session)?, host.left(session)?);
            let send = (send, host.send_path(session)?);
            let (root, state) = (&*settings.root_path, lifespan.getattr("state")?);
            let socket = (host.take(session)?, host.accept(session)?, host.deliver(session)?);
            let ended = host.ended(session)?;
            let arguments = (&application, root, state, receive, reply, send, left, ended, socket);
            let handle = module.call_method("handler", arguments)?.keep();
            let beat = module.getattr("beat")?.keep();
            let (beating, lifespan) = (Mutex::new(None), lifespan.keep());
            Ok((handle, Self { events, id, lifespan, beat, beating }))
        };
        let application = || settings.application.clone();
        let (handle, asgi) = made().map_err(|error| of_load(&settings.application, error))?;
        let started = host.runtime.block_on(asgi.call(&asgi.lifespan, "start"));
        started.map_err(|source| Error::Startup {
            application: application(),
            source: source.into(),
        })?;
        Ok((handle, asgi))
    }

    /// Awaits the coroutine of a method.
    fn call(&self, object: &Handle, method: &'static str) -> Task<()> {
        let object = object.clone();
        self.events
            .spawn_with(move |session| object.attach(session)?.call_method(method, ()), |_| Ok(()))
    }

    /// Has the application end.
    pub(crate) fn end(&self, runtime: &runtime::Handle, deadline: Instant) -> hydrozoa::Result<()> {
        let ended = self.call(&self.lifespan, "end");
        // One that is late ends with the interpreter.
        let ended = runtime.block_on(async { timeout_at(deadline.into(), ended).await });
        ended.unwrap_or(Ok(()))
    }

    /// How long the loop has run nothing new. It is asked while requests come, and while there are any once in `limit`: one without
    /// requests sleeps, and one with idle connections has little to do.
    pub(crate) fn silence(&self, requests: &Exchanges, limit: Duration) -> Duration {
        let mut beating = self.beating.lock();
        let begun = requests.begun();
        if let Some(last) = &*beating {
            if !last.task.is_finished() {
                return last.asked.elapsed();
            }
            if last.begun == begun && last.asked.elapsed() < limit {
                return Duration::ZERO;
            }
        }
        if requests.count() == 0 {
            return Duration::ZERO;
        }
        let beat = self.beat.clone();
        let task =
            self.events.spawn_with(move |session| beat.attach(session)?.call(()), |_| Ok(()));
        *beating = Some(Beat { task, asked: Instant::now(), begun });
        Duration::ZERO
    }
}

/// The loop that the settings ask for; None for asyncio's.
fn loop_of<'s>(session: &'s Session, settings: &Settings) -> hydrozoa::Result<Object<'s>> {
    session.import("_hydrozoa_asgi")?.call_method("event_loop", (settings.event_loop.name(),))
}

/// A question whether the loop goes on.
struct Beat {
    task: Task<()>,
    asked: Instant,
    /// Requests that had begun by then.
    begun: u64,
}

/// Begins to answer a request. It goes on whatever becomes of the client.
///
/// The loop's thread makes the coroutine, and no future waits for its end: that would cost each request two calls between the host and
/// Python, and a round of the loop. The coroutine says itself that it has ended ([`Host::ended`]).
pub(crate) fn answer(
    worker: &Arc<Worker>,
    asgi: &Asgi,
    exchange: &Arc<Exchange>,
    scope: Scope,
    body: Option<Bytes>,
) {
    let begun =
        Begun { exchanges: Arc::clone(&worker.exchanges), exchange: Some(Arc::clone(exchange)) };
    let handle = worker.handle.clone();
    asgi.events.call_soon(move |session| begun.by(session, &handle, &scope, body.as_deref()));
    asgi.id.was_called();
}

/// A request on its way to the loop's thread. Where it does not come there, it fails.
struct Begun {
    exchanges: Arc<Exchanges>,
    exchange: Option<Arc<Exchange>>,
}

impl Begun {
    fn by(mut self, session: &Session, handle: &Handle, scope: &Scope, body: Option<&[u8]>) {
        let Some(exchange) = self.exchange.take() else { return };
        let is_socket = exchange.socket().is_some();
        if let Err(error) = call(session, handle, exchange.number, scope, body, is_socket) {
            let number = session.interpreter().index() + 1;
            tracing::error!("worker {number}: a request has not begun:\n{}", trace(&error));
            self.exchange = Some(exchange);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(exchange) = &self.exchange {
            exchange.fail(StatusCode::BAD_GATEWAY);
            self.exchanges.remove(exchange.number);
        }
    }
}

fn call(
    session: &Session,
    handle: &Handle,
    number: u64,
    scope: &Scope,
    body: Option<&[u8]>,
    is_socket: bool,
) -> hydrozoa::Result<()> {
    let begin = handle.attach(session)?;
    let begun = begin.call((
        number,
        scope.version,
        // A WebSocket has no method.
        if is_socket { "" } else { &*scope.method },
        scope.scheme,
        &*scope.path,
        &scope.raw_path[..],
        &scope.query[..],
        &scope.fields[..],
        &*scope.client,
        &*scope.server,
        body,
    ));
    begun.map(drop)
}
