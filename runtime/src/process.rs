//! The end of the process while interpreters run.

/// Ends the process at once, with a status, and without exit handlers (_exit(2)).
///
/// `std::process::exit` runs exit handlers, and those of libraries destroy what threads of interpreters may still use: with torch
/// a program then crashes at times. So this is for a program that has asked its interpreters to end
/// ([`Pool::close`](crate::Pool::close)) and cannot wait any longer. Nothing of the program is flushed or dropped.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(status) }
}
