//! Tensors in C++, for which the Python needs numpy.

mod common;

use common::{compile, examined, prints_what_it_should};

#[test]
fn tensors_in_cpp_are_as_the_example_says() {
    let Some(venv) = std::env::var_os("HYDROZOA_TEST_VENV") else {
        panic!(
            "HYDROZOA_TEST_VENV is not set: this test needs a virtual environment with numpy. `cargo xtask test` makes one \
             and runs all tests in it."
        )
    };
    let source = "examples/tensor.cpp";
    prints_what_it_should(source, examined(&compile(source)).arg(venv));
}
