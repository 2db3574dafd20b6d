//! Signals of `hydrozoa run`: SIGTERM and SIGINT end it in good order, a second one at once; SIGHUP has the workers replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hydrozoa_server::{Log, flush_streams_within};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

/// How long the process may take beyond --graceful-timeout: for the ends of applications and interpreters.
const MOMENT: Duration = Duration::from_secs(5);

/// How long the end waits for the readers of the logs and of native code's output.
const FLUSH: Duration = Duration::from_secs(1);

/// The signals that have come.
pub struct Signals {
    begun: watch::Receiver<Option<Instant>>,
    hung_up: Arc<Notify>,
    is_ready: Arc<AtomicBool>,
    logs: Logs,
}

#[derive(Clone)]
struct Logs {
    log: Log,
    access: Option<Log>,
}

impl Logs {
    /// Ends the process.
    fn leave(&self, status: i32) -> ! {
        flush_streams_within(FLUSH);
        if let Some(access) = &self.access {
            access.flush_within(FLUSH);
        }
        self.log.flush_within(FLUSH);
        hydrozoa::exit_at_once(status)
    }
}

impl Signals {
    /// From now on signals end the server: within `patience` once it is ready, at once before.
    pub fn watch(patience: Duration, log: Log, access: Option<Log>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("waiting for signals")?;
        let kinds = [
            ("SIGTERM", SignalKind::terminate()),
            ("SIGINT", SignalKind::interrupt()),
            ("SIGQUIT", SignalKind::quit()),
            ("SIGHUP", SignalKind::hangup()),
        ];
        let mut heard: Vec<(&'static str, Signal)> = Vec::new();
        {
            let _entered = runtime.enter();
            for (name, kind) in kinds {
                heard.push((name, signal(kind).context(name)?));
            }
        }
        let (tell, begun) = watch::channel(None);
        let (hung_up, is_ready) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let logs = Logs { log, access };
        let (own, tells, ready) = (logs.clone(), hung_up.clone(), is_ready.clone());
        let wait = async move {
            let first = loop {
                match next(&mut heard).await {
                    // Before the server is ready, too: what its workers have read may be old already.
                    "SIGHUP" => tells.notify_one(),
                    name => break name,
                }
            };
            if first == "SIGQUIT" || !ready.load(Ordering::SeqCst) {
                tracing::warn!("{first}: the server ends at once");
                own.leave(0);
            }
            tracing::info!(
                "{first}: the server takes no further connections, and ends within {} s",
                patience.as_secs_f64()
            );
            tell.send_replace(Some(Instant::now()));
            let second = async {
                loop {
                    match next(&mut heard).await {
                        "SIGHUP" => {}
                        name => break name,
                    }
                }
            };
            match tokio::time::timeout(patience + MOMENT, second).await {
                Ok(name) => tracing::warn!("{name}: the server ends at once"),
                Err(_) => tracing::error!(
                    "the application has not ended within {} s; the server ends without it",
                    patience.as_secs_f64()
                ),
            }
            own.leave(1)
        };
        let thread = thread::Builder::new().name("end".to_owned());
        thread.spawn(move || runtime.block_on(wait)).context("a thread for the end")?;
        Ok(Self { begun, hung_up, is_ready, logs })
    }

    /// The server serves.
    pub fn ready(&self) {
        self.is_ready.store(true, Ordering::SeqCst);
    }

    /// When the end has begun.
    pub fn begun(&self) -> watch::Receiver<Option<Instant>> {
        self.begun.clone()
    }

    /// Waits for a SIGHUP that has not been waited for.
    pub async fn hung_up(&self) {
        self.hung_up.notified().await;
    }

    /// Ends the process.
    pub fn leave(&self, status: i32) -> ! {
        self.logs.leave(status)
    }
}

/// The name of the next signal.
async fn next(heard: &mut [(&'static str, Signal)]) -> &'static str {
    std::future::poll_fn(|context| {
        for (name, signal) in heard.iter_mut() {
            if signal.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*name);
            }
        }
        std::task::Poll::Pending
    })
    .await
}
