//! Promises of docs/specification.md that need a Python and numpy alone. `cargo xtask test` runs them on each CPython of the
//! machine.

mod arrays;
mod command_line;
mod errors;
mod numpy;
mod sealed;

use std::process::ExitCode;

use hydrozoa_tests::isolation::{self, Test};

const TESTS: &[Test] = &[
    ("arrays_and_tensors_share_their_memory", arrays::arrays),
    ("interpreters_of_every_python_compute_with_numpy_at_once", numpy::at_once),
    ("a_sealed_application_computes_in_an_empty_root", sealed::in_an_empty_root),
    ("a_program_of_rust_carries_its_python", sealed::a_program_of_rust),
    ("the_command_behaves_as_python_does", command_line::command_line),
    ("copies_of_the_command_have_environments_of_their_own", command_line::own_environments),
    ("a_python_exception_is_typed_and_the_interpreter_goes_on", errors::exception),
    ("a_missing_module_is_named", errors::missing_module),
    ("a_missing_symbol_is_named", errors::missing_symbol),
    ("a_truncated_library_is_named", errors::truncated_library),
];

fn main() -> ExitCode {
    isolation::main(TESTS)
}
