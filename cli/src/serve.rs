//! `hydrozoa serve`: serves repositories of models, as Triton does, and packages.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{ArgAction, ValueEnum};
use hydrozoa_server::grpc;
use hydrozoa_server::http::{self, Address, Limits, Listener, Threads};
use hydrozoa_server::{Control, Defaults, ModelImports, Service, Settings, Tls, Watch};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::level_filters::LevelFilter;

use crate::Choice;
use crate::security::Security;

/// Options that tritonserver has too have its names.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Folders of models, and packages: `resnet18.pt` is the model `resnet18`, and needs no configuration. Without any,
    /// /mnt/models, where KServe puts models
    #[arg(value_name = "REPOSITORY|PACKAGE")]
    places: Vec<PathBuf>,
    /// A folder of models, as tritonserver names it
    #[arg(long = "model-repository", alias = "model-store", value_name = "DIR")]
    more_repositories: Vec<PathBuf>,
    /// What the server calls itself; clients of Triton expect `triton`
    #[arg(long, value_name = "NAME", default_value = "triton")]
    id: String,
    #[command(flatten)]
    models: Models,
    #[command(flatten)]
    network: Network,
    #[cfg(feature = "otel")]
    #[command(flatten)]
    traces: crate::traces::TraceOptions,
    #[command(flatten)]
    security: Security,
    #[command(flatten)]
    log: Log,
}

/// Where KServe puts models.
const MODELS: &str = "/mnt/models";

/// The threads for gRPC share a runtime. More of them than processors wake each other, and one connection gets fewer answers.
fn network_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(4)
}

#[derive(clap::Args)]
#[command(next_help_heading = "Models")]
struct Models {
    /// Who loads models after the start
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::None)]
    model_control_mode: Mode,
    /// Seconds between looks at the repositories, if changes of files load models
    #[arg(long, value_name = "N", default_value_t = 15)]
    repository_poll_secs: u64,
    /// A model to load at the start if clients load models; `*` for all
    #[arg(long, value_name = "MODEL")]
    load_model: Vec<String>,
    /// Instances of each package that is named as a file; `config.pbtxt` says it of models in repositories
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    instances: u32,
    /// The GPUs on which each package that is named as a file has so many instances; the processor without this option
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    gpus: Vec<u32>,
    /// Models that are loaded at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    model_load_thread_count: usize,
    /// End if a model cannot be loaded at the start
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    exit_on_error: bool,
    /// Be ready only if all models are
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    strict_readiness: bool,
    /// Seconds that requests may take after SIGTERM or SIGINT
    #[arg(long, value_name = "N", default_value_t = 30)]
    exit_timeout_secs: u64,
    #[command(flatten)]
    limits: Limited,
}

/// What holds for models whose parameters do not say otherwise.
#[derive(clap::Args)]
struct Limited {
    /// Seconds that a model may take for a batch, such as 2.5; it is interrupted then, and an instance that does not react is
    /// replaced. 0 for no limit
    #[arg(long, value_name = "N", default_value = "0", value_parser = seconds)]
    execution_limit_secs: Duration,
    /// The same for `auto_complete_config`, `initialize` and `finalize`
    #[arg(long, value_name = "N", default_value = "0", value_parser = seconds)]
    initialization_limit_secs: Duration,
    /// Bytes that the Python code of an instance may take; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    memory_limit: usize,
    /// `eager`, `recorded` or a profile: when models import
    #[arg(long, value_name = "WHEN", default_value = "eager")]
    imports: String,
    /// A folder on a disk to which instances are settled when they are warm
    #[arg(long, value_name = "DIR")]
    settle: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    limit.ok_or_else(|| "it is no number of seconds, from 0".to_owned())
}

impl Limited {
    fn defaults(&self) -> Result<Defaults> {
        let some = |limit: Duration| Some(limit).filter(|limit| !limit.is_zero());
        let mut defaults = Defaults::default();
        defaults.execution_limit = some(self.execution_limit_secs);
        defaults.initialization_limit = some(self.initialization_limit_secs);
        defaults.memory_limit = Some(self.memory_limit).filter(|bytes| *bytes > 0);
        defaults.imports = match self.imports.as_str() {
            "eager" => ModelImports::Eager,
            "recorded" => ModelImports::Recorded,
            file => {
                // Later it would be every model's error.
                hydrozoa::ImportProfile::load(file).context("--imports")?;
                ModelImports::Profile(file.into())
            }
        };
        if let Some(folder) = &self.settle {
            ensure!(folder.is_dir(), "--settle: {} is no folder", folder.display());
        }
        defaults.settle.clone_from(&self.settle);
        Ok(defaults)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Nobody
    None,
    /// Whoever changes files: new and changed models are loaded, those that are gone are unloaded
    Poll,
    /// Clients; `--load-model` names the models of the start
    Explicit,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Network")]
struct Network {
    /// The address for HTTP, or `unix:PATH`
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0",
        overrides_with = "http_address"
    )]
    http_address: String,
    /// The port for HTTP; 0 for one that is free
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    http_port: u16,
    /// Threads for HTTP, and as many for gRPC: by default as there are processors, and at most 4
    #[arg(long, value_name = "N", default_value_t = network_threads())]
    http_thread_count: usize,
    /// Bytes of a request, also after decompression
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_input_size)]
    http_max_input_size: usize,
    /// Bytes of a request's headers
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_header_size)]
    http_max_header_size: usize,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    http_max_connections: usize,
    /// Seconds for a request's headers, and for an idle connection
    #[arg(long, value_name = "N", default_value_t = Limits::default().header_timeout.as_secs())]
    http_header_timeout_secs: u64,
    /// Seconds for a request's body
    #[arg(long, value_name = "N", default_value_t = Limits::default().body_timeout.as_secs())]
    http_body_timeout_secs: u64,
    /// Seconds in which a client may read nothing of its response
    #[arg(long, value_name = "N", default_value_t = Limits::default().write_timeout.as_secs())]
    http_write_timeout_secs: u64,
    /// Have gRPC
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_grpc: bool,
    /// The address for gRPC
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0",
        overrides_with = "grpc_address"
    )]
    grpc_address: String,
    /// The port for gRPC; 0 for one that is free
    #[arg(long, value_name = "PORT", default_value_t = 8001)]
    grpc_port: u16,
    /// Bytes of a request over gRPC
    #[arg(long, value_name = "BYTES", default_value_t = grpc::Options::default().max_request_size)]
    grpc_max_request_size: usize,
    /// Compress responses over gRPC for clients that take gzip
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_infer_response_compression: bool,
    /// Requests under way at once; further ones are told to come later
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_requests)]
    max_requests: usize,
    /// Have a page for people at `/`, and its figures at `/status`
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_page: bool,
    /// Let clients on this machine have inputs and outputs in POSIX shared memory; they can read and write all of it that this
    /// process can
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    allow_client_shm: bool,
    /// Have metrics on a port of their own, too
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_metrics: bool,
    /// The address for metrics; that of HTTP if it is not given
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,
    /// The port for metrics
    #[arg(long, value_name = "PORT", default_value_t = 8002)]
    metrics_port: u16,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Log")]
struct Log {
    /// 1 or more: log what helps to find faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    log_verbose: u8,
    /// Log what happens
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_info: bool,
    /// Log warnings
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_warning: bool,
    /// Log errors
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_error: bool,
    /// Log to this file, not to standard error
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

impl Log {
    fn start(&self) -> Result<()> {
        let level = match self {
            Self { log_verbose: 1.., .. } => LevelFilter::DEBUG,
            Self { log_info: true, .. } => LevelFilter::INFO,
            Self { log_warning: true, .. } => LevelFilter::WARN,
            Self { log_error: true, .. } => LevelFilter::ERROR,
            _ => LevelFilter::OFF,
        };
        let log = tracing_subscriber::fmt().with_max_level(level).with_target(false);
        match &self.log_file {
            None => log.with_ansi(false).with_writer(std::io::stderr).init(),
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                let file = file.with_context(|| format!("--log-file {}", path.display()))?;
                log.with_ansi(false).with_writer(Mutex::new(file)).init();
            }
        }
        Ok(())
    }
}

impl Network {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.max_input_size = self.http_max_input_size;
        limits.max_header_size = self.http_max_header_size;
        limits.max_connections = self.http_max_connections;
        limits.header_timeout = Duration::from_secs(self.http_header_timeout_secs);
        limits.body_timeout = Duration::from_secs(self.http_body_timeout_secs);
        limits.write_timeout = Duration::from_secs(self.http_write_timeout_secs);
        limits
    }
}

/// `unix:PATH`, or a host.
fn address(host: &str, port: u16) -> Address {
    match host.strip_prefix("unix:") {
        Some(path) => Address::Unix(path.into()),
        None => Address::Tcp(host.to_owned(), port),
    }
}

async fn bind(what: &str, address: &Address, tls: &Option<Tls>) -> Result<Listener> {
    let listener = Listener::bind(address)
        .await
        .with_context(|| format!("listening at {address} for {what}"))?;
    match listener.local_addr() {
        Some(bound) => tracing::info!("{what} at {bound}"),
        None => tracing::info!("{what} at {address}"),
    }
    Ok(match tls {
        Some(tls) => listener.with_tls(tls.clone()),
        None => listener,
    })
}

/// Serves gRPC until `end`, in a task of its own.
async fn serve_grpc(
    options: &Options,
    service: &Service,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<Option<JoinHandle<Result<(), grpc::Error>>>> {
    let network = &options.network;
    if !network.allow_grpc {
        return Ok(None);
    }
    let tls = options.security.grpc()?;
    if options.security.has_tokens() && tls.is_none() {
        tracing::warn!(
            "tokens for gRPC go over the network unencrypted; --grpc-use-ssl encrypts them"
        );
    }
    let address = (network.grpc_address.as_str(), network.grpc_port);
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("listening at {}:{} for gRPC", address.0, address.1))?;
    tracing::info!("gRPC at {}", listener.local_addr().context("the address of gRPC")?);
    let limits = grpc::Options {
        max_request_size: network.grpc_max_request_size,
        compress_responses: network.grpc_infer_response_compression,
        drain: Duration::from_secs(options.models.exit_timeout_secs),
        tls,
        ..grpc::Options::default()
    };
    Ok(Some(tokio::spawn(grpc::serve(listener, service.clone(), limits, end))))
}

/// Returns the exit status.
pub fn run(options: &Options) -> Result<i32> {
    options.log.start()?;
    hydrozoa_server::keep_large_blocks();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.network.http_thread_count.max(1))
        .thread_name("server")
        .enable_all()
        .build()
        .context("starting threads")?;
    #[cfg(feature = "otel")]
    let traces = {
        let _entered = runtime.enter();
        options.traces.start(&options.id)?
    };
    let service = service(options)?;
    let outcome = runtime.block_on(serve(options, &service));
    // Its threads send the last ones.
    #[cfg(feature = "otel")]
    traces.end();
    runtime.shutdown_background();
    let patience = Duration::from_secs(options.models.exit_timeout_secs);
    let began = match &outcome {
        Ok(began) => *began,
        Err(_) => Instant::now(),
    };
    if !unload(&service, patience.saturating_sub(began.elapsed())) {
        if let Err(error) = &outcome {
            tracing::error!("{error:#}");
        }
        tracing::error!(
            "models have not ended within {} s; the server ends without them",
            patience.as_secs()
        );
        hydrozoa::exit_at_once(1);
    }
    outcome?;
    tracing::info!("the server has ended");
    Ok(0)
}

/// The models that there are, none of them loaded.
fn service(options: &Options) -> Result<Service> {
    let mut places: Vec<&Path> = Vec::new();
    places.extend(options.places.iter().map(PathBuf::as_path));
    places.extend(options.more_repositories.iter().map(PathBuf::as_path));
    if places.is_empty() {
        ensure!(
            Path::new(MODELS).is_dir(),
            "no models are named, and there is no {MODELS}: `hydrozoa serve FOLDER` serves the models of a folder, each in a folder \
             MODEL with MODEL/1/model.py; `hydrozoa serve MODEL.pt` serves a package"
        );
        places.push(Path::new(MODELS));
    }
    let choice = options.choice.clone();
    let server = hydrozoa_server::Server::new(move || choice.builder());
    for place in places {
        if place.is_file() {
            server.add_package_on(place, options.models.instances, &options.models.gpus)?;
            continue;
        }
        let found = std::fs::read_dir(place);
        found.with_context(|| format!("the repository {}", place.display()))?;
        server.add_repository(place);
    }
    server.set_defaults(options.models.limits.defaults()?);
    let mut settings = Settings::default();
    settings.id.clone_from(&options.id);
    settings.strict_readiness = options.models.strict_readiness;
    settings.max_requests = options.network.max_requests;
    settings.page = options.network.allow_page;
    settings.tokens = options.security.tokens()?;
    settings.client_shared_memory = options.network.allow_client_shm;
    if options.models.model_control_mode == Mode::Explicit {
        settings.control = Control::Clients;
    }
    Ok(Service::new(server, settings))
}

/// Serves until a signal comes. Returns when it came.
async fn serve(options: &Options, service: &Service) -> Result<Instant> {
    let (network, limits) = (&options.network, options.network.limits());
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    let tls = options.security.http()?;
    if options.security.has_tokens() && tls.is_none() {
        tracing::warn!(
            "tokens for HTTP go over the network unencrypted; --http-use-ssl encrypts them"
        );
    }
    let http = bind("HTTP", &address(&network.http_address, network.http_port), &tls).await?;
    let mut listeners = vec![(http, http::router(service, &limits))];
    if network.allow_metrics {
        let host = network.metrics_address.as_ref().unwrap_or(&network.http_address);
        // A socket in the file system is that of HTTP, which has the metrics.
        if !host.starts_with("unix:") || network.metrics_address.is_some() {
            let metrics = bind("metrics", &address(host, network.metrics_port), &tls).await?;
            listeners.push((metrics, http::metrics_router(service, &limits)));
        }
    }
    let (ends, is_ending) = watch::channel(None);
    let mut grpc_is_ending = is_ending.clone();
    let grpc = serve_grpc(options, service, async move {
        drop(grpc_is_ending.wait_for(Option::is_some).await);
    });
    let grpc = grpc.await?;
    let patience = Duration::from_secs(options.models.exit_timeout_secs);
    let threads = Threads::start(network.http_thread_count).context("starting threads")?;
    let threads = Arc::new(threads);
    let mut served = tokio::task::JoinSet::new();
    for (listener, router) in listeners {
        let (limits, threads) = (limits.clone(), Arc::clone(&threads));
        let mut is_ending = is_ending.clone();
        served.spawn(async move {
            let end = async move {
                // The server ends too if whoever sends this has gone.
                drop(is_ending.wait_for(Option::is_some).await);
                patience
            };
            http::serve(listener, router, &limits, &threads, end).await
        });
    }
    let mut watch = Watch::default();
    let is_watched = options.models.model_control_mode == Mode::Poll;
    if is_watched {
        // What changes while models are loaded is found afterwards.
        watch.look(service.server());
    }
    // Clients can ask meanwhile whether the server is ready.
    let loading = load(options, service);
    let signal = async {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let mut signal = std::pin::pin!(signal);
    let name = tokio::select! {
        name = &mut signal => name,
        loaded = loading => {
            loaded?;
            service.open();
            tracing::info!("the server is ready");
            let pause = Duration::from_secs(options.models.repository_poll_secs.max(1));
            tokio::select! {
                name = &mut signal => name,
                () = service.follow(watch, pause), if is_watched => unreachable!("nobody ends it"),
            }
        }
    };
    let began = Instant::now();
    tracing::info!(
        "{name}: the server takes no further connections, and ends within {} s",
        patience.as_secs()
    );
    service.close();
    let _ = ends.send(Some(began));
    while let Some(late) = served.join_next().await {
        match late.context("serving")? {
            0 => {}
            late => tracing::warn!("{late} requests have not ended in time, and are cancelled"),
        }
    }
    if let Some(grpc) = grpc {
        grpc.await.context("serving")??;
    }
    Ok(began)
}

/// Loads the models of the start, and says what became of them.
async fn load(options: &Options, service: &Service) -> Result<()> {
    let models = &options.models;
    let all = service.server().names();
    let names = match (models.model_control_mode, &models.load_model[..]) {
        (Mode::None | Mode::Poll, []) => all,
        (Mode::None | Mode::Poll, _) => bail!("--load-model needs --model-control-mode=explicit"),
        (Mode::Explicit, [star]) if star == "*" => all,
        (Mode::Explicit, names) => {
            ensure!(!names.iter().any(|name| name == "*"), "--load-model=* stands alone");
            names.to_vec()
        }
    };
    let failed = service.load_all(names, models.model_load_thread_count).await;
    for (name, error) in &failed {
        tracing::error!("{}", trace(name, error));
    }
    tracing::info!("models:\n{}", service.table());
    match failed.len() {
        0 => Ok(()),
        count if models.exit_on_error => bail!(
            "{count} models cannot be loaded: {}; `--exit-on-error=false` serves the others",
            failed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        ),
        _ => Ok(()),
    }
}

/// An error's words, and the traceback of an exception.
fn trace(name: &str, error: &hydrozoa_server::LoadError) -> String {
    let words = format!("loading `{name}`: {error}");
    match error {
        hydrozoa_server::LoadError::Python { source, .. } => match source.traceback() {
            Some(traceback) => format!("{words}\n{}", traceback.trim_end()),
            None => words,
        },
        _ => words,
    }
}

/// Ends all models, for so long. False if some have not ended.
fn unload(service: &Service, patience: Duration) -> bool {
    let (sender, ended) = std::sync::mpsc::channel();
    let server = service.server().clone();
    let started = std::thread::Builder::new().name("unload".to_owned()).spawn(move || {
        server.unload_all();
        let _ = sender.send(());
    });
    // At least a moment: models without work end at once.
    started.is_ok() && ended.recv_timeout(patience.max(Duration::from_secs(1))).is_ok()
}
