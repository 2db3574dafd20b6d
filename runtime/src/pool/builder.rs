//! The settings of a pool.

use super::{Pool, no_interpreters};
use crate::Result;
use crate::cold::Wish;
use crate::environment::{Environment, Variables};
use crate::imports::{ImportMode, Imports};
use crate::interpreter::{Configuration, Flags, Interpreter, Queue};
use crate::interrupt::{OnStuck, Stuck};
use crate::libraries::LibraryRules;
use crate::python::{self, Installation};
use crate::streams::Streams;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// Settings of a pool.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    interpreters: Option<usize>,
    max_sessions: Option<NonZeroUsize>,
    python: Option<PathBuf>,
    venv: Option<PathBuf>,
    libraries: LibraryRules,
    arguments: Vec<String>,
    paths: Vec<PathBuf>,
    environment: Option<Variables>,
    on_stuck: OnStuck,
    memory: Option<NonZeroUsize>,
    device_memory: Option<NonZeroUsize>,
    settling: Wish,
    imports: Imports,
    flags: Flags,
    streams: Streams,
}

impl Builder {
    /// The number of interpreters. The default is one for each processor that this process may use.
    pub fn interpreters(mut self, count: usize) -> Self {
        self.interpreters = Some(count);
        self
    }

    /// The most sessions that each interpreter has at a time. When all have as many, [`Pool::acquire`] and calls on a
    /// [`Movable`](crate::Movable) wait, [`Pool::acquire_timeout`] waits for its limit, and [`Pool::try_acquire`] returns
    /// [`Error::Busy`](crate::Error::Busy). Threads are served in the order in which they came. 0 is no limit, the default.
    ///
    /// With 1, a session is alone on its interpreter. A few more let one session's Python code run while another one's
    /// native code or input and output have released the GIL. The limit holds for each interpreter and not for the pool, so that
    /// it fits after [`Pool::resize`].
    ///
    /// A thread that has a session and waits for another one keeps the first meanwhile. If all sessions are had by such threads,
    /// they wait for ever: use one session for a piece of work, [`Movable::to_object`](crate::Movable::to_object) in it, and
    /// [`Pool::acquire_timeout`] where a second session is needed. Leases that name their interpreter
    /// ([`Pool::acquire_on`], [`Interpreter::session`]) and the sessions of host functions never wait, but count.
    pub fn max_sessions(mut self, count: usize) -> Self {
        self.max_sessions = NonZeroUsize::new(count);
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
    /// - The C library: the time zone (`TZ`, also after `time.tzset`), places of locales and translations (`LOCPATH`,
    ///   `LANGUAGE`), name resolution (`RES_OPTIONS`, `LOCALDOMAIN`), memory allocation (`GLIBC_TUNABLES`).
    /// - OpenMP and BLAS libraries, and CUDA's: `OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS`, `CUDA_VISIBLE_DEVICES`.
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

    /// The optimisation level, as `python -O` (1) and `-OO` (2): 1 leaves out `assert` statements and `if __debug__` blocks, 2
    /// also docstrings. The default is 0.
    pub fn optimize(mut self, level: u8) -> Self {
        self.flags.optimize = level;
        self
    }

    /// The seed of hashes of `str` and `bytes`, as `PYTHONHASHSEED`, so that sets have the same order in each run. By default
    /// each interpreter has a random one.
    pub fn hash_seed(mut self, seed: u32) -> Self {
        self.flags.hash_seed = Some(seed);
        self
    }

    /// Whether `sys.stdout` and `sys.stderr` write at once, as `python -u`. By default `sys.stdout` collects about 8 KiB
    /// unless it is a terminal, so lines come late in a pipe or a file. They are lost if the process ends without the end of
    /// the interpreter, as by [`std::process::exit`].
    pub fn unbuffered(mut self, unbuffered: bool) -> Self {
        self.flags.unbuffered = unbuffered;
        self
    }

    /// Whether imports write `.pyc` files, the default. `false` is `python -B`.
    pub fn write_bytecode(mut self, write: bool) -> Self {
        self.flags.no_bytecode = !write;
        self
    }

    /// Adds a filter of warnings, as `python -W`: `error`, `ignore::DeprecationWarning`. Later ones come first.
    pub fn warning(mut self, filter: impl Into<OsString>) -> Self {
        self.flags.warnings.push(filter.into());
        self
    }

    /// Adds an option of the implementation, as `python -X`: `dev`, `importtime`, `int_max_str_digits=0`, `tracemalloc=5`,
    /// `no_debug_ranges`, `pycache_prefix=DIR`. `utf8` has no effect, since text is UTF-8 always. `dev` takes
    /// [`Builder::memory_limit`] away. `faulthandler`, which `dev` does not include here, installs handlers of fatal signals.
    /// These are the process's: an application with handlers of its own loses them.
    pub fn x_option(mut self, option: impl Into<OsString>) -> Self {
        self.flags.x_options.push(option.into());
        self
    }

    /// The most memory, in bytes, that the Python code of each interpreter may take. An allocation beyond it raises
    /// `MemoryError`, and the interpreter goes on. 0 is no limit, the default. An interpreter that needs more to start is an
    /// [`Error::Start`](crate::Error::Start).
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

    /// The most memory, in bytes, that each interpreter's libraries may have on CUDA devices, all devices together. An allocation
    /// beyond it fails with `cudaErrorMemoryAllocation`, as on a full device: torch empties its cache, and then raises
    /// `torch.OutOfMemoryError`. The interpreter goes on. `torch.cuda.mem_get_info` answers within the limit. 0 is no limit, the
    /// default.
    ///
    /// Counted is what its libraries, torch among them, ask CUDA's runtime for (`cudaMalloc` and its kin, managed memory too), at
    /// the interpreter that asked. Not counted are contexts, device code, and what CUDA's own libraries take; arrays and textures;
    /// and what code asks the driver for: do not turn on `expandable_segments` in `PYTORCH_CUDA_ALLOC_CONF`. Nor is what a library
    /// asks of a runtime in itself (`libcudart_static.a`), as cupy's and numba's may.
    #[cfg(feature = "adapters")]
    pub fn device_memory_limit(mut self, bytes: usize) -> Self {
        self.device_memory = NonZeroUsize::new(bytes);
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

    /// Has each interpreter print to a writer of its own: `sys.stdout` writes to what `make` returns for the interpreter's
    /// position in the pool. A replaced interpreter gets another one.
    ///
    /// The text is UTF-8. It arrives line by line, or as it is printed with [`Builder::unbuffered`]; the rest arrives at the
    /// interpreter's end. The writer is used without the GIL, by one thread at a time. Its error is an `OSError` in Python, as is
    /// its panic and a `print` that the writer itself has caused. What native code writes to the process's descriptors does not
    /// come here. The default is the process's standard output.
    ///
    /// In a forked child, a writer that another thread was using at the fork is gone: writes to it are an `OSError`. A buffer of
    /// Python's that another thread was writing at the fork may keep the child waiting, as in plain Python.
    ///
    /// ```no_run
    /// # use std::fs::File;
    /// # fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let logs = |index| Box::new(File::create(format!("worker-{index}.log")).unwrap()) as _;
    /// let pool = hydrozoa::Pool::builder().interpreters(4).stdout(logs).build()?;
    /// # Ok(()) }
    /// ```
    pub fn stdout(
        mut self,
        make: impl Fn(usize) -> Box<dyn Write + Send> + Send + Sync + 'static,
    ) -> Self {
        self.streams.stdout = Some(Arc::new(make));
        self
    }

    /// The same for `sys.stderr`.
    pub fn stderr(
        mut self,
        make: impl Fn(usize) -> Box<dyn Write + Send> + Send + Sync + 'static,
    ) -> Self {
        self.streams.stderr = Some(Arc::new(make));
        self
    }

    /// Has each interpreter read `sys.stdin` from a reader of its own. The text is UTF-8, and the reader is used as the
    /// writers are.
    pub fn stdin(
        mut self,
        make: impl Fn(usize) -> Box<dyn Read + Send> + Send + Sync + 'static,
    ) -> Self {
        self.streams.stdin = Some(Arc::new(make));
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
    /// [`Error::PythonNotFound`](crate::Error::PythonNotFound), [`Error::Configuration`](crate::Error::Configuration) for
    /// settings that contradict each other, [`Error::Load`](crate::Error::Load), or [`Error::Start`](crate::Error::Start). Then no interpreter of the pool is left.
    pub fn build(self) -> Result<Pool> {
        self.build_with(None)
    }

    /// Starts interpreters that import modules in this mode, or as the settings say.
    pub(super) fn build_with(self, imports: Option<ImportMode>) -> Result<Pool> {
        let count = match self.interpreters {
            Some(0) => return Err(no_interpreters()),
            Some(count) => count,
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        self.settling.check()?;
        let python = self.installation()?;
        let imports = match imports {
            Some(mode) => Some(mode),
            None => ImportMode::of(&self.imports, python.minor())?,
        };
        let configuration = Configuration {
            imports,
            flags: self.flags,
            arguments: self.arguments.into_iter().map(Into::into).collect(),
            paths: self.paths,
            libraries: self.libraries,
            on_stuck: self.on_stuck,
            memory: self.memory,
            device_memory: self.device_memory,
            settling: self.settling,
            environment: self.environment.map(Environment::new).transpose()?,
            ..Configuration::new(python.clone())
        };
        Pool::start(python, configuration, count, Queue::new(self.max_sessions), self.streams)
    }

    /// The Python that the settings choose.
    pub(super) fn installation(&self) -> Result<Installation> {
        python::choose(self.python.as_deref(), self.venv.as_deref())
    }
}

/// Replaces an interpreter with a stuck call.
fn replace_stuck(interpreter: &Interpreter) {
    if let Err(error) = interpreter.pool().replace_this(interpreter) {
        let interpreter = interpreter.name();
        tracing::error!(interpreter, %error, "a stuck interpreter could not be replaced");
    }
}
