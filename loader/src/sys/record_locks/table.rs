//! The locks that each domain holds, and those that it waits for.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::id::DomainId;
use crate::sys::lock::{Mutex, Once, Rank};
use crate::sys::process::Process;
use crate::sys::thread;

use super::description::{Description, File};
use super::ranges::{self, Range};
use super::{Owner, Request};

/// How many descriptions without locks a domain keeps: for files that it locks again and again.
const IDLE: usize = 8;

pub(super) static FILES: Mutex<Files> = Mutex::new(Rank::RecordLocks, Files::new());

/// The process that the table is of, and its number.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicI32 = AtomicI32::new(0);

/// Whether the caller is a child between vfork(2) and execve(2): it has the memory of its parent, and descriptors of its
/// own.
pub(super) fn is_visitor() -> bool {
    let is_of_this_process = PROCESS.load(Ordering::Acquire) == Process::current().number();
    // SAFETY: takes nothing.
    is_of_this_process && NUMBER.load(Ordering::Acquire) != unsafe { libc::getpid() }
}

pub(super) struct Files {
    held: Vec<Held>,
    waits: Vec<Wait>,
}

/// A domain's description of a file.
struct Held {
    owner: DomainId,
    files: Arc<AtomicUsize>,
    file: File,
    description: Description,
    ranges: Vec<Range>,
    /// The calls that use the descriptor at this moment.
    pins: usize,
}

/// A domain whose thread waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub owner: DomainId,
    pub file: File,
    pub range: Range,
}

/// Pins the owner's description of the file behind `descriptor`, if it has one or the request needs one.
///
/// # Errors
/// The number of the error.
pub(super) fn pin(
    owner: &Owner,
    descriptor: RawFd,
    request: &Request,
) -> Result<Option<RawFd>, c_int> {
    let file = request.facts.file;
    let known = FILES.lock().current().pin_for(owner.domain, file, request.kind);
    if known.is_some() || request.kind == libc::F_UNLCK {
        return Ok(known);
    }
    close_in_children();
    // Without the lock of the table: files of a network may take their time.
    let new = Description::open(descriptor, &request.facts, request.access)?;
    FILES.lock().current().add(owner, file, new, request.kind).map(Some)
}

/// Makes children of a fork close inherited descriptors: these would keep the parent's locks.
fn close_in_children() {
    extern "C" fn nothing() {}
    extern "C" fn close() {
        FILES.lock().current();
    }
    static REGISTERED: Once<()> = Once::new();
    let registered = REGISTERED.get_or_try_init(|| thread::at_fork(nothing, nothing, close));
    if let Err(error) = registered {
        tracing::warn!(%error, "children of a fork may keep record locks");
    }
}

impl Files {
    const fn new() -> Files {
        Files { held: Vec::new(), waits: Vec::new() }
    }

    /// That of the calling process. A child has no locks.
    pub(super) fn current(&mut self) -> &mut Files {
        let process = Process::current().number();
        if PROCESS.load(Ordering::Relaxed) != process {
            for held in self.held.drain(..) {
                held.files.store(0, Ordering::Relaxed);
                held.description.forget();
            }
            self.waits.clear();
            // SAFETY: takes nothing.
            NUMBER.store(unsafe { libc::getpid() }, Ordering::Release);
            PROCESS.store(process, Ordering::Release);
        }
        self
    }

    fn position(&self, owner: DomainId, file: File) -> Option<usize> {
        self.held.iter().position(|held| held.owner == owner && held.file == file)
    }

    fn pin_for(&mut self, owner: DomainId, file: File, kind: c_int) -> Option<RawFd> {
        let place = self.position(owner, file)?;
        let held = &mut self.held[place];
        held.description.access.allows(kind).then(|| held.pin())
    }

    /// Pins a description for a question.
    pub(super) fn pin_known(&mut self, owner: &Owner, file: File) -> Option<RawFd> {
        self.current().pin_for(owner.domain, file, libc::F_UNLCK)
    }

    /// Pins a new description. One that the domain has for less access hands its locks over.
    fn add(
        &mut self,
        owner: &Owner,
        file: File,
        new: Description,
        kind: c_int,
    ) -> Result<RawFd, c_int> {
        if let Some(place) = self.position(owner.domain, file) {
            let held = &mut self.held[place];
            if held.description.access.allows(kind) {
                new.close();
            } else {
                held.hand_over(new)?;
            }
            return Ok(held.pin());
        }
        self.drop_idle(owner.domain);
        owner.files.fetch_add(1, Ordering::Relaxed);
        self.held.push(Held {
            owner: owner.domain,
            files: owner.files.clone(),
            file,
            description: new,
            ranges: Vec::new(),
            pins: 1,
        });
        Ok(self.held.last().map_or(-1, |held| held.description.descriptor))
    }

    /// Closes the oldest description that its domain does not need, if there are many.
    fn drop_idle(&mut self, owner: DomainId) {
        let is_idle = |held: &Held| held.owner == owner && held.pins == 0 && held.ranges.is_empty();
        if self.held.iter().filter(|held| is_idle(held)).count() >= IDLE
            && let Some(place) = self.held.iter().position(is_idle)
        {
            self.held.remove(place).close();
        }
    }

    /// Ends the use of a pinned description, with the change that was made by it.
    pub(super) fn unpin(&mut self, owner: &Owner, file: File, change: Option<(Range, c_int)>) {
        let Some(place) = self.current().position(owner.domain, file) else { return };
        let held = &mut self.held[place];
        held.pins = held.pins.saturating_sub(1);
        match change {
            Some((range, libc::F_UNLCK)) => ranges::remove(&mut held.ranges, &range),
            Some((range, _)) => ranges::add(&mut held.ranges, range),
            None => {}
        }
    }

    /// Whether the domain has a description of the file.
    pub(super) fn has(&mut self, owner: &Owner, file: File) -> bool {
        self.current().position(owner.domain, file).is_some()
    }

    /// Releases all locks of a domain on a file.
    pub(super) fn release(&mut self, owner: &Owner, file: File) {
        let Some(place) = self.current().position(owner.domain, file) else { return };
        let held = &mut self.held[place];
        if held.pins == 0 {
            self.held.remove(place).close();
            return;
        }
        // Another thread waits for a lock by this descriptor.
        let all = Range { first: 0, last: i64::MAX, is_exclusive: false };
        let _ = held.description.set(all, libc::F_UNLCK);
        held.ranges.clear();
    }

    /// Releases all locks of a domain.
    pub(super) fn end(&mut self, owner: &Owner) {
        let files = self.current();
        while let Some(place) = files.held.iter().position(|held| held.owner == owner.domain) {
            files.held.remove(place).close();
        }
    }

    /// Frees the number of a descriptor for the program.
    pub(super) fn vacate(&mut self, descriptor: RawFd) {
        let all = self.current().held.iter_mut();
        for held in all.filter(|held| held.description.descriptor == descriptor) {
            held.description.move_away();
        }
    }

    /// Whether a domain other than `owner` excludes a lock.
    pub(super) fn is_another_s(&self, owner: DomainId, file: File, range: &Range) -> bool {
        self.excluding(owner, file, *range).next().is_some()
    }

    /// The domains other than `owner` that hold locks which exclude this one.
    fn excluding(
        &self,
        owner: DomainId,
        file: File,
        range: Range,
    ) -> impl Iterator<Item = DomainId> {
        let meant = move |held: &&Held| held.owner != owner && held.file == file;
        let excludes = move |held: &&Held| held.ranges.iter().any(|one| one.excludes(&range));
        self.held.iter().filter(meant).filter(excludes).map(|held| held.owner)
    }

    /// Notes that a domain waits.
    ///
    /// # Errors
    /// EDEADLK if it would wait for itself.
    pub(super) fn begin_wait(&mut self, wait: Wait) -> Result<(), c_int> {
        let (mut asked, mut seen) = (vec![wait], Vec::new());
        while let Some(one) = asked.pop() {
            for other in self.excluding(one.owner, one.file, one.range) {
                if other == wait.owner {
                    return Err(libc::EDEADLK);
                }
                if !seen.contains(&other) {
                    seen.push(other);
                    asked.extend(self.waits.iter().filter(|wait| wait.owner == other));
                }
            }
        }
        self.waits.push(wait);
        Ok(())
    }

    pub(super) fn end_wait(&mut self, wait: Wait) {
        if let Some(place) = self.waits.iter().position(|one| *one == wait) {
            self.waits.swap_remove(place);
        }
    }
}

impl Held {
    fn pin(&mut self) -> RawFd {
        self.pins += 1;
        self.description.descriptor
    }

    /// Takes another description, which gets the locks.
    ///
    /// # Errors
    /// ENOLCK: then it keeps the one that it has.
    fn hand_over(&mut self, new: Description) -> Result<(), c_int> {
        let kind = |range: &Range| if range.is_exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        let get = |range: &Range| {
            // Shared locks of both are possible at once, exclusive ones are not.
            new.set(*range, kind(range)).or_else(|_| {
                self.description.set(*range, libc::F_UNLCK)?;
                new.set(*range, kind(range))
            })
        };
        if self.pins > 0 || self.ranges.iter().try_for_each(get).is_err() {
            new.close();
            return Err(libc::ENOLCK);
        }
        std::mem::replace(&mut self.description, new).close();
        Ok(())
    }

    fn close(self) {
        self.files.fetch_sub(1, Ordering::Relaxed);
        self.description.close();
    }
}
