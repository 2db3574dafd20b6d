//! The names by which others find the files of replicas.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::Path;

use hydrozoa_loader::{Domain, OpenFlags};
use hydrozoa_testkit::libraries::{Workshop, open};

use crate::replicas::domains;

#[test]
fn the_name_of_an_object_without_a_file_leads_to_its_bytes() {
    let shop = Workshop::new("named");
    let domain = &domains(1)[0];
    let build = |number: usize| {
        let source = format!("int number(void) {{ return {number}; }}");
        let path = shop.build(&format!("libnamed{number}.so"), &source, &[]);
        (std::fs::read(&path).unwrap(), path)
    };
    let [(bytes, _), (provided, path), (deleted, lost)] = [1, 2, 3].map(build);
    let inside = path.with_file_name("container.zip").join("libnamed2.so");
    hydrozoa_loader::provide(&inside, &provided).unwrap();
    let file = std::fs::File::open(&lost).unwrap();
    std::fs::remove_file(&lost).unwrap();
    let open_file = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the library has no constructor.
    let in_memory = unsafe { domain.open_bytes("libnamed1.so", &bytes, OpenFlags::NOW) }.unwrap();
    let libraries = [
        (in_memory, bytes),
        (open(domain, &inside, OpenFlags::NOW).unwrap(), provided),
        (open(domain, Path::new(&open_file), OpenFlags::NOW).unwrap(), deleted),
    ];
    drop(file);
    for (library, bytes) in libraries {
        let name = name_at(domain, library.base());
        assert!(std::fs::read(&name).is_ok_and(|read| read == bytes), "{name}");
    }
}

/// The name that `dl_iterate_phdr` gives the object which is loaded at `base`.
fn name_at(domain: &Domain, base: usize) -> String {
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the record is valid and named, and `found` is the pair below.
        unsafe {
            let (base, name) = &mut *found.cast::<(usize, String)>();
            if (*info).dlpi_addr as usize == *base {
                *name = CStr::from_ptr((*info).dlpi_name).to_str().unwrap().to_owned();
            }
        }
        0
    }
    type Visit = extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;
    type Iterate = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
    let iterate = domain.symbol("dl_iterate_phdr").unwrap();
    let mut found = (base, String::new());
    // SAFETY: the domain's `dl_iterate_phdr`, with the types of dl_iterate_phdr(3).
    unsafe {
        std::mem::transmute::<*const c_void, Iterate>(iterate)(visit, (&raw mut found).cast())
    };
    found.1
}
