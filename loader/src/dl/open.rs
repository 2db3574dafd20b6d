//! `dlopen`, `dlsym`, `dlvsym`, `dlclose`.
//!
//! Handles: of a replica, the address of its record; of the domain itself (`dlopen(NULL)`), the
//! address of the domain's record; of a library that the system loader holds, glibc's own handle.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use super::{set_error, text};
use crate::domain::{self, Domain, DomainId, OpenFlags, Replica};
use crate::error::{Error, Result};
use crate::image::symbols::Name;
use crate::library::Library;
use crate::load;
use crate::publish;
use crate::search::{self, Requester};
use crate::sys::dynamic;
use crate::{IMAGES, SYSTEM};

/// `dlopen(file, mode)` for replicas of the domain `context`.
///
/// # Safety
/// As dlopen(3): `file` is null or NUL-terminated. `caller` is the return address.
pub(super) unsafe extern "C-unwind" fn dlopen(
    file: *const c_char,
    mode: c_int,
    context: usize,
    caller: usize,
) -> *mut c_void {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else {
        set_error("dlopen: the domain was closed");
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { text(file) }).filter(|name| !name.is_empty()) else {
        return domain_handle(&domain);
    };
    if mode & (libc::RTLD_LAZY | libc::RTLD_NOW) == 0 {
        set_error(format!("{name}: invalid mode for dlopen(): neither RTLD_LAZY nor RTLD_NOW"));
        return ptr::null_mut();
    }
    match open(&domain, &name, OpenFlags::from_bits(mode), caller) {
        Ok(library) => handle_of(&library),
        Err(error) => {
            tracing::debug!(domain = domain.name(), %error, "dlopen failed");
            set_error(error);
            ptr::null_mut()
        }
    }
}

fn open(domain: &Domain, name: &str, flags: OpenFlags, caller: usize) -> Result<Library> {
    let path = match resolve(domain, name, caller) {
        Found::Path(path) => path,
        Found::Library(library) => return Ok(library),
        // What only the system loader finds (a name that is loaded, glibc's hwcaps directories).
        Found::Nothing => {
            let c_name = CString::new(name).map_err(|_| Error::System {
                object: name.into(),
                message: "its name holds a NUL byte".into(),
            })?;
            let handle = dynamic::SystemHandle::open(&c_name, flags.bits())
                .map_err(|message| Error::System { object: name.into(), message })?;
            let base = handle.base().unwrap_or(0);
            return Ok(Library::of_system(
                domain.clone(),
                handle.keep() as usize,
                base,
                name.into(),
            ));
        }
    };
    let image = IMAGES.open(&path)?;
    if domain.0.policy.rule(&image.path).is_none() && SYSTEM.by_file(image.file_id).is_some() {
        return load::open(domain, image, Some(crate::policy::Class::System), flags);
    }
    load::open(domain, image, None, flags)
}

enum Found {
    Path(PathBuf),
    Library(Library),
    Nothing,
}

fn resolve(domain: &Domain, name: &str, caller: usize) -> Found {
    if name.contains('/') {
        return Found::Path(Path::new(name).to_owned());
    }
    let by_soname = domain
        .0
        .state
        .lock()
        .replicas
        .iter()
        .find(|replica| replica.image.soname() == name)
        .cloned();
    if let Some(replica) = by_soname {
        return Found::Library(Library::of_replica(domain.clone(), replica));
    }
    let caller = publish::find(caller);
    let requester = caller.as_ref().map(|replica| Requester {
        origin: replica.image.origin(),
        rpath: replica.image.dynamic.rpath,
        runpath: replica.image.dynamic.runpath,
        parent: None,
    });
    match search::find(name, requester.as_ref()) {
        Ok(path) => Found::Path(path),
        Err(_) => Found::Nothing,
    }
}

fn domain_handle(domain: &Domain) -> *mut c_void {
    Arc::as_ptr(&domain.0).cast_mut().cast()
}

fn handle_of(library: &Library) -> *mut c_void {
    match library.replica() {
        Some(replica) => Arc::as_ptr(replica).cast_mut().cast(),
        None => library.system_handle().unwrap_or(0) as *mut c_void,
    }
}

/// What a handle stands for.
enum Handle {
    Domain,
    Replica(Domain, Arc<Replica>),
    System,
}

fn resolve_handle(domain: &Domain, handle: *mut c_void) -> Handle {
    if handle == domain_handle(domain) {
        return Handle::Domain;
    }
    let find = |domain: &Domain| {
        domain
            .0
            .state
            .lock()
            .replicas
            .iter()
            .find(|replica| Arc::as_ptr(replica).cast::<c_void>() == handle.cast_const())
            .cloned()
    };
    if let Some(replica) = find(domain) {
        return Handle::Replica(domain.clone(), replica);
    }
    if let Some(commons) = domain.0.commons.clone().map(Domain)
        && let Some(replica) = find(&commons)
    {
        return Handle::Replica(commons, replica);
    }
    Handle::System
}

/// `dlsym(handle, name)`.
///
/// # Safety
/// As dlsym(3): `name` is NUL-terminated.
pub(super) unsafe extern "C-unwind" fn dlsym(
    handle: *mut c_void,
    name: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise; without a version `dlvsym` is `dlsym`.
    unsafe { lookup(handle, name, ptr::null(), context, caller) }
}

/// `dlvsym(handle, name, version)`.
///
/// # Safety
/// As dlvsym(3): `name` and `version` are NUL-terminated.
pub(super) unsafe extern "C-unwind" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { lookup(handle, name, version, context, caller) }
}

/// # Safety
/// `name` is NUL-terminated; `version` is null or NUL-terminated.
unsafe fn lookup(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else {
        set_error("dlsym: the domain was closed");
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise.
    let Some(symbol) = (unsafe { text(name) }) else {
        set_error("dlsym: no name was given");
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise.
    let version = unsafe { text(version) };
    let found = if handle == libc::RTLD_NEXT {
        next_after(&domain, caller, &symbol)
    } else if handle == libc::RTLD_DEFAULT {
        domain.symbol(&symbol).map(|address| address as usize)
    } else {
        match resolve_handle(&domain, handle) {
            Handle::Domain => domain.symbol(&symbol).map(|address| address as usize),
            Handle::Replica(owner, replica) => Library::of_replica(owner, replica)
                .symbol(&symbol)
                .ok()
                .map(|address| address as usize),
            Handle::System => {
                // SAFETY: not one of our handles, so glibc's, or as wrong for glibc as for us; the
                // names are the caller's.
                let address = unsafe {
                    match &version {
                        None => libc::dlsym(handle, name),
                        Some(version) => {
                            let version = CString::new(version.as_bytes()).unwrap_or_default();
                            dynamic::versioned_symbol(handle, name, version.as_ptr())
                        }
                    }
                };
                // glibc has set the error text, which `dlerror` passes on.
                return address;
            }
        }
    };
    match found {
        Some(address) => address as *mut c_void,
        None => {
            set_error(format!("{}: undefined symbol: {symbol}", domain.name()));
            ptr::null_mut()
        }
    }
}

/// RTLD_NEXT: the definition that follows the caller's object in its scope.
fn next_after(domain: &Domain, caller: usize, name: &str) -> Option<usize> {
    let caller = publish::find(caller)?;
    let lookup = Name::new(name.as_bytes());
    let later = caller.scope.get().and_then(|scope| {
        let position = scope.local.iter().position(|image| image.id == caller.image.id);
        let rest = &scope.local[position.map_or(0, |position| position + 1)..];
        rest.iter().find_map(|image| {
            let (_, symbol) = image.symbols.lookup(lookup, None, true)?;
            let replica = domain.0.state.lock().by_image.get(&image.id).cloned()?;
            domain.address_of(replica.definition(&symbol))
        })
    });
    later.or_else(|| dynamic::global_symbol(&CString::new(name).ok()?, None))
}

/// `dlclose(handle)`: libraries of ours stay loaded (see [`Library`]); glibc counts its own.
///
/// # Safety
/// As dlclose(3).
pub(super) unsafe extern "C-unwind" fn dlclose(handle: *mut c_void, context: usize) -> c_int {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else { return 0 };
    match resolve_handle(&domain, handle) {
        Handle::Domain | Handle::Replica(..) => 0,
        // SAFETY: the caller's promise.
        Handle::System => unsafe { libc::dlclose(handle) },
    }
}
