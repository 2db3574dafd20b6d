//! A file for handlers of signals: calls of signal-safety(7), no lock and no memory of malloc's.

use std::ffi::{CStr, c_int};

/// An open file. Its drop closes it.
pub(crate) struct QuietFile(c_int);

impl QuietFile {
    /// Opens a file for reading.
    pub(crate) fn open(path: &CStr) -> Option<QuietFile> {
        // SAFETY: the name ends with a NUL.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (descriptor >= 0).then_some(QuietFile(descriptor))
    }

    /// Reads from `offset` on. Returns how many bytes it has read: fewer than `into` takes at the end of the file, and none
    /// after an error.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            let place = (offset + done as u64).cast_signed();
            // SAFETY: the buffer takes so many bytes.
            let count = unsafe { libc::pread(self.0, rest.as_mut_ptr().cast(), rest.len(), place) };
            match count {
                1.. => done += count as usize,
                _ => break,
            }
        }
        done
    }
}

impl Drop for QuietFile {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, for this value alone.
        unsafe { libc::close(self.0) };
    }
}

/// The target of a symbolic link, if it fits.
pub(crate) fn link_target<'a>(path: &CStr, into: &'a mut [u8]) -> Option<&'a [u8]> {
    // SAFETY: the name ends with a NUL, and the buffer takes so many bytes.
    let count = unsafe { libc::readlink(path.as_ptr(), into.as_mut_ptr().cast(), into.len()) };
    (count > 0).then(|| &into[..count as usize])
}
