//! The server as a model sees it: classes of Rust values, which the Python modules use.

use super::convert;
use crate::escaping::escaped;
use crate::execution::{Execution, Mailbox, Taken};
use crate::host::{self, Cancel, MetricFamily, MetricSeries, Overrides};
use crate::queue::{Pending, Process};
use crate::request::{Event, Failure, Response};
use bytes::Bytes;
use hydrozoa::{Class, ClassBuilder, Error, Instance, Object, Result, Session};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;

/// The surroundings of a model version's instances.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) server: Arc<dyn host::Host>,
    pub(crate) model: String,
    /// The folder of the version.
    pub(crate) directory: PathBuf,
    pub(crate) process: Process,
}

impl Context {
    /// The server, or why it cannot be used.
    fn server(&self) -> Result<&dyn host::Host, String> {
        self.process.check()?;
        Ok(&*self.server)
    }

    /// Logs the model's change.
    fn tell(&self, action: &str, model: &str, files: &str, outcome: &Result<(), String>) {
        let by = &self.model;
        match outcome {
            Ok(()) => tracing::info!(by, model, files, "{action} by a model: done"),
            Err(error) => {
                tracing::warn!(by, model, files, error, "{action} by a model: failed");
            }
        }
    }
}

/// The server, for a model's instance.
pub(super) struct Host(pub(super) Context);

/// Runs work that may take long. Under an execution limit, the limit ends the wait for it; the work goes on.
fn interruptible(
    work: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<Result<(), String>> {
    if Execution::current().is_none() {
        return Ok(work());
    }
    let (post, mail) = Mailbox::new();
    let thread = thread::Builder::new().name("change".to_owned());
    thread.spawn(move || post.send(work())).map_err(Error::host)?;
    match mail.next() {
        Taken::Some(outcome) => Ok(outcome),
        Taken::Over | Taken::GivenUp => Ok(Err("the server's thread has panicked".to_owned())),
        Taken::Late => Err(late()),
    }
}

/// The error of a wait that ends at the limit of its execution.
fn late() -> Error {
    Error::Deadline { traceback: String::new() }
}

/// A text if something failed, else `None`.
fn problem(session: &Session, outcome: Result<(), String>) -> Result<Object<'_>> {
    match outcome {
        Ok(()) => session.none(),
        Err(text) => session.object_from(text.as_str()),
    }
}

impl Class for Host {
    const NAME: &'static str = "Server";
    const MODULE: &'static str = "triton_python_backend_utils";
    const DOC: &'static str = "The server that runs the model.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .getter("model_directory", "", |host, session| {
                session.object_from(&host.0.directory.to_string_lossy())
            })
            .method("log(level, message, /)", "", |host, session, arguments| {
                let (level, text): (i64, String) = (arguments.extract(0)?, arguments.extract(1)?);
                // As Triton writes it: one line, whatever the model says.
                let (model, text) = (&host.0.model, escaped(&text));
                match level {
                    0 => tracing::info!(model, "{text}"),
                    1 => tracing::warn!(model, "{text}"),
                    2 => tracing::error!(model, "{text}"),
                    _ => tracing::debug!(model, "{text}"),
                }
                session.none()
            })
            .method("failed(message, traceback, /)", "", |host, session, arguments| {
                let (message, traceback): (String, String) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let (model, message) = (&host.0.model, escaped(&message));
                tracing::error!(model, "{message}\n{}", traceback.trim_end());
                session.none()
            })
            .method("load_model(name, config, files, /)", "", |host, session, arguments| {
                let (name, config): (String, String) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let files: BTreeMap<String, Vec<u8>> = arguments.extract(2)?;
                let files = files.into_iter().map(|(path, data)| (path, Bytes::from(data)));
                let overrides = Overrides {
                    config: (!config.is_empty()).then_some(config),
                    files: files.collect(),
                };
                let context = host.0.clone();
                let load = move || {
                    let files = overrides.paths();
                    let outcome = context.server()?.load_model(&name, overrides);
                    context.tell("load", &name, &files, &outcome);
                    outcome
                };
                problem(session, session.without_gil(|| interruptible(load))?)
            })
            .method("unload_model(name, dependents, /)", "", |host, session, arguments| {
                let (name, dependents): (String, bool) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let context = host.0.clone();
                let unload = move || {
                    let outcome = context.server()?.unload_model(&name, dependents);
                    context.tell("unload", &name, "", &outcome);
                    outcome
                };
                problem(session, session.without_gil(|| interruptible(unload))?)
            })
            .method("is_model_ready(name, version, /)", "", |host, session, arguments| {
                let (name, version): (String, String) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let is_ready = session.without_gil(|| {
                    host.0.server().is_ok_and(|server| server.is_model_ready(&name, &version))
                });
                session.object_from(&is_ready)
            })
            .method(
                "infer(name, version, decoupled, request, /)",
                "",
                |host, session, arguments| {
                    let (name, version): (String, i64) =
                        (arguments.extract(0)?, arguments.extract(1)?);
                    let decoupled = arguments.extract(2)?;
                    let request = convert::asked(&arguments.extract(3)?)?;
                    let call = session.without_gil(|| {
                        Call::begin(host.0.server(), name, version, decoupled, request)
                    });
                    session.object_from(&Instance::new(call))
                },
            )
            .method("metric_family(name, description, kind, /)", "", |host, session, arguments| {
                let (name, description): (String, String) =
                    (arguments.extract(0)?, arguments.extract(1)?);
                let kind: String = arguments.extract(2)?;
                let server = host.0.server();
                let family =
                    server.and_then(|server| server.metric_family(&name, &description, &kind));
                match family {
                    Ok(family) => session.object_from(&Instance::new(FamilyOf(family))),
                    Err(text) => session.object_from(text.as_str()),
                }
            });
    }
}

/// A request that an instance works on.
pub(super) struct Live(pub(super) Arc<Pending>);

impl Class for Live {
    const NAME: &'static str = "Live";
    const MODULE: &'static str = "triton_python_backend_utils";
    const DOC: &'static str = "A request that has no final response yet.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method("is_cancelled()", "", |live, session, _| {
                session.object_from(&live.0.is_cancelled())
            })
            .method("send(sent, is_final, /)", "", |live, session, arguments| {
                let sent: Option<Object<'_>> = arguments.extract(0)?;
                let response = sent.map(|sent| convert::sent(&sent)).transpose()?;
                let outcome = live.0.send(response, arguments.extract(1)?);
                problem(session, outcome)
            });
    }
}

/// The limit of what an instance executes now.
pub(super) struct Limited(Weak<Execution>);

impl Limited {
    pub(super) fn new(execution: &Arc<Execution>) -> Self {
        Self(Arc::downgrade(execution))
    }
}

impl Class for Limited {
    const NAME: &'static str = "Limited";
    const MODULE: &'static str = "triton_python_backend_utils";
    const DOC: &'static str = "The limit of an execution.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method("left()", "", |limited, session, _| {
                let left = limited.0.upgrade().map(|execution| execution.left());
                session.object_from(&left.unwrap_or_default().as_secs_f64())
            })
            .method("words()", "", |limited, session, _| {
                let execution = limited.0.upgrade();
                let words = execution.map(|execution| execution.late().interrupted().message);
                session.object_from(&words.unwrap_or_default())
            })
            .method("coroutine(goes_on, /)", "", |limited, session, arguments| {
                let goes_on = arguments.extract(0)?;
                if let Some(execution) = limited.0.upgrade() {
                    execution.becomes_coroutine(goes_on);
                }
                session.none()
            })
            .method("over()", "", |limited, session, _| {
                if let Some(execution) = limited.0.upgrade() {
                    execution.over();
                }
                session.none()
            });
    }
}

/// A request that a model has made of another model.
struct Call {
    mail: Arc<Mailbox<Event>>,
    under_way: Option<Box<dyn Cancel>>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Call {
    fn begin(
        server: Result<&dyn host::Host, String>,
        model: String,
        version: i64,
        decoupled: bool,
        request: crate::Request,
    ) -> Self {
        let (post, mail) = Mailbox::new();
        let outcome = server
            .map_err(|words| Failure::new(crate::Code::Unavailable, words))
            .and_then(|server| {
                server.infer(host::Call {
                    model: model.clone(),
                    version: (version >= 0).then_some(version),
                    decoupled,
                    request,
                    respond: Box::new(move |event| post.send(event)),
                })
            });
        let under_way = outcome.map_err(|failure| {
            let words =
                format!("Model {model} - Error when running inference: {}", failure.message);
            let response = Some(Err(Failure::new(failure.code, words)));
            mail.put(Event { response, is_final: true });
        });
        Call { mail, under_way: under_way.ok() }
    }

    fn cancel(&self) {
        if let Some(under_way) = &self.under_way {
            under_way.cancel();
        }
    }

    /// The next response; `None` at the end. If the model announces the end by itself, it comes as an empty response, as with
    /// Triton.
    fn next(&self) -> Result<Option<Result<Response, Failure>>> {
        match self.mail.next() {
            Taken::Some(event) => {
                Ok(Some(event.response.unwrap_or_else(|| Ok(Response::default()))))
            }
            Taken::Over => Ok(None),
            Taken::Late => Err(late()),
            Taken::GivenUp => {
                Err(Error::raise("RuntimeError", "nobody waits for the response any more"))
            }
        }
    }
}

impl Class for Call {
    const NAME: &'static str = "Call";
    const MODULE: &'static str = "triton_python_backend_utils";
    const DOC: &'static str = "A request of another model.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method("next()", "", |call, session, _| match session.without_gil(|| call.next())? {
                Some(response) => convert::response(session, response),
                None => session.none(),
            })
            .method("cancel()", "", |call, session, _| {
                call.cancel();
                session.none()
            })
            .method("give_up()", "", |call, session, _| {
                call.cancel();
                call.mail.give_up();
                session.none()
            });
    }
}

/// A family of metrics of a model.
struct FamilyOf(Arc<dyn MetricFamily>);

impl Class for FamilyOf {
    const NAME: &'static str = "Family";
    const MODULE: &'static str = "triton_python_backend_utils";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class.method("series(labels, buckets, /)", "", |family, session, arguments| {
            let labels: BTreeMap<String, String> = arguments.extract(0)?;
            let buckets: Vec<f64> = arguments.extract(1)?;
            let series = family
                .0
                .clone()
                .series(labels, buckets)
                .map_err(|text| Error::raise("ValueError", &text))?;
            session.object_from(&Instance::new(SeriesOf(series)))
        });
    }
}

/// A series of such a family.
struct SeriesOf(Arc<dyn MetricSeries>);

impl Class for SeriesOf {
    const NAME: &'static str = "Series";
    const MODULE: &'static str = "triton_python_backend_utils";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method("increment(value, /)", "", |series, session, arguments| {
                problem(session, series.0.increment(arguments.extract(0)?))
            })
            .method("set(value, /)", "", |series, session, arguments| {
                problem(session, series.0.set(arguments.extract(0)?))
            })
            .method("observe(value, /)", "", |series, session, arguments| {
                problem(session, series.0.observe(arguments.extract(0)?))
            })
            .method("value()", "", |series, session, _| {
                let value = series.0.value();
                session.object_from(&value.map_err(|text| Error::raise("ValueError", &text))?)
            });
    }
}
