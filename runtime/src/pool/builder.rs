//! The settings of a pool.

use super::{Pool, no_interpreters};
use crate::Result;
use crate::environment::{Environment, Variables};
use crate::imports::{ImportMode, Imports};
use crate::interpreter::{Configuration, Flags, Interpreter, OnCrashed, Queue};
use crate::interrupt::{OnStuck, Stuck};
use crate::libraries::LibraryRules;
use crate::python::{self, Installation};
use crate::settled_pages::Wish;
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
    contains_crashes: bool,
    leaves_crashed: bool,
    on_crashed: OnCrashed,
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

    /// The most sessions that each interpreter serves at a time. When all interpreters are full, [`Pool::acquire`] and calls on a
    /// [`Movable`](crate::Movable) wait, [`Pool::acquire_timeout`] waits for its limit, and [`Pool::try_acquire`] returns
    /// [`Error::Busy`](crate::Error::Busy). Threads are served in order of arrival. 0, the default, sets no limit.
    ///
    /// With 1, a session is alone on its interpreter. A few more let one session's Python code run while another one's
    /// native code or I/O has released the GIL. The limit applies to each interpreter, not to the pool, so
    /// it still fits after [`Pool::resize`].
    ///
    /// A thread that waits for a second session keeps its first one meanwhile. If such threads hold all sessions,
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
    /// By default each interpreter gets its own replica of the libraries that it brings with it.
    pub fn share(mut self, pattern: impl Into<String>) -> Self {
        self.libraries = self.libraries.share(pattern);
        self
    }

    /// Each interpreter gets its own replica of native libraries whose path matches `pattern`
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

    /// Gives each interpreter an environment of its own, with only these variables. If a name occurs several times, the
    /// last one counts. `std::env::vars_os()` yields the process's current variables; chain more to it.
    ///
    /// Without it, interpreters share the environment of the process, as threads of plain python do: when one
    /// interpreter sets a variable in `os.environ`, the others and their children get it too.
    ///
    /// With it, an interpreter starts as a python process with this environment does. It reads `PYTHON*` variables from
    /// it; the pool's other settings take precedence. Changes that Python code and extension modules make stay in their
    /// interpreter: by `os.environ`, `os.putenv`, the C functions `setenv`, `putenv`, `unsetenv` and `clearenv`, or the
    /// C variable `environ`. `getenv` reads it, and children get it: by `subprocess`, `multiprocessing`, `os.fork`,
    /// `os.exec*`, `os.posix_spawn*`, `os.system` and the C functions of the same names.
    ///
    /// Libraries that interpreters share still read the environment of the process:
    ///
    /// - The C library: places of locales and translations (`LOCPATH`, `LANGUAGE`), name resolution (`RES_OPTIONS`,
    ///   `LOCALDOMAIN`), memory allocation (`GLIBC_TUNABLES`). The time zone (`TZ`) is an interpreter's own.
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
    /// unless it is a terminal, so lines come late in a pipe or a file. They are lost if the process ends before the
    /// interpreter does, as by [`std::process::exit`].
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
    /// `no_debug_ranges`, `pycache_prefix=DIR`. `utf8` does nothing, since text is always UTF-8. `dev` disables
    /// [`Builder::memory_limit`]. `faulthandler`, which `dev` does not include here, installs handlers of fatal signals
    /// for the whole process: they replace the application's own.
    pub fn x_option(mut self, option: impl Into<OsString>) -> Self {
        self.flags.x_options.push(option.into());
        self
    }

    /// The most memory, in bytes, that the code of each interpreter may take. An allocation beyond it raises
    /// `MemoryError`, or is null in native code, and the interpreter goes on. 0, the default, sets no limit. An interpreter that needs more to start
    /// fails with [`Error::Start`](crate::Error::Start).
    ///
    /// The limit counts all Python objects (text, bytes, lists, dicts, frames, modules), and what libraries take from malloc and
    /// by `operator new`, data of numpy's arrays included. A freshly started, bare interpreter takes 3 to 6 MB.
    /// Not counted are the data of torch's tensors on the CPU, memory of libraries that exist once for all interpreters (BLAS,
    /// CUDA's runtime), what the C library takes for itself, and mappings that libraries make themselves.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory = NonZeroUsize::new(bytes);
        self
    }

    /// The most memory, in bytes, that each interpreter's libraries may take on CUDA devices, all devices together. An allocation
    /// beyond it fails with `cudaErrorMemoryAllocation`, as on a full device: torch empties its cache, and then raises
    /// `torch.OutOfMemoryError`. The interpreter goes on. `torch.cuda.mem_get_info` answers within the limit. 0, the default,
    /// sets no limit.
    ///
    /// The limit counts memory that its libraries, torch among them, request from CUDA's runtime (`cudaMalloc` and its kin,
    /// managed memory too), for the interpreter that requested it. Not counted are contexts, device code, and memory of CUDA's
    /// own libraries; arrays and textures; and memory requested from the driver: do not turn on `expandable_segments` in
    /// `PYTORCH_CUDA_ALLOC_CONF`. Nor is memory from a runtime linked into a library (`libcudart_static.a`), as cupy's and
    /// numba's may be.
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

    /// Settles each interpreter by itself in a directory on a disk ([`Interpreter::settle`]) while nobody uses it, and again when
    /// at least an eighth of its memory has become anonymous since.
    ///
    /// An interpreter is settled when nobody has called it for a second. One that never rests so long is settled between two calls,
    /// after twenty seconds of waiting. Afterwards it is left alone for 5 seconds, then for 10, and so on, up to 320: so the bytes that are
    /// written are bounded. Calls that begin while it is settled wait, some tenths of a second for 200 MiB. One thread of the process
    /// does it. [`Interpreter::settlings`] counts, and says what prevented the last attempt. With [`Builder::imports`] and a profile
    /// an interpreter takes less memory still.
    ///
    /// Where no file can be made, or files are in memory (tmpfs), a warning of `tracing` says so once for each directory, and
    /// interpreters stay in memory.
    ///
    /// **The files hold copies of Python's memory, secrets included.** They have no names, and only this user could open them, but
    /// their blocks stay on the disk until others are written there.
    ///
    /// The drop of a pool does not wait for the end of an interpreter that is being settled at that moment; [`Pool::close`] does.
    pub fn dense(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settling = Wish { directory: Some(directory.into()), is_dense: true };
        self
    }

    /// Has each interpreter print to a writer of its own: `sys.stdout` writes to what `make` returns for the interpreter's
    /// position in the pool. A replaced interpreter gets another one.
    ///
    /// The text is UTF-8. It arrives line by line, or as it is printed with [`Builder::unbuffered`]; the rest arrives at the
    /// interpreter's end. The writer is used without the GIL, by one thread at a time. Its errors and panics raise `OSError` in
    /// Python, and so does a `print` that the writer itself has caused. Native code that writes to the process's descriptors
    /// bypasses the writer. The default is the process's standard output.
    ///
    /// In a forked child, a writer that another thread was using at the fork is gone: writes to it raise `OSError`. If another
    /// thread was writing a Python buffer at the fork, the child may wait for it, as in plain Python.
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
    /// function of [`Builder::on_stuck`], if the call is still running. The default is `false`. The old interpreter ends when
    /// its call does.
    pub fn replace_stuck(mut self, replace: bool) -> Self {
        self.on_stuck.replace = replace.then_some(replace_stuck as fn(&Interpreter));
        self
    }

    /// Whether a crash in an interpreter's code becomes an error of the calls into it
    /// ([`Error::Crashed`](crate::Error::Crashed)). The default is `false`: a crash ends the process.
    ///
    /// It is for defects, not for malice. A fault, `abort`, an exception that nobody catches, a stack overflow, and damage to the
    /// interpreter's own heap are contained if nothing but the interpreter's code is on the thread's stack, and functions of the C
    /// and C++ libraries that hold no lock. Else the process ends, with a report that says why. So it does for a crash in a stream's
    /// function, in malloc for a block that is not the interpreter's, in a host function, in libraries that all interpreters share
    /// (BLAS, OpenMP, CUDA), in a forked child, and after a signal that
    /// another process has sent. A stray write into memory of another interpreter or of the program cannot be recognised: it may
    /// crash that one later, or change its data.
    ///
    /// After a crash all calls into the interpreter fail. Threads that are inside leave it at their next moment without a lock of the
    /// process; calls of theirs fail too. The pool puts another interpreter in its place ([`Builder::replace_crashed`]). Once the
    /// sessions and handles of the crashed one are dropped, all is taken from it: memory, threads, files that its code has mapped,
    /// and values that the application had lent to it. Descriptors and temporary files that its code has opened stay.
    ///
    /// A call costs some nanoseconds more. One real-time signal of the process is used for threads that are to leave. A program's
    /// own handler of a fatal signal, and `faulthandler`, come first, and then nothing is contained. It needs x86-64.
    pub fn contain_crashes(mut self, contain: bool) -> Self {
        self.contains_crashes = contain;
        self
    }

    /// Calls `function` once for each interpreter that has crashed, if the crash was contained ([`Builder::contain_crashes`]), with
    /// the report. It runs on a thread of its own, as soon as the interpreter refuses calls and before the pool replaces it. Drop
    /// handles of the interpreter that the function has made.
    pub fn on_crashed(
        mut self,
        function: impl Fn(&Interpreter, &str) + Send + Sync + 'static,
    ) -> Self {
        self.on_crashed.listener = Some(Arc::new(function));
        self
    }

    /// Whether the pool replaces an interpreter that has crashed ([`Pool::replace`]). The default is `true`.
    pub fn replace_crashed(mut self, replace: bool) -> Self {
        self.leaves_crashed = !replace;
        self
    }

    /// Starts the interpreters.
    ///
    /// # Errors
    ///
    /// [`Error::PythonNotFound`](crate::Error::PythonNotFound), [`Error::Configuration`](crate::Error::Configuration) for
    /// settings that contradict each other, [`Error::Load`](crate::Error::Load), or [`Error::Start`](crate::Error::Start). Any
    /// interpreters already started have ended by then.
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
            contains_crashes: self.contains_crashes,
            on_crashed: OnCrashed {
                replace: (!self.leaves_crashed).then_some(replace_crashed as fn(&Interpreter)),
                ..self.on_crashed
            },
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

/// Replaces an interpreter that has crashed.
fn replace_crashed(interpreter: &Interpreter) {
    if let Err(error) = interpreter.pool().replace_this(interpreter) {
        let interpreter = interpreter.name();
        tracing::error!(interpreter, %error, "an interpreter that has crashed could not be replaced");
    }
}

/// Replaces an interpreter with a stuck call.
fn replace_stuck(interpreter: &Interpreter) {
    if let Err(error) = interpreter.pool().replace_this(interpreter) {
        let interpreter = interpreter.name();
        tracing::error!(interpreter, %error, "a stuck interpreter could not be replaced");
    }
}
