//! State that the C library keeps for a program in its own variables, kept here for each domain.
//!
//! Many functions of the C library keep something between calls: a position, a seed, a buffer that holds the last answer. A
//! program has them for itself, and so does a domain. Each file here holds one kind: the state, and the functions that
//! replace the C library's. They use glibc's re-entrant forms where these exist. A function gets its state from its
//! thunk, as the last argument.
//!
//! A program whose threads call such a function at once breaks glibc's rules (its manual says "race"), and does so here. No
//! thread of another domain ever uses the state.

mod characters;
mod clock;
mod databases;
mod last_results;
mod listings;
mod locked;
mod log;
mod logins;
mod lookups;
mod messages;
mod network_groups;
mod options;
mod random_numbers;
mod records;
mod search_tables;
mod times;
mod zone;

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use super::answering::Function;
use super::environ::ZoneVariable;

/// The state of one domain. Thunks hold addresses in it: it does not move, and lives as long as code of the domain can run.
#[derive(Debug)]
pub(crate) struct CLibrary {
    characters: characters::Characters,
    databases: databases::Databases,
    log: log::Log,
    logins: logins::Logins,
    lookups: lookups::Lookups,
    messages: messages::Messages,
    numbers: random_numbers::Numbers,
    options: options::Options,
    results: last_results::Results,
    tables: search_tables::Tables,
    times: times::Times,
}

/// A replacement for a function or variable of the C library.
#[derive(Debug)]
pub(crate) struct Answer {
    pub name: &'static str,
    pub target: *const c_void,
    pub context: Context,
}

/// How the function gets its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Context {
    /// A variable, or a function without a state.
    None,
    /// As the argument behind so many others.
    Behind(usize, usize),
    /// In a place without an argument: [`crate::arch::gathering`] or [`crate::arch::variadic`] makes the function.
    Hidden(usize),
}

impl CLibrary {
    pub(crate) fn new(zone: ZoneVariable) -> Box<CLibrary> {
        let library = Box::new(CLibrary {
            characters: Default::default(),
            databases: databases::Databases::new(),
            log: log::Log::new(),
            logins: logins::Logins::new(),
            lookups: Default::default(),
            messages: messages::Messages::new(),
            numbers: random_numbers::Numbers::new(),
            options: options::Options::new(),
            results: Default::default(),
            tables: Default::default(),
            times: times::Times::new(zone),
        });
        library.numbers.seed();
        library
    }

    /// Releases its process resources. Threads of an ended domain may still call its functions.
    pub(crate) fn end(&self) {
        self.log.end();
    }

    /// The replacements for the C library's names, sorted by name.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        let mut all = Vec::new();
        self.characters.answers(&mut all);
        self.databases.answers(&mut all);
        self.log.answers(&mut all);
        self.logins.answers(&mut all);
        self.lookups.answers(&mut all);
        self.messages.answers(&mut all);
        self.numbers.answers(&mut all);
        self.options.answers(&mut all);
        self.results.answers(&mut all);
        self.tables.answers(&mut all);
        self.times.answers(&mut all);
        locked::answers(&mut all);
        all.sort_by_key(|answer| answer.name);
        all
    }
}

impl Answer {
    /// A variable.
    fn variable<T>(name: &'static str, variable: &Own<T>) -> Answer {
        Answer::place(name, variable.place().cast())
    }

    /// A variable at an address.
    fn place(name: &'static str, target: *const c_void) -> Answer {
        Answer { name, target, context: Context::None }
    }

    /// Functions that take `state` behind their arguments.
    fn functions<T>(functions: Vec<Function>, state: *const T) -> impl Iterator<Item = Answer> {
        functions.into_iter().map(move |Function { name, target, arguments }| {
            Answer::behind(name, target, arguments, state)
        })
    }

    /// A function that takes `state` behind so many arguments.
    fn behind<T>(
        name: &'static str,
        target: *const c_void,
        arguments: usize,
        state: *const T,
    ) -> Answer {
        let context = Context::Behind(arguments, state.expose_provenance());
        Answer { name, target, context }
    }

    /// A function of [`crate::arch::gathering`] or [`crate::arch::variadic`].
    fn hidden<T>(name: &'static str, target: *const c_void, state: *const T) -> Answer {
        Answer { name, target, context: Context::Hidden(state.expose_provenance()) }
    }
}

/// A variable of one domain, which its code, the functions here and the C library's use by its address.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Own<T>(UnsafeCell<T>);

// SAFETY: as a variable of the C library in a program: functions whose manual says "race" use it, or code of the program.
unsafe impl<T> Sync for Own<T> {}
// SAFETY: as above; pointers in it are the program's, or lead into it.
unsafe impl<T> Send for Own<T> {}

impl<T> Own<T> {
    const fn new(value: T) -> Own<T> {
        Own(UnsafeCell::new(value))
    }

    fn place(&self) -> *mut T {
        self.0.get()
    }
}

/// Sets `errno` and returns null.
fn failed<T>(code: i32) -> *mut T {
    super::errno::set_errno(code);
    ptr::null_mut()
}
