//! A kernel that refuses the requests of a load, and exhausted resources.

mod exhausted;
mod graph;

use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use graph::{Graph, RAN, works};
use hydrozoa_loader::{Domain, Error, Library, OpenFlags, Result};
use hydrozoa_testkit::libraries::{Workshop, open};
use hydrozoa_testkit::process::{Possessions, in_child};
use hydrozoa_testkit::refusal::{Point, count, points, refusing, watch};

/// Libraries that stay once they are loaded, since they belong to no single domain.
const SHARED: [&str; 2] = ["/libcommon.so", "/libsystem.so"];

/// Seconds that one attempt may take, and all of them, on a busy machine.
const ATTEMPT: u32 = 60;
const SCENE: u32 = 900;

/// Checks that an error names its object and the kernel's error.
fn check(error: &Error, point: Point, directory: &Path) {
    let text = error.to_string();
    let names =
        [directory.to_str().unwrap(), ".so", "the index of replicas", "under test", "commons"];
    let named = names.iter().any(|name| text.contains(name));
    // Without memory for its stack a thread cannot start.
    let reasons = [point.error, libc::EAGAIN].map(std::io::Error::from_raw_os_error);
    let told = reasons
        .iter()
        .any(|reason| text.contains(reason.to_string().split(" (os").next().unwrap()));
    assert!(named && (told || matches!(error, Error::System { .. })), "{error:?}: {text}");
}

/// Loads once for each request to the kernel, with that request refused, each time in its own process.
/// `prepare` runs before, and `load` is the attempt. If `exact` is set, a failed attempt leaves nothing.
fn refuse_all<T>(
    graph: &Graph,
    exact: bool,
    prepare: impl FnOnce() -> T,
    load: impl Fn(&T) -> Result<Library>,
    replicas: impl Fn(&T) -> usize,
) {
    let directory = &graph.directory;
    let report = in_child(SCENE, || {
        // The variable served to start the test itself. The loader must not search it.
        // SAFETY: this process has no other thread.
        unsafe { std::env::remove_var("LD_LIBRARY_PATH") };
        let prepared = prepare();
        // SAFETY: as above.
        unsafe { std::env::remove_var(RAN) };
        let alone = || {
            let started = Arc::new(Barrier::new(2));
            let there = started.clone();
            std::thread::spawn(move || {
                there.wait();
                loop {
                    std::thread::park();
                }
            });
            started.wait();
            watch();
        };
        let counts = in_child(ATTEMPT, || {
            alone();
            let counts = count(|| drop(load(&prepared).unwrap()));
            counts.iter().map(|count| format!("{count} ")).collect()
        });
        let counts: Vec<usize> =
            counts.unwrap().split_whitespace().map(|count| count.parse().unwrap()).collect();
        let all = points(&counts);
        let mut failures = Vec::new();
        let mut errors = 0;
        for &point in &all {
            let outcome = in_child(ATTEMPT, || {
                alone();
                let (before, existing) =
                    (Possessions::now(directory, &SHARED), replicas(&prepared));
                let (result, came) = refusing(point, || load(&prepared));
                match &result {
                    Ok(library) => works(library),
                    Err(error) => {
                        assert!(came, "{error} without a reason");
                        check(error, point, directory);
                        let left = Possessions::now(directory, &SHARED).since(&before);
                        assert!(!exact || left.is_empty(), "{error} leaves {left:?}");
                        assert!(std::env::var(RAN).is_err(), "{error} after constructors");
                        assert_eq!(replicas(&prepared), existing, "{error} after publication");
                    }
                }
                let again = load(&prepared);
                let said = result.err().map(|error| error.to_string()).unwrap_or_default();
                works(&again.unwrap_or_else(|again| panic!("{said}, then {again}")));
                said
            });
            match outcome {
                Ok(said) => {
                    errors += usize::from(!said.is_empty());
                    if std::env::var_os("HYDROZOA_TEST_SHOW").is_some() {
                        eprintln!("{point}: {said}");
                    }
                }
                Err(failure) => failures.push(format!("{point}: {failure}")),
            }
        }
        assert!(
            failures.is_empty(),
            "{} of {}:\n{}",
            failures.len(),
            all.len(),
            failures.join("\n")
        );
        // Refusing an optional request causes no error. Refusing any other does.
        assert!(errors > 20 && errors < all.len());
        format!(
            "{} requests, {} refusals, {errors} errors",
            counts.iter().sum::<usize>(),
            all.len()
        )
    });
    match report {
        Ok(report) => println!("{report}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// How many replicas code in the domain sees, by `dl_iterate_phdr`.
fn replicas(domain: &Domain) -> usize {
    domain.replicas().len()
}

#[test]
fn a_load_that_the_kernel_refuses_leaves_nothing_and_the_next_one_works() {
    let graph = Graph::build("refused-load");
    let prepare = || {
        let other = graph.domain();
        works(&graph.open(&other).unwrap());
        graph.domain()
    };
    refuse_all(&graph, true, prepare, |domain| graph.open(domain), replicas);
}

#[test]
fn the_first_load_of_a_process_can_be_repeated_whatever_the_kernel_refused() {
    let graph = Graph::build("refused-first");
    let load = |_: &()| graph.open(&graph.loader()?.domain("under test").build()?);
    refuse_all(&graph, false, || (), load, |_| 0);
}

#[test]
fn bytes_are_provided_or_not_but_never_half() {
    let graph = Graph::build("refused-bytes");
    let bytes = std::fs::read(&graph.root).unwrap();
    let path = PathBuf::from(format!("{}/libprovided.so", graph.directory.display()));
    let load = |domain: &Domain| {
        hydrozoa_loader::provide(&path, &bytes)?;
        open(domain, &path, OpenFlags::LAZY)
    };
    let prepare = || graph.domain();
    refuse_all(&graph, false, prepare, load, replicas);
}

#[test]
fn what_could_not_be_unmapped_is_unmapped_later() {
    let shop = Workshop::new("refused-unmapping");
    let fails = shop.build(
        "libhuge.so",
        "static volatile __thread char all[1 << 20]; int f(void) { return all[5]; }",
        &["-ftls-model=initial-exec"],
    );
    let directory = fails.parent().unwrap().canonicalize().unwrap();
    let said = in_child(ATTEMPT, || {
        let loader = hydrozoa_loader::Loader::builder().build().unwrap();
        let domain = loader.domain("under test").build().unwrap();
        let fail = || open(&domain, &fails, OpenFlags::NOW).unwrap_err();
        fail();
        watch();
        let counts = count(fail);
        let before = Possessions::now(&directory, &[]);
        let point = points(&counts).into_iter().rfind(|point| point.is("munmap")).unwrap();
        let (error, came) = refusing(point, fail);
        assert!(came && matches!(error, Error::Tls { .. }), "{error}");
        let left = Possessions::now(&directory, &[]).since(&before);
        fail();
        let later = Possessions::now(&directory, &[]).since(&before);
        format!("{} {}", left.is_empty(), later.is_empty())
    });
    assert_eq!(said.as_deref(), Ok("false true"));
}

/// The TLS modules of objects in `directory` that `dl_iterate_phdr` reports in a domain.
fn tls_modules(domain: &Domain, directory: &Path) -> Vec<usize> {
    struct Search<'a> {
        directory: &'a Path,
        found: Vec<usize>,
    }
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the record is valid and named, and the search is the one below.
        let (info, name, search) = unsafe {
            (&*info, CStr::from_ptr((*info).dlpi_name), &mut *search.cast::<Search<'_>>())
        };
        if Path::new(name.to_str().unwrap()).starts_with(search.directory) {
            search.found.push(info.dlpi_tls_modid);
        }
        0
    }
    type Iterate = extern "C" fn(
        extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int,
        *mut c_void,
    ) -> c_int;
    let iterate = domain.symbol("dl_iterate_phdr").unwrap();
    // SAFETY: it has this type.
    let iterate = unsafe { std::mem::transmute::<*const c_void, Iterate>(iterate) };
    let mut search = Search { directory, found: Vec::new() };
    iterate(visit, (&raw mut search).cast());
    search.found
}

#[test]
fn thread_local_data_of_loads_that_fail_is_there_for_the_next_one() {
    let shop = Workshop::new("refused-tls");
    let source = "__thread char few[40]; __thread int one = 1;
                  int next(void) { return one++ + few[0]; }";
    let paths: Vec<PathBuf> = (0..3)
        .map(|number| match number {
            // Its block lies in static TLS. Those of the others do not.
            0 => shop.build(
                "libsmall.so",
                "__thread char few[40]; char *f(void) { return few; }",
                &[],
            ),
            _ => shop.build(&format!("libnext{number}.so"), source, &["-Wl,-z,relro"]),
        })
        .collect();
    let directory = paths[0].parent().unwrap().canonicalize().unwrap();
    let modules = |refusals: usize| {
        in_child(ATTEMPT, || {
            let loader = hydrozoa_loader::Loader::builder().build().unwrap();
            let domain = loader.domain("under test").build().unwrap();
            // A load in another domain comes first, with nothing refused: it does the work that happens once per process.
            let other = loader.domain("other").build().unwrap();
            paths.iter().for_each(|path| drop(open(&other, path, OpenFlags::NOW).unwrap()));
            watch();
            let last = |path: &PathBuf| {
                let third = loader.domain("third").build().unwrap();
                let counts = count(|| open(&third, path, OpenFlags::NOW).unwrap());
                points(&counts).into_iter().rfind(|point| point.is("mprotect")).unwrap()
            };
            let points: Vec<Point> = paths.iter().map(last).collect();
            for _ in 0..refusals {
                for (path, &point) in paths.iter().zip(&points) {
                    let (result, _) = refusing(point, || open(&domain, path, OpenFlags::NOW));
                    assert!(matches!(result, Err(Error::Memory { .. })), "{result:?}");
                }
            }
            for path in &paths {
                open(&domain, path, OpenFlags::NOW).unwrap();
            }
            format!("{:?}", tls_modules(&domain, &directory))
        })
        .unwrap()
    };
    let undisturbed = modules(0);
    assert_eq!(undisturbed.split(',').count(), 9, "{undisturbed}");
    assert_eq!(modules(300), undisturbed);
}
