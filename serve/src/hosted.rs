//! Python models in a program that has the repository, the queue and the scheduler: an interpreter for each instance, which
//! executes the batches that the program makes.
//!
//! ```no_run
//! use hydrozoa_serve::host::Host;
//! use hydrozoa_serve::hosted::{Instance, Place, Told, Work};
//! # fn f(host: std::sync::Arc<dyn Host>, batch: Vec<Work>) -> hydrozoa::Result<()> {
//! let place = Place::new("models/resnet", 1, "model.py");
//! let instance = Instance::start(hydrozoa::Pool::builder().venv("venv"), "resnet", place, host)?;
//! let config = instance.complete(r#"{"name": "resnet"}"#)?;
//! instance.initialize(Told { config, name: "resnet_0".to_owned(), kind: "CPU", device: 0, is_decoupled: false })?;
//! instance.execute(batch)?;
//! # Ok(()) }
//! ```

use crate::datatype::DataType;
use crate::host::{Host, Respond};
use crate::interpreters::CLOSE;
use crate::keeper::STACK;
use crate::pending::{Pending, Process};
use crate::python::{self, Context};
use crate::request::Request;
use bytes::Bytes;
use hydrozoa::{Builder, Error, Pool, Result, Session};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Where a model's code lies.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    version: i64,
    file_name: String,
}

impl Place {
    /// The code of a version is in `DIRECTORY/VERSION/FILE_NAME`.
    pub fn new(directory: impl Into<PathBuf>, version: i64, file_name: impl Into<String>) -> Self {
        Self { directory: directory.into(), version, file_name: file_name.into() }
    }

    fn borrowed(&self) -> python::Place<'_> {
        let (directory, file_name) = (&*self.directory, &*self.file_name);
        python::Place { directory, version: self.version, file_name }
    }
}

/// What an instance is told of itself, in `initialize`.
#[derive(Clone, Debug)]
pub struct Told {
    /// The whole configuration of the model, as JSON by the names of `config.pbtxt`. The model gets this text.
    pub config: String,
    /// The instance's name.
    pub name: String,
    /// `CPU`, `GPU` or `MODEL`.
    pub kind: &'static str,
    /// Which GPU.
    pub device: i32,
    /// Whether a request may have any number of responses.
    pub is_decoupled: bool,
}

/// An input over memory that nobody writes. The model gets a read-only array over it, and the memory is kept for as long as the
/// model keeps the array. Its start is a multiple of the element's size.
#[derive(Debug)]
pub struct Lent {
    /// Its name.
    pub name: String,
    /// Type of the elements. BF16 cannot be lent.
    pub data_type: DataType,
    /// Extents, the batch's included.
    pub shape: Vec<i64>,
    /// The elements, row by row, little endian.
    pub data: Bytes,
}

/// A request of a batch. The program has checked it against the model's configuration.
pub struct Work {
    /// The request, with the inputs that the model may write.
    pub request: Request,
    /// Further inputs.
    pub lent: Vec<Lent>,
    /// Takes the responses, also when [`Instance::execute`] has returned. It goes with the last one.
    pub respond: Respond,
    /// Whether nobody waits for the responses any more. It goes with the last one.
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

/// What has no answer because the instance's thread has gone.
fn ended() -> Error {
    Error::Configuration("the model's instance has ended".to_owned())
}

impl Instance {
    /// Starts the interpreter. The model's code is not run yet.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`].
    pub fn start(builder: Builder, model: &str, place: Place, host: Arc<dyn Host>) -> Result<Self> {
        let pool = builder.interpreters(1).build()?;
        python::prepare(&pool)?;
        let context = Context {
            server: host,
            model: model.to_owned(),
            directory: place.directory.join(place.version.to_string()),
            process: Process::this(),
        };
        let (jobs, received) = channel();
        let runs = Runs { pool: pool.clone(), place, context };
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
    /// What the model raises.
    pub fn complete(&self, config: &str) -> Result<String> {
        self.ask(|reply| Job::Complete(config.to_owned(), reply))
    }

    /// Makes the model's object and calls its `initialize`.
    ///
    /// # Errors
    ///
    /// What the model raises.
    pub fn initialize(&self, told: Told) -> Result<()> {
        self.ask(|reply| Job::Initialize(told, reply))
    }

    /// Runs a batch, and returns when the model's `execute` has returned. Each request gets its responses or an error by
    /// [`Work::respond`], those of a decoupled model maybe later.
    ///
    /// # Errors
    ///
    /// The instance has no object, or has ended. Then all requests have got an error.
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

/// What the instance's thread needs.
struct Runs {
    pool: Pool,
    place: Place,
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
            // Who asked has gone if an answer is not taken.
            match job {
                Job::Complete(config, reply) => drop(reply.send(self.complete(session, &config))),
                Job::Initialize(told, reply) => {
                    let made = self.initialize(session, &told);
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
        let place = self.place.borrowed();
        python::complete(session, &self.context, place, config).map(|json| json.to_string())
    }

    fn initialize<'s>(&self, session: &'s Session, told: &Told) -> Result<python::Instance<'s>> {
        let told = python::Told {
            model: &self.context.model,
            config: &told.config,
            is_decoupled: told.is_decoupled,
            name: &told.name,
            kind: told.kind,
            device: told.device,
        };
        python::Instance::start(session, &self.context, self.place.borrowed(), told)
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

/// The file that has a model's code, by its configuration.
pub fn file_name(config: &serde_json::Value) -> &str {
    let name = config["default_model_filename"].as_str().unwrap_or_default();
    if name.is_empty() { "model.py" } else { name }
}

/// The virtual environment that a configuration names by the parameter `EXECUTION_ENV_PATH`, if it does.
///
/// # Errors
///
/// A text: it is no folder.
pub fn environment(
    config: &serde_json::Value,
    directory: &Path,
) -> std::result::Result<Option<PathBuf>, String> {
    let value = &config["parameters"][crate::source::ENVIRONMENT]["string_value"];
    value.as_str().map(|text| crate::source::environment(text, directory)).transpose()
}
