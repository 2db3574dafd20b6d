//! A pool: several interpreters of one Python, and the choice between them.

use crate::environment::{Environment, Variables};
use crate::interpreter::{Configuration, Interpreter, start};
use crate::interrupt::{OnStuck, Stuck};
use crate::libraries::LibraryRules;
use crate::python::{self, Installation, Search};
use crate::session::Session;
use crate::thread::Thread;
use crate::torch::TorchPolicy;
use crate::torch_policy::Torch;
use crate::{Error, Result};
use std::cell::Cell;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// Several interpreters of one Python in this process.
///
/// A pool has no threads. Each thread of the application takes a [`Session`] and runs in it.
///
/// A handle: clones refer to the same interpreters. An interpreter is finalized after the last clone, the
/// pool's last package and movable, and the interpreter's last session are dropped.
#[derive(Clone, Debug)]
pub struct Pool {
    interpreters: Arc<[Interpreter]>,
    python: Installation,
}

/// Settings of a pool.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    interpreters: Option<usize>,
    python: Option<PathBuf>,
    venv: Option<PathBuf>,
    torch: TorchPolicy,
    strict: bool,
    libraries: LibraryRules,
    arguments: Vec<String>,
    paths: Vec<PathBuf>,
    environment: Option<Variables>,
    on_stuck: Option<OnStuck>,
}

impl Builder {
    /// The number of interpreters. The default is one for each processor that this process may use.
    pub fn interpreters(mut self, count: usize) -> Self {
        self.interpreters = Some(count);
        self
    }

    /// The Python: a `libpython3.X.so`, a python executable, the prefix of an installation, the directory of a virtual
    /// environment, or a version such as `3.12` ([`python::find`]). The default is the best of [`python::discover`].
    pub fn python(mut self, path: impl Into<PathBuf>) -> Self {
        self.python = Some(path.into());
        self
    }

    /// A virtual environment whose packages the interpreters see. Without [`Builder::python`] it also
    /// chooses the Python.
    pub fn venv(mut self, directory: impl Into<PathBuf>) -> Self {
        self.venv = Some(directory.into());
        self
    }

    /// Whether the interpreters share torch's C++ libraries.
    pub fn torch(mut self, policy: TorchPolicy) -> Self {
        self.torch = policy;
        self
    }

    /// In strict mode an interpreter cannot change a native setting that others share: the call raises a
    /// `RuntimeError` that names it. Without it the call takes effect and gives a `RuntimeWarning`. Interpreters share
    /// such settings under [`TorchPolicy::Shared`]; `docs/torch.md` lists them.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Native libraries whose path matches `pattern` exist once for all interpreters ([`LibraryRules::share`]).
    /// By default an interpreter has its own replica of each library that it brings with it.
    pub fn share(mut self, pattern: impl Into<String>) -> Self {
        self.libraries = self.libraries.share(pattern);
        self
    }

    /// Each interpreter has its own replica of native libraries whose path matches `pattern`
    /// ([`LibraryRules::replicate`]), although they are shared by default.
    pub fn replicate(mut self, pattern: impl Into<String>) -> Self {
        self.libraries = self.libraries.replicate(pattern);
        self
    }

    /// Adds these rules for native libraries behind those of earlier calls.
    pub fn libraries(mut self, rules: &LibraryRules) -> Self {
        self.libraries.extend(rules);
        self
    }

    /// `sys.argv` of every interpreter. The default is one empty string.
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a directory to the front of `sys.path`, after those of earlier calls.
    pub fn path(mut self, directory: impl Into<PathBuf>) -> Self {
        self.paths.push(directory.into());
        self
    }

    /// Gives each interpreter an environment of its own, with these variables and no others. Of several variables of
    /// one name the last counts. `std::env::vars_os()` is what the process has now; chain more to it.
    ///
    /// Without it, interpreters share the environment of the process, as threads of plain python do: what one
    /// interpreter sets in `os.environ`, the others and their children get too.
    ///
    /// With it, an interpreter starts as a python process with this environment does. It reads `PYTHON*` variables from
    /// it; the pool's other settings come first. What Python code and extension modules change is their interpreter's
    /// alone: by `os.environ`, `os.putenv`, the C functions `setenv`, `putenv`, `unsetenv` and `clearenv`, or the
    /// C variable `environ`. `getenv` reads it, and children get it: by `subprocess`, `multiprocessing`, `os.fork`,
    /// `os.exec*`, `os.posix_spawn*`, `os.system` and the C functions of the same names.
    ///
    /// The environment of the process remains where libraries read it that interpreters share:
    ///
    /// - The C library: the time zone (`TZ`, also after `time.tzset`), the locale (`LC_*`, `LANG`), translations
    ///   (`LANGUAGE`), name resolution (`RES_OPTIONS`, `LOCALDOMAIN`), memory allocation (`GLIBC_TUNABLES`).
    /// - OpenMP and BLAS libraries, and CUDA's: `OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS`, `CUDA_VISIBLE_DEVICES`.
    /// - libtorch, where interpreters share it ([`TorchPolicy::Shared`]).
    /// - The loader: `LD_LIBRARY_PATH`.
    ///
    /// Set these before the process starts.
    pub fn environment<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let pairs = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Some(pairs.collect());
        self
    }

    /// Calls `function` once for each call that goes on although it was interrupted or its deadline has passed
    /// ([`Session::with_deadline`], [`Session::interrupt_handle`]). It runs on a thread of its own. Without it, such a
    /// call is only logged, as a warning of `tracing`.
    pub fn on_stuck(mut self, function: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.on_stuck = Some(OnStuck(Arc::new(function)));
        self
    }

    /// Starts the interpreters.
    ///
    /// # Errors
    ///
    /// [`Error::PythonNotFound`], [`Error::Configuration`] for settings that contradict each other,
    /// [`Error::Load`], or [`Error::Start`]. Then no interpreter of the pool is left.
    pub fn build(self) -> Result<Pool> {
        let count = match self.interpreters {
            Some(0) => {
                return Err(Error::Configuration(
                    "a pool needs at least one interpreter".to_owned(),
                ));
            }
            Some(count) => count,
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let python = python::choose(self.python.as_deref(), self.venv.as_deref())?;
        let torch = Torch::settle(self.torch, &python, Search::Pool(&self.paths), true)?
            .strictly(self.strict);
        let configuration = Configuration {
            arguments: self.arguments.into_iter().map(Into::into).collect(),
            paths: self.paths,
            libraries: self.libraries,
            on_stuck: self.on_stuck,
            environment: self.environment.map(Environment::new).transpose()?,
            ..Configuration::new(python.clone(), torch)
        };
        let interpreters = start_all(count, &configuration)?.into();
        Interpreter::set_siblings(&interpreters);
        Ok(Pool { interpreters, python })
    }
}

/// Starts the first interpreter alone, since it has the files read and the plans made that all
/// share, and the others beside each other.
fn start_all(count: usize, configuration: &Configuration) -> Result<Box<[Interpreter]>> {
    let first = start(0, configuration)?;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut interpreters = vec![first];
    while interpreters.len() < count {
        let begin = interpreters.len();
        let end = count.min(begin + threads);
        let starting: Vec<_> = (begin..end).map(|index| starting(index, configuration)).collect();
        // All of them have ended before the first error is returned.
        let started: Vec<_> = starting
            .into_iter()
            .map(|thread| thread?.join().unwrap_or_else(|panic| Err(Error::panicked(&*panic))))
            .collect();
        for outcome in started {
            interpreters.push(outcome?);
        }
    }
    Ok(interpreters.into())
}

/// A thread that starts interpreter `index`.
fn starting(index: usize, configuration: &Configuration) -> Result<Thread<Result<Interpreter>>> {
    let configuration = configuration.clone();
    Thread::start("start", move || start(index, &configuration))
        .map_err(|error| Error::no_thread(&format!("interpreter {index}"), &error))
}

thread_local! {
    /// Index of the interpreter that this thread leased last, in any pool.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl Interpreter {
    /// The pool that it belongs to, or a pool of this interpreter alone if that is gone.
    pub fn pool(&self) -> Pool {
        let interpreters = self.siblings().unwrap_or_else(|| Arc::new([self.clone()]));
        Pool { interpreters, python: self.python().clone() }
    }
}

impl Pool {
    /// Settings of a new pool.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The interpreters, in order.
    pub fn interpreters(&self) -> &[Interpreter] {
        &self.interpreters
    }

    /// The Python that they were made of.
    pub fn python(&self) -> &Installation {
        &self.python
    }

    /// Leases the least loaded interpreter. Never waits: if all interpreters are leased, the one with the
    /// fewest sessions gets another, and the calls of its sessions take turns by its GIL. An interpreter with a stuck call
    /// ([`Interpreter::is_stuck`]) comes last.
    ///
    /// # Errors
    ///
    /// None today; a pool that replaces interpreters will have some.
    pub fn acquire(&self) -> Result<Session> {
        self.lease(None)
    }

    /// As [`Pool::acquire`], with a preference between equally loaded interpreters: first one that
    /// `preferred` accepts (for example because it already holds a model), then the one that this thread
    /// had last.
    ///
    /// # Errors
    ///
    /// As [`Pool::acquire`].
    pub fn acquire_preferring(&self, preferred: impl Fn(&Interpreter) -> bool) -> Result<Session> {
        self.lease(Some(&preferred))
    }

    fn lease(&self, preferred: Option<&dyn Fn(&Interpreter) -> bool>) -> Result<Session> {
        let last = LAST.get();
        // However many interpreters there are: none is loaded less than one without a session, and
        // of those that one comes first which is preferred and was had last.
        if let Some(interpreter) = self.interpreters.get(last)
            && interpreter.leases() == 0
            && !interpreter.is_stuck()
            && preferred.is_none_or(|preferred| preferred(interpreter))
            && let Some(session) = interpreter.session_if(0)
        {
            return Ok(session);
        }
        loop {
            let load = |interpreter: &Interpreter| (interpreter.is_stuck(), interpreter.leases());
            let least = self.interpreters.iter().map(load).min();
            let least = least.expect("a pool has at least one interpreter");
            let chosen = self
                .interpreters
                .iter()
                .filter(|interpreter| load(interpreter) == least)
                .min_by_key(|interpreter| {
                    let unknown = preferred.is_some_and(|preferred| !preferred(interpreter));
                    (unknown, interpreter.index() != last)
                });
            // Another thread may have taken the same one meanwhile: look again.
            if let Some(interpreter) = chosen
                && let Some(session) = interpreter.session_if(least.1)
            {
                LAST.set(interpreter.index());
                return Ok(session);
            }
        }
    }

    /// Makes a module with this `source` importable as `name` in every interpreter, before anything on
    /// `sys.path`. A module that was imported under that name is forgotten.
    ///
    /// # Errors
    ///
    /// None in practice: the source is compiled when it is imported.
    pub fn register_module(&self, name: &str, source: &str) -> Result<()> {
        for interpreter in self.interpreters() {
            let session = interpreter.session();
            session.import("_hydrozoa.sources")?.call_method("register", (name, source))?;
        }
        Ok(())
    }

    /// Leases the interpreter at `index`, from 0.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchInterpreter`].
    pub fn acquire_on(&self, index: usize) -> Result<Session> {
        let interpreters = self.interpreters();
        let interpreter = interpreters
            .get(index)
            .ok_or(Error::NoSuchInterpreter { index, count: interpreters.len() })?;
        Ok(interpreter.session())
    }
}
