//! Device code of libraries is registered with CUDA's runtime where a device may run it, and nowhere else; and what interpreters
//! have in common of a device, and what each has for itself.

mod device;
mod memory;
#[path = "../pythons/mod.rs"]
mod pythons;
mod sharing;

use hydrozoa_testkit::alone::{PATIENCE, alone, alone_with};
use hydrozoa_testkit::libraries::Workshop;
use pythons::builders;
use std::fs;
use std::path::Path;

/// The relevant part of CUDA's runtime: how many functions it knows, and that the handles are its own.
const RUNTIME: &str = "
static int registered, handle;
void **__cudaRegisterFatBinary(void *binary) { return (void **)&handle; }
void __cudaRegisterFatBinaryEnd(void **of) {}
void __cudaUnregisterFatBinary(void **of) {}
void __cudaRegisterFunction(void **of, const char *host, char *device, const char *name, int limit, void *thread, void *block,
                            void *dimension, void *grid, int *size) {
    registered += of == (void **)&handle;
}
int functions(void) { return registered; }
";

/// nvcc's output for a library with one kernel.
const KERNELS: &str = "
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
static void **handle;
__attribute__((constructor)) static void begin(void) {
    handle = __cudaRegisterFatBinary(0);
    __cudaRegisterFunction(handle, (const char *)begin, \"kernel\", \"kernel\", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}
__attribute__((destructor)) static void end(void) { __cudaUnregisterFatBinary(handle); }
int has_handle(void) { return handle != 0; }
";

/// How many functions each interpreter's own runtime knows, when the interpreter has opened the kernels.
fn registered(shop: &Workshop) -> Vec<i64> {
    shop.build("libruntime.so", RUNTIME, &[]);
    let kernels =
        shop.build("libkernels.so", KERNELS, &["-L{dir}", "-lruntime", "-Wl,-rpath,{dir}"]);
    let pool = builders(2).last().unwrap().build().unwrap();
    let number = |index: usize| {
        let session = pool.acquire_on(index).unwrap();
        let code = format!(
            "import ctypes\nkernels = ctypes.CDLL({kernels:?})\nassert kernels.has_handle()\n\
             found = ctypes.CDLL({:?}).functions()",
            shop.path("libruntime.so")
        );
        let names = session.run(&code, "kernels.py").unwrap();
        names.getattr("found").unwrap().extract::<i64>().unwrap()
    };
    vec![number(0), number(1)]
}

/// Whether this machine has a device or a driver of CUDA.
fn has_cuda() -> bool {
    let is_device = |name: &str| name == "dxg" || name.starts_with("nvidia");
    let mut devices = fs::read_dir("/dev").unwrap().flatten();
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    devices.any(|one| one.file_name().to_str().is_some_and(is_device))
        || cache.windows(12).any(|name| name == b"libcuda.so.1")
        || Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists()
}

#[test]
fn device_code_is_not_registered_where_nothing_can_run_it() {
    alone(PATIENCE, || {
        let expected = i64::from(has_cuda());
        assert_eq!(registered(&Workshop::new("device-code")), [expected; 2]);
    });
}

#[test]
fn device_code_is_registered_where_there_is_a_driver() {
    let driver = Workshop::new("device-code-driver");
    driver.build("libcuda.so.1", "int cuInit(unsigned flags) { return 100; }", &[]);
    let folder = driver.path("").into_os_string();
    alone_with(PATIENCE, &[("LD_LIBRARY_PATH", folder)], || {
        assert_eq!(registered(&Workshop::new("device-code-registered")), [1; 2]);
    });
}
