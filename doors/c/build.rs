//! Gives the shared library its soname, and keeps symbols of Rust crates out of its table.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number is raised when a program that was linked with an earlier library cannot use this one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhydrozoa.so.0");
    // All other crates are archives. rustc exports what is `no_mangle` in any of them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
