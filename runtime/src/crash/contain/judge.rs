//! The judgement whether the frames of a crash may be discarded.

use super::inside;
use super::inside::Innermost;
use super::landing::guard_address;
use crate::crash::handler::Crash;
use crate::heap;
use crate::thread::departure;
use hydrozoa_loader::walk::{self, Boundary, Discardable, Walk};
use hydrozoa_loader::{Process, calling_back, thread_number};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The functions whose frames may be discarded, and the process that has looked them up. A forked child has its threads no more,
/// and contains nothing.
static DISCARDABLE: OnceLock<(Discardable, Process)> = OnceLock::new();

/// Looks up what a judgement needs to know.
pub(super) fn prepare() {
    DISCARDABLE.get_or_init(|| {
        let host = calling_back().into_iter().chain(departure::functions());
        let host = host.chain(heap::discardable(holds_no_heap_but_its_own));
        (Discardable::new(&host.collect::<Vec<_>>()), Process::current())
    });
}

/// Whether the calling thread holds nothing that a function of heaps has taken, but in the heap of the interpreter that it is in: that
/// one crashes as a whole.
fn holds_no_heap_but_its_own() -> bool {
    // SAFETY: no precondition; the thread is in a call of the interpreter.
    unsafe {
        let call = inside::of_thread(thread_number()).and_then(inside::Inside::innermost);
        call.is_some_and(|call| heap::may_leave((*call.contained).domain()))
    }
}

/// The judgement.
pub(in crate::crash) enum Verdict {
    /// The process has no interpreter that contains its crashes.
    Off,
    /// The frames stay, for the reason that [`Refused`] has.
    Refused(Refused),
    /// The frames down to a call may be discarded.
    Contained(Landing),
}

/// Why a crash is not contained.
#[derive(Clone, Copy, Debug)]
pub(in crate::crash) enum Refused {
    /// The thread is in no call of an interpreter that contains its crashes.
    Elsewhere,
    /// Somebody has sent the signal.
    Sent,
    /// The process is a forked child.
    Forked,
    /// The stack is damaged up to the begin of the call.
    Damaged,
    /// The frames do not lead to the begin of the call.
    NotReached,
    /// A function of code outside of the interpreter, at this address, may hold something that others need.
    Shared(usize),
}

/// Where a thread goes on.
#[derive(Clone, Copy)]
pub(in crate::crash) struct Landing(Innermost);

impl Landing {
    /// Notes the crash. True for the interpreter's first.
    pub(in crate::crash) fn note(&self) -> bool {
        // SAFETY: the thread is in a call of the interpreter.
        unsafe { &*self.0.contained }.note_crash()
    }

    /// Has the interrupted thread go on there.
    ///
    /// # Safety
    ///
    /// `context` is that of the crash which was judged, whose handler runs.
    pub(in crate::crash) unsafe fn land(&self, context: *mut c_void) {
        // SAFETY: by contract; the judgement allows it.
        unsafe { self.0.land(context) };
    }
}

/// Judges a crash of the calling thread, or a signal that sends it home. It needs some 100 KiB of stack.
///
/// # Safety
///
/// The crash is the calling thread's, which is in its handler.
pub(in crate::crash) unsafe fn judge(crash: &Crash) -> Verdict {
    let Some((discardable, process)) = DISCARDABLE.get() else { return Verdict::Off };
    if !process.is_current() {
        return Verdict::Refused(Refused::Forked);
    }
    let Some(call) = inside::of_thread(crash.thread).and_then(inside::Inside::innermost) else {
        return Verdict::Refused(Refused::Elsewhere);
    };
    // SAFETY: the thread is in a call of the interpreter; the kernel's own description.
    let (contained, info) = unsafe { (&*call.contained, &*crash.info) };
    let refused = if is_sent(info) {
        Refused::Sent
    } else if !call.is_whole() {
        Refused::Damaged
    } else {
        let boundary = Boundary { function: guard_address(), stack: call.kept.stack() };
        // SAFETY: the caller's promise.
        let mut walk = unsafe { Walk::of_interrupted(crash.context) };
        match discardable.judge(&mut walk, contained.domain(), &boundary) {
            Ok(()) => {
                return Verdict::Contained(Landing(call));
            }
            Err(walk::Kept::Shared(address)) => Refused::Shared(address),
            _ => Refused::NotReached,
        }
    };
    Verdict::Refused(refused)
}

/// Whether the signal is neither a fault of the thread nor one that it has raised.
fn is_sent(info: &libc::siginfo_t) -> bool {
    // SAFETY: a signal that was sent has a sender.
    let is_own = || info.si_code == libc::SI_TKILL && unsafe { info.si_pid() == libc::getpid() };
    info.si_code <= 0 && !is_own()
}
