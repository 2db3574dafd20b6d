//! The end of the process while interpreters run.

/// Ends the process at once, with a status, and without exit handlers (_exit(2)).
///
/// `std::process::exit` waits for interpreters that end, ten seconds at most, and runs exit handlers: those of libraries of
/// interpreters whose code no other thread runs. This is for a program that has asked its interpreters to end
/// ([`Pool::close`](crate::Pool::close), [`wait_for_ends`](crate::wait_for_ends)) and cannot wait any longer. Nothing of the program is flushed or dropped.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(status) }
}
