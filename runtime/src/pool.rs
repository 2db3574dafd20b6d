//! A pool: several interpreters of one Python, and the choice between them.

mod acquire;
mod record;

use crate::cold::{Settled, Wish};
use crate::environment::{Environment, Variables};
use crate::imports::{ImportMode, Imports};
use crate::interpreter::{Configuration, Interpreter, Queue, close_all, start, without_gil};
use crate::interrupt::{OnStuck, Stuck};
use crate::libraries::LibraryRules;
use crate::python::{self, Installation, Search};
use crate::settle::settle;
use crate::thread::Thread;
use crate::torch::TorchPolicy;
use crate::torch_policy::Torch;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Several interpreters of one Python in this process.
///
/// A pool has no threads. Each thread of the application takes a [`Session`](crate::Session) and runs in it.
///
/// A handle: clones refer to the same pool. An interpreter is finalized after the last clone, the
/// pool's last package and movable, and the interpreter's last session are dropped. One that the pool has replaced
/// ([`Pool::replace`]) or given up ([`Pool::resize`]) needs only its own sessions and handles to be dropped.
#[derive(Clone)]
pub struct Pool(Arc<State>);

/// What the handles of a pool share.
struct State {
    interpreters: ArcSwap<Box<[Interpreter]>>,
    python: Installation,
    /// Those who wait for an interpreter without sessions.
    queue: Arc<Queue>,
    /// For those who change the pool, one at a time. Without it nobody can.
    changes: Option<Mutex<Changes>>,
}

/// What the pool's next interpreters are made of.
struct Changes {
    configuration: Configuration,
    /// How many interpreters each place has had.
    generations: Vec<usize>,
    /// Names and sources of [`Pool::register_module`].
    modules: Vec<(String, String)>,
}

/// The interpreters of a pool at one moment, in order.
#[derive(Clone)]
pub struct Interpreters(Arc<Box<[Interpreter]>>);

impl Deref for Interpreters {
    type Target = [Interpreter];

    fn deref(&self) -> &[Interpreter] {
        &self.0
    }
}

impl fmt::Debug for Interpreters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl IntoIterator for Interpreters {
    type Item = Interpreter;
    type IntoIter = std::vec::IntoIter<Interpreter>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(&**self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Interpreters {
    type Item = &'a Interpreter;
    type IntoIter = std::slice::Iter<'a, Interpreter>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("python", &self.python().library())
            .field("interpreters", &self.interpreters())
            .finish()
    }
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
    on_stuck: OnStuck,
    memory: Option<NonZeroUsize>,
    settling: Wish,
    imports: Imports,
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

    /// The most memory, in bytes, that the Python code of each interpreter may take. An allocation beyond it raises
    /// `MemoryError`, and the interpreter goes on. 0 is no limit, the default. An interpreter that needs more to start is an
    /// [`Error::Start`].
    ///
    /// Counted is what CPython's own allocators hand out: all objects of Python (text, bytes, lists, dicts, frames, modules),
    /// and what extension modules take by `PyMem_Malloc` and its kin. A bare interpreter has taken 3 to 6 MB when it
    /// has started. Not counted is what native code takes from malloc: data of numpy's arrays and torch's
    /// tensors, and what libraries keep for themselves. The environment variables `PYTHONMALLOC` and `PYTHONDEVMODE`
    /// take the limit away, where interpreters read them ([`Builder::environment`]).
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory = NonZeroUsize::new(bytes);
        self
    }

    /// The directory on a disk in which [`Pool::settle`] puts the memory of interpreters. See
    /// [`Interpreter::settle`].
    pub fn settle_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settling.directory = Some(directory.into());
        self
    }

    /// Settles each interpreter by itself, once: when at least so many sessions on it have ended and none is open, so when
    /// it has warmed up. A pool's own work takes sessions too, such as [`Pool::register_module`] and loads of packages. It
    /// happens on a thread of its own, and calls that begin meanwhile wait. 0 is never, the default. An interpreter that
    /// cannot be settled goes on; a warning of `tracing` says why. It needs [`Builder::settle_in`].
    pub fn settle_after(mut self, sessions: usize) -> Self {
        self.settling.after = sessions;
        self
    }

    /// When the interpreters import modules. The default is [`Imports::Eager`], as plain Python. With a profile
    /// ([`Builder::record_imports`]) an interpreter imports what its work needs and starts in a fraction of the time and memory.
    pub fn imports(mut self, imports: Imports) -> Self {
        self.imports = imports;
        self
    }

    /// Calls `function` once for each call that goes on although it was interrupted or its deadline has passed
    /// ([`Session::with_deadline`](crate::Session::with_deadline),
    /// [`Session::interrupt_handle`](crate::Session::interrupt_handle)). It runs on a thread of its own. Without it, such a
    /// call is only logged, as a warning of `tracing`.
    pub fn on_stuck(mut self, function: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.on_stuck.listener = Some(Arc::new(function));
        self
    }

    /// Whether the pool replaces an interpreter that has a stuck call ([`Pool::replace`]): 150 ms after it has called the
    /// function of [`Builder::on_stuck`], if the call goes on still. The default is no. The old interpreter ends when its
    /// call does.
    pub fn replace_stuck(mut self, replace: bool) -> Self {
        self.on_stuck.replace = replace.then_some(replace_stuck as fn(&Interpreter));
        self
    }

    /// Starts the interpreters.
    ///
    /// # Errors
    ///
    /// [`Error::PythonNotFound`], [`Error::Configuration`] for settings that contradict each other,
    /// [`Error::Load`], or [`Error::Start`]. Then no interpreter of the pool is left.
    pub fn build(self) -> Result<Pool> {
        self.build_with(None)
    }

    /// Starts interpreters that import modules in this mode, or as the settings say.
    fn build_with(self, imports: Option<ImportMode>) -> Result<Pool> {
        let count = match self.interpreters {
            Some(0) => return Err(no_interpreters()),
            Some(count) => count,
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        self.settling.check()?;
        let python = python::choose(self.python.as_deref(), self.venv.as_deref())?;
        let torch = Torch::settle(self.torch, &python, Search::Pool(&self.paths), true)?
            .strictly(self.strict);
        let imports = match imports {
            Some(mode) => Some(mode),
            None => ImportMode::of(&self.imports, python.minor())?,
        };
        let configuration = Configuration {
            imports,
            arguments: self.arguments.into_iter().map(Into::into).collect(),
            paths: self.paths,
            libraries: self.libraries,
            on_stuck: self.on_stuck,
            memory: self.memory,
            settling: self.settling,
            environment: self.environment.map(Environment::new).transpose()?,
            ..Configuration::new(python.clone(), torch)
        };
        Pool::start(python, configuration, count)
    }
}

/// Replaces an interpreter with a stuck call.
fn replace_stuck(interpreter: &Interpreter) {
    if let Err(error) = interpreter.pool().replace_this(interpreter) {
        let interpreter = interpreter.name();
        tracing::error!(interpreter, %error, "a stuck interpreter could not be replaced");
    }
}

impl Changes {
    /// Interpreters for the places from `begin` to before `end`. The first of a pool is started alone, since it has the
    /// files read and the plans made that all share; the others are started beside each other.
    fn grow(&mut self, begin: usize, end: usize) -> Result<Vec<Interpreter>> {
        let mut interpreters = Vec::new();
        if begin == 0 {
            interpreters.push(self.start(0)?);
        }
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        while begin + interpreters.len() < end {
            let first = begin + interpreters.len();
            let last = end.min(first + threads);
            let starting: Vec<_> = (first..last).map(|index| self.starting(index)).collect();
            // All of them have ended before the first error is returned.
            let started: Vec<_> = starting
                .into_iter()
                .map(|thread| thread?.join().unwrap_or_else(|panic| Err(Error::panicked(&*panic))))
                .collect();
            for outcome in started {
                interpreters.push(outcome?);
            }
        }
        for interpreter in &interpreters {
            self.prepare(interpreter)?;
        }
        Ok(interpreters)
    }

    /// The next interpreter at `index`.
    fn start(&mut self, index: usize) -> Result<Interpreter> {
        let name = self.name(index);
        start(index, &name, &self.configuration)
    }

    /// A thread that starts it.
    fn starting(&mut self, index: usize) -> Result<Thread<Result<Interpreter>>> {
        let (name, configuration) = (self.name(index), self.configuration.clone());
        let text = name.clone();
        Thread::start("start", move || start(index, &name, &configuration))
            .map_err(|error| Error::no_thread(&text, &error))
    }

    fn name(&mut self, index: usize) -> String {
        if self.generations.len() <= index {
            self.generations.resize(index + 1, 0);
        }
        let generation = self.generations[index];
        self.generations[index] += 1;
        match generation {
            0 => format!("interpreter {index}"),
            number => format!("interpreter {index} (replacement {number})"),
        }
    }

    /// Gives an interpreter what the pool's others have.
    fn prepare(&self, interpreter: &Interpreter) -> Result<()> {
        if self.configuration.imports.is_some() {
            report_warnings(interpreter)?;
        }
        self.modules.iter().try_for_each(|(name, source)| register(interpreter, name, source))
    }
}

/// The refusal of a pool without interpreters.
fn no_interpreters() -> Error {
    Error::Configuration("a pool needs at least one interpreter: ask for 1 or more".to_owned())
}

/// Logs what an interpreter finds wrong with its profile of imports.
fn report_warnings(interpreter: &Interpreter) -> Result<()> {
    let name = interpreter.name().to_owned();
    let session = interpreter.session();
    let warn = session.function("warn", move |session, arguments| {
        let text: String = arguments.extract(0)?;
        tracing::warn!(interpreter = %name, "{text}");
        session.none()
    })?;
    session.import("_hydrozoa.imports")?.getattr("state")?.setattr("warn", warn)
}

/// Makes a module importable in one interpreter.
fn register(interpreter: &Interpreter, name: &str, source: &str) -> Result<()> {
    let session = interpreter.session();
    session.import("_hydrozoa.sources")?.call_method("register", (name, source)).map(drop)
}

impl Interpreter {
    /// The pool that it belongs to, or a pool of this interpreter alone if that is gone.
    pub fn pool(&self) -> Pool {
        if let Some(state) = self.owner().and_then(|owner| owner.downcast::<State>().ok()) {
            return Pool(state);
        }
        Pool(Arc::new(State {
            interpreters: ArcSwap::from_pointee([self.clone()].into()),
            python: self.python().clone(),
            queue: self.0.leases().queue().clone(),
            changes: None,
        }))
    }
}

impl Pool {
    /// Settings of a new pool.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The interpreters that it has now, in order.
    pub fn interpreters(&self) -> Interpreters {
        Interpreters(self.0.interpreters.load_full())
    }

    /// The Python that they were made of.
    pub fn python(&self) -> &Installation {
        &self.0.python
    }

    /// Starts an interpreter in the place of that at `index`, while the others run, and returns the one that was there.
    ///
    /// New sessions get the new one. Sessions on the old one go on, and movables keep no copy in it alive. It ends when its
    /// last session, its last handle, and the last [`Tensor`](crate::Tensor) or [`Buffer`](crate::Buffer) taken from it are dropped,
    /// so drop the handle that this returns. That waits for the end unless somebody else has a session on it, as
    /// one whose call is stuck has.
    ///
    /// Modules of [`Pool::register_module`] are registered in the new interpreter. Packages and movables load their
    /// objects there when they are used.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`], and [`Error::NoSuchInterpreter`]. Then nothing has changed.
    pub fn replace(&self, index: usize) -> Result<Interpreter> {
        let mut changes = self.changes()?;
        let mut members = self.interpreters().to_vec();
        let count = members.len();
        let place = members.get_mut(index).ok_or(Error::NoSuchInterpreter { index, count })?;
        let new = changes.start(index)?;
        changes.prepare(&new)?;
        self.adopt(&new);
        let old = std::mem::replace(place, new);
        self.publish(members);
        Ok(old)
    }

    /// Replaces this interpreter ([`Pool::replace`]), unless the pool has replaced it already.
    fn replace_this(&self, interpreter: &Interpreter) -> Result<Option<Interpreter>> {
        let members = self.interpreters();
        let index = members.iter().position(|member| Arc::ptr_eq(&member.0, &interpreter.0));
        drop(members);
        index.map(|index| self.replace(index)).transpose()
    }

    /// Starts interpreters or gives some up, until there are `count`, while the others run. Those with the highest indices
    /// are given up. They end as one that was replaced does ([`Pool::replace`]); this waits for the end of those that
    /// nobody uses.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`]. Then nothing has changed.
    pub fn resize(&self, count: usize) -> Result<()> {
        if count == 0 {
            return Err(no_interpreters());
        }
        let mut changes = self.changes()?;
        let mut members = self.interpreters().to_vec();
        let given_up = members.split_off(count.min(members.len()));
        let new = changes.grow(members.len(), count)?;
        for interpreter in &new {
            self.adopt(interpreter);
        }
        members.extend(new);
        self.publish(members);
        drop(changes);
        drop(given_up);
        Ok(())
    }

    /// Ends the pool's interpreters, one beside the other: gives this handle of the pool up, and waits until they are
    /// finalized and have given back what they had, at most for `within`. A drop of the last handle does the same one
    /// after the other, without a limit.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::close`], for the first interpreter that has not ended in time. Other handles of the pool count as
    /// uses of its interpreters.
    pub fn close(self, within: Duration) -> Result<()> {
        let members = self.interpreters().to_vec();
        drop(self);
        close_all(members, within)
    }

    /// Settles the pool's interpreters, one after the other, in the directory of
    /// [`Builder::settle_in`](crate::Builder::settle_in): [`Interpreter::settle`].
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] if the builder names no directory. Else the first error of an interpreter; the others have been
    /// settled.
    pub fn settle(&self) -> Result<Vec<Settled>> {
        let interpreters = self.interpreters();
        let all: Vec<_> =
            interpreters.iter().map(|one| settle(&one.0, one.0.settling().directory()?)).collect();
        all.into_iter().collect()
    }

    /// A pool of new interpreters.
    fn start(python: Installation, configuration: Configuration, count: usize) -> Result<Self> {
        let mut changes = Changes { configuration, generations: Vec::new(), modules: Vec::new() };
        let interpreters = changes.grow(0, count)?.into_boxed_slice();
        let pool = Self(Arc::new(State {
            interpreters: ArcSwap::from_pointee(interpreters),
            python,
            queue: Arc::default(),
            changes: Some(Mutex::new(changes)),
        }));
        for interpreter in &pool.interpreters() {
            pool.adopt(interpreter);
        }
        Ok(pool)
    }

    /// Whether the interpreter was started for this pool.
    pub(crate) fn has(&self, interpreter: &Interpreter) -> bool {
        interpreter.is_owned_by(Arc::as_ptr(&self.0))
    }

    /// The right to change the pool.
    fn changes(&self) -> Result<MutexGuard<'_, Changes>> {
        let changes = self.0.changes.as_ref().ok_or_else(|| {
            Error::Configuration(
                "the pool of this interpreter is gone, so nothing can be changed in it; keep a handle of the pool"
                    .to_owned(),
            )
        })?;
        // Whoever has the right may wait for this thread's GIL. A panic leaves numbers behind that are too high, and
        // nothing else.
        Ok(without_gil(|| changes.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Notes whose the interpreter is.
    fn adopt(&self, interpreter: &Interpreter) {
        let owner: Weak<State> = Arc::downgrade(&self.0);
        interpreter.set_owner(owner);
        interpreter.0.leases().serve(&self.0.queue);
    }

    /// Makes these its interpreters.
    fn publish(&self, members: Vec<Interpreter>) {
        self.0.interpreters.store(Arc::new(members.into()));
        self.0.queue.wake();
    }

    /// Makes a module with this `source` importable as `name` in every interpreter, before anything on
    /// `sys.path`. A module that was imported under that name is forgotten.
    ///
    /// # Errors
    ///
    /// None in practice: the source is compiled when it is imported.
    pub fn register_module(&self, name: &str, source: &str) -> Result<()> {
        let mut changes = self.0.changes.as_ref().map(|_| self.changes()).transpose()?;
        for interpreter in &self.interpreters() {
            register(interpreter, name, source)?;
        }
        if let Some(changes) = &mut changes {
            changes.modules.retain(|(known, _)| known != name);
            changes.modules.push((name.to_owned(), source.to_owned()));
        }
        Ok(())
    }
}
