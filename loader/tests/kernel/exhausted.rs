//! Resources that the test really uses up, and files that change between two loads.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::ATTEMPT;
use crate::graph::{Graph, works};
use hydrozoa_loader::{Domain, Error, Loader, OpenFlags};
use hydrozoa_testkit::libraries::{Workshop, function, open};
use hydrozoa_testkit::process::in_child;

/// The error code behind a typed error of a file or of memory, which names an object of ours.
fn code(error: &Error) -> Option<i32> {
    match error {
        Error::Io { object, source, .. } | Error::Memory { object, source, .. } => {
            assert!(!object.as_os_str().is_empty());
            source.raw_os_error()
        }
        other => panic!("{other:?}"),
    }
}

fn limit(resource: libc::__rlimit_resource_t, soft: libc::rlim_t) {
    // SAFETY: the record is valid.
    unsafe {
        let mut limit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(resource, &mut limit), 0);
        limit.rlim_cur = soft.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(resource, &limit), 0);
    }
}

#[test]
fn a_process_without_free_descriptors_goes_on_and_loads_when_it_has_some() {
    let graph = Graph::build("descriptors");
    let said = in_child(ATTEMPT, || {
        let (warm, domain) = (graph.domain(), graph.domain());
        limit(libc::RLIMIT_NOFILE, 100);
        let mut refused = 0;
        // SAFETY: a duplicate of a descriptor is a new one, which is closed again.
        let duplicate = || unsafe { libc::dup(0) };
        let mut taken: Vec<_> =
            std::iter::from_fn(|| Some(duplicate())).take_while(|&it| it >= 0).collect();
        // With no free descriptor, then with one, with two, until the load works.
        let library = loop {
            match graph.open(&domain) {
                Ok(library) => break library,
                Err(error) => {
                    assert!(error.to_string().contains("Too many open files"), "{error}");
                    refused += 1;
                }
            }
            // SAFETY: one of those made above.
            unsafe { libc::close(taken.pop().unwrap()) };
        };
        works(&library);
        // Another replica needs no more descriptors.
        works(&graph.open(&warm).unwrap());
        refused.to_string()
    });
    // No library keeps a descriptor open, so one is enough for a load.
    assert!(said.unwrap().parse::<u32>().unwrap() >= 1);
}

#[test]
fn a_process_without_address_space_goes_on_and_loads_when_it_has_some() {
    let graph = Graph::build("address-space");
    let said = in_child(ATTEMPT, || {
        let domain = graph.domain();
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let used: libc::rlim_t = pages.split(' ').next().unwrap().parse().unwrap();
        let mut refused = 0;
        for kilobytes in (0..).step_by(64) {
            limit(libc::RLIMIT_AS, used * 4096 + kilobytes * 1024);
            let result = graph.open(&domain);
            limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
            match result {
                Ok(library) => {
                    works(&library);
                    break;
                }
                // Errors of the system's loader, and of a thread without a stack.
                Err(Error::System { .. } | Error::Tls { .. }) => {}
                Err(error) => assert_eq!(code(&error), Some(libc::ENOMEM), "{error}"),
            }
            refused += 1;
        }
        refused.to_string()
    });
    assert!(said.unwrap().parse::<u32>().unwrap() >= 5);
}

#[test]
fn a_process_at_its_limit_of_mappings_goes_on_and_loads_when_it_has_some() {
    let graph = Graph::build("mappings");
    let said = in_child(ATTEMPT, || {
        let (first, domain) = (graph.domain(), graph.domain());
        let before = graph.open(&first).unwrap();
        let map = |rights| {
            // SAFETY: a mapping of its own.
            let page = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    4096,
                    rights,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            (page != libc::MAP_FAILED).then_some(page)
        };
        // Neighbours with different rights are not joined.
        let mut taken = Vec::new();
        while let Some(page) = map([libc::PROT_READ, libc::PROT_NONE][taken.len() % 2]) {
            taken.push(page);
        }
        let mut refused = 0;
        let library = loop {
            match graph.open(&domain) {
                Ok(library) => break library,
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("Cannot allocate memory") && text.contains("/lib"),
                        "{text}"
                    );
                    assert!(domain.replicas().is_empty());
                    refused += 1;
                }
            }
            works(&before);
            let page = taken.pop().expect("a load needs few mappings");
            // SAFETY: the mapping was made above, and nothing uses it.
            unsafe { libc::munmap(page, 4096) };
        };
        works(&library);
        refused.to_string()
    });
    assert!(said.unwrap().parse::<u32>().unwrap() >= 10);
}

fn domain() -> Domain {
    Loader::builder().build().unwrap().domain("under test").build().unwrap()
}

fn value(domain: &Domain, path: &std::path::Path) -> Result<i32, Error> {
    let library = open(domain, path, OpenFlags::NOW)?;
    // SAFETY: declared as `int value(void)`.
    let value: extern "C" fn() -> i32 = unsafe { function(&library, "value") };
    Ok(value())
}

#[test]
fn a_file_that_is_replaced_is_another_image_from_then_on() {
    let shop = Workshop::new("replaced");
    let source =
        |number: i32| format!("static int n = {number}; int value(void) {{ return n++; }}");
    let path = shop.build("libvalue.so", &source(1), &[]);
    let (one, two) = (domain(), domain());
    assert_eq!(value(&one, &path).unwrap(), 1);
    // As package managers and compilers do it: another file under the same name.
    std::fs::rename(shop.build("libother.so", &source(10), &[]), &path).unwrap();
    assert_eq!(value(&two, &path).unwrap(), 10);
    std::fs::remove_file(&path).unwrap();
    let error = value(&domain(), &path).unwrap_err();
    assert_eq!(code(&error), Some(libc::ENOENT), "{error}");
}

#[test]
fn a_file_that_is_cut_between_two_loads_is_refused_in_the_second() {
    let shop = Workshop::new("cut-between");
    let path = shop.build("libcut.so", "int value(void) { return 1; }", &[]);
    // Code that touches a missing page does not survive. Destructors at exit are one example.
    let said = in_child(ATTEMPT, || {
        assert_eq!(value(&domain(), &path).unwrap(), 1);
        let length = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 5000).unwrap();
        let error = value(&domain(), &path).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
        error.to_string()
    });
    assert!(said.unwrap().contains("libcut.so: not a loadable ELF image: the file is truncated"));
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_a_signal() {
    let shop = Workshop::new("file-size");
    let path = shop.build("libbytes.so", "int value(void) { return 1; }", &[]);
    let bytes = std::fs::read(&path).unwrap();
    let said = in_child(ATTEMPT, || {
        let domain = domain();
        limit(libc::RLIMIT_FSIZE, 4096);
        // SAFETY: the library above, of one function.
        let open = || unsafe { domain.open_bytes("bytes", &bytes, OpenFlags::NOW) };
        let error = open().unwrap_err();
        assert_eq!(code(&error), Some(libc::EFBIG), "{error}");
        limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
        open().unwrap();
        error.to_string()
    });
    assert!(said.unwrap().starts_with("bytes: cannot create a memory file for"));
}

/// How many descriptors this process has, including the one that lists them.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn libraries_keep_no_descriptors() {
    let shop = Workshop::new("descriptors-of-many");
    let source = |number: i32| format!("int value(void) {{ return {number}; }}");
    let paths: Vec<_> =
        (0..20).map(|n| shop.build(&format!("libvalue{n}.so"), &source(n), &[])).collect();
    let said = in_child(ATTEMPT, || {
        let domains = [domain(), domain(), domain()];
        let before = descriptors();
        for domain in &domains {
            for (number, path) in (0..).zip(&paths) {
                assert_eq!(value(domain, path).unwrap(), number);
            }
        }
        format!("{}", descriptors() - before)
    });
    // As under glibc, whose dlopen closes the file that it has mapped.
    assert_eq!(said.as_deref(), Ok("0"));
}

#[test]
fn a_library_is_loaded_again_by_whatever_path_leads_to_it() {
    let shop = Workshop::new("paths");
    let source = "static int n = 1; int value(void) { return n++; }";
    let first = shop.build("libfirst.so", source, &[]);
    let (second, open_one) = (shop.path("libsecond.so"), shop.path("libopen.so"));
    std::fs::hard_link(&first, &second).unwrap();
    std::fs::copy(&first, &open_one).unwrap();
    let said = in_child(ATTEMPT, || {
        assert_eq!(value(&domain(), &first).unwrap(), 1);
        std::fs::remove_file(&first).unwrap();
        assert_eq!(value(&domain(), &second).unwrap(), 1);
        // A library whose path is another file now.
        std::fs::write(&first, "not a library").unwrap();
        assert_eq!(value(&domain(), &second).unwrap(), 1);
        // A library that was deleted. Only a descriptor remains.
        let file = File::open(&open_one).unwrap();
        let by_descriptor = std::path::PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        std::fs::remove_file(&open_one).unwrap();
        assert_eq!(value(&domain(), &by_descriptor).unwrap(), 1);
        assert_eq!(value(&domain(), &by_descriptor).unwrap(), 1);
        String::from("loaded")
    });
    assert_eq!(said.as_deref(), Ok("loaded"));
}
