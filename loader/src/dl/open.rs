//! `dlopen` and `dlclose`.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use super::handle::{self, Handle};
use super::{clear_error, messages, set_error};
use crate::domain::{self, Domain};
use crate::error::{Error, Result};
use crate::flags::OpenFlags;
use crate::id::DomainId;
use crate::image::IMAGES;
use crate::image::enclosure::{self, Enclosure};
use crate::load;
use crate::load::classify;
use crate::load::library::Library;
use crate::load::unload;
use crate::replica::Replica;
use crate::sys::functions::functions;
use crate::sys::guard;
use crate::system::SYSTEM;
use crate::system::SystemObject;
use crate::system::search::{self, Absence, Level};
use crate::visible::publish;

/// The bits that the second argument of `dlopen(3)` may have.
const MODES: c_int = libc::RTLD_LAZY
    | libc::RTLD_NOW
    | libc::RTLD_NOLOAD
    | libc::RTLD_DEEPBIND
    | libc::RTLD_GLOBAL
    | libc::RTLD_NODELETE;

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
    clear_error();
    // SAFETY: the caller's promise.
    let name = unsafe { path(file) }.filter(|name| !name.as_os_str().is_empty());
    // For the program's own handle too, as glibc does, and in its words (dlfcn/dlopen.c, elf/dl-open.c).
    if mode & !MODES != 0 {
        set_error("invalid mode parameter");
        return ptr::null_mut();
    }
    if mode & (libc::RTLD_LAZY | libc::RTLD_NOW) == 0 {
        let object = name.map(|name| format!("{}: ", name.display())).unwrap_or_default();
        set_error(format!("{object}invalid mode for dlopen(): {}", messages::reason(libc::EINVAL)));
        return ptr::null_mut();
    }
    let Some(name) = name else { return handle::of_domain(&domain) };
    // If both are asked for, functions are bound late (elf/dl-open.c, dl_open_worker_begin).
    let overruled = if mode & libc::RTLD_LAZY == 0 { 0 } else { libc::RTLD_NOW };
    match open(&domain, name, OpenFlags::from_bits(mode & !overruled), caller) {
        Ok(library) => handle::of_library(&library),
        // Not loaded is an answer: glibc sets no text for it either.
        Err(Error::NotLoaded { .. }) => ptr::null_mut(),
        Err(error) => {
            tracing::debug!(domain = domain.name(), %error, "dlopen failed");
            set_error(messages::of(&error, name));
            ptr::null_mut()
        }
    }
}

/// The path that a C string holds; `None` for null.
///
/// # Safety
/// A pointer that is not null points to a NUL-terminated string.
unsafe fn path<'a>(pointer: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller's promise.
    let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })?;
    Some(Path::new(OsStr::from_bytes(text.to_bytes())))
}

fn open(domain: &Domain, name: &Path, flags: OpenFlags, caller: usize) -> Result<Library> {
    let path = match resolve(domain, name, caller)? {
        Found::Loaded(replica) => return load::open(domain, replica.image.clone(), None, flags),
        Found::File(path) => path,
        Found::BySystem => return load::open_by_system(domain, name, flags),
    };
    // The program itself, or a library linked to it, which we need not accept as an image.
    if domain.0.program
        && let Some(object) = SYSTEM.by_path(&path)?
    {
        return load::open_by_system(domain, &object.path, flags);
    }
    let image = IMAGES.open(&path)?;
    if classify::object_for(domain, &image)?.is_some() {
        return load::open(domain, image, Some(crate::policy::Class::System), flags);
    }
    load::open(domain, image, None, flags)
}

/// The library that a name stands for.
enum Found {
    /// A replica of the domain, by its DT_SONAME. Its file may be gone.
    Loaded(Arc<Replica>),
    File(PathBuf),
    /// A name that only the system loader finds: of a loaded object, or of a file in glibc's hwcaps directories.
    BySystem,
}

fn resolve(domain: &Domain, name: &Path, caller: usize) -> Result<Found> {
    let caller = Caller::at(caller);
    let is_path = name.as_os_str().as_encoded_bytes().contains(&b'/');
    let Some(name) = name.to_str() else {
        // Tables of names hold text. File names may contain any bytes.
        return Ok(if is_path { Found::File(name.to_owned()) } else { Found::BySystem });
    };
    if is_path {
        return match search::find(name, &caller.chain()) {
            Ok(path) => Ok(Found::File(path)),
            // Opening the missing file gives the reason.
            Err(Absence::Nowhere(_)) => Ok(Found::File(Path::new(name).to_owned())),
            Err(Absence::Unknown(error)) => Err(error),
        };
    }
    let by_soname = domain
        .0
        .state
        .lock()
        .entries
        .replicas()
        .find(|replica| replica.image.soname() == name)
        .cloned();
    if let Some(replica) = by_soname {
        return Ok(Found::Loaded(replica));
    }
    if domain.0.program && SYSTEM.by_name(name).is_some() {
        return Ok(Found::BySystem);
    }
    match search::find(name, &caller.chain()) {
        Ok(path) => Ok(Found::File(path)),
        Err(Absence::Nowhere(_)) => Ok(match SYSTEM.by_name(name) {
            // The program has opened it by a path, which decides as any path does.
            Some(object) if !domain.0.program && IMAGES.open(&object.path).is_ok() => {
                Found::File(object.path.clone())
            }
            Some(_) => Found::BySystem,
            // The system's loader would search the machine. Opening the missing file gives the reason.
            None => match caller.enclosure() {
                Some(enclosure) => Found::File(enclosure.libraries.join(name)),
                None => Found::BySystem,
            },
        }),
        Err(Absence::Unknown(error)) => Err(error),
    }
}

/// The object that a call comes from, whose search path counts.
enum Caller {
    Replica(Arc<Replica>),
    System(Arc<SystemObject>),
    Unknown,
}

impl Caller {
    fn at(address: usize) -> Caller {
        if let Some(replica) = publish::find(address) {
            return Caller::Replica(replica);
        }
        SYSTEM.by_address(address).map_or(Caller::Unknown, Caller::System)
    }

    /// The enclosure of its library.
    fn enclosure(&self) -> Option<&'static Enclosure> {
        let chain = self.chain();
        chain.first().and_then(|own| enclosure::of(own.origin))
    }

    fn chain(&self) -> Vec<Level<'_>> {
        match self {
            Caller::Replica(replica) => replica.search_chain(),
            Caller::System(object) => vec![Level {
                origin: object.path.parent().unwrap_or(Path::new("/")),
                rpath: object.rpath.as_deref(),
                runpath: object.runpath.as_deref(),
            }],
            Caller::Unknown => Vec::new(),
        }
    }
}

/// `dlclose(handle)`. Our libraries stay loaded (see [`Library`]), except in a domain that extends the
/// program. glibc counts its own.
///
/// # Safety
/// As dlclose(3).
pub(super) unsafe extern "C-unwind" fn dlclose(handle: *mut c_void, context: usize) -> c_int {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else { return 0 };
    clear_error();
    if handle.is_null() {
        // A `dlopen` that failed returns null. glibc reads through it.
        set_error("dlclose: no handle was given");
        return -1;
    }
    match handle::resolve(&domain, handle) {
        Handle::Replica(owner, replica) if owner.0.program => {
            if unload::close(&owner, &replica) {
                return 0;
            }
            set_error(format!("{}: shared object not open", replica.image.path.display()));
            -1
        }
        Handle::Domain(_) | Handle::Replica(..) => 0,
        Handle::System => {
            let (close, handle) = (functions().dlclose as usize, handle.expose_provenance());
            // SAFETY: the caller's promise.
            unsafe { guard::call_or_end("a destructor in dlclose", close, [handle, 0, 0]) as c_int }
        }
    }
}
