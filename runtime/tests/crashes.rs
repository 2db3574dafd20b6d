//! A crash of an interpreter's code ends the process with a report that names the interpreter.

mod crashing;
mod pythons;

use crashing::{Crashed, crash, crash_on};
use pythons::pythons;

/// The report's head, for the interpreter of this index.
fn head(signal: &str, index: usize) -> String {
    format!("hydrozoa: {signal} in interpreter {index} (index {index}): ")
}

impl Crashed {
    #[track_caller]
    fn says(&self, words: &str) {
        assert!(self.errors.contains(words), "{words} is not in:\n{}", self.errors);
    }

    #[track_caller]
    fn says_not(&self, words: &str) {
        assert!(!self.errors.contains(words), "{words} is in:\n{}", self.errors);
    }

    #[track_caller]
    fn ended_by(&self, signal: i32) {
        assert_eq!(self.signal, Some(signal), "{}", self.errors);
    }
}

#[test]
fn a_report_names_the_interpreter_the_function_and_the_line_of_python() {
    for minor in pythons().keys() {
        let crashed = crash_on(*minor, "string_at");
        crashed.ended_by(libc::SIGSEGV);
        crashed.says(&(head("SIGSEGV", 1) + "no memory is mapped at 0x0"));
        crashed.says("Native stack (most recent call first):\n  #0 ");
        crashed.says("libc.so.6 (0x");
        crashed.says("#1 string_at+0x");
        crashed.says("libpython");
        crashed.says(", interpreter 1");
        crashed.says_not(", interpreter 0");
        crashed.says("Python stacks of interpreter 1:");
        crashed.says("in string_at");
        crashed.says("line 4 in reads_nothing");
        crashed.says(if cfg!(target_arch = "x86_64") { " rip " } else { "  pc " });
    }
}

#[test]
fn the_function_of_the_program_gets_the_report() {
    let crashed = crash("on_crash");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(
        "\non_crash: signal 11 code 1 address Some(0) in Some(\"interpreter 1\"), index Some(1)",
    );
    crashed.says("on_crash has the text: true");
}

#[test]
fn abort_is_reported_and_ends_the_process_by_its_signal() {
    let crashed = crash("abort");
    crashed.ended_by(libc::SIGABRT);
    crashed.says(&(head("SIGABRT", 1) + "the code has called abort or raise"));
    crashed.says("os_abort");
    crashed.says("line 5 in aborts");
}

#[test]
fn a_stack_overflow_in_c_is_reported_on_every_kind_of_thread() {
    for kind in ["overflow", "overflow_on_a_thread_of_c", "overflow_on_a_thread_of_python"] {
        let crashed = crash(kind);
        // Rust's standard library has a message of its own for its threads, and ends the process by SIGABRT.
        let own = crashed.errors.contains("has overflowed its stack");
        crashed.ended_by(if own { libc::SIGABRT } else { libc::SIGSEGV });
        crashed.says(&head("SIGSEGV", 1));
        crashed.says("the stack ends: it has overflowed");
        crashed.says("  #0 overflows+0x");
        crashed.says(" times more\n");
        crashed.says(if kind == "overflow_on_a_thread_of_python" {
            "overflow_thread"
        } else {
            "ffi_call+0x"
        });
        assert_eq!(crashed.errors.matches("hydrozoa:").count(), 1, "{}", crashed.errors);
        assert!(own || kind != "overflow", "{}", crashed.errors);
    }
}

#[test]
fn a_crash_on_a_thread_of_python_s_is_reported() {
    let crashed = crash("python_thread");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(&head("SIGSEGV", 1));
    crashed.says("line 4 in reads_nothing");
}

#[test]
fn a_crash_in_a_cxx_library_names_its_function() {
    let crashed = crash("cxx");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(&head("SIGSEGV", 1));
    // Static functions have names too.
    crashed.says("#0 _ZL6writesPi+0x");
    crashed.says("crashing++.so");
}

#[test]
fn an_exception_that_nobody_catches_is_reported() {
    let crashed = crash("throw");
    crashed.ended_by(libc::SIGABRT);
    crashed.says(&head("SIGABRT", 1));
    crashed.says("throws+0x");
}

#[test]
fn a_call_of_a_null_pointer_has_its_caller_on_the_stack() {
    let crashed = crash("null_call");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(&(head("SIGSEGV", 1) + "no memory is mapped at 0x0"));
    crashed.says("#0 0x0000000000000000, which is not code\n  #1 calls_null+0x");
}

#[test]
fn a_stack_that_is_overwritten_is_reported_as_far_as_it_goes() {
    let crashed = crash("smashed");
    crashed.says(&head("SIGSEGV", 1));
    crashed.ended_by(libc::SIGSEGV);
}

#[test]
fn faults_of_other_kinds_are_named() {
    for (kind, signal, name) in [
        ("divide", libc::SIGFPE, "SIGFPE"),
        ("illegal", libc::SIGILL, "SIGILL"),
        ("bus", libc::SIGBUS, "SIGBUS"),
    ] {
        let crashed = crash(kind);
        crashed.ended_by(signal);
        crashed.says(&head(name, 1));
    }
}

#[test]
fn a_crash_inside_malloc_is_reported() {
    let crashed = crash("malloc");
    crashed.says(&head("SIG", 1)[..13]);
    crashed.says("in interpreter 1 (index 1)");
    crashed.says("Python stacks of interpreter 1:");
    assert!(crashed.signal.is_some(), "{}", crashed.errors);
}

#[test]
fn a_crash_in_a_host_function_names_the_interpreter_that_has_called_it() {
    let crashed = crash("host_function");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(&head("SIGSEGV", 1));
    crashed.says("in calls_the_host");
}

#[test]
fn a_crash_outside_of_interpreters_is_not_reported() {
    let crashed = crash("outside");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says_not("hydrozoa:");
}

#[test]
fn a_handler_of_the_program_is_called_in_place_of_a_report() {
    for kind in ["own_handler_before", "own_handler_after"] {
        let crashed = crash(kind);
        assert_eq!(crashed.status, Some(7), "{}", crashed.errors);
        crashed.says("the program's handler");
        crashed.says_not("hydrozoa:");
    }
}

#[test]
fn faulthandler_inside_still_writes_what_it_knows() {
    let crashed = crash("faulthandler");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says("Fatal Python error: Segmentation fault");
    crashed.says(&head("SIGSEGV", 1));
    let place = |words: &str| crashed.errors.find(words);
    assert!(place("Fatal Python error") < place("hydrozoa:"), "{}", crashed.errors);
}

#[test]
fn python_sees_the_action_that_stood_before() {
    let crashed = crash("signals");
    assert_eq!(crashed.status, Some(0), "{}", crashed.errors);
}

#[test]
fn a_crash_of_the_program_s_function_ends_the_process() {
    let crashed = crash("bad_on_crash");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says(&head("SIGSEGV", 1));
    crashed.says("has crashed");
}

#[test]
fn crashes_on_two_threads_at_once_end_the_process() {
    let crashed = crash("two");
    crashed.ended_by(libc::SIGSEGV);
    crashed.says("hydrozoa: SIGSEGV in interpreter ");
}

/// Not a test: the process that crashes.
#[test]
fn inside() {
    crashing::inside();
}
