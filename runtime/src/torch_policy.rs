//! The effect of a pool's torch policy on the domains of its interpreters.

use crate::Result;
use crate::environment::Environment;
use crate::heap::{self, Heap};
use crate::libraries::{LibraryRules, Loaders};
use crate::python::{Installation, Search};
use crate::thread::signals::Guard;
use crate::torch::{Adapter, Member, OwnGuards, Release, TorchPolicy, device_code, files, slots};
use hydrozoa_loader::{Domain, Interposition, Library, Loader};
use std::sync::Arc;

/// A policy that has been settled for an installation.
#[derive(Clone, Debug)]
pub(crate) enum Torch {
    /// libtorch once, with the adapter of the process. With `strict`, no interpreter may change what they share.
    Shared { adapter: Arc<Adapter>, strict: bool },
    /// libtorch in each interpreter.
    Isolated,
    /// The same, for a pool that asked for `shared` and whose interpreters find no torch yet.
    Unshared,
}

/// Where an interpreter lives: its domain, what guards the application's signals, and what answers for its libtorch.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) domain: Domain,
    pub(crate) signals: &'static Guard,
    /// Where its C++ objects are.
    pub(crate) heap: Option<&'static Heap>,
    libtorch: Libtorch,
}

/// What answers for the libtorch of an interpreter.
#[derive(Clone, Copy, Debug)]
enum Libtorch {
    /// The adapter, for a member of those that share one.
    Shared(&'static Member),
    Own(&'static OwnGuards),
}

impl Libtorch {
    fn interpositions(self) -> Vec<(&'static str, Interposition)> {
        match self {
            Self::Shared(member) => member.interpositions(),
            Self::Own(guards) => guards.interpositions(),
        }
    }

    fn attach(self, domain: &Domain) {
        match self {
            Self::Shared(member) => member.attach(domain),
            Self::Own(guards) => guards.attach(Some(domain)),
        }
    }

    fn retire(self) {
        match self {
            Self::Shared(member) => member.retire(),
            Self::Own(guards) => guards.attach(None),
        }
    }
}

impl Place {
    /// Ends the domain, whose interpreter has been finalized.
    ///
    /// # Safety
    /// No code of the domain runs, except in threads that it has created itself. Nobody uses what it has from now on.
    pub(crate) unsafe fn end(self) {
        let (domain, heap, libtorch) = (self.domain.clone(), self.heap, self.libtorch);
        drop(self);
        // Where the libtorch that interpreters share has objects of it, it stays as it is.
        let is_kept = matches!(libtorch, Libtorch::Shared(member) if member.is_kept());
        if !is_kept {
            let give_back = move || {
                let Some(heap) = heap else { return };
                // SAFETY: the domain has ended, with the threads that its code has created.
                unsafe {
                    match libtorch {
                        Libtorch::Own(_) => heap.give_back(),
                        // libtorch may hold shared objects, whose owners it counts down when the process ends.
                        Libtorch::Shared(_) => heap.leave(),
                    }
                }
            };
            // SAFETY: the caller's promise.
            unsafe { domain.retire(give_back) };
        }
    }

    /// Whether a libtorch that its code loads ends with it.
    pub(crate) fn has_its_own_libtorch(&self) -> bool {
        matches!(self.libtorch, Libtorch::Own(_))
    }

    /// Closes the domain, in which no interpreter was started.
    ///
    /// # Safety
    /// Nobody has called a function of the domain's libraries, nor has the address of one.
    pub(crate) unsafe fn close(self) {
        let (domain, heap) = (self.domain.clone(), self.heap);
        drop(self);
        // SAFETY: the caller's promise.
        unsafe { domain.close() };
        if let Some(heap) = heap {
            // SAFETY: as above.
            unsafe { heap.give_back() };
        }
    }

    /// Notes the interpreter's libpython, before anything that calls it is opened in the domain.
    pub(crate) fn runs(&self, libpython: &Library) -> Result<()> {
        self.signals.runs(&self.domain, libpython);
        match self.libtorch {
            Libtorch::Shared(member) => Ok(member.runs(libpython)?),
            Libtorch::Own(_) => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.libtorch.retire();
    }
}

impl Torch {
    /// Decides what `policy` means for the torch that interpreters of `python` find, if they find one. With
    /// `verify`, a shared libtorch is loaded now, so that an unsuitable build fails here and not in the middle of
    /// an import.
    pub(crate) fn settle(
        policy: TorchPolicy,
        python: &Installation,
        search: Search<'_>,
        verify: bool,
    ) -> Result<Self> {
        if policy == TorchPolicy::Isolated
            || (policy == TorchPolicy::Auto && !TorchPolicy::depends_on_the_release())
        {
            return Ok(Self::Isolated);
        }
        let asked = policy == TorchPolicy::Shared;
        match Release::found(python, search) {
            None if asked => Ok(Self::Unshared),
            Some(release) if asked || TorchPolicy::of(&release) == TorchPolicy::Shared => {
                match shared(&release, verify) {
                    Ok(adapter) => Ok(Self::Shared { adapter, strict: false }),
                    Err(error) if asked => Err(error),
                    Err(error) => {
                        tracing::warn!(
                            %error,
                            "each interpreter has its own copy of torch's libraries (policy isolated)"
                        );
                        Ok(Self::Isolated)
                    }
                }
            }
            _ => Ok(Self::Isolated),
        }
    }

    /// Whether interpreters share one libtorch.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    /// The same, with or without strict mode.
    pub(crate) fn strictly(self, strict: bool) -> Self {
        match self {
            Self::Shared { adapter, .. } => Self::Shared { adapter, strict },
            other => other,
        }
    }

    /// A new domain for an interpreter of `python` with these rules for libraries; `answers` are functions of the C
    /// library that are answered for it, and `environment` is its own, if it shall not use the process's.
    pub(crate) fn place(
        &self,
        name: &str,
        python: &Installation,
        rules: &LibraryRules,
        answers: &[(&str, Interposition)],
        environment: Option<&Environment>,
    ) -> Result<Place> {
        let loader = self.loader(rules)?;
        let mut builder = loader.domain(name);
        for (symbol, interposition) in device_code::interpositions(&loader) {
            builder = builder.interpose(symbol, interposition);
        }
        let libpython = python.library().canonicalize().unwrap_or_default();
        if let Some(libpython) = libpython.file_name() {
            // `os.posix_spawn` without variables frees the array if `environ` moves meanwhile (CPython, posixmodule.c,
            // py_posix_spawn), and other interpreters move it.
            builder = builder.steady_environ(&libpython.to_string_lossy());
        }
        if let Some(environment) = environment {
            builder = builder.environment(environment.entries());
        }
        let signals = Guard::new();
        for (symbol, interposition) in signals.interpositions() {
            builder = builder.interpose(symbol, interposition);
        }
        let heap = Heap::of_an_interpreter();
        for (soname, symbol, interposition) in heap.into_iter().flat_map(heap::definitions) {
            builder = builder.interpose_definition(soname, symbol, interposition);
        }
        for (soname, symbol, interposition) in heap.into_iter().flat_map(heap::references) {
            builder = builder.interpose_in(soname, symbol, interposition);
        }
        if self.is_shared() {
            builder = builder.keep_constants();
        }
        let libtorch = match self {
            Self::Shared { adapter, strict } => Libtorch::Shared(adapter.join(*strict, heap)),
            Self::Isolated | Self::Unshared => Libtorch::Own(Box::leak(Box::default())),
        };
        for (symbol, interposition) in libtorch.interpositions() {
            builder = builder.interpose(symbol, interposition);
        }
        for (name, answer) in answers {
            builder = builder.interpose(name, *answer);
        }
        let domain = builder.build().inspect_err(|_| {
            // Its place is free for another one then.
            libtorch.retire();
            if let Some(heap) = heap {
                // SAFETY: nothing was loaded that could have a block of it.
                unsafe { heap.give_back() };
            }
        })?;
        libtorch.attach(&domain);
        Ok(Place { domain, signals, heap, libtorch })
    }

    /// The loader with this policy and these rules: one for the process, so that all pools share the commons.
    fn loader(&self, rules: &LibraryRules) -> Result<Loader> {
        match self {
            Self::Shared { .. } => SHARED.of(rules),
            Self::Isolated => ISOLATED.of(rules),
            Self::Unshared => UNSHARED.of(rules),
        }
    }
}

static SHARED: Loaders = Loaders::new(files::shared);
static ISOLATED: Loaders = Loaders::new(files::isolated);
static UNSHARED: Loaders = Loaders::new(files::unshared);

/// The adapter for a release.
fn shared(release: &Release, verify: bool) -> Result<Arc<Adapter>> {
    let loader = SHARED.of(&LibraryRules::new())?;
    let adapter = Adapter::of_process(&loader, release, slots::redirect)?;
    if verify {
        adapter.verify()?;
    }
    Ok(adapter)
}
