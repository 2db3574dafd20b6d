//! Anomaly mode of autograd: two variables of libtorch, which no function guards.
//!
//! While it is on, every operation of the process records a stack trace. If it also checks values, every backward
//! pass raises where a gradient is not a number. torch.compile turns it on without that check; this disturbs no
//! other interpreter. With the check, an interpreter may turn it on only while no other one lives.
//!
//! Each libtorch_python has variables of its own in place of libtorch's. Torch gives the GIL back before each
//! operation; there the adapter sees what Python code has set, and sets libtorch's variables. A backward pass asks
//! each of its roots for its edge; there the adapter refuses. Needed in every release.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::adapter::{Member, adapter, fail, lock, symbols};
use super::cells::Cells;
use super::exported::Answer;
use super::symbols::EXPORTS;

/// One interpreter's variables.
struct Own {
    enabled: AtomicBool,
    check_nan: AtomicBool,
    /// What libtorch's own variables do for this interpreter: [`OFF`], [`TRACES`] or [`CHECKS`].
    in_force: AtomicU8,
}

const OFF: u8 = 0;
/// Stack traces are recorded.
const TRACES: u8 = 1;
/// Values are checked, too.
const CHECKS: u8 = 2;

impl Own {
    fn wanted(&self) -> u8 {
        match self.enabled.load(Ordering::Relaxed) {
            false => OFF,
            true if self.check_nan.load(Ordering::Relaxed) => CHECKS,
            true => TRACES,
        }
    }

    fn in_force(&self) -> u8 {
        self.in_force.load(Ordering::Relaxed)
    }
}

impl Default for Own {
    /// As torch/csrc/autograd/anomaly_mode.cpp initialises them.
    fn default() -> Own {
        Own {
            enabled: AtomicBool::new(false),
            check_nan: AtomicBool::new(true),
            in_force: AtomicU8::new(OFF),
        }
    }
}

static OWN: Cells<Own> = Cells::new();

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    let own = OWN.of(member);
    // SAFETY: C++ `bool`s of one byte, as libtorch's variables are. Cells never move.
    unsafe {
        vec![
            EXPORTS.anomaly.means(&raw const own.enabled).answer(),
            EXPORTS.anomaly_nan.means(&raw const own.check_nan).answer(),
            EXPORTS.gradient_edge.answered_by(gradient_edge, member),
        ]
    }
}

/// To be called before an operation of the interpreter: what it has set is in force from now on, but values are
/// checked only if no other interpreter lives.
pub(super) fn notice(member: &Member) {
    let Some(own) = OWN.get(member) else { return };
    let mut wanted = own.wanted();
    // A forked child has this interpreter alone, whatever the tables say.
    if wanted == CHECKS && !adapter().is_alone() && adapter().is_in_its_process() {
        wanted = OFF;
    }
    if wanted != own.in_force() {
        put_in_force(own, wanted);
    }
}

/// `torch::autograd::impl::gradient_edge(const Variable&)`: an `Edge`, in the caller's memory.
unsafe extern "C-unwind" fn gradient_edge(
    result: *mut c_void,
    variable: *const c_void,
    member: &'static Member,
) -> *mut c_void {
    notice(member);
    let own = OWN.of(member);
    if own.wanted() == CHECKS && own.in_force() != CHECKS {
        fail(
            "torch.autograd's anomaly mode checks the backward passes of the whole process, also those of other \
             interpreters; under torch policy `shared` it is available while one interpreter lives: use policy \
             `isolated`",
        );
    }
    // SAFETY: libtorch's own function and its caller's arguments.
    unsafe { (symbols().gradient_edge)(result, variable) }
}

fn put_in_force(own: &Own, mode: u8) {
    static CHANGING: Mutex<()> = Mutex::new(());
    let _one = lock(&CHANGING);
    own.in_force.store(mode, Ordering::Relaxed);
    let most = OWN.iter().map(Own::in_force).max().unwrap_or(OFF);
    let symbols = symbols();
    // SAFETY: libtorch's variables, which it reads without a lock.
    let (enabled, check_nan) = unsafe { (&*symbols.anomaly, &*symbols.anomaly_nan) };
    check_nan.store(most != TRACES, Ordering::Relaxed);
    enabled.store(most != OFF, Ordering::Relaxed);
}

/// Turns off what an interpreter that is gone has turned on.
pub(super) fn forget(member: &Member) {
    let Some(own) = OWN.get(member) else { return };
    if own.in_force() != OFF {
        put_in_force(own, OFF);
    }
    own.enabled.store(false, Ordering::Relaxed);
    own.check_nan.store(true, Ordering::Relaxed);
}
