//! Python models in a program with its own repository, queue and scheduler: an interpreter for each instance, which executes
//! the batches that the program makes.
//!
//! ```no_run
//! use hydrozoa_models::host::Host;
//! use hydrozoa_models::hosted::{Instance, ModelFile, Told, Work};
//! # fn f(host: std::sync::Arc<dyn Host>, batch: Vec<Work>) -> hydrozoa::Result<()> {
//! let file = ModelFile::new("models/resnet", 1, "model.py");
//! let instance = Instance::start(hydrozoa::Pool::builder().venv("venv"), "resnet", file, host)?;
//! let config = instance.complete(r#"{"name": "resnet"}"#)?;
//! instance.initialize(Told { config, name: "resnet_0".to_owned(), kind: "CPU", device: 0, is_decoupled: false })?;
//! instance.execute(batch)?;
//! # Ok(()) }
//! ```

use crate::execution::STACK;
use crate::host::{Host, Respond};
use crate::load::CLOSE;
use crate::python::{self, Context};
pub use crate::python::{ModelFile, Told};
use crate::queue::{Pending, Process};
pub use crate::request::Lent;
use crate::request::Request;
use hydrozoa::{Builder, Error, Pool, Result, Session};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A request of a batch. The program has checked it against the model's configuration.
pub struct Work {
    /// The request, with the inputs that the model may write.
    pub request: Request,
    /// Further inputs.
    pub lent: Vec<Lent>,
    /// Takes the responses, also after [`Instance::execute`] has returned. It is dropped with the last one.
    pub respond: Respond,
    /// Whether nobody waits for the responses any more. It is dropped with the last one.
    pub is_cancelled: Box<dyn Fn() -> bool + Send>,
}

/// An interpreter with one instance of a model, and the thread that runs it.
pub struct Instance {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pool: Mutex<Option<Pool>>,
    model: String,
}

type Reply<T> = Sender<Result<T>>;

enum Job {
    Complete(String, Reply<String>),
    Initialize(Told, Reply<()>),
    Execute(Vec<Work>, Reply<()>),
}

/// The error of a job left unanswered because the instance's thread has gone.
fn ended() -> Error {
    Error::Configuration("the model's instance has ended".to_owned())
}

impl Instance {
    /// Starts the interpreter. The model's code is not run yet.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`].
    pub fn start(
        builder: Builder,
        model: &str,
        file: ModelFile,
        host: Arc<dyn Host>,
    ) -> Result<Self> {
        let pool = builder.interpreters(1).build()?;
        python::prepare(&pool)?;
        let context = Context {
            server: host,
            model: model.to_owned(),
            directory: file.directory.join(file.version.to_string()),
            process: Process::this(),
        };
        let (jobs, received) = channel();
        let runs = Runs { pool: pool.clone(), file, context };
        let thread = thread::Builder::new()
            .name(model.to_owned())
            .stack_size(STACK)
            .spawn(move || runs.run(&received))
            .map_err(Error::host)?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            pool: Mutex::new(Some(pool)),
            model: model.to_owned(),
        })
    }

    fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T> {
        let (reply, answer) = channel();
        let jobs = self.jobs.lock().clone().ok_or_else(ended)?;
        jobs.send(job(reply)).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }

    /// The configuration, as JSON, as the model's `auto_complete_config` completes it.
    ///
    /// # Errors
    ///
    /// The model's exception.
    pub fn complete(&self, config: &str) -> Result<String> {
        self.ask(|reply| Job::Complete(config.to_owned(), reply))
    }

    /// Makes the model's object and calls its `initialize`.
    ///
    /// # Errors
    ///
    /// The model's exception.
    pub fn initialize(&self, told: Told) -> Result<()> {
        self.ask(|reply| Job::Initialize(told, reply))
    }

    /// Runs a batch, and returns when the model's `execute` has returned. Each request gets its responses or an error by
    /// [`Work::respond`], those of a decoupled model maybe later.
    ///
    /// # Errors
    ///
    /// The instance was not initialized, or has ended. Then all requests get an error.
    pub fn execute(&self, batch: Vec<Work>) -> Result<()> {
        self.ask(|reply| Job::Execute(batch, reply))
    }

    /// The interpreter. `None` at the end.
    pub fn pool(&self) -> Option<Pool> {
        self.pool.lock().clone()
    }

    /// Calls the model's `finalize`, and ends the interpreter.
    pub fn finish(&self) {
        drop(self.jobs.lock().take());
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(model = self.model, "a thread of an instance has panicked");
        }
        let pool = self.pool.lock().take();
        if let Some(Err(error)) = pool.map(|pool| pool.close(CLOSE)) {
            tracing::debug!(model = self.model, "its interpreter ends later: {error}");
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The state of the instance's thread.
struct Runs {
    pool: Pool,
    file: ModelFile,
    context: Context,
}

impl Runs {
    fn run(self, jobs: &Receiver<Job>) {
        let session = match self.pool.acquire_on(0) {
            Ok(session) => session,
            Err(error) => {
                tracing::error!(model = self.context.model, "no session: {error}");
                return;
            }
        };
        self.serve(&session, jobs);
    }

    /// Takes jobs until nobody has any, and ends the object.
    fn serve(&self, session: &Session, jobs: &Receiver<Job>) {
        let mut object: Option<(python::Instance<'_>, bool)> = None;
        for job in jobs {
            // If nobody takes an answer, the caller has gone.
            match job {
                Job::Complete(config, reply) => drop(reply.send(self.complete(session, &config))),
                Job::Initialize(told, reply) => {
                    let made = python::Instance::start(session, &self.context, &self.file, &told);
                    drop(reply.send(made.map(|made| object = Some((made, told.is_decoupled)))));
                }
                Job::Execute(batch, reply) => {
                    drop(reply.send(execute(object.as_ref(), batch)));
                }
            }
        }
        let Some((object, _)) = object else { return };
        if let Err(error) = object.finalize() {
            let text = error.to_string();
            let words = error.traceback().unwrap_or(&text);
            tracing::error!(model = self.context.model, "finalize: {words}");
        }
    }

    fn complete(&self, session: &Session, config: &str) -> Result<String> {
        python::complete(session, &self.context, &self.file, config).map(|json| json.to_string())
    }
}

fn execute(object: Option<&(python::Instance<'_>, bool)>, batch: Vec<Work>) -> Result<()> {
    let is_decoupled = object.is_some_and(|object| object.1);
    let given = |work: Work| {
        let pending = Pending::with_gone(work.respond, is_decoupled, work.is_cancelled);
        (work.request, work.lent, Arc::new(pending))
    };
    let batch: Vec<_> = batch.into_iter().map(given).collect();
    // Without an object each request fails when it is dropped.
    let (object, _) = object.ok_or_else(|| {
        Error::Configuration("the model's instance was not initialized".to_owned())
    })?;
    object.execute_given(batch);
    Ok(())
}

/// The file with a model's code, by its configuration.
pub fn file_name(config: &serde_json::Value) -> &str {
    let name = config["default_model_filename"].as_str().unwrap_or_default();
    if name.is_empty() { "model.py" } else { name }
}

/// The virtual environment that a configuration names by the parameter `EXECUTION_ENV_PATH`, if it does.
///
/// # Errors
///
/// A text that says the path is not a folder.
pub fn environment(
    config: &serde_json::Value,
    directory: &Path,
) -> std::result::Result<Option<PathBuf>, String> {
    let value = &config["parameters"][crate::load::ENVIRONMENT]["string_value"];
    value.as_str().map(|text| crate::load::environment(text, directory)).transpose()
}
