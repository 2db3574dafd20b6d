//! The loader: what domains are made from.

use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;

use crate::SYSTEM;
use crate::debugger;
use crate::domain::{Domain, DomainBuilder};
use crate::error::Result;
use crate::flags::OpenFlags;
use crate::fork;
use crate::library::Library;
use crate::policy::Policy;
use crate::publish;
use crate::sys::dynamic;
use crate::unwind;

/// Loads images into domains. Cheap to clone.
///
/// Several loaders with different policies can work in one process; they share images, and the
/// system's objects, but not the commons.
#[derive(Clone, Debug)]
pub struct Loader {
    policy: Arc<Policy>,
    commons: Domain,
}

/// Prepares a [`Loader`].
#[derive(Debug, Default)]
pub struct LoaderBuilder {
    policy: Policy,
}

impl LoaderBuilder {
    /// Replaces the default policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> LoaderBuilder {
        self.policy = policy;
        self
    }

    /// Prepares the process (exceptions, debuggers) and makes the loader.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the process's libgcc_s cannot be made
    /// to find replicas, without which no C++ exception could cross them.
    pub fn build(self) -> Result<Loader> {
        publish::prepare()?;
        fork::prepare();
        unwind::install(&SYSTEM)?;
        debugger::prepare(&SYSTEM);
        let policy = Arc::new(self.policy);
        let commons = DomainBuilder::new("commons", policy.clone(), None).build()?;
        Ok(Loader { policy, commons })
    }
}

impl Loader {
    /// A loader with options.
    pub fn builder() -> LoaderBuilder {
        LoaderBuilder::default()
    }

    /// A new domain; `name` appears in messages.
    pub fn domain(&self, name: &str) -> DomainBuilder {
        DomainBuilder::new(name, self.policy.clone(), Some(self.commons.clone()))
    }

    /// The domain of what is loaded once for all domains of this loader.
    pub fn commons(&self) -> &Domain {
        &self.commons
    }

    /// Has the system's loader load the file at `path`, once and for good, as it does for the
    /// libraries that the policy leaves to it.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) with the text of `dlerror`.
    ///
    /// # Safety
    /// Constructors of the library and of what it needs run; it must be sound to run them in this process.
    pub unsafe fn open_by_system(&self, path: &Path) -> Result<Library> {
        let object = SYSTEM.open(path, libc::RTLD_LAZY)?;
        crate::load::open_by_system(&self.commons, &object.path, OpenFlags::LAZY)
    }

    /// The address of `name` in the executable, its dependencies, and what the system loader
    /// loaded globally or for a domain.
    pub fn system_symbol(&self, name: &str) -> Option<*const c_void> {
        let c_name = std::ffi::CString::new(name).ok()?;
        let address = dynamic::global_symbol(&c_name, None).or_else(|| {
            SYSTEM.objects().iter().find_map(|object| {
                let name = crate::image::symbols::Name::new(name.as_bytes());
                let (_, symbol) = object.symbols.lookup(name, None, true)?;
                match crate::scope::system_definition(object, &symbol) {
                    crate::scope::Definition::Fixed { address, .. } => Some(address),
                    _ => None,
                }
            })
        })?;
        Some(address as *const c_void)
    }
}
