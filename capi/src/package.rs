//! Packages: a model's code and weights in one file.

use crate::boundary::guarded;
use crate::bytes::hz_bytes;
use crate::error::hz_error;
use crate::handle::hz_object;
use crate::movable::hz_movable;
use crate::pointers::{free, path, place, reference, reference_or, text};
use crate::pool::hz_pool;
use crate::registry::{Numbered, Registry};
use crate::session::hz_session;
use crate::status::hz_status;
use runtime::Package;
use std::ffi::c_char;
use std::sync::Arc;

/// A package that torch.package has written, for one pool. Any thread may use and free it. It keeps its pool.
pub struct hz_package(Arc<Numbered<Package>>);

/// All packages.
pub(crate) static PACKAGES: Registry<Package> = Registry::new();

/// Opens a package for a pool. The caller owns `package`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_pool_load_package(
    pool: *const hz_pool,
    file: *const c_char,
    package: *mut *mut hz_package,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(package, "package")?;
            let pool = reference(pool, "pool")?;
            out.put(hz_package(PACKAGES.add(pool.0.load_package(path(file, "file")?)?)));
            Ok(())
        })
    }
}

/// Loads an object that the package has pickled, as `importer.load_pickle(package, resource)`. One interpreter loads it
/// now, each other one at its first use. All share the weights. The caller owns `movable`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_pickle(
    package: *const hz_package,
    name: *const c_char,
    resource: *const c_char,
    movable: *mut *mut hz_movable,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(movable, "movable")?;
            let package = reference(package, "package")?;
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            out.put(hz_movable::new(package.0.load_pickle(name, resource)?));
            Ok(())
        })
    }
}

/// A text resource, as `importer.load_text(package, resource)`. The caller owns `content`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_text(
    package: *const hz_package,
    name: *const c_char,
    resource: *const c_char,
    content: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(content, "content")?;
            let package = reference(package, "package")?;
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            out.put(hz_bytes::new(package.0.load_text(name, resource)?)?);
            Ok(())
        })
    }
}

/// A binary resource, as `importer.load_binary(package, resource)`. The caller owns `content`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_binary(
    package: *const hz_package,
    name: *const c_char,
    resource: *const c_char,
    content: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(content, "content")?;
            let package = reference(package, "package")?;
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            out.put(hz_bytes::new(package.0.load_binary(name, resource)?)?);
            Ok(())
        })
    }
}

/// A module of the package, by its plain name, in the session's interpreter. The caller owns `module`, which may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_import(
    package: *const hz_package,
    session: *const hz_session,
    name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let (package, own) = (reference(package, "package")?, reference(session, "session")?);
            let name = text(name, "name")?;
            own.make(module, |session| Ok(package.0.import_module(session, name)?))
        })
    }
}

/// A number that no other package of this process has or gets: hz_session_companion. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_id(package: *const hz_package) -> u64 {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(package, 0, |package| package.0.id()) }
}

/// Gives the package up. NULL is allowed. Its movables keep what they need of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_free(package: *mut hz_package) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(package) }
}
