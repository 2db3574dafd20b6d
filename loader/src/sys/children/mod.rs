//! Children of the process, each of which belongs to the domain that has made it.
//!
//! The kernel has one list of children for the process, and wait(2) takes any of them. Here a domain waits for its own.
//! Children that no domain is known to have made are the host's: only the host waits for them, by the C library's own
//! functions.

mod sleep;

use std::ffi::c_int;
use std::fs;
use std::mem;
use std::ptr;

use crate::id::DomainId;
use crate::sys::domain_by_number::Slots;
use crate::sys::errno::{errno, failed};
use crate::sys::signals::Blocked;

use self::sleep::Sleep;

unsafe extern "C-unwind" {
    fn wait4(
        pid: libc::pid_t,
        status: *mut c_int,
        options: c_int,
        usage: *mut libc::rusage,
    ) -> libc::pid_t;
}

static CHILDREN: Slots = Slots::new();

/// The domains that ignore the ends of their children, by their own numbers.
static IGNORING: Slots = Slots::new();

/// The owner of children whose domain has ended. No domain has this number.
const NOBODY: DomainId = DomainId(u32::MAX);

/// Options that wait4(2) and waitid(2) know (linux/wait.h).
const FOR_CLONES: c_int = libc::__WNOTHREAD | libc::__WCLONE | libc::__WALL;
const OF_WAIT4: c_int = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | FOR_CLONES;
const CHANGES: c_int = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
const OF_WAITID: c_int = CHANGES | libc::WNOHANG | libc::WNOWAIT | FOR_CLONES;

/// Notes that code of a domain has made a child.
pub(crate) fn note(child: libc::pid_t, domain: DomainId) {
    CHILDREN.add(child, domain);
    sleep::wake(domain);
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: zero is a value of every field; a place for the report. The signal is one that the process gets anyway.
    unsafe {
        let mut report: libc::siginfo_t = mem::zeroed();
        let asked = waitid(libc::P_PID, child as libc::id_t, &mut report, options, ptr::null_mut());
        if asked == 0 && report.si_pid() != 0 {
            // A handler on another thread may have missed it.
            libc::kill(libc::getpid(), libc::SIGCHLD);
        }
    }
    reap_left();
}

/// Notes that a child is gone.
pub(crate) fn forget(child: libc::pid_t, domain: DomainId) {
    CHILDREN.remove(child, Some(domain));
}

/// The domain ends and orphans its children: like those of a process that ends, they go on, and somebody else waits for them.
/// Here that happens when a domain next makes a child, or ends.
pub(crate) fn leave(domain: DomainId) {
    ignore_children(domain, false);
    CHILDREN.pass_on(domain, NOBODY);
    reap_left();
}

/// Waits for children of ended domains, as far as they have ended.
fn reap_left() {
    reap(NOBODY);
}

/// Waits for the children of a domain that have ended.
fn reap(domain: DomainId) {
    for child in CHILDREN.of(domain) {
        // SAFETY: asks for no results.
        let reaped =
            unsafe { wait4(child, ptr::null_mut(), libc::WNOHANG | libc::__WALL, ptr::null_mut()) };
        if reaped != 0 {
            CHILDREN.remove(child, Some(domain));
        }
    }
}

/// Sets whether a domain ignores the ends of its children, as a process does whose action on SIGCHLD is SIG_IGN: nobody waits
/// for them, and they leave no status. The action itself is the process's, and would do the same to all domains' children.
///
/// The caller must handle SIGCHLD by [`reap_ignored`].
pub fn ignore_children(domain: DomainId, ignores: bool) {
    match ignores {
        true => IGNORING.add(domain.0 as i32, domain),
        false => IGNORING.remove(domain.0 as i32, None),
    }
}

/// Whether a domain is to be told of SIGCHLD for `child`: the child is its own, or nobody's that is known, or another of its
/// children has changed without such a call. Signals of one kind merge, so the kernel may have left that one out. It is told
/// of the end of a child once. A handler of signals may call it.
pub fn concerns(child: libc::pid_t, domain: DomainId) -> bool {
    let options = CHANGES | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let is_news = |child| {
        // SAFETY: zero is a value of every field; a place for the report.
        unsafe {
            let mut report: libc::siginfo_t = mem::zeroed();
            let id = child as libc::id_t;
            waitid(libc::P_PID, id, &mut report, options, ptr::null_mut()) == 0
                && report.si_pid() != 0
                && (!is_gone(&report, 0) || CHILDREN.mark(child))
        }
    };
    match CHILDREN.domain_of(child) {
        Some(owner) if owner == domain => {
            is_news(child);
            true
        }
        Some(_) => CHILDREN.of(domain).any(is_news),
        None => true,
    }
}

/// Reaps the ended children whose domains ignore them. A signal handler may call it.
pub fn reap_ignored() {
    for (_, domain) in IGNORING.entries() {
        reap(domain);
    }
}

fn ignores(domain: DomainId) -> bool {
    IGNORING.domain_of(domain.0 as i32).is_some()
}

/// The children that a call means.
#[derive(Clone, Copy)]
enum Meant {
    All,
    /// Those in a group of processes.
    Group(libc::pid_t),
}

impl Meant {
    fn has(self, child: libc::pid_t) -> bool {
        match self {
            Meant::All => true,
            // SAFETY: asks for a number.
            Meant::Group(group) => unsafe { libc::getpgid(child) == group },
        }
    }

    /// The children that wait4(2) means by a number other than a child's.
    fn of(number: libc::pid_t) -> Option<Meant> {
        match number {
            -1 => Some(Meant::All),
            // SAFETY: takes nothing.
            0 => Some(Meant::Group(unsafe { libc::getpgrp() })),
            _ => number.checked_neg().map(Meant::Group),
        }
    }
}

/// The kernel's answer about one child.
enum Answer {
    /// Nothing to report yet.
    Nothing,
    Report {
        is_gone: bool,
    },
    Refused(c_int),
}

/// `wait4(child, status, options, usage)`, called by code of `domain`.
///
/// # Safety
/// As wait4(2).
pub(crate) unsafe fn wait_by_number(
    child: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
    domain: DomainId,
) -> libc::pid_t {
    if options & !OF_WAIT4 != 0 {
        return failed(libc::EINVAL);
    }
    if child > 0 {
        if CHILDREN.domain_of(child) != Some(domain) {
            return failed(libc::ECHILD);
        }
        let mut own_status = 0;
        // SAFETY: the caller's promise, and a place for the status.
        let waited = unsafe { wait4(child, &mut own_status, options, usage) };
        if waited > 0 && is_end(own_status) && ignores(domain) {
            forget(child, domain);
            return failed(libc::ECHILD);
        }
        if waited > 0 {
            // SAFETY: the caller's promise.
            unsafe { status.as_mut() }.into_iter().for_each(|place| *place = own_status);
        }
        if waited > 0 && is_end(own_status) || waited < 0 && !is_child(child) {
            forget(child, domain);
        }
        return waited;
    }
    let Some(meant) = Meant::of(child) else { return failed(libc::ESRCH) };
    let mut own_status = 0;
    let mut reported = 0;
    let ask = |child| {
        // SAFETY: as above.
        reported = unsafe { wait4(child, &mut own_status, options | libc::WNOHANG, usage) };
        match reported {
            0 => Answer::Nothing,
            -1 => Answer::Refused(errno()),
            _ => Answer::Report { is_gone: is_end(own_status) },
        }
    };
    match wait(domain, meant, options, ask) {
        Ok(true) => {
            // SAFETY: the caller's promise.
            unsafe { status.as_mut() }.into_iter().for_each(|place| *place = own_status);
            reported
        }
        Ok(false) => 0,
        Err(code) => failed(code),
    }
}

/// The system call, which takes one argument more than the C library's function.
///
/// # Safety
/// As waitid(2).
unsafe fn waitid(
    kind: libc::idtype_t,
    id: libc::id_t,
    report: *mut libc::siginfo_t,
    options: c_int,
    usage: *mut libc::rusage,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_waitid, kind, id, report, options, usage) as c_int }
}

/// `waitid(kind, id, report, options, usage)`, called by code of `domain`.
///
/// # Safety
/// As waitid(2).
pub(crate) unsafe fn wait_by_kind(
    kind: libc::idtype_t,
    id: libc::id_t,
    report: *mut libc::siginfo_t,
    options: c_int,
    usage: *mut libc::rusage,
    domain: DomainId,
) -> c_int {
    if options & !OF_WAITID != 0 || options & CHANGES == 0 {
        return failed(libc::EINVAL);
    }
    let meant = match kind {
        libc::P_ALL => Meant::All,
        // SAFETY: takes nothing.
        libc::P_PGID if id == 0 => Meant::Group(unsafe { libc::getpgrp() }),
        libc::P_PGID if id as libc::pid_t > 0 => Meant::Group(id as libc::pid_t),
        libc::P_PID | libc::P_PIDFD => {
            let child = if kind == libc::P_PID { Some(id as libc::pid_t) } else { of_pidfd(id) };
            if child.is_some_and(|child| child > 0 && CHILDREN.domain_of(child) != Some(domain)) {
                return failed(libc::ECHILD);
            }
            // SAFETY: zero is a value of every field, and the rest is the caller's promise.
            unsafe {
                let mut own: libc::siginfo_t = mem::zeroed();
                let status = waitid(kind, id, &mut own, options, usage);
                if status == 0 {
                    report.as_mut().into_iter().for_each(|place| *place = own);
                }
                let is_reaped = status == 0 && own.si_pid() != 0 && is_gone(&own, options);
                if is_reaped && ignores(domain) {
                    reap_ignored();
                    return failed(libc::ECHILD);
                }
                if let Some(child) = child
                    && (is_reaped || status != 0 && errno() == libc::ECHILD && !is_child(child))
                {
                    forget(child, domain);
                }
                return status;
            }
        }
        _ => return failed(libc::EINVAL),
    };
    // SAFETY: zero is a value of every field.
    let mut own: libc::siginfo_t = unsafe { mem::zeroed() };
    let ask = |child| {
        // SAFETY: a place for the report; `si_pid` is that of a report on a child, or 0 without a report.
        unsafe {
            own = mem::zeroed();
            let options = options | libc::WNOHANG;
            match waitid(libc::P_PID, child as libc::id_t, &mut own, options, usage) {
                0 if own.si_pid() == 0 => Answer::Nothing,
                0 => Answer::Report { is_gone: is_gone(&own, options) },
                _ => Answer::Refused(errno()),
            }
        }
    };
    match wait(domain, meant, options, ask) {
        // Without a report the place holds zeroes.
        Ok(_) => {
            // SAFETY: the caller's promise.
            unsafe { report.as_mut() }.into_iter().for_each(|place| *place = own);
            0
        }
        Err(code) => failed(code),
    }
}

/// Waits until the kernel reports on one of the children. False if it has no report and the options say not to wait.
fn wait(
    domain: DomainId,
    meant: Meant,
    options: c_int,
    mut ask: impl FnMut(libc::pid_t) -> Answer,
) -> Result<bool, c_int> {
    // A signal that comes from now on ends the sleep.
    let blocked = (options & libc::WNOHANG == 0).then(Blocked::begin);
    let is_known = look(domain, meant, &mut ask)?;
    let (false, Some(blocked)) = (is_known, blocked) else { return Ok(is_known) };
    let for_stops = options & (libc::WSTOPPED | libc::WCONTINUED) != 0;
    let mut sleep = Sleep::begin(domain, blocked, for_stops);
    // A child may have ended before the sleep began, and another may have been made.
    while !look(domain, meant, &mut ask)? {
        sleep.until_something_happens(CHILDREN.of(domain).filter(|child| meant.has(*child)))?;
    }
    Ok(true)
}

/// Asks about each of the children. False if none has a report yet.
fn look(
    domain: DomainId,
    meant: Meant,
    ask: &mut impl FnMut(libc::pid_t) -> Answer,
) -> Result<bool, c_int> {
    let is_ignored = ignores(domain);
    if is_ignored {
        reap(domain);
    }
    let mut is_hopeful = false;
    for child in CHILDREN.of(domain).filter(|child| meant.has(*child)) {
        match ask(child) {
            Answer::Nothing => is_hopeful = true,
            Answer::Report { is_gone } => {
                if is_gone {
                    forget(child, domain);
                }
                // It may have ended since they were reaped.
                if !is_gone || !is_ignored {
                    return Ok(true);
                }
            }
            // Another thread was faster, or the process ignores SIGCHLD; or the options exclude it.
            Answer::Refused(libc::ECHILD) => {
                if !is_child(child) {
                    forget(child, domain);
                }
            }
            Answer::Refused(code) => return Err(code),
        }
    }
    if is_hopeful { Ok(false) } else { Err(libc::ECHILD) }
}

/// Whether the process still has this child.
fn is_child(child: libc::pid_t) -> bool {
    let options = CHANGES | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let (report, usage) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: null pointers ask for no report.
    unsafe { waitid(libc::P_PID, child as libc::id_t, report, options, usage) == 0 }
}

/// Whether the status is that of a child that has ended.
fn is_end(status: c_int) -> bool {
    libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
}

/// Whether the report is on a child that has ended, which the call has taken.
fn is_gone(report: &libc::siginfo_t, options: c_int) -> bool {
    let is_end = matches!(report.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
    is_end && options & libc::WNOWAIT == 0
}

/// The process that a descriptor refers to (pidfd_open(2)); none for other descriptors, or if /proc does not say.
fn of_pidfd(descriptor: libc::id_t) -> Option<libc::pid_t> {
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
    let number = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0)
}
