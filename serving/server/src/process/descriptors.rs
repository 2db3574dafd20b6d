//! How many descriptors the process may have.

use std::io;

/// Raises the process's limit of open descriptors as far as the system lets it: the soft limit to the hard one. Each connection
/// is a descriptor, and by default many systems let a process have 1,024. Returns the limit.
///
/// # Errors
///
/// Those of getrlimit(2).
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a `rlimit` of this frame, which getrlimit(2) fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: the pointer is to a `rlimit` of this frame, which setrlimit(2) reads.
    let outcome = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    // If it is forbidden, for example by a system call filter, the current limit stays.
    Ok(if outcome == 0 { raised.rlim_cur } else { limit.rlim_cur })
}
