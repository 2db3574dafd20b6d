//! The loader's tests, and the linker's cases, that the emulator cannot run.

/// It has a thread of its own, which is listed among those of the process, and of which the C library of the emulated program knows nothing.
/// Data of threads cannot be given to it.
pub(super) const OWN_THREAD: &str = "the emulator's own thread cannot be given thread-local data";

/// Its system calls are made by the emulator's own instructions.
const FILTERS: &str = "the emulator has no seccomp(2)";

/// Whole programs of tests.
pub(super) const PROGRAMS: [(&str, &str); 3] = [
    ("kernel", FILTERS),
    ("newborn", OWN_THREAD),
    ("ui", "the compiler's messages are the same on every machine"),
];

/// Parts of the names of single tests.
pub(super) const TESTS: [(&str, &str); 15] = [
    (
        "text_relocations_make_their_own_pages_private_and_no_others",
        "the emulator's /proc/self/smaps counts no private pages",
    ),
    (
        "the_language_of_messages_says_nothing_about_what_is_replicated",
        "the system's glibc translates nothing in the locale C.UTF-8, on x86-64 neither",
    ),
    (
        "a_handler_that_unwinds_may_interrupt_a_load_anywhere",
        "its timer comes again before a handler has unwound under the emulator, so no load comes to its end",
    ),
    ("a_block_begins_with_its_image_in_running_and_in_new_threads", OWN_THREAD),
    ("a_load_lets_calls_go_on_that_wait_in_the_kernel", OWN_THREAD),
    ("a_load_that_fails_gives_its_static_tls_back", OWN_THREAD),
    ("a_thread_that_blocks_all_signals_is_given_initialised_data_at_once", OWN_THREAD),
    ("a_thread_that_cannot_be_given_initialised_data_is_named", OWN_THREAD),
    (
        "exit_handlers_and_destructors_run_at_the_end_and_what_threads_have_is_left_alone",
        OWN_THREAD,
    ),
    ("no_thread_is_interrupted_when_a_place_is_used_again", OWN_THREAD),
    ("thread_local_data_of_a_living_thread_begins_anew", OWN_THREAD),
    ("a_process_that_cannot_be_prepared_says_what_it_lacks", FILTERS),
    ("memory_that_the_kernel_refuses_is_named_with_the_limit", FILTERS),
    (
        "the_programs_that_a_domain_starts_get_its_environment",
        "a child of the emulator's vfork(2) shares no memory, so posix_spawn(3) reports no error of its",
    ),
    ("a_call_with_state_of_a_domain_takes_20_nanoseconds", "a cost is that of the emulator"),
];

/// Cases of the linker.
pub(super) const CASES: [(&str, &str); 1] = [(
    "sanitizer_address",
    "the emulator ends where AddressSanitizer begins, with glibc's loader too",
)];

/// Prints some of them with the reasons.
pub(super) fn tell(some: &[(&str, &str)]) {
    for (name, reason) in some {
        println!("NOT RUN UNDER THE EMULATOR: {name}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aarch64::hidden;
    use crate::workspace;
    use std::fs;
    use std::path::Path;

    /// All sources below a folder, as one text.
    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                text += &sources(&path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                text += &fs::read_to_string(&path).unwrap();
            }
        }
        text
    }

    #[test]
    fn what_is_not_tried_is_there() {
        let root = workspace::root();
        let loader = sources(&root.join("loader"));
        for (name, _) in TESTS {
            assert!(loader.contains(&format!("fn {name}")), "the loader has no test {name}");
        }
        for (name, _) in PROGRAMS {
            let file = root.join(format!("loader/tests/{name}.rs"));
            assert!(file.exists() || file.with_extension("").is_dir(), "no program {name}");
        }
        for name in CASES.map(|(name, _)| name).into_iter().chain(hidden::CASES) {
            let case = root.join(format!("tests/linker/cases/{name}.c"));
            assert!(case.exists(), "no case {name}");
        }
    }
}
