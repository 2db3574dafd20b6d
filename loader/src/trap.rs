//! Traps: what a call of a function that had no definition when its library was loaded ends in.
//!
//! The system loader binds functions at their first call, so a library may be loaded before what
//! defines them. All others being bound at once, only these are looked up late: in the domain's
//! scope of that moment, and if they are still missing the process ends with their name.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::domain::{self, DomainId};
use crate::image::symbols::Name;
use crate::image::versions::Version;
use crate::image::{Image, ImageId};
use crate::scope::{Definition, Scope};
use crate::thunk::Thunks;

/// A function that a plan found no definition of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    pub name: &'static [u8],
    pub version: Option<Version<'static>>,
}

/// The traps of one replica.
#[derive(Debug)]
pub(crate) struct Traps {
    thunks: Thunks,
    /// What the thunks point to.
    _records: Box<[Record]>,
}

/// What a call that ends in a trap knows.
#[derive(Debug)]
pub(crate) struct Record {
    missing: Missing,
    domain: DomainId,
    image: ImageId,
    object: String,
    /// The definition's address, once it was found.
    found: AtomicUsize,
}

impl Traps {
    /// A trap for each of `missing`, for the replica of `image` in `domain`.
    pub(crate) fn new(domain: DomainId, image: &Image, missing: &[Missing]) -> io::Result<Traps> {
        let record = |&missing: &Missing| Record {
            missing,
            domain,
            image: image.id,
            object: image.path.display().to_string(),
            found: AtomicUsize::new(0),
        };
        let records: Box<[Record]> = missing.iter().map(record).collect();
        let thunks =
            Thunks::late(records.iter().map(|record| std::ptr::from_ref(record) as usize))?;
        Ok(Traps { thunks, _records: records })
    }

    /// The address that a reference to missing function number `index` is bound to.
    pub(crate) fn address(&self, index: u32) -> usize {
        self.thunks.addresses[index as usize]
    }
}

/// Where the call goes on; called by the thunk with all argument registers put aside.
pub(crate) extern "C-unwind" fn resolve(record: &Record) -> usize {
    let known = record.found.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    match record.look_up() {
        Some(address) => {
            record.found.store(address, Ordering::Release);
            address
        }
        None => record.end(),
    }
}

impl Record {
    fn look_up(&self) -> Option<usize> {
        let domain = domain::by_id(self.domain)?;
        let replica = domain.0.state.lock().by_image.get(&self.image).cloned()?;
        let find =
            |scope: &Scope| scope.find(Name::new(self.missing.name), self.missing.version, false);
        let scopes = replica.scopes.lock().clone();
        let default = find(&domain.default_scope());
        // A definition in what was unloaded meanwhile has no address.
        default.into_iter().chain(scopes.iter().filter_map(|scope| find(scope))).find_map(
            |definition| {
                let address = domain.address_of(definition)?;
                if let Definition::Image { image, .. } = definition {
                    replica.bound.lock().insert(image);
                }
                Some(address)
            },
        )
    }

    /// As the system loader does when lazy binding fails.
    fn end(&self) -> ! {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let version = self.missing.version.map(|version| text(version.name));
        let version = version.map(|version| format!(", version {version}")).unwrap_or_default();
        eprintln!(
            "{}: symbol lookup error: {}: undefined symbol: {}{version}",
            std::env::args_os().next().unwrap_or_default().display(),
            self.object,
            text(self.missing.name),
        );
        // SAFETY: ends the process without running anything of it: the call cannot return.
        unsafe { libc::_exit(127) }
    }
}
