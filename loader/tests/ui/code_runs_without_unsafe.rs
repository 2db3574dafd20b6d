//! Loading runs code that nobody has checked, and so is the caller's promise.

#![forbid(unsafe_code)]

use hydrozoa_loader::{Loader, OpenFlags};

fn main() {
    let loader = Loader::builder().build().unwrap();
    let domain = loader.domain("one").build().unwrap();
    domain.open("libcrashes.so".as_ref(), OpenFlags::NOW).unwrap();
    domain.open_bytes("crashes", b"\x7fELF", OpenFlags::NOW).unwrap();
    hydrozoa_loader::testing::relocate(&domain, "libcrashes.so".as_ref(), OpenFlags::NOW).unwrap();
}
