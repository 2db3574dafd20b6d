//! torch in many interpreters.
//!
//! Policy [`TorchPolicy::Isolated`] replicates torch's C++ libraries with each interpreter. From here it
//! needs only [`fake_device`] and [`device_code`]. Policy [`TorchPolicy::Shared`] loads them once, by the system's loader; each
//! interpreter has its own libtorch_python. What libtorch keeps for *the* interpreter is then
//! answered from outside: every reference of a replica to one of the functions listed in
//! [`Member::interpositions`] comes here instead.
//!
//! | file | what libtorch has once | what interpreters get |
//! |---|---|---|
//! | [`dispatch`] | operators, their kernels | one schema, kernels each |
//! | [`interpreter`] | the Python interpreter | each its own; libtorch has a forwarder |
//! | [`hooks`], [`callbacks`] | engine stub, tracer, print ... | each its own, by thread |
//! | [`classes`] | custom classes by name | class types each |
//! | [`jit_operators`] | TorchScript operators | operations each |
//! | [`traceback`] | gatherers of Python frames | each asked on its own threads |
//! | [`anomaly`] | two variables | one interpreter, while it is alone |
//! | [`fake_device`] | the stand-in for a missing CUDA device | one that lives for ever |
//! | [`device_code`] | kernels of each library, in CUDA's runtime | none without a driver |
//! | [`profiler`] | one profiler session | it, one at a time |
//! | [`state`] | flags, default dtype and generator | each its own |
//! | [`switches`] | switches of TorchScript, its fuser and functorch | each its own |
//! | [`common`] | thread counts and other settings | a warning for who changes them |
//! | [`forward_ad`], [`groups`] | levels of forward AD, process groups | each its own |
//! | [`engines`] | whether *the* autograd engine has its threads | each engine its own |
//! | [`tables`] | names, TorchScript's table of operators | the same; forks wait for their locks |
//! | [`thread_state`] | modes and guards by thread | exchanged around visits |
//! | [`gil`] | - | which interpreter a thread runs |
//!
//! The functions behind many of these are called by libtorch too. [`slots`] redirects those calls.
//!
//! These stay one for the process, because libtorch has them so: thread counts, warnings given once,
//! the caching allocators and generators of devices, the profiler, compiled autograd (refused), RPC. `docs/torch.md`
//! is the list.
//!
//! A function that answers for a C++ function has the parameters of the original in the terms of the
//! psABI (see [`cxx`] and [`exported`]), and behind them the [`Member`] that it answers for. It is
//! `extern "C-unwind"`, since C++ exceptions pass through it.
//!
//! No file uses one that stands above it:
//!
//! | files | are |
//! |---|---|
//! | `dispatch/`, `hooks`, `classes` ... | what answers for libtorch |
//! | `cells`, `forward` | a value for each interpreter; calls of any signature |
//! | `files` | which libraries are torch's, and what a policy makes of each |
//! | `adapter` | the one libtorch, and the interpreters that share it |
//! | `symbols`, `libpython`, `locks` | the functions that the adapter calls and answers; its locks |
//! | `exported`, `kernel`, `cxx`, `release`, `device` | types and layouts of other libraries; the machine |

mod adapter;
mod anomaly;
mod callbacks;
mod cells;
mod classes;
mod common;
mod cxx;
mod device;
pub(crate) mod device_code;
mod dispatch;
mod engines;
mod exported;
mod fake_device;
pub(crate) mod files;
mod forward;
mod forward_ad;
mod gil;
mod groups;
mod hooks;
mod interpreter;
mod jit_operators;
mod kernel;
mod libpython;
mod locks;
mod profiler;
mod release;
pub(crate) mod slots;
mod state;
mod switches;
mod symbols;
mod tables;
mod thread_state;
mod traceback;

pub use adapter::AdapterError;
pub(crate) use adapter::{Adapter, Member};
use exported::Answer;
pub(crate) use fake_device::OwnGuards;
pub use release::Release;
pub(crate) use thread_state::ThreadState;
pub(crate) use thread_state::note_new_thread;

/// How interpreters have torch.
///
/// The policy holds for the torch that an interpreter loads, wherever it finds the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TorchPolicy {
    /// [`TorchPolicy::Isolated`], unless interpreters of this process can use a CUDA device: then
    /// [`TorchPolicy::Shared`] where it serves the release ([`Release::can_be_shared`]), because the
    /// interpreters should have one CUDA caching allocator. [`TorchPolicy::of`] is that decision.
    #[default]
    Auto,
    /// libtorch once in the process. It takes the least memory, has one CUDA caching allocator, and is
    /// the library that `tch` in the host uses. What stays one for all interpreters is listed in
    /// `docs/torch.md`. It is not available in a program that is built with `panic = "abort"`.
    Shared,
    /// libtorch in each interpreter, with generators and flags of its own. Any release works.
    Isolated,
}

impl TorchPolicy {
    /// What [`TorchPolicy::Auto`] means for a torch on this machine.
    ///
    /// `Shared` if all of these hold: the build has CUDA and is one that can be shared, the kernel offers a device
    /// (`/dev/nvidia0` or another number, or `/dev/dxg`), and `CUDA_VISIBLE_DEVICES` does not hide all devices.
    /// No driver is loaded and no Python code is run to find out.
    pub fn of(release: &Release) -> TorchPolicy {
        match release.has_cuda() && release.can_be_shared() && device::is_visible() {
            true => TorchPolicy::Shared,
            false => TorchPolicy::Isolated,
        }
    }

    /// Whether [`TorchPolicy::of`] can be anything but `Isolated` on this machine, for any torch.
    pub(crate) fn depends_on_the_release() -> bool {
        device::is_visible()
    }
}

impl Member {
    /// What the interpreter's domain interposes, for its builder.
    pub(crate) fn interpositions(&'static self) -> Vec<Answer> {
        [
            anomaly::interpositions(self),
            gil::interpositions(self),
            interpreter::interpositions(self),
            dispatch::interpositions(self),
            classes::interpositions(self),
            callbacks::interpositions(self),
            traceback::interpositions(self),
            jit_operators::interpositions(self),
            profiler::interpositions(self),
            common::interpositions(self),
            fake_device::interpositions(self),
            hooks::interpositions(self),
            slots::interpositions(),
        ]
        .concat()
    }

    /// Takes the interpreter out of all tables: its kernels are not called any more, and hooks fall
    /// back to another interpreter or to libtorch's own functions. To be called when its Python is
    /// finalized and no thread runs its code.
    pub(crate) fn retire(&'static self) {
        if !self.begin_retirement() {
            return;
        }
        engines::forget(self);
        profiler::forget(self);
        callbacks::forget(self);
        hooks::forget(self);
        jit_operators::forget(self);
        classes::forget(self);
        dispatch::forget(self);
        slots::forget(self);
        anomaly::forget(self);
        self.end_retirement();
    }
}
