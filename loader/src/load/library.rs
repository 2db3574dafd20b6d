//! Libraries: the result of opening a file in a domain.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bind::binding::Binding;
use crate::domain::Domain;
use crate::domain::needs;
use crate::error::{Error, Result};
use crate::image::symbols::Name;
use crate::image::versions::Version;
use crate::replica::Replica;
use crate::sys::functions::functions;

/// An open library. Dropping the value does not unload it, because nobody can know who still holds
/// pointers into it (see [`Domain::close`](crate::Domain::close)).
#[derive(Clone, Debug)]
pub struct Library {
    domain: Domain,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Replica(Arc<Replica>),
    /// A library of the system loader: its handle, base and path.
    System {
        handle: usize,
        base: usize,
        path: PathBuf,
    },
}

impl Library {
    pub(crate) fn of_replica(domain: Domain, replica: Arc<Replica>) -> Library {
        Library { domain, kind: Kind::Replica(replica) }
    }

    pub(crate) fn of_system(domain: Domain, handle: usize, base: usize, path: PathBuf) -> Library {
        Library { domain, kind: Kind::System { handle, base, path } }
    }

    pub(crate) fn replica(&self) -> Option<&Arc<Replica>> {
        match &self.kind {
            Kind::Replica(replica) => Some(replica),
            Kind::System { .. } => None,
        }
    }

    pub(crate) fn system_handle(&self) -> Option<usize> {
        match &self.kind {
            Kind::Replica(_) => None,
            Kind::System { handle, .. } => Some(*handle),
        }
    }

    /// The file, with symbolic links resolved; the given name for an image that is not a file.
    pub fn path(&self) -> &Path {
        match &self.kind {
            Kind::Replica(replica) => &replica.image.path,
            Kind::System { path, .. } => path,
        }
    }

    /// The address of the library's lowest page.
    pub fn base(&self) -> usize {
        match &self.kind {
            Kind::Replica(replica) => replica.base,
            Kind::System { base, .. } => *base,
        }
    }

    /// The address of symbol `name`, defined by the library or by its needs, as
    /// `dlsym(handle, name)` returns it.
    pub fn symbol(&self, name: &str) -> Result<*const c_void> {
        let missing =
            || Error::NoSuchSymbol { object: self.path().to_owned(), symbol: name.to_owned() };
        let address = match &self.kind {
            Kind::Replica(replica) => find_in(&self.domain, replica, name),
            Kind::System { handle, .. } => {
                let name = CString::new(name).map_err(|_| missing())?;
                // SAFETY: the handle was opened by the system loader and is kept open.
                let address = unsafe { (functions().dlsym)(*handle as *mut c_void, name.as_ptr()) };
                (!address.is_null()).then_some(address as usize)
            }
        };
        address.map(|address| address as *const c_void).ok_or_else(missing)
    }
}

/// Looks `name` up in the replica itself, then in its needs.
fn find_in(domain: &Domain, replica: &Arc<Replica>, name: &str) -> Option<usize> {
    domain.hand_out(find_definition(domain, replica, Name::new(name.as_bytes()), None)?)
}

/// The definition that `dlsym` on a handle of `replica` finds, of the version `wanted` if any.
pub(crate) fn find_definition(
    domain: &Domain,
    replica: &Arc<Replica>,
    name: Name<'_>,
    wanted: Option<Version<'_>>,
) -> Option<Binding> {
    // A filter's own definitions come last.
    if replica.image.dynamic.filtees.is_empty()
        && let Some((_, symbol)) = replica.image.symbols.lookup(name, wanted, true)
    {
        let found = Binding::Image { image: replica.image.id, symbol };
        return Some(domain.one_for_all(replica, name, &symbol, found));
    }
    let needed = needs::needed_by(domain, replica);
    let in_replicas = |replicas: &[Arc<Replica>]| {
        replicas.iter().find_map(|other| {
            let (_, symbol) = other.image.symbols.lookup(name, wanted, true)?;
            Some(domain.one_for_all(replica, name, &symbol, other.binding(&symbol)))
        })
    };
    in_replicas(&needed.replicas).or_else(|| in_replicas(&needed.commons)).or_else(|| {
        needed.system.iter().find_map(|object| {
            let (_, symbol) = object.symbols.lookup(name, wanted, true)?;
            let found = object.binding(&symbol);
            // In a domain that extends the program the system loader's choice is the only one. In others it is
            // one of several.
            Some(match domain.0.program {
                true => found,
                false => domain.one_for_all(replica, name, &symbol, found),
            })
        })
    })
}
