//! A crash of an interpreter's code that is contained: the call fails, others go on, and the interpreter is replaced.

mod containing;
mod pythons;

use containing::{contained, contained_after_child, contained_on, refused};
use pythons::pythons;

#[test]
fn faults_of_native_code_are_errors_of_their_calls() {
    for kind in ["crashes", "calls_null", "jumps", "divides", "illegal", "bus", "uses_freed"] {
        contained(kind);
    }
}

#[test]
fn a_fault_in_ctypes_is_contained_on_every_python() {
    for minor in pythons().keys() {
        contained_on(*minor, "reads_nothing");
    }
}

#[test]
fn code_that_ends_the_process_by_abort_is_contained() {
    for kind in
        ["aborts", "asserts", "throws", "terminates", "is_out_of_range", "calls_pure", "protects"]
    {
        contained(kind);
    }
}

#[test]
fn a_jump_into_a_dead_frame_is_contained() {
    contained("jumps_back");
}

#[test]
fn a_stack_overflow_is_contained() {
    contained("overflows");
}

#[test]
fn a_crash_in_a_callback_of_the_c_library_is_contained() {
    contained("sorts");
}

#[test]
fn a_crash_under_a_mutex_of_the_interpreter_is_contained() {
    contained("holds_a_mutex");
}

#[test]
fn a_crash_on_a_thread_of_python_s_is_contained() {
    for minor in pythons().keys() {
        contained_on(*minor, "python_thread:crashes");
    }
    contained("python_thread:overflows");
    contained("python_thread:aborts");
}

#[test]
fn a_crash_on_a_thread_of_native_code_is_contained() {
    contained("crashes_on_a_thread_of_c");
    contained("crashes_on_a_thread");
}

#[test]
fn a_crash_on_a_thread_that_all_share_is_not_contained() {
    // Of OpenMP's, which exists once.
    refused("crashes_in_a_team", libc::SIGSEGV, "the thread is in no call of");
}

#[test]
fn a_crash_during_an_import_is_contained() {
    contained("import:begins");
}

#[test]
fn a_crash_in_a_call_that_a_host_function_has_made_ends_there() {
    contained("nested:crashes");
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
fn threads_that_are_inside_come_home() {
    for minor in pythons().keys() {
        contained_on(*minor, "waiters:crashes");
    }
}

#[test]
fn what_may_hold_a_lock_of_the_process_is_not_contained() {
    refused("breaks_malloc", libc::SIGABRT, "others may need what this function holds: ");
    refused("prints", libc::SIGSEGV, "others may need what this function holds: ");
}

#[test]
fn a_crash_in_a_host_function_is_not_contained() {
    refused("host:crashes", libc::SIGSEGV, "others may need what this function holds: ");
}

#[test]
fn a_crash_in_a_forked_child_is_not_contained() {
    contained_after_child("crashes_in_a_child", "the process is a forked child");
}

#[test]
fn a_smashed_stack_is_not_contained() {
    refused("smashes", libc::SIGSEGV, "the frames do not lead");
}

#[test]
fn a_signal_that_was_sent_is_not_contained() {
    refused("sends", libc::SIGFPE, "the signal was sent");
}

#[test]
fn crash_after_crash_leaves_nothing_behind_and_others_serve() {
    contained("soak");
}

/// Not a test: the process that crashes.
#[test]
fn inside() {
    containing::inside();
}
