//! libtorch's thread-local state, between the interpreters that use a thread in turn.
//!
//! Grad mode, dispatch key masks (autocast, inference mode), functorch's levels, and the stacks of
//! Python modes (`TorchDispatchMode`, `torch.set_default_device`) belong to the OS thread, and
//! libtorch's are shared: what one interpreter leaves behind would meet the next, Python objects
//! included. Around each visit to an interpreter the thread's state is exchanged for what that
//! interpreter left on the thread at its last visit, at first a new thread's.
//!
//! The exchange swaps the objects' bytes in place: nothing is copied, counted or freed. Needed in
//! every release. Not exchanged: `saved_tensors_hooks`, autocast's dtypes and the profiler's
//! thread-local callbacks; a visit that begins one of those ends it (they are `with` blocks).

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::OnceLock;

use super::adapter::{Member, adapter, current, loaded_symbols};
use super::symbols::Symbols;

thread_local! {
    static SAVED: RefCell<Vec<Saved>> = const { RefCell::new(Vec::new()) };
}

/// A thread's visit to an interpreter, as far as libtorch's thread-local state goes.
///
/// Made before the interpreter's GIL is taken and dropped after it is released; visits nest as
/// scopes do.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub struct ThreadState {
    member: &'static Member,
    /// Whether an outer visit of the thread is to the same interpreter, whose state is in place.
    nested: bool,
}

impl ThreadState {
    /// Begins a visit of the calling thread to the interpreter whose domain it is in, if that has
    /// a shared torch.
    pub fn enter_current() -> Option<ThreadState> {
        current().map(ThreadState::enter)
    }

    /// Begins a visit of the calling thread.
    pub fn enter(member: &'static Member) -> ThreadState {
        let nested = with_saved(member, |saved| {
            let nested = std::mem::replace(&mut saved.active, true);
            if !nested && let Some(symbols) = loaded_symbols() {
                saved.exchange(symbols);
            }
            nested
        });
        // While the thread's own destructors run there is nothing left to exchange.
        ThreadState { member, nested: nested.unwrap_or(true) }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        if self.nested {
            return;
        }
        with_saved(self.member, |saved| {
            saved.active = false;
            // If the visit loaded libtorch, the thread gets a new thread's state, as it had.
            if let Some(symbols) = loaded_symbols() {
                saved.exchange(symbols);
            }
        });
    }
}

/// What an interpreter left on this thread; during a visit, what the thread had before.
struct Saved {
    serial: u64,
    active: bool,
    /// `PODLocalDispatchKeySet`: included and excluded keys, as differences from the defaults.
    keys: [u64; 2],
    /// `AutogradState`; filled on first use, since a new thread's is not zero.
    autograd: Vec<u64>,
    /// `TorchDispatchModeTLS` and `PythonTorchFunctionTLS`: empty vectors and optionals are zero.
    dispatch_modes: Vec<u64>,
    function_modes: Vec<u64>,
    /// `PyInterpreter*` of the Python dispatcher.
    python_dispatcher: *mut c_void,
    /// `std::unique_ptr<FuncTorchTLSBase>`.
    functorch: *mut c_void,
}

fn with_saved<R>(member: &Member, action: impl FnOnce(&mut Saved) -> R) -> Option<R> {
    SAVED
        .try_with(|all| {
            let mut all = all.borrow_mut();
            let serial = member.serial();
            let place = all.iter().position(|saved| saved.serial == serial).unwrap_or_else(|| {
                all.push(Saved::new(serial));
                all.len() - 1
            });
            action(&mut all[place])
        })
        .ok()
}

impl Saved {
    fn new(serial: u64) -> Saved {
        let layout = adapter().layout();
        Saved {
            serial,
            active: false,
            keys: [0; 2],
            autograd: Vec::new(),
            dispatch_modes: vec![0; layout.dispatch_modes_size / 8],
            function_modes: vec![0; layout.function_modes_size / 8],
            python_dispatcher: std::ptr::null_mut(),
            functorch: std::ptr::null_mut(),
        }
    }

    /// Swaps what is saved with what the thread has.
    fn exchange(&mut self, symbols: &Symbols) {
        if self.autograd.is_empty() {
            self.autograd = new_thread_autograd_state(symbols).to_vec();
        }
        // SAFETY: each function returns the address of the calling thread's object, of the size
        // that the layout gives; the objects may be moved by copying their bytes, and the guard's
        // constructor with an empty set does nothing but note its thread's key sets.
        unsafe {
            let dispatcher = (symbols.python_dispatcher_state)();
            if dispatcher != self.python_dispatcher {
                (symbols.python_dispatcher_set)(self.python_dispatcher);
                self.python_dispatcher = dispatcher;
            }
            let mut guard: [*mut c_void; 2] = [std::ptr::null_mut(); 2];
            (symbols.include_keys_guard)(&mut guard, 0);
            swap(&mut self.keys, guard[0]);
            swap(&mut self.autograd, (symbols.autograd_state)());
            swap(&mut self.dispatch_modes, (symbols.dispatch_modes)());
            swap(&mut self.function_modes, (symbols.function_modes)());
            std::ptr::swap(&mut self.functorch, (symbols.functorch_state)());
        }
    }
}

/// # Safety
/// `object` is as large as `saved` and nobody else's.
unsafe fn swap(saved: &mut [u64], object: *mut c_void) {
    // SAFETY: by contract.
    unsafe { std::ptr::swap_nonoverlapping(saved.as_mut_ptr(), object.cast(), saved.len()) };
}

/// The state that threads are born with, asked of one.
fn new_thread_autograd_state(symbols: &Symbols) -> &'static [u64] {
    static STATE: OnceLock<Vec<u64>> = OnceLock::new();
    STATE.get_or_init(|| {
        let words = adapter().layout().autograd_state_size / 8;
        let read = || {
            // SAFETY: as in `exchange`; a new thread's state owns nothing.
            unsafe {
                std::slice::from_raw_parts((symbols.autograd_state)().cast::<u64>(), words).to_vec()
            }
        };
        std::thread::scope(|scope| scope.spawn(read).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
