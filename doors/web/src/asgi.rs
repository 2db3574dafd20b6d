//! Requests of ASGI: each is a coroutine on the event loop of the least loaded worker.

use crate::error::Error;
use crate::exchange::Exchange;
use crate::host::Host;
use crate::request::Scope;
use crate::settings::Settings;
use crate::worker::Worker;
use bytes::Bytes;
use hydrozoa::{EventLoop, Handle, Object, Session, Task};
use hyper::StatusCode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::time::timeout_at;

/// Coroutines that have ended and may be kept.
const ENDED: usize = 64;

/// The part of a worker that only applications of ASGI have.
pub(crate) struct Asgi {
    events: EventLoop,
    lifespan: Handle,
    /// Makes a coroutine that does nothing.
    beat: Handle,
    /// Coroutines that run, and some that have ended. Nobody waits for them: a wake-up would cost each request one system call more.
    running: Mutex<Vec<Task<()>>>,
    /// The last such coroutine, and when it was asked for.
    beating: Mutex<Option<(Task<()>, Instant)>>,
}

impl Asgi {
    /// Starts the application on the interpreter's event loop. Returns the function that answers a request.
    pub(crate) fn start(
        session: &Session,
        application: Object<'_>,
        host: &Host,
        settings: &Settings,
    ) -> Result<(Handle, Self), Error> {
        let made = || -> hydrozoa::Result<_> {
            let module = session.import("_hydrozoa_asgi")?;
            let mode = settings.lifespan.name();
            let lifespan = module.call_method("Lifespan", (&application, mode))?;
            let events = session.interpreter().event_loop()?;
            let (receive, reply) = (host.receive(session)?, host.reply(session, false)?);
            let (send, left) = (host.send_later(session)?, host.left(session)?);
            let send = (send, host.send_path(session)?);
            let (root, state) = (&*settings.root_path, lifespan.getattr("state")?);
            let socket = (host.take(session)?, host.accept(session)?, host.deliver(session)?);
            let failed = host.failed(session)?;
            let arguments = (&application, root, state, receive, reply, send, left, failed, socket);
            let handle = module.call_method("handler", arguments)?.keep();
            let beat = module.getattr("beat")?.keep();
            let (running, beating) = (Mutex::default(), Mutex::new(None));
            let lifespan = lifespan.keep();
            Ok((handle, Self { events, lifespan, beat, running, beating }))
        };
        let application = || settings.application.clone();
        let (handle, asgi) = made().map_err(|source| Error::Load {
            application: application(),
            source: Box::new(source),
        })?;
        let started = host.runtime.block_on(asgi.call(&asgi.lifespan, "start"));
        started.map_err(|source| Error::Startup {
            application: application(),
            source: source.into(),
        })?;
        Ok((handle, asgi))
    }

    /// Keeps a coroutine until it has ended: the drop of its task would cancel it.
    fn keep(&self, task: Task<()>) {
        let mut running = self.running.lock();
        if running.len() == running.capacity() {
            running.retain(|task| !task.is_finished());
            let room = running.len().max(ENDED);
            running.reserve(room);
        }
        running.push(task);
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

    /// How long the loop has run nothing new. It is asked while there are requests: one without sleeps, and is left alone.
    pub(crate) fn silence(&self, has_requests: bool) -> Duration {
        let mut beating = self.beating.lock();
        if let Some((beat, asked)) = &*beating
            && !beat.is_finished()
        {
            return asked.elapsed();
        }
        if !has_requests {
            return Duration::ZERO;
        }
        let beat = self.beat.clone();
        let beat =
            self.events.spawn_with(move |session| beat.attach(session)?.call(()), |_| Ok(()));
        *beating = Some((beat, Instant::now()));
        Duration::ZERO
    }
}

/// Begins to answer a request. It goes on whatever becomes of the client.
pub(crate) fn answer(
    worker: &Arc<Worker>,
    asgi: &Asgi,
    exchange: &Arc<Exchange>,
    scope: Scope,
    body: Option<Bytes>,
) {
    let number = exchange.number;
    let handle = worker.handle.clone();
    let answering = Answering { worker: Arc::clone(worker), exchange: Arc::clone(exchange) };
    let is_socket = exchange.socket().is_some();
    let task = asgi.events.spawn_with(
        move |session| call(session, &handle, number, &scope, body.as_deref(), is_socket),
        // It is dropped too if the interpreter ends.
        move |_| {
            answering.finish();
            Ok(())
        },
    );
    asgi.keep(task);
}

/// A request that an application answers. When this is dropped, the worker has it no longer.
struct Answering {
    worker: Arc<Worker>,
    exchange: Arc<Exchange>,
}

impl Answering {
    /// The application has returned, or its exception is in the log.
    fn finish(self) {
        if let Some(socket) = self.exchange.socket() {
            socket.end(false);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.exchange.fail(StatusCode::BAD_GATEWAY);
        self.worker.exchanges.remove(self.exchange.number);
        self.worker.count_request();
    }
}

fn call<'s>(
    session: &'s Session,
    handle: &Handle,
    number: u64,
    scope: &Scope,
    body: Option<&[u8]>,
    is_socket: bool,
) -> hydrozoa::Result<Object<'s>> {
    handle.attach(session)?.call((
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
    ))
}
