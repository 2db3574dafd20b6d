//! The promises of docs/specification.md on stock CPython, stock torch and real models. Run by `cargo xtask test`.

mod cuda;
mod errors;
mod kernels;
mod models;
mod own_python;
mod projects;
mod scripts;
mod shared_text;
mod torch_places;
mod torch_state;

use std::process::ExitCode;

use hydrozoa_tests::isolation::{self, Test};

const TESTS: &[Test] = &[
    ("four_copies_do_what_plain_python_does", scripts::areas),
    ("four_copies_beyond_their_profile_do_what_plain_python_does", scripts::areas_lazy),
    ("a_cpp_extension_has_its_own_state_in_each_copy", scripts::extension),
    ("a_child_registers_operators_whatever_other_interpreters_did", torch_state::forks),
    ("what_one_interpreter_sets_in_torch_no_other_one_has", torch_state::state),
    ("a_thread_takes_its_torch_modes_to_no_other_interpreter", torch_state::thread_state),
    ("torch_is_found_wherever_python_finds_it", torch_places::anywhere),
    ("interpreters_start_before_and_after_their_python_has_imported_extensions", own_python::works),
    ("the_command_tells_what_libraries_and_installations_are", scripts::command_tells),
    ("text_and_constants_are_shared_by_all_interpreters", shared_text::shared_text),
    ("weights_exist_once_and_a_dropped_movable_is_freed", models::weights_exist_once),
    ("results_from_rust_threads_are_those_of_plain_python", models::right_from_threads),
    ("a_corrupt_package_is_named", errors::corrupt_package),
    ("device_memory_is_uploaded_once_and_passed_on_in_order", cuda::with_device),
    ("an_extension_loads_from_inside_a_package", kernels::extension),
    ("mask_rcnn_runs_with_the_kernels_of_its_package", kernels::mask_rcnn),
    ("a_build_reports_what_is_in_and_what_need_not_be", kernels::report),
    ("the_command_shows_extracts_and_verifies_packages", kernels::command),
    ("a_build_takes_data_and_scripts_along_and_names_what_is_lacking", projects::projects),
    ("the_command_tells_errors_once_with_tracebacks_and_ends_with_its_pipe", projects::shell),
];

fn main() -> ExitCode {
    isolation::main(TESTS)
}
