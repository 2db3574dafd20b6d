//! Reads of this process's memory that fail where nothing can be read, in place of a fault.
//!
//! A handler of crashes follows pointers of damaged data. The kernel copies for it (process_vm_readv(2)), or, where a filter
//! of system calls forbids that, a read of `/proc/self/mem` does. Nothing here locks or allocates.

use super::quiet_file::QuietFile;

/// Fills `into` with the bytes from `address` on. False if not all of them can be read.
pub(crate) fn read(address: usize, into: &mut [u8]) -> bool {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the kernel writes to a buffer of that length alone, and checks the other address.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    if count >= 0 {
        return count as usize == into.len();
    }
    // SAFETY: the calling thread's own.
    let is_refused = unsafe { matches!(*libc::__errno_location(), libc::EPERM | libc::ENOSYS) };
    is_refused
        && QuietFile::open(c"/proc/self/mem")
            .is_some_and(|memory| memory.read(address as u64, into) == into.len())
}

/// The word at `address`.
pub(crate) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    read(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_no_fault() {
        let here = 0x1234_5678_9abc_def0_usize;
        assert_eq!(word((&raw const here).addr()), Some(here));
        assert_eq!(word(8), None);
        assert_eq!(word(usize::MAX - 2), None);
        assert_eq!(word(0xdead_0000_0000_0000), None);
    }

    #[test]
    fn the_memory_file_says_the_same() {
        let here = 0x1234_5678_9abc_def0_usize;
        let mut bytes = [0; 8];
        let memory = QuietFile::open(c"/proc/self/mem").unwrap();
        assert_eq!(memory.read((&raw const here).addr() as u64, &mut bytes), 8);
        assert_eq!(usize::from_ne_bytes(bytes), here);
        assert_eq!(memory.read(8, &mut bytes), 0);
    }
}
