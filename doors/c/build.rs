//! Gives the shared library its soname.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number is raised when a program that was linked with an earlier library cannot use this one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhydrozoa.so.0");
}
