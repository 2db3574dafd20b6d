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
mod torch_shared;

use std::process::ExitCode;

use hydrozoa_tests::isolation::{self, Test};

const TESTS: &[Test] = &[
    ("four_copies_do_what_plain_python_does_shared", scripts::areas_shared),
    ("four_copies_do_what_plain_python_does_isolated", scripts::areas_isolated),
    (
        "four_copies_beyond_their_profile_do_what_plain_python_does_shared",
        scripts::areas_lazy_shared,
    ),
    (
        "four_copies_beyond_their_profile_do_what_plain_python_does_isolated",
        scripts::areas_lazy_isolated,
    ),
    ("a_cpp_extension_has_its_own_state_in_each_copy_shared", scripts::extension_shared),
    ("a_cpp_extension_has_its_own_state_in_each_copy_isolated", scripts::extension_isolated),
    ("interpreters_on_one_libtorch_register_for_themselves", torch_shared::registration),
    ("a_child_registers_operators_whatever_other_interpreters_did", torch_shared::forks),
    ("what_one_interpreter_sets_in_torch_no_other_one_has_shared", torch_shared::state_shared),
    ("what_one_interpreter_sets_in_torch_no_other_one_has_isolated", torch_shared::state_isolated),
    ("strict_mode_refuses_to_change_what_interpreters_share", torch_shared::strict),
    ("a_thread_takes_its_torch_modes_to_no_other_interpreter", torch_shared::thread_state),
    ("torch_is_found_wherever_python_finds_it", torch_places::anywhere),
    ("another_torch_than_the_shared_one_is_refused_in_words", torch_places::refused),
    ("interpreters_start_before_and_after_their_python_has_imported_extensions", own_python::works),
    ("torch_that_the_program_s_python_has_is_refused_under_shared", own_python::shared_is_refused),
    ("the_command_tells_what_libraries_and_installations_are", scripts::command_tells),
    ("text_and_constants_are_shared_by_all_interpreters", shared_text::shared_text),
    ("weights_exist_once_and_a_dropped_movable_is_freed", models::weights_exist_once),
    (
        "results_from_rust_threads_are_those_of_plain_python_shared",
        models::right_from_threads_shared,
    ),
    (
        "results_from_rust_threads_are_those_of_plain_python_isolated",
        models::right_from_threads_isolated,
    ),
    ("a_corrupt_package_is_named", errors::corrupt_package),
    ("device_memory_is_uploaded_once_and_passed_on_in_order_shared", cuda::shared),
    ("device_memory_is_uploaded_once_and_passed_on_in_order_isolated", cuda::isolated),
    ("an_extension_loads_from_inside_a_package_shared", kernels::extension_shared),
    ("an_extension_loads_from_inside_a_package_isolated", kernels::extension_isolated),
    ("mask_rcnn_runs_with_the_kernels_of_its_package_shared", kernels::mask_rcnn_shared),
    ("mask_rcnn_runs_with_the_kernels_of_its_package_isolated", kernels::mask_rcnn_isolated),
    ("a_build_reports_what_is_in_and_what_need_not_be", kernels::report),
    ("the_command_shows_extracts_and_verifies_packages", kernels::command),
    ("a_build_takes_data_and_scripts_along_and_names_what_is_lacking", projects::projects),
    ("the_command_tells_errors_once_with_tracebacks_and_ends_with_its_pipe", projects::shell),
];

fn main() -> ExitCode {
    isolation::main(TESTS)
}
