//! Keeps symbols of Rust crates out of the backend's table, and the backend in the process.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // All other crates are archives. rustc exports what is `no_mangle` in any of them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    // Interpreters and their threads have addresses of it, and the server closes it with its last model.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
