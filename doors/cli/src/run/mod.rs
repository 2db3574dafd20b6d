//! `hydrozoa run`: serves a web application of Python, whose workers are interpreters of this process.

mod binds;
mod environment;
mod prefixed;
mod reloading;
mod signals;
mod workers;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, ValueEnum};
use hydrozoa_server::http::{self, Limits, Threads};
use hydrozoa_server::{Log, Tls, keep_large_blocks, raise_descriptor_limit};
use hydrozoa_web::{AccessFormat, AccessLog, Interface, Proxies, Server, Settings};
use tokio::task::JoinSet;

use crate::log::LogOptions;
use crate::{Choice, count};
use reloading::{Reloading, Watch};
use signals::Signals;
use workers::Workers;

/// Options that gunicorn or uvicorn have too have their names.
#[derive(clap::Args)]
pub struct Options {
    /// The application: MODULE:ATTRIBUTE, or MODULE for its `application` or `app`, or MODULE:FUNCTION(LITERAL, …) for what a
    /// function returns
    #[arg(value_name = "MODULE:APP")]
    application: String,
    #[command(flatten)]
    choice: Choice,
    /// APP is a function without arguments that returns the application
    #[arg(long)]
    factory: bool,
    /// The directory of MODULE, first on sys.path
    #[arg(long, value_name = "DIR", default_value = ".")]
    app_dir: PathBuf,
    /// A file of lines NAME=VALUE, which the application finds in os.environ
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// The interface of the application
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Auto)]
    interface: Kind,
    #[command(flatten)]
    workers: Workers,
    #[command(flatten)]
    reloading: Reloading,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Network")]
struct Network {
    /// Where it listens: HOST:PORT, or unix:PATH. May be given several times. By default the sockets that systemd passes, or
    /// 127.0.0.1:8000
    #[arg(short, long, value_name = "ADDRESS")]
    bind: Vec<String>,
    /// The descriptor of a socket that listens, and that this process was started with. May be given several times
    #[arg(long, value_name = "N")]
    fd: Vec<i32>,
    /// A certificate, and those that vouch for it, in PEM: all listeners use TLS
    #[arg(long, value_name = "FILE", requires = "keyfile")]
    certfile: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "certfile")]
    keyfile: Option<PathBuf>,
    /// The path below which a proxy has the application: SCRIPT_NAME, or root_path
    #[arg(long, value_name = "PATH", default_value = "")]
    root_path: String,
    /// Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses and networks, with commas between, or `*`
    #[arg(long, value_name = "ADDRESSES", default_value = "127.0.0.1,::1")]
    forwarded_allow_ips: String,
    /// Connections at once; a further one replaces the connection that has waited longest for its client
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    max_connections: usize,
    /// The same for the connections from one address; by default as many as --max-connections
    #[arg(long, value_name = "N")]
    max_connections_per_client: Option<usize>,
    /// Seconds for a request's head, and for an idle connection
    #[arg(long, value_name = "N", default_value_t = Limits::default().header_timeout.as_secs())]
    keep_alive: u64,
    /// Seconds that a client may leave its response unread
    #[arg(long, value_name = "N", default_value_t = Limits::default().write_timeout.as_secs())]
    write_timeout: u64,
    /// The most bytes of a request's line and headers
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_header_size)]
    limit_request_head: usize,
    /// Let clients speak HTTP/2 too
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    http2: bool,
    /// Threads for connections; by default as many as there are processors, and at most 4 or as many as workers
    #[arg(long, value_name = "N", value_parser = count)]
    io_threads: Option<NonZeroUsize>,
    /// Also answer /healthz and /metrics, at this address of their own
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Access log")]
struct Access {
    /// A line for each request: `-` for standard output, `off`, or a file
    #[arg(long, value_name = "-|off|FILE", default_value = "-", allow_hyphen_values = true)]
    access_log: String,
    /// The form of the lines
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Combined)]
    access_log_format: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The one that the application looks like
    Auto,
    /// PEP 3333
    Wsgi,
    /// ASGI 3
    Asgi,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// That of Apache and nginx
    Combined,
    /// Objects of JSON
    Json,
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Serves, and ends the process.
pub fn run(options: &Options) -> Result<i32> {
    let log = options.log.start()?;
    let access = options.access.log()?;
    let signals = Signals::watch(options.workers.graceful_timeout, log.clone(), access.clone())?;
    keep_large_blocks();
    let access = access.map(|access| {
        AccessLog::new(
            access,
            match options.access.access_log_format {
                Form::Combined => AccessFormat::Combined,
                Form::Json => AccessFormat::Json,
            },
        )
    });
    match serve_until_end(options, &signals, access) {
        Ok(()) => {
            tracing::info!("the server has ended");
            signals.leave(0)
        }
        Err(error) => {
            report(options, &log, &error);
            signals.leave(1)
        }
    }
}

/// Says why the application is not served: first where its code has failed.
fn report(options: &Options, log: &Log, error: &anyhow::Error) {
    let failed = error.downcast_ref::<hydrozoa_web::Error>();
    if let Some(traceback) = failed.and_then(hydrozoa_web::Error::traceback) {
        tracing::error!("{}", traceback.trim_end());
    }
    options.log.report(log, error);
}

fn serve_until_end(options: &Options, signals: &Signals, access: Option<AccessLog>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("server")
        .enable_all()
        .build()
        .context("starting threads")?;
    let settings = options.settings()?;
    let (workers, patience) = (settings.workers, settings.graceful_timeout);
    // Changes while the application is loaded count too.
    let watch = options.reloading.watch(&options.app_dir)?;
    let builder = options.builder(workers)?;
    let network = &options.network;
    let threads =
        network.io_threads.map_or_else(|| processors().min(workers.max(4)), NonZeroUsize::get);
    let threads = Arc::new(Threads::start(threads).context("starting threads")?);
    let server = Server::start(builder, settings, runtime.handle(), &threads)?;
    // The threads go on until the applications have ended.
    let outcome = runtime.block_on(serve(options, &server, signals, access, &threads, watch));
    let left = match &outcome {
        Ok(began) => patience.saturating_sub(began.elapsed()).max(Duration::from_secs(1)),
        Err(_) => Duration::from_secs(1),
    };
    server.end(left);
    runtime.shutdown_background();
    outcome.map(drop)
}

/// Serves until a signal comes. Returns when that was.
async fn serve(
    options: &Options,
    server: &Server,
    signals: &Signals,
    access: Option<AccessLog>,
    threads: &Arc<Threads>,
    watch: Option<Watch>,
) -> Result<Instant> {
    let network = &options.network;
    let limits = network.limits();
    let mut served = JoinSet::new();
    let patience = options.workers.graceful_timeout;
    let end = || {
        let mut begun = signals.begun();
        async move {
            // The server ends too if whoever sends this has gone.
            drop(begun.wait_for(Option::is_some).await);
            patience
        }
    };
    let tls = network.tls()?;
    let interface = match server.interface() {
        Interface::Wsgi => "WSGI",
        Interface::Asgi => "ASGI",
    };
    for (listener, place) in binds::listen(&network.bind, &network.fd, tls).await? {
        let scheme = if listener.has_tls() { "https" } else { "http" };
        tracing::info!("{interface} application {}, {scheme}, at {place}", options.application);
        let (service, limits) = (server.service(&listener, access.clone()), limits.clone());
        let (threads, end) = (Arc::clone(threads), end());
        served.spawn(async move { http::serve(listener, service, &limits, &threads, end).await });
    }
    if let Some(address) = &network.admin {
        let listener = binds::bind(address).await.context("--admin")?;
        let bound = listener.local_addr().map(|address: SocketAddr| address.to_string());
        tracing::info!("/healthz and /metrics, http, at {}", bound.as_ref().unwrap_or(address));
        let (threads, end, router) = (Arc::clone(threads), end(), server.admin());
        served.spawn(async move {
            http::serve(listener, router, &Limits::default(), &threads, end).await
        });
    }
    // A signal that answers the line finds it so.
    signals.ready();
    tracing::info!("the server is ready");
    let reload = server.reload();
    if let Some(watch) = watch {
        watch.begin(reload.clone())?;
    }
    let mut begun = signals.begun();
    let began = loop {
        tokio::select! {
            began = begun.wait_for(Option::is_some) => {
                break began.ok().and_then(|began| *began).unwrap_or_else(Instant::now);
            }
            () = signals.hung_up() => reload.begin(),
        }
    };
    while let Some(late) = served.join_next().await {
        match late.context("serving")? {
            0 => {}
            late => tracing::warn!("{late} requests have not ended in time, and are cancelled"),
        }
    }
    Ok(began)
}

impl Options {
    fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::new(&self.application);
        settings.factory = self.factory;
        settings.interface = match self.interface {
            Kind::Auto => None,
            Kind::Wsgi => Some(Interface::Wsgi),
            Kind::Asgi => Some(Interface::Asgi),
        };
        self.workers.fill(&mut settings, self.reloading.is_on())?;
        let root = self.network.root_path.trim_end_matches('/');
        ensure!(
            root.is_empty() || root.starts_with('/'),
            "--root-path {root}: a path begins with a slash"
        );
        settings.root_path = root.to_owned();
        settings.proxies =
            Proxies::parse(&self.network.forwarded_allow_ips).context("--forwarded-allow-ips")?;
        Ok(settings)
    }

    fn builder(&self, workers: usize) -> Result<hydrozoa::Builder> {
        let folder = std::path::absolute(&self.app_dir).context("--app-dir")?;
        ensure!(folder.is_dir(), "--app-dir: {} is not a folder", folder.display());
        let variables = environment::variables(self.env_file.as_deref())?;
        // Lines that an application prints are seen as they come.
        let builder = self.choice.builder().path(folder).environment(variables).unbuffered(true);
        Ok(prefixed::streams(builder, workers))
    }
}

impl Network {
    fn tls(&self) -> Result<Option<Tls>> {
        let (Some(certificate), Some(key)) = (&self.certfile, &self.keyfile) else {
            return Ok(None);
        };
        let tls = Tls::load(certificate, key, None)?;
        Ok(Some(if self.http2 { tls.with_http2() } else { tls }))
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        // Half of the descriptors are for the application.
        let descriptors = raise_descriptor_limit().map_or(usize::MAX, |most| most as usize);
        limits.max_connections = self.max_connections.min(descriptors / 2).max(4);
        if limits.max_connections < self.max_connections {
            tracing::warn!(
                "the system lets the process open {descriptors} files, so there are at most {} connections at once, not {}; a \
                 higher hard limit (ulimit -Hn) permits more",
                limits.max_connections,
                self.max_connections
            );
        }
        let of_client = self.max_connections_per_client.unwrap_or(limits.max_connections);
        limits.max_connections_per_client = Some(of_client);
        limits.max_header_size = self.limit_request_head;
        limits.header_timeout = Duration::from_secs(self.keep_alive);
        limits.write_timeout = Duration::from_secs(self.write_timeout);
        limits.http2 = self.http2;
        limits
    }
}

impl Access {
    fn log(&self) -> Result<Option<Log>> {
        match self.access_log.as_str() {
            "off" => Ok(None),
            "-" => Log::to_standard_output().map(Some).context("--access-log -"),
            path => {
                let log = Log::to_file(path.as_ref());
                log.map(Some).with_context(|| format!("--access-log {path}"))
            }
        }
    }
}
