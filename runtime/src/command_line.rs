//! `python ARGUMENTS…`, inside an interpreter of this process.

use crate::environment::{Environment, Variables};
use crate::exit::Exit;
use crate::imports::{ImportMode, Imports};
use crate::interpreter::{Configuration, run_command};
use crate::libraries::LibraryRules;
use crate::python::{self, Installation};
use crate::sealed;
use crate::shared_signals::Signals;
use crate::thread::Thread;
use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A python command that runs in an interpreter of its own in this process. Arguments, environment
/// variables, standard streams and exit status are those of the python executable.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until `run`"]
pub struct CommandLine {
    python: Installation,
    libraries: LibraryRules,
    imports: Imports,
    /// `argv[0]`, if it is not the python's path.
    program: Option<OsString>,
    arguments: Vec<OsString>,
    environment: Option<Variables>,
    variables: Vec<(OsString, OsString)>,
    signal_handlers: bool,
    shared_signals: bool,
    entry: bool,
}

impl CommandLine {
    /// `python arguments…`. `python` and `venv` choose the Python as [`Builder::python`](crate::Builder::python) and
    /// [`Builder::venv`](crate::Builder::venv) do.
    ///
    /// # Errors
    ///
    /// [`Error::PythonNotFound`](crate::Error::PythonNotFound) and
    /// [`Error::Configuration`](crate::Error::Configuration).
    pub fn new<S: Into<OsString>>(
        python: Option<PathBuf>,
        venv: Option<&Path>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        Ok(Self {
            python: python::choose(python.as_deref(), venv)?,
            libraries: LibraryRules::new(),
            imports: Imports::default(),
            program: None,
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: None,
            variables: Vec::new(),
            signal_handlers: false,
            shared_signals: false,
            entry: false,
        })
    }

    /// The command that runs the [entry](sealed::EntryPoint) of the application that this program was sealed as, with these
    /// arguments in `sys.argv` behind the program's name.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`](crate::Error::Configuration) if the program was not sealed, and
    /// [`Error::Sealed`](crate::Error::Sealed).
    pub fn sealed<S: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        if sealed::application()?.is_none() {
            return Err(Error::Configuration(
                "this program was not sealed: seal it with `hydrozoa seal`".to_owned(),
            ));
        }
        let command = Self::new(None, None, arguments)?;
        Ok(Self { program: Some(program.into()), entry: true, ..command })
    }

    /// Overrides the default for native libraries: which are shared, and which the interpreter replicates.
    pub fn libraries(mut self, rules: &LibraryRules) -> Self {
        self.libraries.extend(rules);
        self
    }

    /// When the interpreter imports modules, as [`Builder::imports`](crate::Builder::imports).
    pub fn imports(mut self, imports: Imports) -> Self {
        self.imports = imports;
        self
    }

    /// Gives the interpreter an environment of its own, as [`Builder::environment`](crate::Builder::environment) does.
    pub fn environment<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let pairs = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Some(pairs.collect());
        self
    }

    /// Sets a variable in this interpreter's `os.environ`, and not in the process's environment. Its children get it
    /// if the interpreter has an [environment](CommandLine::environment) of its own.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Installs Python's signal handlers, so that Ctrl-C raises `KeyboardInterrupt`. For one interpreter
    /// of a process, run on its main thread. `sys.exit` then ends the process, as in plain python.
    pub fn signal_handlers(mut self, install: bool) -> Self {
        self.signal_handlers = install;
        self
    }

    /// Gives the command signal handlers of its own, beside those of other commands that run at the same time. A signal for
    /// the process reaches each command that handles it: Ctrl-C raises `KeyboardInterrupt` in all. A signal that one
    /// ignores and none handles is ignored. While commands handle a signal, a handler of the application does not see it.
    ///
    /// A command that `KeyboardInterrupt` ends has the status 130. A program of [`c_main!`](crate::c_main) that returns
    /// this status ends by SIGINT then, as python does. For commands without [`CommandLine::signal_handlers`].
    pub fn shared_signals(mut self, share: bool) -> Self {
        self.shared_signals = share;
        self
    }

    /// Runs commands at once, each on a thread of its own with [`CommandLine::shared_signals`], and returns their exit statuses in
    /// order.
    ///
    /// # Errors
    ///
    /// The first that [`CommandLine::run`] returns, once all have ended.
    pub fn run_at_once(commands: impl IntoIterator<Item = Self>) -> Result<Vec<i32>> {
        let threads = commands.into_iter().zip(1..).map(|(command, number): (Self, usize)| {
            let name = format!("copy {number}");
            let run = move || command.shared_signals(true).run();
            let started = std::thread::Builder::new().name(name.clone()).spawn(run);
            started.map_err(|error| Error::no_thread(&name, &error))
        });
        let threads = threads.collect::<Result<Vec<_>>>()?;
        let join = |thread: std::thread::JoinHandle<Result<i32>>| match thread.join() {
            Ok(status) => status,
            Err(_) => Err(Error::Panic("the thread of a command panicked".to_owned())),
        };
        let outcomes: Vec<_> = threads.into_iter().map(join).collect();
        outcomes.into_iter().collect()
    }

    /// Runs the command to its end, and returns its exit status.
    ///
    /// Without [`CommandLine::signal_handlers`] it runs on a thread of its own, with its own current folder and umask and a stack of 8
    /// MiB, so that `sys.exit` ends only the command. That thread then stays until the process
    /// ends. `os._exit` and a crash end the process in any case.
    ///
    /// # Errors
    ///
    /// [`Error::Load`](crate::Error::Load), [`Error::Start`](crate::Error::Start), or
    /// [`Error::Configuration`](crate::Error::Configuration) for a variable that an environment cannot hold. The
    /// command reports its own failures by its exit status and on its standard error.
    pub fn run(self) -> Result<i32> {
        let executable = self.python.executable();
        let executable = || executable.map(|path| path.as_os_str().to_owned());
        let program = self.program.or_else(executable);
        let program = program.unwrap_or_else(|| OsString::from("python3"));
        // Variables for this interpreter belong to its environment, if it has one.
        let (environment, variables) = match self.environment {
            Some(environment) => (Some([environment, self.variables].concat()), Vec::new()),
            None => (None, self.variables),
        };
        let mut configuration = Configuration {
            arguments: [program].into_iter().chain(self.arguments).collect(),
            environment: environment.map(Environment::new).transpose()?,
            variables,
            libraries: self.libraries,
            imports: ImportMode::of(&self.imports, self.python.minor())?,
            command_line: true,
            signal_handlers: self.signal_handlers,
            sealed_entry: self.entry,
            ..Configuration::new(self.python)
        };
        if self.signal_handlers {
            return run_command(&configuration);
        }
        let signals = self.shared_signals.then(Signals::new);
        let exit = Exit::new(signals);
        configuration.answers = exit.interpositions();
        configuration.signal_handlers = self.shared_signals;
        configuration.signals = signals;
        let run = move || {
            separate_folder();
            exit.run(|| run_command(&configuration))
        };
        Thread::start("python", run)
            .map_err(|error| Error::no_thread("python command", &error))?
            .detach();
        exit.wait()
    }
}

/// Gives the calling thread its own current folder, root and umask, which begin as those of the process. The kernel keeps them by
/// thread: threads that this one starts share them (clone(2), CLONE_FS), and its children begin with them. Where the
/// kernel refuses, as some containers have it do, they stay the process's.
fn separate_folder() {
    // SAFETY: concerns the calling thread alone, which is new.
    unsafe { libc::unshare(libc::CLONE_FS) };
}
