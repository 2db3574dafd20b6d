//! Open file descriptions, which own record locks (fcntl(2), "Open file description locks").

use std::ffi::{CString, c_int};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::id::DomainId;
use crate::sys::domain_by_number::Slots;
use crate::sys::errno::errno;

use super::ranges::Range;

/// Descriptors have numbers above those that a program meets, where the limit permits.
const LOWEST: c_int = 512;

/// The descriptors that code of domains must not close.
static RESERVED: Slots = Slots::new();

/// RESERVED asks for a domain.
const ALL: DomainId = DomainId(0);

/// No descriptor of this module has a lower number.
static LEAST: AtomicI32 = AtomicI32::new(i32::MAX);

/// Whether [`is_reserved`] is worth asking.
#[inline]
pub(super) fn may_be_reserved(descriptor: RawFd) -> bool {
    descriptor >= LEAST.load(Ordering::Relaxed)
}

/// Whether it is a descriptor of this module's.
pub(super) fn is_reserved(descriptor: RawFd) -> bool {
    RESERVED.domain_of(descriptor).is_some()
}

/// The numbers of the descriptors of this module.
pub(super) fn reserved() -> impl Iterator<Item = RawFd> {
    RESERVED.of(ALL)
}

/// The identity of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    device: u64,
    inode: u64,
}

/// The kernel's facts about a descriptor.
pub(super) struct Facts {
    pub file: File,
    size: i64,
    is_regular: bool,
}

impl Facts {
    /// None for a number that is not an open descriptor.
    pub(super) fn of(descriptor: RawFd) -> Option<Facts> {
        let mut facts = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place for the facts, which the call fills if it succeeds.
        let facts = unsafe {
            if libc::fstat(descriptor, facts.as_mut_ptr()) != 0 {
                return None;
            }
            facts.assume_init()
        };
        Some(Facts {
            file: File { device: facts.st_dev, inode: facts.st_ino },
            size: facts.st_size,
            is_regular: facts.st_mode & libc::S_IFMT == libc::S_IFREG,
        })
    }

    /// Where a lock with this `l_whence` counts from.
    pub(super) fn base(&self, descriptor: RawFd, whence: c_int) -> Result<i64, c_int> {
        match whence {
            libc::SEEK_SET => Ok(0),
            // SAFETY: asks for a number; a file without a position has 0 there.
            libc::SEEK_CUR => Ok(unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) }.max(0)),
            libc::SEEK_END => Ok(self.size),
            _ => Err(libc::EINVAL),
        }
    }
}

/// The access that a description was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    /// That of a descriptor, or the number of an error.
    pub(super) fn of(descriptor: RawFd) -> Result<Access, c_int> {
        // SAFETY: takes no third argument.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
        if flags < 0 || flags & libc::O_PATH != 0 {
            return Err(libc::EBADF);
        }
        let mode = flags & libc::O_ACCMODE;
        Ok(Access { reads: mode != libc::O_WRONLY, writes: mode != libc::O_RDONLY })
    }

    /// Whether the kernel takes a lock on such a description.
    pub(super) fn allows(self, kind: c_int) -> bool {
        match kind {
            libc::F_RDLCK => self.reads,
            libc::F_WRLCK => self.writes,
            _ => true,
        }
    }
}

/// One domain's description of one file.
#[derive(Debug)]
pub(super) struct Description {
    pub descriptor: RawFd,
    pub access: Access,
}

impl Description {
    /// One for the file behind `descriptor`, or the number of an error.
    ///
    /// It is opened anew, so that nobody else has it. A file that cannot be opened again, or that is not regular (a device may
    /// notice), lends the program's own description. Then the domain cannot lock out others that share it: programs that have
    /// inherited the descriptor, or received it from each other.
    pub(super) fn open(
        descriptor: RawFd,
        facts: &Facts,
        access: Access,
    ) -> Result<Description, c_int> {
        let both = Access { reads: true, writes: true };
        let wishes = match access {
            // A writer may want a shared lock later.
            Access { reads: false, .. } => &[both, access][..],
            _ => &[access],
        };
        let path = CString::new(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
        for wish in wishes.iter().filter(|_| facts.is_regular) {
            let mode = match wish {
                Access { reads: true, writes: true } => libc::O_RDWR,
                Access { writes: true, .. } => libc::O_WRONLY,
                _ => libc::O_RDONLY,
            };
            // Without a wait for the holder of a lease (fcntl(2), F_SETLEASE).
            let flags = mode | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
            // SAFETY: a NUL-terminated path.
            let opened = unsafe { libc::open(path.as_ptr(), flags) };
            if opened < 0 {
                continue;
            }
            let same = Facts::of(opened).is_some_and(|opened| opened.file == facts.file);
            let moved = if same { duplicate(opened) } else { Err(libc::EBADF) };
            // SAFETY: this function's own descriptor.
            unsafe { libc::close(opened) };
            if same {
                return moved.map(|descriptor| Description::new(descriptor, *wish));
            }
        }
        duplicate(descriptor).map(|own| Description::new(own, access))
    }

    fn new(descriptor: RawFd, access: Access) -> Description {
        reserve(descriptor);
        Description { descriptor, access }
    }

    /// Locks or unlocks bytes (F_OFD_SETLK), or returns the number of an error.
    pub(super) fn set(&self, range: Range, kind: c_int) -> Result<(), c_int> {
        let mut lock = range.to_lock(kind);
        // SAFETY: a valid description of a lock.
        match unsafe { libc::fcntl(self.descriptor, libc::F_OFD_SETLK, &mut lock) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Another number for it, which leaves its number free.
    pub(super) fn move_away(&mut self) {
        if let Ok(descriptor) = duplicate(self.descriptor) {
            reserve(descriptor);
            let former = std::mem::replace(&mut self.descriptor, descriptor);
            RESERVED.remove(former, None);
        }
    }

    /// Closes it. Its locks go with it, also where a child of a fork still has it.
    pub(super) fn close(self) {
        let _ = self.set(Range { first: 0, last: i64::MAX, is_exclusive: false }, libc::F_UNLCK);
        self.forget();
    }

    /// Closes the calling process's descriptor. Another process that has the description keeps the locks.
    pub(super) fn forget(self) {
        RESERVED.remove(self.descriptor, None);
        // SAFETY: this module's own descriptor.
        unsafe { libc::close(self.descriptor) };
    }
}

fn reserve(descriptor: RawFd) {
    LEAST.fetch_min(descriptor, Ordering::Relaxed);
    RESERVED.add(descriptor, ALL);
}

fn duplicate(descriptor: RawFd) -> Result<RawFd, c_int> {
    let numbers = [LOWEST, 0].into_iter();
    // SAFETY: F_DUPFD_CLOEXEC takes a number.
    let mut made =
        numbers.map(|lowest| unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, lowest) });
    // The table of locks is full, as the caller sees it.
    made.find(|made| *made >= 0).ok_or(libc::ENOLCK)
}
