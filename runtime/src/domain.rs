//! Where an interpreter lives: its domain, and what answers in it for functions of the process.

use crate::Result;
use crate::adapters::{Adapters, Interpreter};
use crate::environment::Environment;
use crate::heap::{self, Heap};
use crate::libraries::{self, LibraryRules};
use crate::python::Installation;
use crate::thread::departure::Departures;
use crate::thread::settings;
use crate::thread::signals::Guard;
use hydrozoa_loader::{Domain, Interposition, Library};
use std::ffi::OsString;
use std::num::NonZeroUsize;

/// Where an interpreter lives: its domain, what guards the application's signals, and how its threads leave it.
#[derive(Debug)]
pub(crate) struct InterpreterDomain {
    pub(crate) domain: Domain,
    pub(crate) signals: &'static Guard,
    pub(crate) departures: &'static Departures,
    /// Its code's memory from malloc.
    pub(crate) heap: Option<&'static Heap>,
    adapters: Adapters,
}

impl InterpreterDomain {
    /// A new domain for an interpreter of `python` with these rules for libraries; `answers` are functions of the C
    /// library that are answered for it, and `environment` is its own, if it shall not use the process's. A `command` has these
    /// words. `device_memory` is the most that it may have on devices, in bytes.
    pub(crate) fn new(
        name: &str,
        python: &Installation,
        rules: &LibraryRules,
        answers: &[(&str, Interposition)],
        environment: Option<&Environment>,
        command: Option<&[OsString]>,
        device_memory: Option<NonZeroUsize>,
    ) -> Result<Self> {
        let loader = libraries::loader(rules)?;
        let mut builder = loader.domain(name);
        let (minor, prctl) = (python.minor(), settings::prctl as _);
        let (adapters, for_libraries) =
            Adapters::new(&Interpreter { loader: &loader, minor, command, prctl, device_memory });
        let libpython = python.library_name();
        if let Some(libpython) = &libpython {
            // `os.posix_spawn` without variables frees the array if `environ` moves meanwhile (CPython, posixmodule.c,
            // py_posix_spawn), and other interpreters move it.
            builder = builder.steady_environ(libpython);
        }
        let departures = Departures::new();
        let (of_the_c_library, of_libpython) = departures.interpositions();
        if let Some(libpython) = &libpython {
            for (symbol, interposition) in of_the_c_library {
                builder = builder.interpose_in(libpython, symbol, interposition);
            }
        }
        for (symbol, interposition) in of_libpython {
            builder = builder.interpose(symbol, interposition);
        }
        if let Some(environment) = environment {
            builder = builder.environment(environment.entries());
        }
        let signals = Guard::new();
        let answers_of_threads =
            signals.interpositions().into_iter().chain(settings::interpositions());
        #[cfg(feature = "async")]
        let answers_of_threads = answers_of_threads.chain(crate::thread::waits::interpositions());
        for (symbol, interposition) in answers_of_threads {
            builder = builder.interpose(symbol, interposition);
        }
        let heap = Heap::of_an_interpreter();
        let (of_all, of_python) = heap.map(heap::interpositions).unwrap_or_default();
        for (symbol, interposition) in of_all {
            builder = builder.interpose(symbol, interposition);
        }
        if let Some(libpython) = &libpython {
            for (symbol, interposition) in of_python {
                builder = builder.interpose_in(libpython, symbol, interposition);
            }
        }
        for answer in for_libraries {
            builder = match &answer.library {
                Some(library) => builder.interpose_in(library, answer.symbol, answer.interposition),
                None => builder.interpose(answer.symbol, answer.interposition),
            };
        }
        for (name, answer) in answers {
            builder = builder.interpose(name, *answer);
        }
        let domain = builder.build().inspect_err(|_| {
            // SAFETY: nothing was loaded.
            unsafe { adapters.give_back() };
            if let Some(heap) = heap {
                // SAFETY: nothing was loaded that could have a block of it.
                unsafe { heap.give_back() };
            }
        })?;
        adapters.attach(&domain);
        if let Some(heap) = heap {
            heap.belongs_to(domain.id());
        }
        Ok(Self { domain, signals, departures, heap, adapters })
    }

    /// Notes the interpreter's libpython, before anything that calls it is opened in the domain.
    pub(crate) fn runs(&self, libpython: &Library) -> Result<()> {
        self.signals.runs(&self.domain, libpython);
        self.departures.runs(&self.domain, libpython)
    }

    /// Ends the domain, whose interpreter has been finalized.
    ///
    /// # Safety
    /// No code of the domain runs, except in threads that it has created itself. Nobody uses its resources from now on.
    pub(crate) unsafe fn end(self) {
        let domain = self.domain.clone();
        let give_back = self.leave();
        // SAFETY: the caller's promise.
        unsafe { domain.retire(give_back) };
    }

    /// Ends the domain, whose code has crashed. None of it runs any more.
    ///
    /// # Safety
    /// As for [`InterpreterDomain::end`], and it has no threads.
    pub(crate) unsafe fn abandon(self) {
        let domain = self.domain.clone();
        let give_back = self.leave();
        // SAFETY: the caller's promise.
        unsafe { domain.abandon(give_back) };
    }

    /// Returns what gives back the rest once the domain has ended.
    fn leave(self) -> impl FnOnce() + Send + 'static {
        let (heap, adapters) = (self.heap, self.adapters);
        drop(self);
        move || {
            // SAFETY: the domain has ended, with the threads that its code has created. All users of its device memory
            // keep the interpreter.
            unsafe { adapters.give_back() };
            if let Some(heap) = heap {
                // SAFETY: the domain has ended, with the threads that its code has created.
                unsafe { heap.give_back() };
            }
        }
    }

    /// Closes the domain, in which no interpreter was started.
    ///
    /// # Safety
    /// Nobody has called a function of the domain's libraries, nor has the address of one.
    pub(crate) unsafe fn close(self) {
        let (domain, heap, adapters) = (self.domain.clone(), self.heap, self.adapters);
        drop(self);
        // SAFETY: the caller's promise.
        unsafe { domain.close() };
        // SAFETY: none of its code has run.
        unsafe { adapters.give_back() };
        if let Some(heap) = heap {
            // SAFETY: as above.
            unsafe { heap.give_back() };
        }
    }
}

impl Drop for InterpreterDomain {
    fn drop(&mut self) {
        self.signals.end();
        self.adapters.leave();
    }
}
