//! One instance of a Python model, in an interpreter.

use super::convert;
use super::host::{Context, Host, Limited, Live};
use crate::config::Location;
use crate::execution::{Crash, Execution};
use crate::figures::{Activity, Batch, Counters};
use crate::load::package::{Argument, Expected, Packaged};
use crate::queue::{Pending, Queued};
use crate::request::{Code, Failure, Lent, Request};
use hydrozoa::package::describing;
use hydrozoa::{Error, Object, Pool, Result, Session};
use serde_json::Value;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The file with a version's code.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// The model's folder.
    pub(crate) directory: PathBuf,
    pub(crate) version: i64,
    name: String,
}

impl ModelFile {
    /// The code of a version is in `DIRECTORY/VERSION/NAME`.
    pub fn new(directory: impl Into<PathBuf>, version: i64, name: impl Into<String>) -> Self {
        Self { directory: directory.into(), version, name: name.into() }
    }

    fn arguments(&self) -> (String, String, &str) {
        (self.directory.to_string_lossy().into_owned(), self.version.to_string(), &self.name)
    }
}

/// The description of itself that an instance gets in `initialize`.
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

/// Callbacks for the progress of an execution.
struct Clock<'a> {
    /// It has the GIL.
    attached: &'a dyn Fn(),
    /// The model's `execute` has returned, after so long.
    computed: &'a dyn Fn(Duration),
}

/// A request, its lent inputs, and its waiting client.
pub(crate) type Given = (Request, Vec<Lent>, Arc<Pending>);

fn runner<'s>(session: &'s Session, context: &Context) -> Result<Object<'s>> {
    let host = hydrozoa::Instance::new(Host(context.clone()));
    session.import("triton_python_backend_utils")?.setattr("_server", host)?;
    session.import("_hydrozoa_runner")
}

/// How a batch was executed.
pub(crate) enum Executed {
    /// Each request has got its responses, or an error of its own.
    Done,
    /// All requests have got the same error.
    Failed,
    /// The interpreter has crashed.
    Crashed(Crashed),
}

/// Requests whose interpreter has crashed. They have no answer yet.
pub(crate) struct Crashed {
    pub(crate) report: String,
    pending: Vec<Arc<Pending>>,
}

impl Crashed {
    /// Tells their clients.
    pub(crate) fn fail(&self, failure: &Failure) {
        self.pending.iter().for_each(|pending| pending.fail(failure.clone()));
    }
}

/// Why a batch has no answer.
enum Unanswered {
    Failed(Failure),
    Crashed(String),
}

/// The configuration as the model's `auto_complete_config` completes it.
pub(crate) fn complete(
    session: &Session,
    context: &Context,
    file: &ModelFile,
    config: &str,
) -> Result<Value> {
    let (directory, version, file_name) = file.arguments();
    let runner = runner(session, context)?;
    let text: String =
        runner.call_method("complete", (directory, version, file_name, config))?.extract()?;
    serde_json::from_str(&text).map_err(Error::host)
}

/// The answer of the model's `is_ready`, in its interpreter. May wait for the GIL.
pub(crate) fn says_ready(pool: &Pool, index: usize) -> bool {
    let ask = || {
        let session = pool.acquire_on(index)?;
        session.import("_hydrozoa_runner")?.call_method("is_ready", ())?.extract()
    };
    ask().unwrap_or_else(|error: Error| {
        tracing::error!("is_ready: {}", error.traceback().unwrap_or(&error.to_string()));
        false
    })
}

/// One instance of a model. It belongs to its session's thread.
pub(crate) struct Instance<'s> {
    session: &'s Session,
    /// The model's name, and the instance's.
    model: String,
    name: String,
    execute: Object<'s>,
    is_exhausted: Object<'s>,
    finalize: Object<'s>,
    tells_readiness: bool,
    /// Runs the example of a package.
    warm: Option<Object<'s>>,
}

/// Name, place among the arguments, whether it is a tensor, whether it lacks the last extent.
fn argument(one: &Argument) -> (&str, usize, bool, bool) {
    (&one.name, one.place, one.is_tensor, one.is_flat)
}

/// Name, type, extents.
fn expected(one: &Expected) -> (&str, &'static str, &[i64]) {
    (&one.name, one.data_type.name(), &one.dims)
}

impl<'s> Instance<'s> {
    /// Imports the model, makes its object and initializes it.
    pub(crate) fn start(
        session: &'s Session,
        context: &Context,
        file: &ModelFile,
        told: &Told,
    ) -> Result<Self> {
        let runner = runner(session, context)?;
        let (directory, version, file_name) = file.arguments();
        let arguments = session.import("builtins")?.call_method("dict", ())?;
        let device = told.device.to_string();
        for (key, value) in [
            ("model_config", told.config.as_str()),
            ("model_instance_kind", told.kind),
            ("model_instance_name", &told.name),
            ("model_instance_device_id", &device),
            ("model_repository", &directory),
            ("model_version", &version),
            ("model_name", &context.model),
        ] {
            arguments.set_item(key, value)?;
        }
        runner.call_method(
            "initialize",
            (directory.as_str(), version.as_str(), file_name, arguments, told.is_decoupled),
        )?;
        Ok(Self {
            session,
            model: context.model.clone(),
            name: told.name.clone(),
            execute: runner.getattr("execute")?,
            is_exhausted: runner.getattr("is_exhausted")?,
            finalize: runner.getattr("finalize")?,
            tells_readiness: runner.call_method("tells_readiness", ())?.extract()?,
            warm: None,
        })
    }

    /// Loads a package's object, or finds it where the interpreter has it already.
    pub(crate) fn of_package(
        session: &'s Session,
        context: &Context,
        package: &Packaged,
        told: &Told,
    ) -> Result<Self> {
        let plan = &package.plan;
        let location = Location::of(told.kind, told.device);
        let placed = package.at(location);
        let example = match &placed.example {
            Some(example) => example.to_object(session)?,
            None => session.none()?,
        };
        let arguments = (
            context.model.as_str(),
            hydrozoa::Instance::new(Host(context.clone())),
            describing(session)?,
            placed.object.to_object(session)?,
            &example,
            plan.arguments.iter().map(argument).collect::<Vec<_>>(),
            plan.results.iter().map(expected).collect::<Vec<_>>(),
            plan.has_batch,
            location.name(),
        );
        let made = session.import("_hydrozoa_packaged")?.call_method("Instance", arguments)?;
        let warm = if example.is_none() { None } else { Some(made.getattr("warm")?) };
        Ok(Self {
            session,
            model: context.model.clone(),
            name: told.name.clone(),
            execute: made.getattr("execute")?,
            is_exhausted: made.getattr("is_exhausted")?,
            finalize: made.getattr("finalize")?,
            tells_readiness: false,
            warm,
        })
    }

    /// Whether the model has an `is_ready`.
    pub(crate) fn tells_readiness(&self) -> bool {
        self.tells_readiness
    }

    /// Runs the package's example, if it has one. Returns the problem with its result, if any.
    pub(crate) fn warm(&self) -> Result<Option<String>> {
        let Some(warm) = &self.warm else { return Ok(None) };
        self.session.with_gil(|| warm.call(())?.extract())
    }

    /// Runs a batch. Each of its requests gets its responses, or an error, unless the interpreter crashes.
    pub(crate) fn execute(
        &self,
        batch: Vec<Queued>,
        counters: &Counters,
        activity: &Activity,
        execution: Option<&Arc<Execution>>,
    ) -> Executed {
        let began = Instant::now();
        let counted = batch.iter().filter(|queued| !queued.is_stand_in);
        let size = counted.clone().map(|queued| queued.size).sum();
        let counts = Batch { requests: counted.clone().count(), size };
        counters.began(counted.map(|queued| began - queued.since));
        batch.iter().for_each(|queued| queued.pending.begin(began));
        let _running = activity.begin(counts.requests);
        let given = |queued: Queued| (queued.request, Vec::new(), queued.pending);
        let returned = Cell::new(None);
        let clock = Clock {
            attached: &|| activity.waited(began.elapsed()),
            // Before a response is sent: whoever has one can see what it took.
            computed: &|inside| {
                returned.set(Some(Instant::now()));
                counters.computed(counts, began.elapsed().saturating_sub(inside), inside);
            },
        };
        let executed = self.run(batch.into_iter().map(given).collect(), &clock, execution);
        match returned.get() {
            Some(returned) => counters.sent(counts, returned.elapsed()),
            None => counters.computed(counts, began.elapsed(), Duration::ZERO),
        }
        executed
    }

    /// The same for requests that no queue of this crate had.
    pub(crate) fn execute_given(&self, batch: Vec<Given>) {
        let executed = self.run(batch, &Clock { attached: &|| (), computed: &|_| () }, None);
        if let Executed::Crashed(crashed) = executed {
            let (model, instance) = (&*self.model, &*self.name);
            let crash = Crash { model, instance, report: &crashed.report };
            tracing::error!("{crash}\n{}", crashed.report.trim_end());
            crashed.fail(&crash.failure());
        }
    }

    fn run(
        &self,
        batch: Vec<Given>,
        clock: &Clock<'_>,
        execution: Option<&Arc<Execution>>,
    ) -> Executed {
        let pending: Vec<_> = batch.iter().map(|given| given.2.clone()).collect();
        let outcome = self.session.with_gil(|| {
            (clock.attached)();
            self.answer(batch, &pending, clock, execution)
        });
        match outcome {
            Ok(()) => Executed::Done,
            Err(Unanswered::Failed(failure)) => {
                pending.iter().for_each(|pending| pending.fail(failure.clone()));
                Executed::Failed
            }
            Err(Unanswered::Crashed(report)) => Executed::Crashed(Crashed { report, pending }),
        }
    }

    fn answer(
        &self,
        batch: Vec<Given>,
        pending: &[Arc<Pending>],
        clock: &Clock<'_>,
        execution: Option<&Arc<Execution>>,
    ) -> std::result::Result<(), Unanswered> {
        let failed = |error: Error| match (error, execution) {
            (Error::Deadline { traceback }, Some(execution)) => {
                tracing::error!("{}\n{}", execution.late(), traceback.trim_end());
                Unanswered::Failed(execution.late().interrupted())
            }
            (Error::Crashed { report }, _) => Unanswered::Crashed(report),
            (error, _) => Unanswered::Failed(Failure::new(Code::Internal, error.to_string())),
        };
        let limited = match execution {
            Some(execution) => {
                self.session.object_from(&hydrozoa::Instance::new(Limited::new(execution)))
            }
            None => self.session.none(),
        };
        let limited = limited.map_err(failed)?;
        let requests = batch
            .into_iter()
            .map(|(request, lent, pending)| {
                convert::request(self.session, request, lent, Live(pending))
            })
            .collect::<Result<Vec<_>>>();
        let requests = requests.map_err(failed)?;
        let called = Instant::now();
        let answer = self.execute.call((requests, limited));
        (clock.computed)(called.elapsed());
        let answer = answer.map_err(failed)?;
        if answer.type_name() == "str" {
            let words = answer.extract::<String>().map_err(failed)?;
            return Err(Unanswered::Failed(Failure::new(Code::Internal, words)));
        }
        let answers: Vec<Option<Object<'_>>> = answer.extract().map_err(failed)?;
        for (answer, pending) in answers.iter().zip(pending) {
            let Some(answer) = answer else { continue };
            let response = convert::sent(answer).map_err(failed)?;
            if let Err(words) = pending.send(Some(response), true) {
                pending.fail(Failure::new(
                    Code::Internal,
                    format!("Unable to send response. {words}"),
                ));
            }
        }
        Ok(())
    }

    /// Whether the last failure was a lasting shortage of memory, so that the instance is unusable.
    pub(crate) fn is_exhausted(&self) -> bool {
        let answer = self.is_exhausted.call(()).and_then(|answer| answer.extract());
        answer.unwrap_or(true)
    }

    /// Ends the model's object.
    pub(crate) fn finalize(&self) -> Result<()> {
        self.finalize.call(()).map(drop)
    }
}
