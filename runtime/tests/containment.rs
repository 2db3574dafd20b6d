//! A crash of an interpreter's code that is contained: the call fails, others go on, and the interpreter is replaced.
//!
//! [`containing::kinds`] has the kinds of crashes. `HYDROZOA_TEST_MATRIX=1` makes each in each place on each Python of the machine.

mod containing;
mod pythons;

use containing::kinds::{APPLICATION, About, PLACES, check, check_all, check_matrix};
use containing::{contained, contained_after_child, ended};
use pythons::pythons;

#[test]
fn faults_of_native_code_are_errors_of_their_calls() {
    check_all(About::Faults);
}

#[test]
fn a_fault_in_ctypes_is_contained_on_every_python() {
    for minor in pythons().keys() {
        check("reads_nothing", APPLICATION, *minor);
    }
}

#[test]
fn code_that_ends_the_process_by_abort_is_contained() {
    check_all(About::Aborts);
}

#[test]
fn a_stack_overflow_is_contained() {
    check_all(About::Stack);
}

#[test]
fn a_crash_in_a_callback_of_the_c_library_is_contained() {
    check_all(About::Callbacks);
}

#[test]
fn a_crash_under_a_mutex_of_the_interpreter_is_contained() {
    check_all(About::Locks);
}

#[test]
fn a_crash_on_a_thread_of_native_code_is_contained() {
    check_all(About::Threads);
}

#[test]
fn damage_to_an_interpreter_s_heap_is_contained() {
    check_all(About::Heap);
}

#[test]
fn damage_that_a_thread_s_end_finds_is_left_to_the_interpreter_s_next_call() {
    contained("written_before_a_thread_s_end");
}

#[test]
fn blocks_of_a_crashed_interpreter_are_freed_by_others_without_harm() {
    contained("freed_after_the_crash");
}

#[test]
fn damage_to_a_heap_ends_the_process_with_one_message_that_names_the_interpreter() {
    let message = "the heap of interpreter 1 (index 1) is damaged: the block at 0x";
    let reported = &format!("hydrozoa: SIGABRT in interpreter 1 (index 1): {message}");
    for kind in ["frees_twice", "overflows_a_long_block", "deletes_twice"] {
        ended(&format!("uncontained:{kind}"), libc::SIGABRT, &[reported, message]);
    }
    // Others have freed a block of it.
    let line = &format!("hydrozoa: {message}");
    ended("freed_by_the_application", libc::SIGABRT, &[line, message]);
    let reported = &format!("hydrozoa: SIGABRT in interpreter 0 (index 0): {message}");
    let refused = "not contained: others may need what this function holds: ";
    ended("freed_by_another_interpreter", libc::SIGABRT, &[reported, message, refused]);
}

#[test]
fn what_belongs_to_the_process_is_not_contained() {
    check_all(About::Process);
}

#[test]
fn crashes_are_contained_or_not_wherever_they_happen() {
    check_matrix();
}

#[test]
fn threads_that_are_inside_come_home() {
    for minor in pythons().keys() {
        check("crashes", PLACES[5], *minor);
    }
}

#[test]
fn a_crash_while_an_interpreter_ends_is_contained() {
    contained("at_the_end");
}

#[test]
fn a_pool_leaves_a_crashed_interpreter_if_it_shall() {
    contained("stays");
}

#[test]
fn a_crash_in_a_forked_child_is_not_contained() {
    contained_after_child("crashes_in_a_child", "the process is a forked child");
}

#[test]
fn a_contained_crash_copies_no_page_of_others() {
    contained("copies_nothing");
}

/// Not a test: the process that crashes.
#[test]
fn inside() {
    containing::inside();
}
