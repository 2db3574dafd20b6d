//! Captures of graphs, which concern their interpreter alone.
//!
//! While a thread captures in the global mode, CUDA forbids all other threads of the process any call that might disturb it, such
//! as allocating memory, and a forbidden call ends the capture. In the thread-local mode it forbids them to the capturing thread
//! only, so a global capture becomes a thread-local one here (cuda_runtime_api.h, `cudaStreamBeginCapture`). CUDA then does not
//! report forbidden calls by other threads of the interpreter.
//!
//! In every mode nobody may wait for the device, since that would wait for the capturing stream too. So an interpreter
//! waits until others have ended their captures, and begins none while others wait for the device.

use super::runtime::{Function, NOT_FOUND, Word, call};
use hydrozoa_loader::{DomainId, Interposition, LeafLock, current};
use std::ffi::{c_int, c_void};
use std::thread;
use std::time::{Duration, Instant};

const GLOBAL: c_int = 0;
const THREAD_LOCAL: Word = 1;

/// How long an interpreter waits for the others. Then CUDA refuses one of the two, as it does in one program.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(50);

static SYNCHRONIZE: Function = Function::new("cudaDeviceSynchronize");

/// The captures and waits in progress, each with its domain.
#[derive(Debug)]
struct Now {
    /// The streams whose captures begin or have begun.
    captures: Vec<(Option<DomainId>, Word)>,
    /// A thread waits for the device, or for captures to end.
    waiting: Vec<Option<DomainId>>,
}

static NOW: LeafLock<Now> = LeafLock::new(Now { captures: Vec::new(), waiting: Vec::new() });

/// Tries until `attempt` succeeds or [`PATIENCE`] is exhausted.
fn patiently(mut attempt: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !attempt() && Instant::now() < end {
        thread::sleep(PAUSE);
    }
}

/// Calls `begin`, the runtime's function that begins a capture of `stream`.
fn capture(stream: Word, begin: impl FnOnce() -> Word) -> Word {
    let domain = current::domain();
    patiently(|| {
        NOW.with(|now| {
            // Those who wait for a capture of this domain may wait for this one too.
            let is_free = now.waiting.iter().all(|of| *of == domain)
                || now.captures.iter().any(|(of, _)| *of == domain);
            if is_free {
                now.captures.push((domain, stream));
            }
            is_free
        })
    });
    let status = begin();
    if status as c_int != 0 {
        // Another capture of this stream goes on.
        NOW.with(|now| remove_last(&mut now.captures, &(domain, stream)));
    }
    status
}

/// Calls `wait`, which waits for a device, for this domain.
pub(super) fn between_captures<R>(domain: Option<DomainId>, wait: impl FnOnce() -> R) -> R {
    NOW.with(|now| now.waiting.push(domain));
    patiently(|| NOW.with(|now| now.captures.iter().all(|(of, _)| *of == domain)));
    let result = wait();
    NOW.with(|now| remove_last(&mut now.waiting, &domain));
    result
}

fn remove_last<T: PartialEq>(list: &mut Vec<T>, one: &T) {
    if let Some(place) = list.iter().rposition(|other| other == one) {
        list.remove(place);
    }
}

/// Forgets the capture of a stream, which has ended or is going to be destroyed.
pub(super) fn forget(stream: Word) {
    NOW.with(|now| now.captures.retain(|(_, of)| *of != stream));
}

/// Forgets captures of a domain that has ended.
pub(super) fn forget_all(domain: Option<DomainId>) {
    NOW.with(|now| now.captures.retain(|(of, _)| *of != domain));
}

/// `cudaDeviceSynchronize(void)`.
///
/// # Safety
/// As the runtime's.
unsafe extern "C" fn synchronize() -> Word {
    let Some(function) = SYNCHRONIZE.of_current() else { return NOT_FOUND };
    // SAFETY: the caller's call.
    between_captures(current::domain(), || unsafe { call(function, [0; 9]) })
}

/// An answer for a function that has the mode as this argument.
#[rustfmt::skip]
macro_rules! capturing {
    ($symbol:literal, $argument:literal) => {{
        static FUNCTION: Function = Function::new($symbol);
        /// # Safety
        /// As the runtime's.
        unsafe extern "C" fn begin(a: Word, b: Word, c: Word, d: Word, e: Word, f: Word) -> Word {
            let Some(function) = FUNCTION.of_current() else { return NOT_FOUND };
            let mut words = [a, b, c, d, e, f, 0, 0, 0];
            if words[$argument] as c_int == GLOBAL {
                words[$argument] = THREAD_LOCAL;
            }
            // SAFETY: the caller's call.
            capture(a, || unsafe { call(function, words) })
        }
        ($symbol, begin as *const c_void)
    }};
}

/// The replacements for these functions.
pub(super) fn answers() -> Vec<(&'static str, Interposition)> {
    let functions = [
        capturing!("cudaStreamBeginCapture", 1),
        capturing!("cudaStreamBeginCapture_ptsz", 1),
        capturing!("cudaStreamBeginCaptureToGraph", 5),
        capturing!("cudaStreamBeginCaptureToGraph_ptsz", 5),
        (SYNCHRONIZE.name, synchronize as *const c_void),
    ];
    // SAFETY: each takes the arguments of its name, which are integers and pointers, and passes them on.
    functions.map(|(name, function)| (name, unsafe { Interposition::function(function) })).into()
}
