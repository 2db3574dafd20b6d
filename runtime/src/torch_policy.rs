//! The effect of a pool's torch policy on the domains of its interpreters.

use crate::Result;
use crate::libraries;
use crate::python::Installation;
use crate::torch::{Adapter, Member, Release, TorchPolicy};
use hydrozoa_loader::{Class, Domain, Interposition, Library, Loader, Policy};
use std::sync::{Arc, OnceLock};

/// A policy that has been settled for an installation.
#[derive(Clone, Debug)]
pub(crate) enum Torch {
    /// libtorch once, with the adapter if there is a torch at all.
    Shared(Option<Arc<Adapter>>),
    /// libtorch in each interpreter.
    Isolated,
}

/// Where an interpreter lives: its domain, and its membership in the adapter.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) domain: Domain,
    member: Option<&'static Member>,
}

impl Place {
    /// Notes the interpreter's libpython, before anything that calls it is opened in the domain.
    pub(crate) fn runs(&self, libpython: &Library) -> Result<()> {
        Ok(self.member.map_or(Ok(()), |member| member.runs(libpython))?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(member) = self.member {
            member.retire();
        }
    }
}

impl Torch {
    /// Decides what `policy` means for the torch of `python`, if it has one. With `verify`, torch's
    /// libraries are loaded now, so that an unsuitable build fails here and not in the middle of an
    /// import.
    pub(crate) fn settle(policy: TorchPolicy, python: &Installation, verify: bool) -> Result<Self> {
        if policy == TorchPolicy::Isolated {
            return Ok(Self::Isolated);
        }
        let Some(release) = Release::of(python) else {
            return Ok(Self::Shared(None));
        };
        match shared(&release, python, verify) {
            Ok(adapter) => Ok(Self::Shared(Some(adapter))),
            Err(error) if policy == TorchPolicy::Auto => {
                tracing::warn!(
                    %error,
                    "each interpreter has its own copy of torch's libraries (policy isolated)"
                );
                Ok(Self::Isolated)
            }
            Err(error) => Err(error),
        }
    }

    /// A new domain for an interpreter; `exit` answers its calls of the function of that name.
    pub(crate) fn place(&self, name: &str, exit: Option<Interposition>) -> Result<Place> {
        let mut builder = self.loader()?.domain(name);
        if let Some(exit) = exit {
            builder = builder.interpose("exit", exit);
        }
        let member = match self {
            Self::Shared(Some(adapter)) => Some(adapter.join()),
            _ => None,
        };
        for (symbol, interposition) in member.iter().flat_map(|member| member.interpositions()) {
            builder = builder.interpose(symbol, interposition);
        }
        // Its place is free for another one then.
        let domain = builder.build().inspect_err(|_| member.iter().for_each(|it| it.retire()))?;
        if let Some(member) = member {
            member.attach(&domain);
        }
        Ok(Place { domain, member })
    }

    /// The loader with this policy: one for the process, so that all pools share the commons.
    fn loader(&self) -> Result<Loader> {
        match self {
            Self::Shared(_) => loader(&SHARED, libraries::policy),
            Self::Isolated => loader(&ISOLATED, isolated),
        }
    }
}

static SHARED: OnceLock<Loader> = OnceLock::new();
static ISOLATED: OnceLock<Loader> = OnceLock::new();

fn loader(place: &OnceLock<Loader>, policy: impl FnOnce() -> Policy) -> Result<Loader> {
    if let Some(loader) = place.get() {
        return Ok(loader.clone());
    }
    let made = Loader::builder().policy(policy()).build()?;
    Ok(place.get_or_init(|| made).clone())
}

/// The adapter for an installed release.
fn shared(release: &Release, python: &Installation, verify: bool) -> Result<Arc<Adapter>> {
    let adapter = Adapter::of_process(&loader(&SHARED, libraries::policy)?, release)?;
    if verify {
        adapter.verify(&python.site_packages().join("torch/lib"))?;
    }
    Ok(adapter)
}

/// Policy `isolated`: torch's own libraries are replicated. Other libraries of its wheels keep their
/// rules: OpenMP's threads and CUDA's driver serve the whole process.
fn isolated() -> Policy {
    [
        "*/torch/lib/libtorch*.so*",
        "*/torch/lib/libc10*.so*",
        "*/torch/lib/libshm*.so*",
        "*/torch/lib/libcaffe2*.so*",
        "*/torch/lib/libaoti*.so*",
    ]
    .into_iter()
    .fold(libraries::policy(), |policy, pattern| {
        policy.with(pattern, Class::Replicate, "policy isolated: torch is private")
    })
}
