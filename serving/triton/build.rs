//! Keeps the backend in the process.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Interpreters and their threads have addresses of it, and the server closes it with its last model.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
