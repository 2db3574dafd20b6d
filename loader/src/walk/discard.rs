//! Whether the frames of a thread may be discarded for ever: those of one domain's code, and of what it has called.
//!
//! Frames of the domain's own replicas hold nothing of the process. Between them, and at the innermost end, lie *runs* of frames of
//! code that all share. A run may hold a lock of the process, such as malloc's. So one passes only if the function that the
//! domain's code has called, its outermost one, is known to hold none there ([`Passes`]). A function is recognised by the
//! begin of its unwind table's entry, so which variant of `memcpy` runs needs no name. In doubt the frames stay. A function that ends by a
//! call (a tail call) has no frame any more, and nothing to do afterwards either.
//!
//! A handler of signals may ask: nothing here locks or allocates once a [`Discardable`] is made.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::step::function_of;
use super::{CodePlace, End, Walk, known};
use crate::arch::call_guarded;
use crate::id::DomainId;
use crate::visible::publish;

/// When a run of frames passes that begins with a function.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Passes {
    /// Always: the function takes no lock, whatever it calls.
    Always,
    /// While it calls code of the domain back.
    CallingBack,
    /// While this loader, which it has called, calls code of the domain back.
    Guarded,
    /// While it raises a signal for its own thread (`raise(3)`).
    Raising,
    /// While this says so, which a handler of signals of the thread asks.
    While(fn() -> bool),
}

/// The functions whose frames may be discarded.
#[derive(Debug)]
pub struct Discardable {
    /// Begins of functions, in ascending order.
    functions: Vec<(usize, Passes)>,
    /// Libraries that hold no lock at all, by the address of their name.
    libraries: Vec<CodePlace>,
    raise: usize,
}

/// The frame at which the frames to be discarded end. It is not one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Where its function begins.
    pub function: usize,
    /// Its stack pointer at its call.
    pub stack: usize,
}

/// Why frames may not be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// The walk has not come to the boundary.
    NotReached(Option<End>),
    /// Code outside of the domain may hold something of the process: that of the function at this address.
    Shared(usize),
}

/// Frames of shared code that lie between frames of the domain's.
struct Run {
    /// Where the function of its innermost frame begins, and that of its outermost one so far.
    innermost: usize,
    outermost: usize,
    /// An address in the outermost one.
    executes: usize,
    /// Whether its innermost frame has called code of the domain.
    calls_back: bool,
    raises: bool,
}

/// Start routines of threads that lie in shared code: that of `std::thread` in libstdc++, which has no name that others see.
static ROUTINES: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// Notes the start routine of a thread that code of a domain creates. One of shared code does nothing but call that code back.
pub(crate) fn note_routine(address: usize) {
    let is_known = |one: &AtomicUsize| one.load(Ordering::Relaxed) == address;
    if publish::is_in_replica(address) || ROUTINES.iter().any(is_known) {
        return;
    }
    let begin = function_of(address).unwrap_or(address);
    let _ = ROUTINES.iter().find(|one| {
        let order = Ordering::Relaxed;
        one.compare_exchange(0, begin, order, order).map_or_else(|now| now == begin, |_| true)
    });
}

fn is_routine(begin: usize) -> bool {
    begin != 0 && ROUTINES.iter().any(|one| one.load(Ordering::Relaxed) == begin)
}

impl Discardable {
    /// The known functions of the C and C++ libraries, and `others`, by their addresses.
    pub fn new(others: &[(usize, Passes)]) -> Discardable {
        let begin = |address: usize| function_of(address).unwrap_or(address);
        let all = known::functions().chain(others.iter().copied());
        let mut functions: Vec<_> = all.map(|(address, passes)| (begin(address), passes)).collect();
        // Of one that stands there twice, such as `raise`, the first.
        functions.sort_by_key(|(address, _)| *address);
        functions.dedup_by_key(|(address, _)| *address);
        Discardable {
            functions,
            libraries: known::libraries().filter_map(CodePlace::of).collect(),
            raise: known::address_of(c"raise").map_or(0, begin),
        }
    }

    /// Walks to `boundary`, over frames of code of `domain` and of what it has called.
    ///
    /// # Errors
    ///
    /// The first reason against a discard of these frames.
    pub fn judge(
        &self,
        walk: &mut Walk,
        domain: DomainId,
        boundary: &Boundary,
    ) -> Result<(), Kept> {
        let (mut run, mut is_first, mut is_inside) = (None::<Run>, true, false);
        for frame in walk.by_ref() {
            if frame.function == boundary.function && frame.stack == boundary.stack {
                return run.map_or(Ok(()), |run| self.passes(&run));
            }
            if frame.stack >= boundary.stack {
                break;
            }
            let Some(place) = CodePlace::of(frame.executes) else {
                // A call of what is not code. Its caller comes next.
                if is_first && frame.function == 0 {
                    // Its caller would have called code of the domain there.
                    (is_first, is_inside) = (false, true);
                    continue;
                }
                break;
            };
            is_first = false;
            let is_harmless = self.libraries.iter().any(|one| one.is_same_object(&place));
            if place.domain() == Some(domain) || is_harmless {
                run.take().map_or(Ok(()), |run| self.passes(&run))?;
                is_inside = true;
                continue;
            }
            let run = run.get_or_insert(Run {
                innermost: frame.function,
                outermost: 0,
                executes: 0,
                calls_back: is_inside,
                raises: false,
            });
            (run.outermost, run.executes) = (frame.function, frame.executes);
            run.raises |= frame.function == self.raise;
            is_inside = false;
        }
        Err(Kept::NotReached(walk.end()))
    }

    fn passes(&self, run: &Run) -> Result<(), Kept> {
        let found = self.functions.binary_search_by_key(&run.outermost, |(begin, _)| *begin);
        let passes = found.is_ok_and(|place| match self.functions[place].1 {
            Passes::Always => true,
            Passes::CallingBack => run.calls_back,
            Passes::Guarded => {
                let is_guard = run.innermost == call_guarded as *const () as usize;
                run.calls_back && (is_guard || is_routine(run.innermost))
            }
            Passes::Raising => run.raises,
            Passes::While(is_so) => is_so(),
        });
        if passes && run.outermost != 0 { Ok(()) } else { Err(Kept::Shared(run.executes)) }
    }
}
