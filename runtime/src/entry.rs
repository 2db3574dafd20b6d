//! A program that begins as one in C does.
//!
//! Before `main`, Rust's runtime changes the process (`init` in library/std/src/sys/pal/unix/mod.rs, and
//! stack_overflow.rs beside it). It handles SIGSEGV and SIGBUS, to report an overflow of the stack. It ignores SIGPIPE,
//! and opens /dev/null where a standard stream is closed. A Python in the program meets all that: its first SIGSEGV
//! is lost, `signal.getsignal` returns None, an overflow ends it with SIGABRT, and `sys.stdin` is not None.
//!
//! [`c_main!`](crate::c_main) makes an entry that the C library calls directly. `std::env::args` works there, because
//! glibc passes the arguments to initialisers too (library/std/src/sys/args/unix.rs).

use crate::exit;
use std::ffi::c_int;
use std::io::Write;
use std::panic::catch_unwind;

/// Makes a function the C `main` of the program: `fn() -> i32`, which returns the program's exit status.
///
/// The process then has the signal handlers and the descriptors that its parent gave it. A program needs that if it
/// runs a [`CommandLine`](crate::CommandLine) that must behave as the python executable does. Its file begins with
/// `#![no_main]`. A function that does not need this calls [`entry::begin_as_rust`](crate::entry::begin_as_rust) first.
///
/// ```no_run
/// #![no_main]
/// hydrozoa::c_main!(run);
///
/// fn run() -> i32 {
///     let command = hydrozoa::CommandLine::new(None, None, std::env::args_os().skip(1));
///     match command.and_then(|command| command.signal_handlers(true).run()) {
///         Ok(status) => status,
///         Err(error) => {
///             eprintln!("{error}");
///             1
///         }
///     }
/// }
/// ```
#[macro_export]
macro_rules! c_main {
    ($run:path) => {
        // SAFETY: the program has no other `main`, since its file says `#![no_main]`. The C library calls this
        // one with the arguments that it declares.
        #[unsafe(no_mangle)]
        extern "C" fn main(
            _count: ::std::ffi::c_int,
            _words: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            $crate::entry::run($run)
        }
    };
}

/// The exit status of a program of Rust that panics (library/std/src/rt.rs).
const PANICKED: c_int = 101;

/// The body of [`c_main!`](crate::c_main): calls `run`, and flushes standard output. A panic ends here,
/// with the exit status 101, since it cannot leave a function of C.
pub fn run(run: fn() -> i32) -> c_int {
    let status = catch_unwind(run).unwrap_or(PANICKED);
    // Nobody would hear of it.
    let _ = std::io::stdout().flush();
    if exit::is_by_interrupt(status) {
        // Its parent sees how it has ended: a shell stops its script then.
        // SAFETY: the process ends here. Nothing of Rust's waits for its end.
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::raise(libc::SIGINT);
        }
    }
    status
}

/// Prepares the process as Rust's runtime does, except for SIGSEGV and SIGBUS: SIGPIPE is ignored, so that a write to a
/// closed pipe is an error. /dev/null takes the place of each standard stream that is closed, so that no file of the
/// program becomes standard output. Call it before the program opens files and starts threads.
pub fn begin_as_rust() {
    ignore(libc::SIGPIPE);
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: asks for the flags of a descriptor, which need not be open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            // SAFETY: the path is a string of C. The descriptor is the lowest free one: `stream`, since those
            // below it are open.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

fn ignore(signal: c_int) {
    // SAFETY: no handler is set that code could run in.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
