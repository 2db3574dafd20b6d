//! Record locks (fcntl(2), F_SETLK) that belong to a domain.
//!
//! The kernel's record locks belong to the process: no two domains of it exclude each other, and a domain that closes a file
//! drops another's locks. Here a domain has an open file description of its own for each file on which it has locks, and that
//! owns them (F_OFD_SETLK, Linux 3.15). Such locks meet those of other domains, of other processes and of the host.
//!
//! Inside the domain POSIX's rules hold. Closing any descriptor of a file releases its locks on that file, and a child of a
//! fork has none. One thing differs: execve(2), which ends all domains, drops them. Other processes see an owner without a number
//! (-1). The kernel finds no deadlock among such owners; among domains of one process it is found here.

mod closing;
mod description;
mod ranges;
mod table;

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::id::DomainId;
use crate::sys::descriptors;
use crate::sys::errno::{errno, set_errno};
use crate::sys::signals::Blocked;

use self::description::{Access, Facts};
use self::ranges::Range;
use self::table::{FILES, Wait, is_visitor};

pub(crate) use self::closing::{close, close_all_from, close_range, fclose, reopen, replace};

/// The owner that a domain's thunks refer to.
#[derive(Debug)]
pub(crate) struct Owner {
    pub domain: DomainId,
    /// The number of its descriptions.
    files: Arc<AtomicUsize>,
}

impl Owner {
    pub(crate) fn new(domain: DomainId) -> Owner {
        Owner { domain, files: Arc::default() }
    }

    #[inline]
    fn has_none(&self) -> bool {
        self.files.load(Ordering::Relaxed) == 0
    }

    /// Releases all its locks: the domain has ended.
    pub(crate) fn end(&self) {
        if !self.has_none() {
            let _blocked = Blocked::begin();
            FILES.lock().end(self);
        }
    }
}

/// `fcntl(descriptor, command, argument)`, called by code of the owner's domain.
///
/// # Safety
/// As fcntl(2).
#[inline]
pub(crate) unsafe fn control(
    descriptor: c_int,
    command: c_int,
    argument: usize,
    owner: &Owner,
) -> c_int {
    if matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW) {
        let lock = std::ptr::with_exposed_provenance_mut::<libc::flock>(argument);
        // SAFETY: the caller's promise.
        return unsafe { lock_or_ask(descriptor, command, lock, owner) };
    }
    // SAFETY: the caller's promise.
    let result = unsafe { libc::fcntl(descriptor, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            descriptors::note_copy(descriptor, result, owner.domain)
        }
        _ => result,
    }
}

/// # Safety
/// As fcntl(2), for these three commands.
unsafe fn lock_or_ask(
    descriptor: c_int,
    command: c_int,
    lock: *mut libc::flock,
    owner: &Owner,
) -> c_int {
    // SAFETY: the caller's promise; the kernel would refuse null likewise.
    let Some(lock) = (unsafe { lock.as_mut() }) else {
        set_errno(libc::EFAULT);
        return -1;
    };
    let outcome = match command {
        // Between vfork(2) and execve(2) the table is the parent's.
        _ if is_visitor() => Err(Refusal::Unsupported),
        libc::F_GETLK => owner.ask(descriptor, lock),
        _ => owner.lock(descriptor, lock, command == libc::F_SETLKW),
    };
    match outcome {
        Ok(()) => 0,
        // Then use locks of the process.
        // SAFETY: the caller's promise.
        Err(Refusal::Unsupported) => unsafe {
            libc::fcntl(descriptor, command, std::ptr::from_mut(lock))
        },
        Err(Refusal::Error(code)) => {
            set_errno(code);
            -1
        }
    }
}

/// `lockf(descriptor, command, length)` (glibc, io/lockf64.c).
pub(crate) fn lock_from_position(
    descriptor: c_int,
    command: c_int,
    length: libc::off_t,
    owner: &Owner,
) -> c_int {
    let (kind, command) = match command {
        libc::F_TEST => (libc::F_RDLCK, libc::F_GETLK),
        libc::F_ULOCK => (libc::F_UNLCK, libc::F_SETLK),
        libc::F_LOCK => (libc::F_WRLCK, libc::F_SETLKW),
        libc::F_TLOCK => (libc::F_WRLCK, libc::F_SETLK),
        _ => {
            set_errno(libc::EINVAL);
            return -1;
        }
    };
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_CUR as libc::c_short,
        l_start: 0,
        l_len: length,
        l_pid: 0,
    };
    // SAFETY: a valid description of a lock.
    let status = unsafe { lock_or_ask(descriptor, command, &mut lock, owner) };
    if status == 0 && command == libc::F_GETLK && c_int::from(lock.l_type) != libc::F_UNLCK {
        set_errno(libc::EACCES);
        return -1;
    }
    status
}

/// The reason why no lock was given.
enum Refusal {
    Error(c_int),
    /// The kernel has no locks of descriptions.
    Unsupported,
}

impl From<c_int> for Refusal {
    fn from(code: c_int) -> Refusal {
        Refusal::Error(code)
    }
}

/// The lock that a call asks for.
struct Request {
    facts: Facts,
    access: Access,
    kind: c_int,
    range: Range,
}

impl Request {
    fn of(descriptor: c_int, lock: &libc::flock) -> Result<Request, c_int> {
        let access = Access::of(descriptor)?;
        let facts = Facts::of(descriptor).ok_or(libc::EBADF)?;
        let kind = c_int::from(lock.l_type);
        if !matches!(kind, libc::F_RDLCK | libc::F_WRLCK | libc::F_UNLCK) {
            return Err(libc::EINVAL);
        }
        let base = facts.base(descriptor, c_int::from(lock.l_whence))?;
        Ok(Request { range: Range::of(lock, base)?, facts, access, kind })
    }
}

impl Owner {
    /// F_SETLK and F_SETLKW.
    fn lock(&self, descriptor: c_int, lock: &libc::flock, waits: bool) -> Result<(), Refusal> {
        let request = Request::of(descriptor, lock)?;
        let Request { range, kind, .. } = request;
        if !request.access.allows(kind) {
            return Err(Refusal::Error(libc::EBADF));
        }
        let mut blocked = Blocked::begin();
        let Some(own) = table::pin(self, descriptor, &request)? else {
            // There is nothing to unlock.
            return Ok(());
        };
        let file = request.facts.file;
        let mut outcome = set(own, libc::F_OFD_SETLK, range, kind);
        if waits && matches!(outcome, Err(libc::EAGAIN | libc::EACCES)) {
            let wait = Wait { owner: self.domain, file, range };
            outcome = FILES.lock().begin_wait(wait);
            if outcome.is_ok() {
                drop(blocked);
                outcome = set(own, libc::F_OFD_SETLKW, range, kind);
                blocked = Blocked::begin();
                FILES.lock().end_wait(wait);
            }
        }
        FILES.lock().unpin(self, file, outcome.is_ok().then_some((range, kind)));
        drop(blocked);
        match outcome {
            // The other causes of this error were checked above.
            Err(libc::EINVAL) => Err(Refusal::Unsupported),
            other => Ok(other?),
        }
    }

    /// F_GETLK.
    fn ask(&self, descriptor: c_int, lock: &mut libc::flock) -> Result<(), Refusal> {
        let request = Request::of(descriptor, lock)?;
        let Request { range, kind, .. } = request;
        if kind == libc::F_UNLCK {
            return Err(Refusal::Error(libc::EINVAL));
        }
        let file = request.facts.file;
        let _blocked = Blocked::begin();
        let own = FILES.lock().pin_known(self, file);
        let mut found = range.to_lock(kind);
        // Without a description of its own the domain has no lock, and the program's has none of this kind.
        // SAFETY: a valid description of a lock.
        let status =
            unsafe { libc::fcntl(own.unwrap_or(descriptor), libc::F_OFD_GETLK, &mut found) };
        let code = errno();
        let mut files = FILES.lock();
        if own.is_some() {
            files.unpin(self, file, None);
        }
        if status != 0 {
            let is_unknown = code == libc::EINVAL;
            return Err(if is_unknown { Refusal::Unsupported } else { code.into() });
        }
        lock.l_type = found.l_type;
        if c_int::from(found.l_type) != libc::F_UNLCK {
            *lock = found;
            if lock.l_pid == -1 && files.is_another_s(self.domain, file, &range) {
                // SAFETY: takes nothing.
                lock.l_pid = unsafe { libc::getpid() };
            }
        }
        Ok(())
    }
}

/// Sets a lock on a description. The thread is not cancelled meanwhile: it could not release what it holds.
fn set(own: c_int, command: c_int, range: Range, kind: c_int) -> Result<(), c_int> {
    let lock = range.to_lock(kind);
    // SAFETY: a valid description of a lock.
    match unsafe { libc::syscall(libc::SYS_fcntl, own, command, &raw const lock) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}
