//! Kinds of crashes, where they happen, and what becomes of each.

use super::{Child, library, run};
use crate::pythons::pythons;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Set to 1: all kinds in all places on all Pythons, or those alone whose name has another value's text (`kind@place@3.11`).
const ALL: &str = "HYDROZOA_TEST_MATRIX";

/// The end of the process.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The crash is an error of its call.
    Contained,
    /// The process ends by a signal, with one of these reasons.
    Refused(i32, &'static [&'static str]),
    /// It exits, since code has ended it.
    Exited(i32),
    /// It is an exception of Python, and no crash.
    Raised,
}

use Outcome::{Contained, Exited, Raised, Refused};

/// The subject of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Faults,
    Aborts,
    Stack,
    Callbacks,
    Locks,
    Threads,
    Heap,
    Process,
}

/// The reason where a lock of the process may be held.
const HELD: &[&str] = &["others may need what this function holds: "];

/// The kinds, which `library.cc` and `module.py` define.
pub const KINDS: &[(&str, About, Outcome)] = &[
    ("crashes", About::Faults, Contained),
    ("reads_nothing", About::Faults, Contained),
    ("calls_null", About::Faults, Contained),
    ("jumps", About::Faults, Contained),
    ("divides", About::Faults, Contained),
    ("illegal", About::Faults, Contained),
    ("bus", About::Faults, Contained),
    ("uses_freed", About::Faults, Contained),
    ("copies_from_nowhere", About::Faults, Contained),
    ("aborts", About::Aborts, Contained),
    ("asserts", About::Aborts, Contained),
    ("throws", About::Aborts, Contained),
    ("terminates", About::Aborts, Contained),
    ("is_out_of_range", About::Aborts, Contained),
    ("calls_pure", About::Aborts, Contained),
    ("protects", About::Aborts, Contained),
    ("jumps_back", About::Aborts, Contained),
    ("overflows", About::Stack, Contained),
    ("recurses", About::Stack, Contained),
    ("sorts", About::Callbacks, Contained),
    ("sorts_garbage", About::Callbacks, Contained),
    ("sorts_by_nothing", About::Callbacks, Contained),
    ("holds_a_mutex", About::Locks, Contained),
    ("initializes", About::Locks, Contained),
    ("crashes_on_a_thread", About::Threads, Contained),
    ("crashes_on_a_thread_of_c", About::Threads, Contained),
    ("frees_twice", About::Heap, Contained),
    ("frees_a_long_one_twice", About::Heap, Contained),
    ("frees_a_large_one_twice", About::Heap, Contained),
    ("deletes_twice", About::Heap, Contained),
    ("overflows_a_block", About::Heap, Contained),
    ("overflows_a_long_block", About::Heap, Contained),
    ("overflows_an_object", About::Heap, Contained),
    ("writes_freed", About::Heap, Contained),
    ("breaks_malloc", About::Heap, Contained),
    ("breaks_long_blocks", About::Heap, Contained),
    ("reallocates_freed", About::Heap, Contained),
    ("reallocates_a_long_freed_one", About::Heap, Contained),
    ("frees_the_middle", About::Heap, Contained),
    ("frees_nothing_there", About::Heap, Contained),
    ("duplicates_nothing", About::Heap, Contained),
    ("frees_its_stack", About::Process, Refused(libc::SIGABRT, HELD)),
    ("prints", About::Process, Refused(libc::SIGSEGV, HELD)),
    ("breaks_the_host", About::Process, Refused(libc::SIGSEGV, HELD)),
    (
        "crashes_in_a_team",
        About::Process,
        Refused(libc::SIGSEGV, &["the thread is in no call of an interpreter"]),
    ),
    (
        "smashes",
        About::Process,
        Refused(libc::SIGSEGV, &["the frames do not lead", "the stack is damaged up to the call"]),
    ),
    ("sends", About::Process, Refused(libc::SIGFPE, &["the signal was sent"])),
    ("ends", About::Process, Exited(9)),
];

/// Where a crash happens.
pub const PLACES: &[&str] =
    &["application", "python_thread", "std_thread", "nested", "import", "waiters"];

/// The place of a call of the application's.
pub const APPLICATION: &str = PLACES[0];

fn outcome_of(kind: &str, place: &str, minor: u8) -> Outcome {
    match kind {
        // CPython 3.12 and later look at the depth of C themselves.
        "recurses" if minor >= 12 => Raised,
        // The loader makes an error of an exception of a constructor.
        "throws" | "is_out_of_range" if place == "import" => Raised,
        _ => KINDS.iter().find(|one| one.0 == kind).unwrap_or_else(|| panic!("no kind {kind}")).2,
    }
}

/// The fault of a process in which a crash of that kind was made; nothing if it has ended as it shall.
fn wrong(outcome: Outcome, child: &Child) -> Option<String> {
    let (status, errors) = (child.status, &child.errors);
    let said = errors.contains("hydrozoa:");
    match outcome {
        Contained | Raised => {
            let has_crashed = child.printed.contains(super::CRASHED);
            let shall_crash = matches!(outcome, Contained);
            match () {
                () if !status.success() => Some(status.to_string()),
                () if said => Some("something was said".to_owned()),
                () if has_crashed != shall_crash => Some(format!("has crashed: {has_crashed}")),
                () => None,
            }
        }
        Refused(signal, reasons) => {
            let is_reason = |reason: &&&str| errors.contains(&format!("not contained: {reason}"));
            match () {
                () if status.signal() != Some(signal) => Some(status.to_string()),
                () if !errors.contains("hydrozoa: SIG") => Some("there is no report".to_owned()),
                () if !reasons.iter().any(|reason| is_reason(&reason)) => {
                    Some("another reason".to_owned())
                }
                () => None,
            }
        }
        Exited(code) => (status.code() != Some(code) || said).then(|| status.to_string()),
    }
}

/// Makes a crash, and asserts what becomes of its process.
#[track_caller]
pub fn check(kind: &str, place: &str, minor: u8) {
    let child = run(&format!("{place}:{kind}"), minor);
    if let Some(wrong) = wrong(outcome_of(kind, place, minor), &child) {
        panic!("{kind}@{place}@3.{minor}: {wrong}\n{}\n{}", child.printed, child.errors);
    }
}

/// Makes the crashes of a group, each in a call of the application's.
#[track_caller]
pub fn check_all(about: About) {
    let minor = *pythons().keys().next().unwrap();
    for (kind, _, _) in KINDS.iter().filter(|kind| kind.1 == about) {
        check(kind, APPLICATION, minor);
    }
}

/// The crashes of [`ALL`], or three in each place and two on each Python.
pub fn check_matrix() {
    let chosen = std::env::var(ALL).ok();
    let mut all = Vec::new();
    for (row, minor) in pythons().keys().enumerate() {
        for (column, place) in PLACES.iter().enumerate() {
            for (number, (kind, ..)) in KINDS.iter().enumerate() {
                let name = format!("{kind}@{place}@3.{minor}");
                let slant = || {
                    let in_place = row == 0 && column > 0 && number % 16 == (5 * column) % 16;
                    let on_python = row > 0 && column == 0 && number % 24 == 5 * row;
                    in_place || on_python
                };
                let is_wanted = match &chosen {
                    None => slant(),
                    Some(text) => text == "1" || name.contains(text.as_str()),
                };
                // Nobody leaves an interpreter that has not crashed.
                let stays = *place == "waiters"
                    && matches!(outcome_of(kind, place, *minor), Outcome::Raised);
                if is_wanted && !stays {
                    all.push((name, *kind, *place, *minor));
                }
            }
        }
    }
    assert!(!all.is_empty(), "no crash is named {chosen:?}");
    library();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, kind, place, minor)) =
                    all.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let child = run(&format!("{place}:{kind}"), *minor);
                    let outcome = outcome_of(kind, place, *minor);
                    let wrong = wrong(outcome, &child);
                    if chosen.is_some() {
                        println!(
                            "{name} {outcome:?} {}",
                            wrong.as_deref().unwrap_or("as it shall")
                        );
                    }
                    if let Some(wrong) = wrong {
                        let mut text = format!("{name}: {wrong}");
                        let _ = write!(text, "\n{}\n{}", child.printed, child.errors);
                        failures.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), all.len(), failures.join("\n"));
}
