//! Thread-local storage and further replicas, compared with glibc's loader on the same library.

use std::ffi::{CString, c_int, c_void};
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use hydrozoa_loader::{Domain, Loader, OpenFlags};

/// Reads a thread-local variable by the general-dynamic model, as position-independent code does. The variable begins
/// as zero, like an interpreter's pointer to its thread's state.
const SOURCE: &str = "
__thread int counter;
int read_many(int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        __asm__ volatile(\"\" ::: \"memory\");
        sum += 1 + counter;
    }
    return sum;
}
";

/// How many reads one call makes. The number makes the cost of the call itself negligible.
const READS: c_int = 1000;

fn compile(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("counter.c"), folder.join("libcounter.so"));
    fs::write(&source, SOURCE).expect("the source is written");
    // Without optimisation, the code asks for the address at every read. That is the measured operation.
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O0", "-ftls-model=global-dynamic", "-o"])
        .args([&library, &source])
        .status()
        .expect("cc runs");
    assert!(status.success(), "cc: {status}");
    library
}

/// `dlopen` by glibc.
fn system_open(path: &Path) -> *mut c_void {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL in a path");
    // SAFETY: the libraries opened here have no constructors that do anything.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "dlopen of {}", path.display());
    handle
}

fn thread_local(criterion: &mut Criterion) {
    type ReadMany = extern "C" fn(c_int) -> c_int;
    let folder = std::env::temp_dir().join(format!("hydrozoa-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the library");
    let library = compile(&folder);
    let handle = system_open(&library);
    // SAFETY: the handle is open, the name ends in NUL.
    let symbol = unsafe { libc::dlsym(handle, c"read_many".as_ptr()) };
    // SAFETY: the source above declares this signature.
    let by_glibc = unsafe { std::mem::transmute::<*mut c_void, ReadMany>(symbol) };
    let loader = Loader::builder().build().expect("a loader");
    let domain = loader.domain("bench").build().expect("a domain");
    // SAFETY: the library above; its only state is the variable that it reads.
    let replica = unsafe { domain.open(&library, OpenFlags::NOW) }.expect("a replica");
    let symbol = replica.symbol("read_many").expect("it is defined");
    // SAFETY: the source above declares this signature.
    let by_us = unsafe { std::mem::transmute::<*const c_void, ReadMany>(symbol) };
    assert_eq!((by_glibc(READS), by_us(READS)), (READS, READS));
    let mut group = criterion.benchmark_group("1000 thread-local reads");
    group.bench_function("replica", |bencher| bencher.iter(|| by_us(black_box(READS))));
    group.bench_function("glibc", |bencher| bencher.iter(|| by_glibc(black_box(READS))));
    group.finish();
    // The code stays mapped; the files are no longer needed.
    let _ = fs::remove_dir_all(&folder);
}

fn further_replica(criterion: &mut Criterion) {
    let library =
        hydrozoa::python::find(None).expect("a Python with a shared library").library().to_owned();
    let folder = std::env::temp_dir().join(format!("hydrozoa-bench-copies-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for copies");
    let loader = Loader::builder().build().expect("a loader");
    let first = loader.domain("first").build().expect("a domain");
    let replicate = |domain: &Domain| {
        // SAFETY: a libpython keeps all of its state in its own variables; nothing calls it.
        unsafe { domain.open(&library, OpenFlags::NOW | OpenFlags::GLOBAL) }.expect("a replica");
    };
    replicate(&first);
    let mut group = criterion.benchmark_group("libpython once more");
    // Each load leaves its mappings behind, so there are few samples.
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200));
    group.bench_function("replica", |bencher| {
        bencher.iter_custom(|count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                let domain = loader.domain("further").build().expect("a domain");
                replicate(&domain);
                total += start.elapsed();
                // Kept open, as an interpreter keeps its library.
                std::mem::forget(domain);
            }
            total
        });
    });
    let mut copies = 0;
    group.bench_function("glibc, a copy of the file, without the copying", |bencher| {
        bencher.iter_custom(|count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                copies += 1;
                let copy = folder.join(format!("libpython-{copies}.so"));
                fs::copy(&library, &copy).expect("a copy");
                let start = Instant::now();
                system_open(&copy);
                total += start.elapsed();
                fs::remove_file(&copy).expect("the copy is removed");
            }
            total
        });
    });
    group.finish();
    let _ = fs::remove_dir_all(&folder);
}

criterion_group!(benches, thread_local, further_replica);
criterion_main!(benches);
