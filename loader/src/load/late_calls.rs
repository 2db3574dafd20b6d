//! Late calls: functions that had no definition when their library was loaded.
//!
//! The system loader binds functions at their first call, so a library may be loaded before the one that
//! defines them. This loader binds all other functions at once. It looks these up when code calls them, in
//! the domain's and the replica's scopes of that moment. If a function is still missing then, the loader
//! prints its name and ends the process.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bind::binding::{Binding, Missing};
use crate::bind::scope::Scope;
use crate::domain;
use crate::error::{Error, Result};
use crate::id::DomainId;
use crate::image::symbols::Name;
use crate::image::{Image, ImageId};
use crate::replica::thunk::{LateCall, Thunks};

/// The data of one late call.
#[derive(Debug)]
struct Call {
    missing: Missing,
    domain: DomainId,
    image: ImageId,
    object: String,
    /// The definition's address, once it was found.
    found: AtomicUsize,
}

/// The thunks that references of the replica of `image` in `domain` to missing functions are bound to: one
/// for each of `missing`, or none if no function is missing.
///
/// # Errors
/// [`Error::Memory`] if the thunks cannot be mapped.
pub(crate) fn thunks(
    domain: DomainId,
    image: &Image,
    missing: &[Missing],
) -> Result<Option<Thunks>> {
    if missing.is_empty() {
        return Ok(None);
    }
    let call = |&missing: &Missing| Call {
        missing,
        domain,
        image: image.id,
        object: image.path.display().to_string(),
        found: AtomicUsize::new(0),
    };
    let calls = missing.iter().map(|missing| LateCall::new(target, call(missing))).collect();
    let thunks = Thunks::late(calls).map_err(|source| Error::Memory {
        object: image.path.clone(),
        action: "map the late calls of",
        length: missing.len() * crate::arch::THUNK_SIZE,
        source,
    })?;
    Ok(Some(thunks))
}

/// The address at which the call continues. The thunk saves all argument registers and calls this.
extern "C-unwind" fn target(call: &LateCall<Call>) -> usize {
    let known = call.found.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    match call.look_up() {
        Some(address) => {
            call.found.store(address, Ordering::Release);
            address
        }
        None => call.end(),
    }
}

impl Call {
    fn look_up(&self) -> Option<usize> {
        let domain = domain::by_id(self.domain)?;
        let find =
            |scope: &Scope| scope.find(Name::new(self.missing.name), self.missing.version, false);
        let scopes = domain.0.state.lock().entries.get(self.image)?.scopes.clone();
        let default = find(&domain.default_scope());
        // A definition in a library that was unloaded meanwhile has no address.
        default.into_iter().chain(scopes.iter().filter_map(|scope| find(scope))).find_map(
            |binding| {
                let binding = domain.or_its_own(binding, Name::new(self.missing.name));
                let address = domain.hand_out(binding)?;
                if let Binding::Image { image, .. } = binding {
                    let mut state = domain.0.state.lock();
                    state.entries.get_mut(self.image)?.bound.insert(image);
                }
                Some(address)
            },
        )
    }

    /// Ends the process, as the system loader does when lazy binding fails.
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
        // SAFETY: it ends the process and runs none of its code: the call cannot return.
        unsafe { libc::_exit(127) }
    }
}
