//! A domain that extends the program: scopes and lifetimes follow `dlopen(3)`.
//!
//! Such a domain turns the objects of the system's loader into the scope that every object sees. So these tests have a
//! process of their own: other tests' libraries would be in that scope.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use hydrozoa_loader::{Class, Domain, Library, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// Calls of `dl*` functions from a library of the domain.
const DRIVER: &str = "
    #include <dlfcn.h>
    void *open_it(const char *path, int mode) { return dlopen(path, mode); }
    int close_it(void *handle) { return dlclose(handle); }
    int call_it(void *handle, const char *name) {
        int (*function)(void) = dlsym(handle, name);
        return function ? function() : -1000;
    }
    int loaded(const char *path) {
        void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) return 0;
        dlclose(handle);
        return 1;
    }";

struct Driver {
    library: Library,
    domain: Domain,
}

impl Driver {
    fn new(shop: &Workshop) -> Driver {
        let path = shop.build("libdriver.so", DRIVER, &[]);
        let pattern = format!("{}/*", path.parent().unwrap().canonicalize().unwrap().display());
        let policy = Policy::default().with(&pattern, Class::Replicate, "it is under test");
        let loader = Loader::builder().policy(policy).build().unwrap();
        let domain = loader.domain("program").extend_program().build().unwrap();
        let library = open(&domain, &path, OpenFlags::NOW).unwrap();
        Driver { library, domain }
    }

    fn open(&self, path: &Path, mode: c_int) -> usize {
        // SAFETY: declared as `void *open_it(const char *, int)`.
        let open: extern "C" fn(*const c_char, c_int) -> usize =
            unsafe { function(&self.library, "open_it") };
        open(CString::new(path.to_str().unwrap()).unwrap().as_ptr(), mode)
    }

    fn close(&self, handle: usize) -> c_int {
        // SAFETY: declared as `int close_it(void *)`.
        let close: extern "C" fn(usize) -> c_int = unsafe { function(&self.library, "close_it") };
        close(handle)
    }

    fn call(&self, handle: usize, name: &str) -> c_int {
        // SAFETY: declared as `int call_it(void *, const char *)`.
        let call: extern "C" fn(usize, *const c_char) -> c_int =
            unsafe { function(&self.library, "call_it") };
        call(handle, CString::new(name).unwrap().as_ptr())
    }

    fn is_loaded(&self, path: &Path) -> bool {
        // SAFETY: declared as `int loaded(const char *)`.
        let loaded: extern "C" fn(*const c_char) -> c_int =
            unsafe { function(&self.library, "loaded") };
        loaded(CString::new(path.to_str().unwrap()).unwrap().as_ptr()) == 1
    }
}

#[test]
fn a_function_that_is_defined_later_is_bound_when_it_is_called() {
    let shop = Workshop::new("late");
    let driver = Driver::new(&shop);
    let early = shop.build(
        "libearly.so",
        "double later(int, double, int, const char *, ...);
         int ask(void) { return (int) later(1, 2.5, 3, \"\", 4, 5.25); }",
        &[],
    );
    let late = shop.build(
        "liblate.so",
        "#include <stdarg.h>
         double later(int a, double b, int c, const char *d, ...) {
             va_list list; va_start(list, d);
             int e = va_arg(list, int); double f = va_arg(list, double); va_end(list);
             return a * 1000 + b * 100 + c * 10 + e + f; }",
        &[],
    );
    let early = driver.open(&early, libc::RTLD_LAZY);
    let provider = driver.open(&late, libc::RTLD_LAZY | libc::RTLD_GLOBAL);
    assert_eq!(driver.call(early, "ask"), 1289);
    // The call keeps what it found.
    assert_eq!(driver.close(provider), 0);
    assert_eq!(driver.call(early, "ask"), 1289);
}

#[test]
fn the_definitions_of_a_filtee_stand_before_its_filters() {
    let shop = Workshop::new("filter");
    let driver = Driver::new(&shop);
    let filtee = shop.build("libfiltee.so", "int which(void) { return 1; }", &[]);
    let source = "int which(void) { return 2; } int own(void) { return 3; }";
    let found = format!("-Wl,--auxiliary={}", filtee.display());
    let present = shop.build("libpresent.so", source, &[&found]);
    let absent = shop.build("libabsent.so", source, &["-Wl,--auxiliary=/nowhere/libfiltee.so"]);
    let (present, absent) =
        (driver.open(&present, libc::RTLD_NOW), driver.open(&absent, libc::RTLD_NOW));
    assert_eq!((driver.call(present, "which"), driver.call(present, "own")), (1, 3));
    assert_eq!(driver.call(absent, "which"), 2);
    assert_eq!(driver.close(present), 0);
    assert!(!driver.is_loaded(&filtee));
}

#[test]
fn what_the_program_finds_by_name_is_not_unloaded() {
    let shop = Workshop::new("found-by-name");
    let driver = Driver::new(&shop);
    let [found, other] = ["found_by_name", "not_looked_for"].map(|name| {
        let source = format!("static int n; int {name}(void) {{ return ++n; }}");
        shop.build(&format!("lib{name}.so"), &source, &[])
    });
    type Dlsym = unsafe extern "C" fn(usize, *const c_char) -> usize;
    let dlsym = driver.domain.symbol("dlsym").unwrap();
    // SAFETY: the domain's answer to `dlsym`, which is declared like this.
    let dlsym = unsafe { std::mem::transmute::<*const std::ffi::c_void, Dlsym>(dlsym) };
    let global = libc::RTLD_NOW | libc::RTLD_GLOBAL;
    let handles = [driver.open(&found, global), driver.open(&other, global)];
    let look = || {
        // SAFETY: RTLD_DEFAULT is null, and the name is terminated. The call is this executable's.
        unsafe { dlsym(0, c"found_by_name".as_ptr()) }
    };
    let address = look();
    assert_ne!(address, 0);
    assert_eq!(handles.map(|handle| driver.close(handle)), [0, 0]);
    assert_eq!((driver.is_loaded(&found), driver.is_loaded(&other)), (true, false));
    assert_eq!(look(), address);
}

#[test]
fn code_that_opens_a_library_whose_constructor_throws_gets_the_error_by_dlerror() {
    let shop = Workshop::new("dlopen-throws");
    let bad = shop.build(
        "libbad++.so",
        "#include <stdexcept>
         __attribute__((constructor)) static void begin() { throw std::range_error(\"out\"); }",
        &[],
    );
    let opener = shop.build(
        "libopener.so",
        "#include <dlfcn.h>
         const char *try_to_open(const char *path) { return dlopen(path, RTLD_NOW) ? \"opened\" : dlerror(); }",
        &[],
    );
    let policy = Policy::default().with("*/libbad++.so", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    let own = loader.domain("own").build().unwrap();
    let program = loader.domain("program").extend_program().build().unwrap();
    let text = |domain: &Domain, path: &Path| {
        let library = open(domain, &opener, OpenFlags::NOW).unwrap();
        // SAFETY: declared so in the source above.
        let try_to_open: extern "C-unwind" fn(*const c_char) -> *const c_char =
            unsafe { function(&library, "try_to_open") };
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string of dlerror, or a literal.
        unsafe { CStr::from_ptr(try_to_open(path.as_ptr())) }.to_str().unwrap().to_owned()
    };
    for domain in [&own, &program, &own] {
        let text = text(domain, &bad);
        assert!(
            text.contains("a constructor threw an exception: std::range_error: out ("),
            "{text}"
        );
    }
}
