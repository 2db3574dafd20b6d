//! A thread's mark decides which domain's state shared code uses, and so is the caller's promise.

#![forbid(unsafe_code)]

use hydrozoa_loader::{Loader, current};

fn main() {
    let loader = Loader::builder().build().unwrap();
    let domain = loader.domain("one").build().unwrap();
    let _inside = current::enter(domain.id());
    current::replace(None);
}
