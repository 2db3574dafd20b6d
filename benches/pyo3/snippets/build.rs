//! Has the tests find the libpython that they are linked with.

fn main() {
    pyo3_build_config::add_libpython_rpath_link_args();
}
