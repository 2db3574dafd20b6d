//! The file that settled pages lie in.

use super::Unsettled;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// File systems whose files are memory (statfs(2)).
const IN_MEMORY: [libc::c_long; 3] = [libc::TMPFS_MAGIC, 0x8584_58f6, libc::HUGETLBFS_MAGIC];

/// A new file without a name in the directory. The kernel frees it once it is neither open nor mapped.
pub(crate) fn unlinked(directory: &Path) -> Result<File, Unsettled> {
    let file = open(directory).map_err(|source| Unsettled::io(directory, source))?;
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the place has room for the answer.
    if unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) } != 0 {
        return Err(Unsettled::io(directory, io::Error::last_os_error()));
    }
    // SAFETY: the call has succeeded.
    if IN_MEMORY.contains(&unsafe { about.assume_init() }.f_type) {
        return Err(Unsettled::InMemory { directory: directory.to_owned() });
    }
    Ok(file)
}

fn open(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        // open(2): by which errors kernels and file systems without such files answer.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR))
                && directory.is_dir() =>
        {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".hydrozoa-settled-{}-{number}", std::process::id());
            let path = directory.join(name);
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        answer => answer,
    }
}

/// Has the file system find room for so many bytes, so that a full disk is found before any page is exchanged.
pub(crate) fn extend(file: &File, bytes: u64) -> io::Result<()> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the place has room for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit.as_mut_ptr()) } == 0
        // SAFETY: the call has succeeded.
        && unsafe { limit.assume_init() }.rlim_cur < bytes
    {
        // The kernel would send SIGXFSZ too, which ends the process.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let length = i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the descriptor is open.
    while unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } != 0 {
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            // A file system that cannot reserve room finds out when it is written to.
            error if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                return Ok(());
            }
            error => return Err(error),
        }
    }
    Ok(())
}

/// Writes the file to its disk, and drops it from memory, but for pages that somebody uses already.
///
/// The kernel would do both when memory is short, and not look at what settled pages are used. Then it drops pages that each
/// call needs, and keeps some that nobody needs, since it wrote them together.
pub(crate) fn leave_memory(file: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is open; a length of 0 means all of the file.
    while unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) } != 0 {
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
    // SAFETY: as above.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_has_no_name_and_one_in_memory_is_refused() {
        // On the disk where this program lies.
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let file = unlinked(directory.path()).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        extend(&file, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        let error = unlinked(Path::new("/dev/shm")).unwrap_err();
        assert!(matches!(error, Unsettled::InMemory { .. }), "{error}");
    }
}
