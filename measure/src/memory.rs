//! Memory that a process has for itself.

use std::fs;
use std::io;

/// Private dirty memory of a process in KiB, from `/proc/PID/smaps_rollup` (proc(5)).
///
/// # Errors
///
/// The process is gone or belongs to somebody else.
pub fn private_kib(pid: u32) -> io::Result<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?, "Private_Dirty:")
}

/// Private dirty memory of this process in KiB.
///
/// # Errors
///
/// `/proc` is not mounted.
pub fn own_private_kib() -> io::Result<u64> {
    private_kib(std::process::id())
}

fn field(text: &str, name: &str) -> io::Result<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("smaps_rollup has no {name} line")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_grows_with_what_is_written() {
        let before = own_private_kib().unwrap();
        let block = vec![1u8; 32 << 20];
        let after = own_private_kib().unwrap();
        assert!(
            after >= before + (30 << 10),
            "{before} KiB, then {after} KiB with {} bytes more",
            block.len()
        );
    }
}
