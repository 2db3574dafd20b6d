//! The start from a sealed application's file: Python reads no file of the machine.
//!
//! Python cannot read a module before it can decode names, for which it needs modules. Those come from its own
//! table of frozen modules (CPython, Python/frozen.c), to which the code in the file is added. The finder is one of them, and
//! serves all others (`payload/python/sealed.py`).

use crate::api::fault::Outcome;
use crate::api::reference::Ref;
use crate::table::Sealed;
#[cfg(Py_3_11)]
use crate::threads::recursion;
use pyo3_ffi::{
    _frozen, PyBUF_READ, PyConfig, PyImport_FrozenModules, PyMemoryView_FromMemory, PyPreConfig,
};
use std::ffi::{CString, c_char, c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Python's own table of frozen modules.
static OWN: AtomicPtr<_frozen> = AtomicPtr::new(ptr::null_mut());

/// Adds the modules of the file to Python's table of frozen ones.
///
/// # Safety
///
/// Python has not been initialized; the views are valid.
pub(crate) unsafe fn freeze(sealed: &Sealed) {
    let mut table: Vec<_frozen> = Vec::new();
    for index in 0..sealed.frozen_count {
        // SAFETY: by contract.
        let (name, code, is_package) = unsafe {
            let module = &*sealed.frozen.add(index);
            (module.name.bytes(), module.code.bytes(), module.is_package != 0)
        };
        let Ok(name) = CString::new(name) else { continue };
        // Python keeps the table's address until it ends, and so does the domain.
        table.push(entry(name.into_raw(), code, is_package));
    }
    // SAFETY: Python's own variable, which nobody reads before it is initialized. A table ends with an entry without a name.
    unsafe {
        let mut own = PyImport_FrozenModules;
        OWN.store(own.cast_mut(), Ordering::Relaxed);
        while !own.is_null() && !(*own).name.is_null() {
            table.push(*own);
            own = own.add(1);
        }
        table.push(std::mem::zeroed());
        PyImport_FrozenModules = table.leak().as_ptr();
    }
}

fn entry(name: *const c_char, code: &'static [u8], is_package: bool) -> _frozen {
    let size = c_int::try_from(code.len()).unwrap_or(0);
    _frozen {
        name,
        code: code.as_ptr(),
        // Until 3.10 a package's size is negative.
        #[cfg(not(Py_3_11))]
        size: if is_package { -size } else { size },
        #[cfg(Py_3_11)]
        size,
        #[cfg(Py_3_11)]
        is_package: is_package.into(),
        #[cfg(all(Py_3_11, not(Py_3_13)))]
        get_code: None,
    }
}

/// No variable and no option of the environment counts for a command, and none of the arguments if they are the
/// application's.
pub(crate) fn isolate_preparation(sealed: &Sealed, before: &mut PyPreConfig) {
    (before.isolated, before.use_environment) = (1, 0);
    // Other codecs are modules, which Python needs before it has the finder.
    before.utf8_mode = 1;
    if sealed.entry != 0 {
        before.parse_argv = 0;
    }
}

/// Keeps Python from looking for its files: paths are known, and the finder does for `site`.
pub(crate) fn isolate(sealed: &Sealed, config: &mut PyConfig) {
    (config.isolated, config.use_environment, config.user_site_directory) = (1, 0, 0);
    (config.site_import, config.pathconfig_warnings) = (0, 0);
    config.module_search_paths_set = 1;
    // Nothing is compiled from a file that could keep its code.
    config.write_bytecode = 0;
    if sealed.entry != 0 {
        config.parse_argv = 0;
    }
}

/// The fields of a configuration that are strings, with their values.
///
/// # Safety
///
/// The views are valid, and so is `config`.
pub(crate) unsafe fn strings(
    sealed: &Sealed,
    config: *mut PyConfig,
) -> Vec<(*mut *mut libc::wchar_t, Vec<u8>)> {
    // SAFETY: by contract. Fields are named, not read.
    unsafe {
        let root = sealed.root.bytes().to_vec();
        let mut strings = vec![
            (&raw mut (*config).prefix, root.clone()),
            (&raw mut (*config).base_prefix, root.clone()),
            (&raw mut (*config).exec_prefix, root.clone()),
            (&raw mut (*config).base_exec_prefix, root.clone()),
        ];
        #[cfg(Py_3_11)]
        if let Some(minor) = recursion::minor() {
            let library = [&*root, b"/lib/python3.", minor.to_string().as_bytes()].concat();
            strings.push((&raw mut (*config).stdlib_dir, library));
        }
        if sealed.entry != 0 {
            strings.push((&raw mut (*config).run_command, RUN.to_vec()));
        }
        strings
    }
}

/// Runs the application's entry as the command of a python command line.
const RUN: &[u8] = b"import _hydrozoa_sealed; _hydrozoa_sealed.run()";

/// Hands the file to the finder, which serves all imports from now on.
///
/// # Safety
///
/// Attached, right after the start; the views are valid, and the file is as long as the process runs.
pub(crate) unsafe fn install(sealed: &Sealed) -> Outcome<()> {
    // SAFETY: by contract.
    unsafe {
        let view = Ref::owned(PyMemoryView_FromMemory(
            sealed.file.data.cast_mut().cast(),
            sealed.file.len as isize,
            PyBUF_READ,
        ))?;
        let offset = Ref::int(sealed.boot.cast_signed() as c_long)?;
        let length = Ref::int(sealed.boot_length.cast_signed() as c_long)?;
        let finder = Ref::import(c"_hydrozoa_sealed")?;
        // Nobody shall take modules of the standard library for frozen ones that are not in plain Python.
        PyImport_FrozenModules = OWN.load(Ordering::Relaxed);
        finder.call_method(c"install", [view.as_ptr(), offset.as_ptr(), length.as_ptr()]).map(drop)
    }
}
