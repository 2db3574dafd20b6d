//! A program that has a Python of its own, of the installation that its pools have or of another one.

mod pythons;

use hydrozoa::{LibraryRules, Pool, python};
use hydrozoa_testkit::alone::{PATIENCE, alone_with, is_alone};
use pythons::pythons;
use std::env;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that names the program's libpython in the process of a test.
const OWN: &str = "HYDROZOA_TEST_OWN_PYTHON";

/// Extension modules of CPython that hold objects of their interpreter, and numpy where it is installed.
const WORK: &str = "
import _ctypes, ctypes, decimal, hashlib, json, math, sqlite3, zlib
assert zlib.decompress(zlib.compress(b'x' * 100)) == b'x' * 100
assert str(decimal.Decimal(1) / 8) == '0.125'
assert ctypes.sizeof(type('S', (ctypes.Structure,), {'_fields_': [('a', ctypes.c_int)]})) == 4
assert sqlite3.connect(':memory:').execute('select 6 * 7').fetchone() == (42,)
try:
    import numpy
except ModuleNotFoundError:
    pass
else:
    assert numpy.arange(10) @ numpy.arange(10) == 285
";

/// A Python that the program runs by its C API.
struct Embedded {
    run: unsafe extern "C" fn(*const c_char) -> c_int,
}

impl Embedded {
    /// Starts the one that the process of a test has.
    fn start() -> Self {
        let path = CString::new(own().as_os_str().as_bytes()).unwrap();
        // SAFETY: a libpython. Extension modules name no library for its symbols, so they are global.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null(), "{path:?} cannot be opened");
        let symbol = |name: &CStr| -> *mut c_void {
            // SAFETY: the handle was just opened.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!address.is_null(), "{name:?}");
            address
        };
        // SAFETY: the types of CPython's Doc/c-api/init.rst and veryhigh.rst.
        unsafe {
            let start: extern "C" fn(c_int) = std::mem::transmute(symbol(c"Py_InitializeEx"));
            start(0);
            let run: unsafe extern "C" fn(*const c_char) -> c_int =
                std::mem::transmute(symbol(c"PyRun_SimpleString"));
            Self { run }
        }
    }

    fn works(&self) {
        let code = CString::new(WORK).unwrap();
        // SAFETY: the thread that started it runs it.
        assert_eq!(unsafe { (self.run)(code.as_ptr()) }, 0, "the program's own Python");
    }
}

/// The libpython of the program.
fn own() -> PathBuf {
    env::var_os(OWN).expect("the process of a test has it").into()
}

/// Two interpreters that do the work, and no copy of a library of `own` without one of theirs.
fn works(pool: &Pool) {
    for index in [0, 1, 0] {
        let session = pool.acquire_on(index).unwrap();
        session.run(WORK, "in the pool").unwrap();
        let replicas = session.interpreter().domain().replicas();
        let module = session.eval("__import__('_ctypes').__file__").unwrap();
        let module = PathBuf::from(module.extract::<String>().unwrap()).canonicalize().unwrap();
        assert!(replicas.iter().any(|replica| replica.path == module), "{}", module.display());
    }
}

fn pool(library: &Path) -> Pool {
    Pool::builder().python(library).interpreters(2).build().unwrap()
}

/// The libpythons with which a test runs, each in a process of its own: in the process of a test only its own one.
fn each() -> impl Iterator<Item = &'static PathBuf> {
    let own = is_alone().then(own);
    pythons().values().filter(move |library| own.as_ref().is_none_or(|own| own == *library))
}

/// The variables of a process that has this libpython. `PYTHONHOME` counts for the program's own Python alone, which
/// would otherwise take the standard library of the `python3` on PATH.
fn with_own(library: &Path) -> [(&'static str, OsString); 2] {
    let installation = python::find(Some(library)).unwrap();
    [(OWN, library.into()), ("PYTHONHOME", installation.prefix().into())]
}

#[test]
fn pools_start_before_and_after_the_program_s_own_python_imports_extensions() {
    for library in each() {
        alone_with(PATIENCE, &with_own(library), || {
            let before = pool(&own());
            let program = Embedded::start();
            let beside = pool(&own());
            program.works();
            [&before, &beside].into_iter().for_each(works);
            let after = pool(&own());
            works(&after);
            program.works();
            drop((before, beside, after));
            works(&pool(&own()));
            program.works();
        });
    }
}

/// The extension module `name` of the installation that has `library`.
fn extension(library: &Path, name: &str) -> PathBuf {
    let installation = python::find(Some(library)).unwrap();
    let folder = format!("lib/python3.{}/lib-dynload", installation.minor());
    let folder = installation.prefix().join(folder);
    let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |file: &PathBuf| file.file_name().unwrap().as_bytes().starts_with(name.as_bytes());
    files.find(is_it).unwrap_or_else(|| panic!("{} has no {name}", folder.display()))
}

#[test]
fn extensions_that_the_program_began_with_are_not_the_pool_s() {
    for library in each() {
        let preloaded =
            [library.clone(), extension(library, "_ctypes."), extension(library, "_decimal.")];
        let preloaded = preloaded.map(|file| file.to_str().unwrap().to_owned()).join(" ");
        let [own_library, home] = with_own(library);
        let variables = [own_library, home, ("LD_PRELOAD", preloaded.into())];
        alone_with(PATIENCE, &variables, || {
            let program = Embedded::start();
            program.works();
            works(&pool(&own()));
            program.works();
        });
    }
}

#[test]
fn a_rule_that_shares_every_library_shares_no_extension_of_the_program_s_python() {
    for library in each() {
        alone_with(PATIENCE, &with_own(library), || {
            let program = Embedded::start();
            program.works();
            let rules = LibraryRules::new().share("*");
            works(
                &Pool::builder().python(own()).libraries(&rules).interpreters(2).build().unwrap(),
            );
            program.works();
        });
    }
}

#[test]
fn pools_of_every_python_start_beside_the_program_s_own_one() {
    for library in each() {
        alone_with(PATIENCE, &with_own(library), || {
            let program = Embedded::start();
            program.works();
            let pools: Vec<Pool> = pythons().values().map(|library| pool(library)).collect();
            pools.iter().for_each(works);
            program.works();
        });
    }
}
