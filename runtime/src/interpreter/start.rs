//! The start of an interpreter: domain, libpython, payload, Python.

use super::attach::Outside;
use super::close::{End, Ending};
use super::leases::Leases;
use super::main_thread::MainThread;
use super::thread_end::Gate;
use super::visitors::Visitors;
use super::{Classes, Inner, Interpreter, ReferenceTable, live};
use crate::crash::contain::{self, Contained, Guarded};
use crate::crash::{self, Listed};
use crate::domain::InterpreterDomain;
use crate::embedded_payloads;
use crate::environment::Environment;
use crate::heap::Heap;
use crate::imports::ImportMode;
use crate::interrupt::{OnStuck, Sender, StuckVisits};
use crate::libraries::LibraryRules;
use crate::payload::{self, Sink, table};
use crate::python::Installation;
use crate::settled_pages::{Settling, Wish};
use crate::shared_signals::Signals;
use crate::thread::signals::{Mask, Trial};
use crate::thread::stack;
use crate::{Error, Result};
use hydrozoa_loader::{Interposition, Library, OpenFlags};
use std::ffi::{OsStr, OsString, c_int};
use std::fmt;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, OnceLock, Weak};

/// The application's function for contained crashes.
pub(crate) type CrashListener = Arc<dyn Fn(&Interpreter, &str) + Send + Sync>;

/// The reaction to a contained crash.
#[derive(Clone, Default)]
pub(crate) struct OnCrashed {
    pub(crate) listener: Option<CrashListener>,
    /// Puts another interpreter in the place of this one.
    pub(crate) replace: Option<fn(&Interpreter)>,
}

impl fmt::Debug for OnCrashed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("OnCrashed");
        described.field("replace", &self.replace.is_some()).finish_non_exhaustive()
    }
}

/// The settings with which interpreters start.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) python: Installation,
    pub(crate) libraries: LibraryRules,
    /// `sys.argv`, or the whole command line.
    pub(crate) arguments: Vec<OsString>,
    /// Put in front of `sys.path`.
    pub(crate) paths: Vec<PathBuf>,
    /// The interpreter's own environment, if it shall not use the process's.
    pub(crate) environment: Option<Environment>,
    /// For this interpreter's `os.environ` only.
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) command_line: bool,
    pub(crate) signal_handlers: bool,
    /// The functions that answer for the C library, by name, in a command that shares the process.
    pub(crate) answers: Vec<(&'static str, Interposition)>,
    /// Its signals, if it shares the process's with other commands.
    pub(crate) signals: Option<&'static Signals>,
    /// Bytes of memory that Python may take, if not as many as there are.
    pub(crate) memory: Option<NonZeroUsize>,
    /// Bytes of device memory that its code may have, if not as many as there are.
    pub(crate) device_memory: Option<NonZeroUsize>,
    /// The reaction to a stuck call.
    pub(crate) on_stuck: OnStuck,
    /// Whether a crash of its code is contained.
    pub(crate) contains_crashes: bool,
    /// The reaction to a contained crash.
    pub(crate) on_crashed: OnCrashed,
    /// When and where it is settled.
    pub(crate) settling: Wish,
    /// The treatment of imports, if not plain Python's.
    pub(crate) imports: Option<ImportMode>,
    /// The flags that a command line would set.
    pub(crate) flags: Flags,
    /// Whether a command runs what the application was sealed for.
    pub(crate) sealed_entry: bool,
}

/// The settings of python's flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// `-O`.
    pub(crate) optimize: u8,
    /// `PYTHONHASHSEED`.
    pub(crate) hash_seed: Option<u32>,
    /// `-u`.
    pub(crate) unbuffered: bool,
    /// `-B`.
    pub(crate) no_bytecode: bool,
    /// `-W`.
    pub(crate) warnings: Vec<OsString>,
    /// `-X`.
    pub(crate) x_options: Vec<OsString>,
}

impl Configuration {
    /// The isolated configuration.
    pub(crate) fn new(python: Installation) -> Self {
        Self {
            python,
            libraries: LibraryRules::new(),
            arguments: Vec::new(),
            paths: Vec::new(),
            environment: None,
            variables: Vec::new(),
            command_line: false,
            signal_handlers: false,
            answers: Vec::new(),
            signals: None,
            memory: None,
            device_memory: None,
            on_stuck: OnStuck::default(),
            contains_crashes: false,
            on_crashed: OnCrashed::default(),
            settling: Wish::default(),
            imports: None,
            flags: Flags::default(),
            sealed_entry: false,
        }
    }
}

/// Starts an interpreter for place `index` of a pool, at which there were so many before.
pub(crate) fn start(
    (index, generation): (usize, usize),
    name: &str,
    configuration: &Configuration,
) -> Result<Interpreter> {
    let (place, table) = prepare(name, configuration)?;
    let (table, guarded) = match guarded(&place, table, configuration) {
        Ok(both) => both,
        Err(error) => {
            // SAFETY: as in `prepare`.
            unsafe { place.close() };
            return Err(error);
        }
    };
    let (domain, heap, departures) = (place.domain.clone(), place.heap, place.departures);
    let (end, visitors) = (Arc::new(End::default()), Arc::new(Visitors::new()));
    let main = MainThread::start(
        index,
        name,
        place,
        (table, guarded.clone()),
        configuration,
        visitors.clone(),
        Ending::new(end.clone()),
    )?;
    let inner = Arc::new(Inner {
        index,
        generation,
        name: name.into(),
        python: configuration.python.clone(),
        table,
        leases: Leases::default(),
        gate: Gate::new(table),
        owner: OnceLock::new(),
        references: ReferenceTable::default(),
        classes: Classes::default(),
        #[cfg(feature = "async")]
        lazy_value: super::lazy_value::LazyValue::default(),
        domain,
        heap,
        sender: Sender::default(),
        stuck: StuckVisits::default(),
        on_stuck: configuration.on_stuck.clone(),
        end,
        visitors,
        settling: Arc::new(Settling::new(configuration.settling.clone())),
        guarded: guarded.clone(),
        main: Some(main),
    });
    live::add(&inner);
    let weak = Arc::downgrade(&inner);
    let contained = guarded.map(|guarded| guarded.contained().clone());
    if let Some(contained) = &contained {
        let (weak, on_crashed) = (weak.clone(), configuration.on_crashed.clone());
        let mask = Mask::current();
        contained.after_crash(move || {
            // The thread blocks all signals, those of faults included. The threads that it starts would, too: a crash in the next
            // interpreter would meet no handler.
            mask.set();
            after_crash(&weak, &on_crashed);
        });
    }
    inner.domain().leave_at_exit_if(move |domain| {
        contained.as_ref().is_some_and(|contained| contained.has_crashed())
            || weak.upgrade().is_some_and(|inner| inner.has_visitors())
            || departures.are_busy(domain)
    });
    Ok(Interpreter(inner))
}

/// The payload's functions for an interpreter, guarded if that contains its crashes.
fn guarded(
    place: &InterpreterDomain,
    table: table::PayloadTable,
    configuration: &Configuration,
) -> Result<(table::PayloadTable, Option<Arc<Guarded>>)> {
    if !configuration.contains_crashes {
        return Ok((table, None));
    }
    contain::prepare()?;
    let contained = Contained::new(place.domain.id());
    let guarded = payload::guarded(&table, &contained).inspect_err(|_| contained.forget())?;
    Ok((guarded.0, Some(Arc::new(guarded.1))))
}

/// After the first crash of an interpreter, on a thread of its own.
fn after_crash(interpreter: &Weak<Inner>, on_crashed: &OnCrashed) {
    let Some(inner) = interpreter.upgrade() else { return };
    inner.domain().silence();
    let interpreter = Interpreter(inner);
    #[cfg(feature = "async")]
    interpreter.0.lazy_value().crashed();
    tracing::error!(interpreter = interpreter.name(), "has crashed, which is contained");
    // Those who wait for it shall look for another one.
    interpreter.0.leases().wake();
    let contained = interpreter.0.guarded.as_ref().map(|guarded| guarded.contained());
    if let (Some(listener), Some(contained)) = (&on_crashed.listener, contained) {
        listener(&interpreter, &contained.report());
    }
    if let Some(replace) = on_crashed.replace {
        replace(&interpreter);
    }
}

/// Runs the command line of `configuration` on the calling thread, from start to finalization, and
/// returns its exit status.
pub(crate) fn run_command(configuration: &Configuration) -> Result<i32> {
    let name = "python command";
    crash::prepare_thread();
    if let Some(signals) = configuration.signals {
        signals.begin();
    }
    let (place, table) = prepare(name, configuration)?;
    if let Some(signals) = configuration.signals {
        signals.runs_in(place.domain.id());
    }
    let _listed = Listed::new(place.domain.id(), 0, name, table.stacks);
    let _outside = Outside::entering(place.domain.id());
    run(name, &table, configuration, place.heap)?;
    let mut status: c_int = 0;
    let mut sink = Sink::default();
    // SAFETY: the interpreter was started with `command_line`, on this thread, and nobody else
    // knows of it.
    let outcome = unsafe { (table.run_main)(&mut status, sink.pointer()) };
    sink.check(outcome).map(|()| status)
}

/// A domain with libpython and the payload in it.
fn prepare(
    name: &str,
    configuration: &Configuration,
) -> Result<(InterpreterDomain, table::PayloadTable)> {
    let python = &configuration.python;
    let place = InterpreterDomain::new(
        name,
        python,
        &configuration.libraries,
        &configuration.answers,
        configuration.environment.as_ref(),
        configuration.command_line.then_some(&configuration.arguments),
        configuration.device_memory,
    )?;
    crash::install();
    let found = load(&place, python).and_then(|payload| {
        let entry = payload.symbol(table::ENTRY)?;
        // SAFETY: the symbol is that of the payload just loaded, which is the one for this version.
        unsafe { payload::table_of(entry, python.minor()) }
    });
    match found {
        Ok(table) => Ok((place, table)),
        Err(error) => {
            // SAFETY: nobody has called a function of libpython's or the payload's, nor has the address of one. An interpreter
            // that has not started leaves nothing behind.
            unsafe { place.close() };
            Err(error)
        }
    }
}

/// Loads libpython and the payload, both global: extension modules name no library for the Python
/// symbols that they use.
fn load(place: &InterpreterDomain, python: &Installation) -> Result<Library> {
    let flags = OpenFlags::NOW | OpenFlags::GLOBAL;
    // SAFETY: an installation names a libpython, whose state is all in its own variables; it may be loaded
    // several times, and the domain interposes what it shares with the process.
    let libpython = unsafe { place.domain.open(python.library(), flags)? };
    place.runs(&libpython)?;
    if let Some(application) = python.application() {
        // SAFETY: the sealer has put the payload of its own version there.
        return Ok(unsafe { place.domain.open(&application.payload(), flags)? });
    }
    let image = embedded_payloads::get(python.minor())?;
    let name = format!("hydrozoa-payload-3.{}.so", python.minor());
    // SAFETY: the image is the payload that this crate was built with, for this version of Python.
    Ok(unsafe { place.domain.open_bytes(&name, image, flags)? })
}

/// Runs the payload's `start` on the calling thread, which is in the domain and becomes Python's main thread.
pub(super) fn run(
    name: &str,
    table: &table::PayloadTable,
    configuration: &Configuration,
    heap: Option<&'static Heap>,
) -> Result<()> {
    let python = &configuration.python;
    let executable = python.executable().map_or(OsStr::new(""), |path| path.as_os_str());
    let home = match executable.is_empty() {
        // Without an executable CPython has nothing to derive its prefix from.
        true => python.prefix().as_os_str(),
        false => OsStr::new(""),
    };
    let arguments: Vec<_> = configuration.arguments.iter().map(|word| text(word)).collect();
    let paths: Vec<_> = configuration.paths.iter().map(|path| text(path.as_os_str())).collect();
    let environment: Vec<_> =
        configuration.variables.iter().map(|(name, value)| [text(name), text(value)]).collect();
    let flags = &configuration.flags;
    let words = [&configuration.arguments, &flags.warnings, &flags.x_options].into_iter().flatten();
    for word in words.map(OsString::as_os_str).chain([executable, home]) {
        if word.as_bytes().contains(&0) {
            return Err(Error::Configuration(format!(
                "{word:?} contains a NUL byte, which no argument, flag or path of Python can: take it out"
            )));
        }
    }
    let [warnings, x_options] = [&flags.warnings, &flags.x_options]
        .map(|words| words.iter().map(|word| text(word)).collect::<Vec<_>>());
    let flags = table::Flags {
        optimize: c_int::from(flags.optimize),
        hash_seed: flags.hash_seed.map_or(-1, i64::from),
        unbuffered: c_int::from(flags.unbuffered),
        no_bytecode: c_int::from(flags.no_bytecode),
        dev: c_int::from(flags.x_options.iter().any(|option| option == "dev")),
        warnings: warnings.as_ptr(),
        warning_count: warnings.len(),
        x_options: x_options.as_ptr(),
        x_option_count: x_options.len(),
    };
    let imports = configuration.imports.as_ref();
    let mut start = table::Start {
        name: table::Text::new(name),
        executable: text(executable),
        home: text(home),
        arguments: arguments.as_ptr(),
        argument_count: arguments.len(),
        paths: paths.as_ptr(),
        path_count: paths.len(),
        environment: environment.as_ptr(),
        environment_count: environment.len(),
        command_line: c_int::from(configuration.command_line),
        own_environment: c_int::from(configuration.environment.is_some()),
        memory: configuration.memory.map_or(0, NonZeroUsize::get),
        limit: heap.map_or(ptr::null(), |heap| ptr::from_ref(heap.limit())),
        signal_handlers: c_int::from(configuration.signal_handlers),
        import_mode: table::Text::new(imports.map_or("", |mode| mode.name)),
        import_profile: table::Text::new(imports.map_or("", |mode| &mode.profile)),
        import_folder: imports.map_or(table::Text::new(""), |mode| text(mode.folder.as_os_str())),
        flags,
        sealed: ptr::null(),
    };
    let mut sink = Sink::default();
    let description = sink.pointer();
    // SAFETY: everything that `start` views outlives the call, the thread runs in the domain and
    // holds no other interpreter's GIL, and the interpreter has not been started before.
    let call = |start: &table::Start| unsafe { (table.start)(start, description) };
    let status = match python.application() {
        Some(application) => {
            payload::sealed::with_view(application, configuration.sealed_entry, |sealed| {
                start.sealed = sealed;
                call(&start)
            })
        }
        None => call(&start),
    };
    sink.check(status)?;
    // Python may not have started yet in a command: `python --help` does without.
    if !configuration.command_line {
        prepare_stacks(name, table);
    }
    Ok(())
}

/// Makes the interpreter's stacks readable for reports of crashes and of stuck calls.
fn prepare_stacks(name: &str, table: &table::PayloadTable) {
    // It has a handler installed, and takes it back at once.
    let _trial = Trial::begin();
    let mut sink = Sink::default();
    // SAFETY: the interpreter has just started on this thread, which is attached in between.
    let status = unsafe {
        let token = (table.enter)(stack::room());
        let status = (table.prepare_stacks)(sink.pointer());
        (table.leave)(token);
        status
    };
    if let Err(error) = sink.check(status) {
        tracing::warn!(interpreter = name, %error, "Python stacks cannot be read");
    }
}

fn text(word: &OsStr) -> table::Text {
    table::Text { data: word.as_bytes().as_ptr(), len: word.len() }
}
