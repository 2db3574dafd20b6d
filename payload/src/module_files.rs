//! Where modules come from: the table that `inspect` keeps of all modules' files.
//!
//! `inspect.getmodule` notes each module's file, and the file's real path (`realpath`). That asks for the status of each folder on the way to
//! each file, ten of them for a module of torch, in Python code. torch calls it for each operator that it defines. A path that has no
//! links in it is its own real path, and Linux says by one call whether it has any (`openat2` with `RESOLVE_NO_SYMLINKS`). So modules
//! with such paths are noted before `inspect` looks at them: when it copies `sys.modules`, which is how its loop begins (Lib/inspect.py,
//! 3.9 to 3.14). All else is left to `inspect`.

use crate::fault::{Fault, Outcome};
use crate::methods::{Place, globals_of_caller, replace_method};
use crate::reference::Ref;
use pyo3_ffi::{
    Py_EQ, PyBytes_AsString, PyCFunction, PyDict_CheckExact, PyDict_GetItemString,
    PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem, PyDict_Type, PyDictKeysObject,
    PyDictObject, PyErr_Clear, PyEval_GetFrame, PyEval_RestoreThread, PyEval_SaveThread,
    PyFrame_GetCode, PyFunction_Check, PyFunction_GetGlobals, PyImport_GetModuleDict,
    PyModule_Check, PyModule_CheckExact, PyModule_GetDict, PyObject, PyObject_CallOneArg,
    PyObject_GetAttrString, PyObject_RichCompareBool, PyUnicode_CheckExact,
    PyUnicode_CompareWithASCIIString, PyUnicode_FSConverter,
};
use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// CPython's `dict.copy`.
static COPY: Place<PyCFunction> = Place::new();

/// `sys.modules`.
static MODULES: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Up to where in `sys.modules` the modules were looked at. New ones come after it, as long as the dictionary has the same table of keys.
static SEEN: AtomicIsize = AtomicIsize::new(0);
static KEYS: AtomicPtr<PyDictKeysObject> = AtomicPtr::new(ptr::null_mut());

/// Has files of modules noted so.
///
/// # Safety
///
/// Attached, and nothing else has run in the interpreter.
pub(crate) unsafe fn note_in_time() {
    // SAFETY: attached; the dictionary of modules lives as long as the interpreter.
    unsafe {
        MODULES.store(PyImport_GetModuleDict(), Ordering::Release);
        replace_method(&raw mut PyDict_Type, c"copy", &COPY, copy);
    }
}

/// `dict.copy`.
unsafe extern "C" fn copy(dict: *mut PyObject, unused: *mut PyObject) -> *mut PyObject {
    let original = COPY.get().expect("it was set before");
    // SAFETY: CPython calls it attached, with a dictionary.
    unsafe {
        if ptr::eq(dict, MODULES.load(Ordering::Acquire)) && note(dict).is_err() {
            return ptr::null_mut();
        }
        original(dict, unused)
    }
}

/// A module that `inspect` has not noted.
struct New {
    module: Ref,
    /// The name in `sys.modules`, and the module's own.
    key: Ref,
    name: Ref,
    file: Ref,
    /// `bytes`, as the system wants it.
    path: Ref,
}

/// Notes new modules, if it is `inspect` that asks for all.
///
/// # Safety
///
/// Attached. `modules` is a dictionary.
unsafe fn note(modules: *mut PyObject) -> Outcome<()> {
    // SAFETY: attached. References are borrowed from dictionaries while nothing runs that changes these.
    unsafe {
        let globals = globals_of_caller(c"inspect");
        if globals.is_null() || !is_getmodule()? {
            return Ok(());
        }
        let table = |name: &CStr| PyDict_GetItemString(globals, name.as_ptr());
        let (by_name, by_file) = (table(c"_filesbymodname"), table(c"modulesbyfile"));
        let are_tables = [by_name, by_file]
            .iter()
            .all(|table| !table.is_null() && PyDict_CheckExact(*table) != 0);
        if !are_tables || !is_pythons(globals) {
            return Ok(());
        }
        let (by_name, by_file) = (Ref::borrowed(by_name)?, Ref::borrowed(by_file)?);
        let mut new = new(modules, &by_name)?;
        let getfile = table(c"getfile");
        if !is_own(globals, c"getfile") && !getfile.is_null() {
            // torch.package puts a function there that knows its own classes, and asks Python's for all else.
            let getfile = Ref::borrowed(getfile)?;
            let have: Vec<bool> =
                new.iter().map(|new| has_file(&getfile, new)).collect::<Outcome<_>>()?;
            let mut have = have.into_iter();
            new.retain(|_| have.next().unwrap_or_default());
        }
        let paths: Vec<&CStr> =
            new.iter().map(|new| CStr::from_ptr(PyBytes_AsString(new.path.as_ptr()))).collect();
        let state = PyEval_SaveThread();
        let are_real: Vec<bool> = paths.into_iter().map(is_real).collect();
        PyEval_RestoreThread(state);
        for (new, is_real) in new.iter().zip(are_real) {
            let set = |table: &Ref, key: &Ref, value: &Ref| {
                PyDict_SetItem(table.as_ptr(), key.as_ptr(), value.as_ptr()) == 0
            };
            if is_real
                && !(set(&by_name, &new.key, &new.file) && set(&by_file, &new.file, &new.name))
            {
                return Err(Fault::Raised);
            }
        }
    }
    Ok(())
}

/// Whether it is `getmodule` that runs. `_signature_fromstr` copies the modules too.
///
/// # Safety
///
/// Attached, in a Python function.
unsafe fn is_getmodule() -> Outcome<bool> {
    // SAFETY: attached; the frame is alive as long as its function runs.
    unsafe {
        let frame = PyEval_GetFrame();
        if frame.is_null() {
            // CPython makes the frame's object now, and had no memory for it. It sets no exception.
            return Ok(false);
        }
        let code = Ref::owned(PyFrame_GetCode(frame).cast())?;
        let name = Ref::owned(PyObject_GetAttrString(code.as_ptr(), c"co_name".as_ptr()))?;
        Ok(PyUnicode_CompareWithASCIIString(name.as_ptr(), c"getmodule".as_ptr()) == 0)
    }
}

/// Whether a function says that a module has its file. What it raises, `getmodule` would have it raise a moment later.
///
/// # Safety
///
/// Attached.
unsafe fn has_file(getfile: &Ref, new: &New) -> Outcome<bool> {
    // SAFETY: attached; the objects are alive during the calls.
    unsafe {
        let file = Ref::owned(PyObject_CallOneArg(getfile.as_ptr(), new.module.as_ptr()))?;
        match PyObject_RichCompareBool(file.as_ptr(), new.file.as_ptr(), Py_EQ) {
            -1 => Err(Fault::Raised),
            has => Ok(has == 1),
        }
    }
}

/// Whether `inspect` and `os.path` have their own functions. A test may have put others there, which want to be called.
///
/// # Safety
///
/// Attached; `globals` are those of `inspect`.
unsafe fn is_pythons(globals: *mut PyObject) -> bool {
    // SAFETY: attached; the references are borrowed for moments.
    unsafe {
        let names = |globals: *mut PyObject, name: &CStr| {
            let module = PyDict_GetItemString(globals, name.as_ptr());
            let is_module = !module.is_null() && PyModule_Check(module) != 0;
            if is_module { PyModule_GetDict(module) } else { ptr::null_mut() }
        };
        let os = names(globals, c"os");
        let path = if os.is_null() { os } else { names(os, c"path") };
        [c"getabsfile", c"getsourcefile"].into_iter().all(|name| is_own(globals, name))
            && !path.is_null()
            && [c"abspath", c"normcase", c"realpath"].into_iter().all(|name| is_own(path, name))
    }
}

/// Whether a name in a module stands for a function of this module.
///
/// # Safety
///
/// Attached; `globals` are a module's.
unsafe fn is_own(globals: *mut PyObject, name: &CStr) -> bool {
    // SAFETY: attached; the reference is borrowed for a moment.
    unsafe {
        let function = PyDict_GetItemString(globals, name.as_ptr());
        !function.is_null()
            && PyFunction_Check(function) != 0
            && ptr::eq(PyFunction_GetGlobals(function), globals)
    }
}

/// Modules that came after those that were seen, and whose files might be noted at once.
///
/// # Safety
///
/// Attached.
unsafe fn new(modules: *mut PyObject, by_name: &Ref) -> Outcome<Vec<New>> {
    let mut new = Vec::new();
    // SAFETY: `modules` is a dictionary.
    let keys = unsafe { (*modules.cast::<PyDictObject>()).ma_keys };
    // A new table has no gaps. An import leaves one: `importlib` takes the module out, and puts it in again.
    let is_same = ptr::eq(KEYS.swap(keys, Ordering::AcqRel), keys);
    let mut position = if is_same { SEEN.load(Ordering::Acquire) } else { 0 };
    let (mut key, mut module) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: attached. Nothing here runs Python code, and so the dictionary stays as it is: all keys are strings.
    unsafe {
        while PyDict_Next(modules, &mut position, &mut key, &mut module) != 0 {
            if PyUnicode_CheckExact(key) == 0 || PyModule_CheckExact(module) == 0 {
                continue;
            }
            let names = PyModule_GetDict(module);
            let text = |name: &CStr| {
                let value = PyDict_GetItemString(names, name.as_ptr());
                (!value.is_null() && PyUnicode_CheckExact(value) != 0).then_some(value)
            };
            let (Some(file), Some(name)) = (text(c"__file__"), text(c"__name__")) else {
                continue;
            };
            let noted = PyDict_GetItemWithError(by_name.as_ptr(), key);
            if !noted.is_null() && PyObject_RichCompareBool(noted, file, Py_EQ) == 1 {
                continue;
            }
            let mut path: *mut PyObject = ptr::null_mut();
            if PyUnicode_FSConverter(file, (&raw mut path).cast()) == 0 {
                PyErr_Clear();
                continue;
            }
            let path = Ref::owned(path)?;
            if is_plain(CStr::from_ptr(PyBytes_AsString(path.as_ptr())).to_bytes()) {
                let [module, key, name, file] =
                    [module, key, name, file].map(|object| Ref::borrowed(object));
                new.push(New { module: module?, key: key?, name: name?, file: file?, path });
            }
        }
    }
    SEEN.store(position, Ordering::Release);
    Ok(new)
}

/// Whether it is the absolute path of a module's source or of an extension module, in the form that `os.path.normpath` gives it.
fn is_plain(path: &[u8]) -> bool {
    let Some(parts) = path.strip_prefix(b"/") else { return false };
    (path.ends_with(b".py") || path.ends_with(b".so"))
        && parts.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

/// Whether there is such a file, and no link on the way to it. Where the system does not know the question (before Linux 5.6, or
/// where a filter of system calls forbids it), the answer is no.
fn is_real(path: &CStr) -> bool {
    // SAFETY: all fields may be zero (openat2(2)).
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    let length = size_of_val(&how);
    // SAFETY: the path is a C string, and the description has its length.
    let file = unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &raw const how, length)
    };
    let Ok(file @ 0..) = i32::try_from(file) else { return false };
    // SAFETY: the descriptor is new, and nobody else closes it.
    drop(unsafe { OwnedFd::from_raw_fd(file) });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normal_absolute_paths_of_modules_are_noted() {
        for path in ["/a/b.py", "/a.so", "/a.b/c..d/e.cpython-311-x86_64-linux-gnu.so"] {
            assert!(is_plain(path.as_bytes()), "{path}");
        }
        let others = [
            "",
            "a.py",
            "/a.pyc",
            "//a.py",
            "/a//b.py",
            "/a/./b.py",
            "/a/../b.py",
            "/.py/",
            "/a.py/..",
        ];
        for path in others {
            assert!(!is_plain(path.as_bytes()), "{path}");
        }
    }
}
