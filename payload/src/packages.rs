//! What the objects of each Python package take.
//!
//! Modules are visited in the order of `sys.modules`. An object belongs to the package of the first module that leads to
//! it, and a function or a class to the package that its `__module__` names. From there the way goes as the garbage
//! collector's: `tp_traverse` of each object (Doc/c-api/gcsupport.rst). It stops at other modules. Those that were imported
//! completely come first in `sys.modules` (`_load_unlocked` in Lib/importlib/_bootstrap.py). So what a module takes over
//! from another one belongs to that one. What a module registers with another one, except functions and classes, does too.
//!
//! The size of an object is what `sys.getsizeof` says. It does not know what C code has taken from malloc without telling
//! Python, nor what the allocators lose between blocks.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{PackageSize, Status, Text};
use pyo3_ffi::{
    Py_TPFLAGS_HEAPTYPE, Py_TYPE, PyDict_GetItemWithError, PyDict_Next, PyErr_Clear,
    PyErr_Occurred, PyEval_RestoreThread, PyEval_SaveThread, PyFunction_Check,
    PyFunction_GetModule, PyImport_GetModuleDict, PyImport_ImportModule, PyList_GetItem,
    PyList_Size, PyLong_AsSsize_t, PyModule_Check, PyModule_GetDict, PyObject,
    PyObject_CallFunctionObjArgs, PyObject_CallMethodNoArgs, PyObject_IS_GC, PySys_GetObject,
    PyType_Check, PyType_HasFeature, PyTypeObject, PyUnicode_AsUTF8AndSize, PyUnicode_Check,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{c_int, c_void};
use std::ptr;

/// After so many objects another thread may have the GIL.
const TURN: usize = 8192;

/// The number of what no module leads to.
const NOBODY: usize = 0;

/// See [`crate::table::PayloadTable::packages`].
pub(crate) unsafe extern "C" fn packages(
    visit: unsafe extern "C" fn(*mut c_void, *const PackageSize),
    context: *mut c_void,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes its own sink, function and context.
    unsafe {
        guarded(sink, || {
            let mut search = Search::new()?;
            for module in search.modules()? {
                search.begin_at(module);
                search.walk();
            }
            search.add_tracked()?;
            search.walk();
            for package in search.packages.iter().filter(|package| package.objects > 0) {
                let (bytes, objects) = (package.bytes, package.objects);
                visit(context, &PackageSize { name: Text::new(&package.name), bytes, objects });
            }
            Ok(())
        })
    }
}

#[derive(Default)]
struct Package {
    name: String,
    bytes: usize,
    objects: usize,
}

/// An object that was found, and the package that it was found for.
struct Found {
    object: Ref,
    package: usize,
}

struct Search {
    packages: Vec<Package>,
    /// Their numbers, by name.
    numbers: HashMap<String, usize>,
    /// Addresses of objects that were found. One that was freed meanwhile leaves its address to another, which is missed then.
    seen: HashSet<usize>,
    /// Those from which the way has not gone on.
    found: VecDeque<Found>,
    /// How many were visited.
    turn: usize,
    size_of: Ref,
    /// `"__module__"`.
    module: Ref,
}

impl Search {
    /// # Safety
    ///
    /// The thread is attached, here and for all functions of a search.
    unsafe fn new() -> Outcome<Self> {
        // SAFETY: attached.
        let (size_of, module) = unsafe {
            (Ref::borrowed(PySys_GetObject(c"getsizeof".as_ptr()))?, Ref::text(b"__module__")?)
        };
        Ok(Self {
            packages: vec![Package::default()],
            numbers: HashMap::new(),
            seen: HashSet::new(),
            found: VecDeque::new(),
            turn: 0,
            size_of,
            module,
        })
    }

    /// Notes an object for a package, unless it is noted.
    ///
    /// # Safety
    ///
    /// Attached; the object is alive.
    unsafe fn note(&mut self, object: *mut PyObject, package: usize) {
        if self.seen.insert(object.addr()) {
            // SAFETY: by contract.
            if let Ok(object) = unsafe { Ref::borrowed(object) } {
                self.found.push_back(Found { object, package });
            }
        }
    }

    /// The modules, in their order. No way leads to them from now on.
    unsafe fn modules(&mut self) -> Outcome<Vec<Found>> {
        let mut found = Vec::new();
        // SAFETY: attached. No code of Python's runs while the dictionary is read, and the modules are in it.
        unsafe {
            let modules = PyImport_GetModuleDict();
            self.seen.insert(modules.addr());
            let (mut position, mut name, mut module) = (0, ptr::null_mut(), ptr::null_mut());
            while PyDict_Next(modules, &mut position, &mut name, &mut module) != 0 {
                let Some(name) = text(name) else { continue };
                let package = self.number(name.split('.').next().unwrap_or_default());
                if !self.seen.insert(module.addr()) {
                    continue;
                }
                if PyModule_Check(module) != 0 {
                    self.seen.insert(PyModule_GetDict(module).addr());
                }
                found.push(Found { object: Ref::borrowed(module)?, package });
            }
        }
        Ok(found)
    }

    /// Begins at one of them.
    unsafe fn begin_at(&mut self, module: Found) {
        // SAFETY: attached, and the module is alive.
        unsafe {
            let object = module.object.as_ptr();
            if PyModule_Check(object) != 0 {
                let names = Ref::borrowed(PyModule_GetDict(object));
                let package = module.package;
                self.found.extend(names.ok().map(|object| Found { object, package }));
            }
        }
        self.found.push_back(module);
    }

    /// Goes on with what the collector knows and no module leads to. What `gc.freeze` has put aside it does not name.
    unsafe fn add_tracked(&mut self) -> Outcome<()> {
        // SAFETY: attached; the list is ours, and keeps what is in it alive.
        unsafe {
            let gc = Ref::owned(PyImport_ImportModule(c"gc".as_ptr()))?;
            let name = Ref::text(b"get_objects")?;
            let all = Ref::owned(PyObject_CallMethodNoArgs(gc.as_ptr(), name.as_ptr()))?;
            self.seen.insert(all.as_ptr().addr());
            for index in 0..PyList_Size(all.as_ptr()) {
                self.note(PyList_GetItem(all.as_ptr(), index), NOBODY);
            }
        }
        Ok(())
    }

    /// Counts what was found, and finds what that leads to.
    unsafe fn walk(&mut self) {
        while let Some(Found { object, package }) = self.found.pop_front() {
            // SAFETY: attached, and the reference keeps the object alive.
            unsafe {
                let package = self.owner(object.as_ptr()).unwrap_or(package);
                let kind = Py_TYPE(object.as_ptr());
                let is_static = PyType_Check(object.as_ptr()) != 0
                    && PyType_HasFeature(object.as_ptr().cast(), Py_TPFLAGS_HEAPTYPE) == 0;
                if is_static {
                    // It is data of a library, and the collector does not visit it.
                    self.note_parts(object.as_ptr().cast(), package);
                } else {
                    self.packages[package].bytes += self.size(object.as_ptr(), kind);
                    self.packages[package].objects += 1;
                }
                if PyObject_IS_GC(object.as_ptr()) != 0
                    && let Some(traverse) = (*kind).tp_traverse
                {
                    let mut way = Way { search: self, package };
                    traverse(object.as_ptr(), step, (&raw mut way).cast());
                }
                self.turn += 1;
                if self.turn.is_multiple_of(TURN) {
                    PyEval_RestoreThread(PyEval_SaveThread());
                }
            }
        }
    }

    /// Notes what a static type has got at run time.
    unsafe fn note_parts(&mut self, kind: *mut PyTypeObject, package: usize) {
        // SAFETY: the type is alive, and what it has is, too. The thread is attached.
        unsafe {
            for part in [(*kind).tp_dict, (*kind).tp_bases, (*kind).tp_mro] {
                if !part.is_null() {
                    self.note(part, package);
                }
            }
        }
    }

    /// The package that a function or a class says that it is of.
    unsafe fn owner(&self, object: *mut PyObject) -> Option<usize> {
        // SAFETY: attached, and the object is alive.
        unsafe {
            let module = if PyFunction_Check(object) != 0 {
                PyFunction_GetModule(object)
            } else if PyType_Check(object) != 0 {
                let names = (*object.cast::<PyTypeObject>()).tp_dict;
                if names.is_null() {
                    return None;
                }
                let module = PyDict_GetItemWithError(names, self.module.as_ptr());
                PyErr_Clear();
                module
            } else {
                return None;
            };
            let name = text(module)?;
            self.numbers.get(name.split('.').next()?).copied()
        }
    }

    /// `sys.getsizeof(object)`; of an object that cannot say it, what its type says.
    unsafe fn size(&self, object: *mut PyObject, kind: *mut PyTypeObject) -> usize {
        // SAFETY: attached, and the object and its type are alive. An exception that is set here is cleared here.
        unsafe {
            let none = ptr::null_mut::<PyObject>();
            let size =
                Ref::owned(PyObject_CallFunctionObjArgs(self.size_of.as_ptr(), object, none));
            let size = size.map_or(-1, |size| PyLong_AsSsize_t(size.as_ptr()));
            if !PyErr_Occurred().is_null() {
                PyErr_Clear();
            }
            usize::try_from(size).unwrap_or((*kind).tp_basicsize.max(0) as usize)
        }
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.packages.len();
        self.packages.push(Package { name: name.to_owned(), ..Package::default() });
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// What `tp_traverse` passes on.
struct Way<'search> {
    search: &'search mut Search,
    package: usize,
}

/// Notes an object that another one refers to.
///
/// # Safety
///
/// `way` is a [`Way`], and `object` alive: `tp_traverse` passes both.
unsafe extern "C" fn step(object: *mut PyObject, way: *mut c_void) -> c_int {
    // SAFETY: by contract; nothing else uses the way meanwhile.
    unsafe {
        let way = &mut *way.cast::<Way<'_>>();
        way.search.note(object, way.package);
    }
    0
}

/// The text of a `str`; nothing for other objects, and for null.
///
/// # Safety
///
/// The thread is attached. The object is alive, or null. The text is used only as long as it is.
unsafe fn text<'a>(object: *mut PyObject) -> Option<&'a str> {
    // SAFETY: attached; the object keeps its text.
    unsafe {
        if object.is_null() || PyUnicode_Check(object) == 0 {
            return None;
        }
        let mut length = 0;
        let data = PyUnicode_AsUTF8AndSize(object, &mut length);
        if data.is_null() {
            PyErr_Clear();
            return None;
        }
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), length as usize);
        std::str::from_utf8(bytes).ok()
    }
}
