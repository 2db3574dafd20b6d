//! Exceptions of C++ that extension code lets out, where CPython cannot catch them. The tests run on every Python
//! of the machine.

mod pythons;

use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{builders, pools};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn an_extension_whose_constructor_throws_is_an_import_error() {
    let shop = Workshop::new("import-throws");
    let source = "#include <stdexcept>
        static struct Registry { Registry() { throw std::invalid_argument(\"twice the name0\"); } } registry;
        extern \"C\" void *PyLong_FromLong(long);
        extern \"C\" void *PyInit_throws() { return PyLong_FromLong(1); }";
    let module = shop.build("libthrows++.so", source, &[]);
    let code = "
import ctypes
import importlib.util
def attempt(path):
    said = []
    for load in (ctypes.CDLL, lambda path: importlib.util.module_from_spec(
            importlib.util.spec_from_file_location('throws', path))):
        for again in range(2):
            try:
                load(path)
            except (ImportError, OSError) as error:
                said.append(f'{type(error).__name__}: {error}')
    return said
";
    for pool in pools(3) {
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            let attempt = session.run(code, "attempt.py").unwrap().getattr("attempt").unwrap();
            let said = attempt.call((module.to_str().unwrap(),)).unwrap();
            let said: Vec<String> = said.extract().unwrap();
            let kinds: Vec<_> = said.iter().map(|text| text.split(':').next().unwrap()).collect();
            assert_eq!(kinds, ["OSError", "OSError", "ImportError", "ImportError"], "{said:?}");
            let what = "a constructor threw an exception: std::invalid_argument: twice the name0";
            assert!(said.iter().all(|text| text.contains(what)), "{said:?}");
        }
    }
}

#[test]
fn an_exception_that_python_code_lets_out_is_named_at_the_end_of_the_process() {
    // In the process that `alone` makes, the exception ends the process, so what follows is not reached there.
    // Here, the panic says what it printed.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        alone(PATIENCE, || {
            let shop = Workshop::new("call-throws");
            let source = "#include <stdexcept>
                extern \"C\" void *PyLong_FromLong(long);
                extern \"C\" void fail() { if (PyLong_FromLong(1)) throw std::runtime_error(\"out of Python\"); }";
            let library = shop.build("libcallthrows++.so", source, &[]);
            let pool = builders(2).next().unwrap().build().unwrap();
            let session = pool.acquire().unwrap();
            let ctypes = session.import("ctypes").unwrap();
            let library = ctypes.call_method("PyDLL", (library.to_str().unwrap(),)).unwrap();
            drop(shop);
            library.call_method("fail", ()).map(drop).unwrap();
        });
    }));
    let Err(panic) = outcome else { panic!("the exception did not end the process") };
    let text = panic.downcast::<String>().unwrap();
    let named = "terminate called after throwing an instance of 'std::runtime_error'";
    assert!(text.contains(named) && text.contains("what():  out of Python"), "{text}");
    assert!(!text.contains("foreign exceptions"), "{text}");
}
