//! `hydrozoa serve`: serves repositories of models, as Triton does, and packages.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{ArgAction, ValueEnum};
use hydrozoa_server::http::{self, Threads};
use hydrozoa_server::{Control, Defaults, LoadError, Log, ModelImports, Service, Settings, Watch};
use tokio::sync::watch;

use crate::log::LogOptions;
use crate::network::Network;
use crate::security::Security;
use crate::shutdown::Shutdown;
use crate::{Choice, dense};

/// Options that tritonserver has too have its names.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Folders of models, and packages: `resnet18.pt` is the model `resnet18`, and needs no configuration. Without any,
    /// /mnt/models, where KServe puts models
    #[arg(value_name = "REPOSITORY|PACKAGE")]
    places: Vec<PathBuf>,
    /// Another REPOSITORY, by the name that tritonserver has for it
    #[arg(long = "model-repository", alias = "model-store", value_name = "DIR")]
    more_repositories: Vec<PathBuf>,
    /// The server's name in its metadata; clients of Triton expect `triton`
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
    log: LogOptions,
}

/// Where KServe puts models.
const MODELS: &str = "/mnt/models";

#[derive(clap::Args)]
#[command(next_help_heading = "Models")]
struct Models {
    /// When the server loads models after its start
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::None)]
    model_control_mode: Mode,
    /// With --model-control-mode=poll: seconds between two looks at the repositories
    #[arg(long, value_name = "N", default_value_t = 15)]
    repository_poll_secs: u64,
    /// With --model-control-mode=explicit: a model to load at the start; `*` for all
    #[arg(long, value_name = "MODEL")]
    load_model: Vec<String>,
    /// Instances of each package that the command line names; `config.pbtxt` sets those of models in repositories
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    instances: u32,
    /// The GPUs that each run so many instances of these packages; without this option the processor runs them
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    gpus: Vec<u32>,
    /// How many models the server loads at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    model_load_thread_count: usize,
    /// End if a model cannot be loaded at the start
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    exit_on_error: bool,
    /// Report readiness only when all models are ready
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    strict_readiness: bool,
    /// Seconds that requests may still take after SIGTERM or SIGINT
    #[arg(long, value_name = "N", default_value_t = 30)]
    exit_timeout_secs: u64,
    #[command(flatten)]
    limits: Limited,
}

/// Limits of models whose parameters do not set them.
#[derive(clap::Args)]
struct Limited {
    /// Seconds that a model may take for a batch, such as 2.5; the server then interrupts it, and replaces an instance that does
    /// not react. 0 for no limit
    #[arg(long, value_name = "N", default_value = "0", value_parser = seconds)]
    execution_limit_secs: Duration,
    /// The same for `auto_complete_config`, `initialize` and `finalize`
    #[arg(long, value_name = "N", default_value = "0", value_parser = seconds)]
    initialization_limit_secs: Duration,
    /// Bytes that the Python code of an instance may take; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    memory_limit: usize,
    /// When models import: `eager`, `recorded`, or as the profile in this file says
    #[arg(long, value_name = "WHEN", default_value = "eager")]
    imports: String,
    /// Keep memory that instances do not use in files without names in this folder, which should be on a local disk; `off` keeps it in
    /// memory. The files hold copies of Python's memory, secrets included [default: $TMPDIR, else /var/tmp]
    #[arg(long, value_name = "off|DIR")]
    dense: Option<PathBuf>,
    /// Make a crash in a model's native code an error of its requests, and replace the instance. Without it a crash ends the server
    #[arg(long)]
    contain_crashes: bool,
    /// With --contain-crashes: crashes in a row, each within ten seconds of serving, after which an instance is given up until its
    /// model is loaded again. 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 5)]
    crash_limit: u32,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    limit.ok_or_else(|| "it is not a number of seconds, from 0".to_owned())
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
        defaults.dense = dense::folder(self.dense.as_deref())?;
        defaults.contain_crashes = self.contain_crashes;
        defaults.crash_limit = Some(self.crash_limit).filter(|limit| *limit > 0);
        Ok(defaults)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Never
    None,
    /// When files change: it loads new and changed models, and unloads those that are gone
    Poll,
    /// When clients ask for it; `--load-model` names the models of the start
    Explicit,
}

/// Serves, and ends the process.
/// A sealed server's command line: that of `hydrozoa serve`, without its name.
#[derive(clap::Parser)]
#[command(version, about = "Serves the packages that it carries, and others, over HTTP and gRPC")]
struct Sealed {
    #[command(flatten)]
    options: Options,
}

/// Serves the packages of a sealed application, and those that its arguments name.
pub fn run_sealed(
    program: &OsStr,
    packages: &[PathBuf],
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<i32> {
    let words = std::iter::once(program.to_owned()).chain(arguments);
    let mut options = <Sealed as clap::Parser>::parse_from(words).options;
    options.places.splice(0..0, packages.iter().cloned());
    run(&options)
}

pub fn run(options: &Options) -> Result<i32> {
    let log = options.log.start()?;
    let patience = Duration::from_secs(options.models.exit_timeout_secs);
    let ending = Shutdown::watch(patience, log.clone())?;
    hydrozoa_server::keep_large_blocks();
    match serve_until_end(options, &log, &ending) {
        Ok(()) => {
            tracing::info!("the server has ended");
            ending.leave(0)
        }
        Err(error) => {
            options.log.report(&log, &error);
            ending.leave(1)
        }
    }
}

fn serve_until_end(options: &Options, log: &Log, ending: &Shutdown) -> Result<()> {
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
    match hydrozoa_server::remove_left_folders() {
        0 => {}
        count => tracing::info!(
            "{count} folders of clients' files are removed, which killed servers have left"
        ),
    }
    let service = service(options, log)?;
    ending.knows(&service);
    let outcome = runtime.block_on(serve(options, &service, ending));
    // Its threads send the last ones.
    #[cfg(feature = "otel")]
    traces.end();
    runtime.shutdown_background();
    ending.end_models(&service);
    outcome
}

/// The models that there are, none of them loaded.
fn service(options: &Options, log: &Log) -> Result<Service> {
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
        if place.is_file() || place.starts_with(hydrozoa::sealed::ROOT) {
            server.add_package_on(place, options.models.instances, &options.models.gpus)?;
            continue;
        }
        check_repository(place)?;
        server.add_repository(place);
    }
    server.set_defaults(options.models.limits.defaults()?);
    let mut settings = Settings::default();
    settings.id.clone_from(&options.id);
    settings.strict_readiness = options.models.strict_readiness;
    settings.tokens = options.security.tokens()?;
    options.network.set(&mut settings)?;
    settings.log = Some(log.clone());
    if options.models.model_control_mode == Mode::Explicit {
        settings.control = Control::Clients;
    }
    Ok(Service::new(server, settings))
}

/// Refuses a path that is something other than a repository.
fn check_repository(place: &Path) -> Result<()> {
    let shown = place.display();
    let above = |levels: usize| {
        let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
        let above = place.ancestors().nth(levels);
        above.map(Path::to_owned).unwrap_or(place).display().to_string()
    };
    let is_package = place.extension().is_some_and(|ending| ending == "pt");
    if is_package && !place.exists() {
        bail!("the package {shown} does not exist");
    }
    if ["model.py", "model.pt"].iter().any(|file| place.join(file).is_file()) {
        bail!(
            "{shown} is the folder of a version, and a repository is a folder of models: `hydrozoa serve {}`",
            above(2)
        );
    }
    if hydrozoa_server::is_model_folder(place) {
        bail!(
            "{shown} is the folder of a model, and a repository is a folder of models: `hydrozoa serve {}`",
            above(1)
        );
    }
    let found = std::fs::read_dir(place);
    found.map(drop).with_context(|| format!("the repository {shown}"))
}

/// Serves until a signal comes.
async fn serve(options: &Options, service: &Service, ending: &Shutdown) -> Result<()> {
    let (network, security) = (&options.network, &options.security);
    let room = network.room();
    if security.has_tokens() && security.http()?.is_none() {
        tracing::warn!(
            "tokens for HTTP go over the network unencrypted; --http-use-ssl encrypts them"
        );
    }
    let (listener, limits) = network.http(security, &room).await?;
    let mut sites = vec![(listener, http::router(service, &limits), limits)];
    if let Some((listener, limits)) = network.metrics(security, &room).await? {
        sites.push((listener, http::metrics_router(service, &limits), limits));
    }
    let (ends, is_ending) = watch::channel(None);
    let mut grpc_is_ending = is_ending.clone();
    let grpc_ends = async move { drop(grpc_is_ending.wait_for(Option::is_some).await) };
    let patience = Duration::from_secs(options.models.exit_timeout_secs);
    let grpc = network.serve_grpc(service, security, &room, patience, grpc_ends).await?;
    let threads = Threads::start(network.http_thread_count).context("starting threads")?;
    let threads = Arc::new(threads);
    let mut served = tokio::task::JoinSet::new();
    for (listener, router, limits) in sites {
        let threads = Arc::clone(&threads);
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
        // Changes made while models are loaded are found afterwards.
        watch.look(service.server());
    }
    // Clients can ask meanwhile whether the server is ready.
    let loading = load(options, service);
    let began = tokio::select! {
        biased;
        began = ending.begun() => began,
        loaded = loading => {
            loaded?;
            service.open();
            tracing::info!("the server is ready");
            let pause = Duration::from_secs(options.models.repository_poll_secs.max(1));
            tokio::select! {
                began = ending.begun() => began,
                () = service.follow(watch, pause), if is_watched => unreachable!("nobody ends it"),
            }
        }
    };
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
    Ok(())
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
    if names.is_empty() && models.model_control_mode == Mode::None {
        tracing::warn!("the repositories have no models");
    }
    let all = names.len();
    let failed = service.load_all(names, models.model_load_thread_count).await;
    if models.exit_on_error && !failed.is_empty() {
        bail!(not_loaded(&failed, all));
    }
    for (_, error) in &failed {
        tracing::error!("{}", trace(error));
    }
    for row in service.table().lines() {
        tracing::info!("{row}");
    }
    Ok(())
}

/// Why the server does not serve: the causes first.
fn not_loaded(failed: &[(String, LoadError)], all: usize) -> String {
    let mut words: Vec<_> = failed.iter().map(|(_, error)| trace(error)).collect();
    if failed.len() < all {
        let count = failed.len();
        words.push(format!(
            "{count} of {all} models cannot be loaded; `--exit-on-error=false` serves the others"
        ));
    }
    words.join("\n")
}

/// An error's words, and where the model's code has raised it.
fn trace(error: &LoadError) -> String {
    let words = error.to_string();
    let Some(traceback) = error.traceback() else { return words };
    // The last line is the message.
    let frames = traceback.trim_end();
    let frames = frames.rsplit_once('\n').map_or("", |(frames, _)| frames);
    // The server's own frames stand before those of the model's files.
    let frames = match frames.matches("Traceback (most recent call last):").count() {
        1 => frames.find("  File \"/").map_or(frames, |start| &frames[start..]),
        _ => frames,
    };
    format!("{words}\n{frames}").trim_end().to_owned()
}
