//! Packages: a model's code and weights in one file.

use super::movable::hz_movable;
use super::numbered::{Numbered, Registry};
use crate::boundary::{fill, free, given, guarded, hz_error, hz_status, path, slot_or_none, text};
use crate::interpreters::{hz_pool, hz_session, object_in};
use crate::values::{hz_bytes, hz_object};
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
    pool: Option<&hz_pool>,
    file: *const c_char,
    package: *mut *mut hz_package,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(package, "package", || {
            let (pool, file) = (given(pool, "pool")?, path(file, "file")?);
            Ok(hz_package(PACKAGES.add(pool.0.load_package(file)?)))
        })
    })
}

/// Loads an object that the package has pickled, as `importer.load_pickle(package, resource)`. One interpreter loads it
/// now, each other one at its first use. All share the weights. The caller owns `movable`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_pickle(
    package: Option<&hz_package>,
    name: *const c_char,
    resource: *const c_char,
    movable: *mut *mut hz_movable,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(movable, "movable", || {
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            Ok(hz_movable::new(given(package, "package")?.0.load_pickle(name, resource)?))
        })
    })
}

/// A text resource, as `importer.load_text(package, resource)`. The caller owns `content`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_text(
    package: Option<&hz_package>,
    name: *const c_char,
    resource: *const c_char,
    content: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(content, "content", || {
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            hz_bytes::new(given(package, "package")?.0.load_text(name, resource)?)
        })
    })
}

/// A binary resource, as `importer.load_binary(package, resource)`. The caller owns `content`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_load_binary(
    package: Option<&hz_package>,
    name: *const c_char,
    resource: *const c_char,
    content: *mut *mut hz_bytes,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(content, "content", || {
            let (name, resource) = (text(name, "name")?, text(resource, "resource")?);
            hz_bytes::new(given(package, "package")?.0.load_binary(name, resource)?)
        })
    })
}

/// A module of the package, by its plain name, in the session's interpreter. The caller owns `module`, which may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_package_import(
    package: Option<&hz_package>,
    session: Option<&hz_session>,
    name: *const c_char,
    module: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let module = slot_or_none(module);
        let (package, name) = (given(package, "package")?, text(name, "name")?);
        object_in(session, module, |session| package.0.import_module(session, name))
    })
}

/// A number that no other package of this process has or gets: hz_session_companion. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_package_id(package: Option<&hz_package>) -> u64 {
    package.map_or(0, |package| package.0.id())
}

/// Gives the package up. NULL is allowed. Its movables keep what they need of it.
#[unsafe(no_mangle)]
pub extern "C" fn hz_package_free(package: Option<Box<hz_package>>) {
    free(package);
}
