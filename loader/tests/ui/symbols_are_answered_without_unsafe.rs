//! A replacement for a symbol must have its signature, which no type expresses.

#![forbid(unsafe_code)]

use hydrozoa_loader::{Interposition, Loader};

fn main() {
    let wrong = &0_u8 as *const u8 as *const std::ffi::c_void;
    let loader = Loader::builder().build().unwrap();
    loader.domain("one").interpose("malloc", Interposition::function(wrong)).build().unwrap();
    let with_context = Interposition::with_context(wrong, 1, 0);
    loader.domain("two").interpose("malloc", with_context).build().unwrap();
}
