//! The end of the server: a signal in any state, and a limit that holds whatever happens.
//!
//! The process ends by [`hydrozoa::exit_at_once`]. `exit(3)` would destroy the state of libraries while threads that models left
//! are inside them, and while interpreters are finalized.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hydrozoa_server::{Log, Service, flush_streams_within};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

/// How long models may take when the requests have used up the limit: those without work end at once.
const MOMENT: Duration = Duration::from_secs(1);

/// How long the end waits for the readers of the log and of native code's output.
const FLUSH: Duration = Duration::from_secs(1);

/// The end of the server, from its begin on a thread of its own.
pub struct Shutdown {
    begun: watch::Receiver<Option<Instant>>,
    begin: Arc<Notify>,
    progress: Arc<Progress>,
}

/// How far the end has come.
struct Progress {
    log: Log,
    service: OnceLock<Service>,
    /// Former serving models that have not ended. `None` until models are ended.
    models: Mutex<Option<BTreeSet<String>>>,
}

impl Shutdown {
    /// From now on SIGTERM and SIGINT end the server, and `patience` later the process, whatever is under way. Further signals
    /// change nothing.
    pub fn watch(patience: Duration, log: Log) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("waiting for signals")?;
        let (mut terminate, mut interrupt) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::terminate()).context("SIGTERM")?,
                signal(SignalKind::interrupt()).context("SIGINT")?,
            )
        };
        let progress = Progress { log, service: OnceLock::new(), models: Mutex::default() };
        let (progress, begin) = (Arc::new(progress), Arc::new(Notify::new()));
        let (tell, begun) = watch::channel(None);
        let (own, told) = (progress.clone(), begin.clone());
        let wait = async move {
            let name = tokio::select! {
                _ = terminate.recv() => Some("SIGTERM"),
                _ = interrupt.recv() => Some("SIGINT"),
                () = told.notified() => None,
            };
            if let Some(name) = name {
                tracing::info!(
                    "{name}: the server takes no further connections, and ends within {} s",
                    patience.as_secs()
                );
            }
            tell.send_replace(Some(Instant::now()));
            tokio::time::sleep(patience).await;
            if !own.unended().is_empty() {
                tokio::time::sleep(MOMENT).await;
            }
            own.give_up(patience)
        };
        let thread = thread::Builder::new().name("end".to_owned());
        thread.spawn(move || runtime.block_on(wait)).context("a thread for the end")?;
        Ok(Self { begun, begin, progress })
    }

    /// Waits until a signal has come. Returns when that was.
    pub async fn begun(&self) -> Instant {
        let mut begun = self.begun.clone();
        match begun.wait_for(Option::is_some).await {
            Ok(began) => began.unwrap_or_else(Instant::now),
            // Its sender lives as long as the process.
            Err(_) => std::future::pending().await,
        }
    }

    /// These models are to be ended.
    pub fn knows(&self, service: &Service) {
        // There is one service.
        drop(self.progress.service.set(service.clone()));
    }

    /// Ends all models and their interpreters, within what is left of the limit. Without a signal the limit begins now.
    pub fn end_models(&self, service: &Service) {
        self.begin.notify_one();
        *self.progress.models() = Some(serving(service));
        service.server().close(|name| {
            if let Some(models) = &mut *self.progress.models() {
                models.remove(name);
            }
        });
        // Nothing is lost with a load that is under way, and nobody knows how long it takes.
        if !service.server().is_loading() {
            hydrozoa::wait_for_ends(Duration::MAX);
        }
    }

    /// Ends the process.
    pub fn leave(&self, status: i32) -> ! {
        self.progress.leave(status)
    }
}

/// The models that serve.
fn serving(service: &Service) -> BTreeSet<String> {
    let loaded = service.server().loaded().into_iter();
    loaded.filter(|line| line.version.is_some()).map(|line| line.name).collect()
}

impl Progress {
    fn models(&self) -> MutexGuard<'_, Option<BTreeSet<String>>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Models that have served and have not ended.
    fn unended(&self) -> BTreeSet<String> {
        let unended = self.models().clone();
        unended.or_else(|| self.service.get().map(serving)).unwrap_or_default()
    }

    /// The limit has passed.
    fn give_up(&self, patience: Duration) -> ! {
        let unended = self.unended();
        let seconds = patience.as_secs();
        if unended.is_empty() {
            tracing::warn!(
                "interpreters have not ended within {seconds} s; the server ends without them"
            );
            self.leave(0);
        }
        let names: Vec<_> = unended.into_iter().collect();
        tracing::error!(
            "models have not ended within {seconds} s: {}; the server ends without them",
            names.join(", ")
        );
        self.leave(1)
    }

    fn leave(&self, status: i32) -> ! {
        flush_streams_within(FLUSH);
        self.log.flush_within(FLUSH);
        hydrozoa::exit_at_once(status)
    }
}
