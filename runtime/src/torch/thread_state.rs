//! libtorch's thread-local state, between the interpreters that use a thread in turn.
//!
//! Grad mode, dispatch key masks (autocast, inference mode), functorch's levels, and the stacks of
//! Python modes (`TorchDispatchMode`, `torch.set_default_device`) belong to the OS thread, and
//! libtorch's are shared: what one interpreter leaves behind would meet the next, Python objects
//! included. Around each visit to an interpreter the thread's state is exchanged for what that
//! interpreter left on the thread at its last visit, at first a new thread's. A thread that Python
//! made has its interpreter's state from its birth; visits to that one exchange nothing.
//!
//! The exchange swaps the objects' bytes in place: nothing is copied, counted or freed. Needed in
//! every release. Not exchanged: `saved_tensors_hooks`, autocast's dtypes and the profiler's
//! thread-local callbacks; a visit that begins one of those ends it (they are `with` blocks).

use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;

use hydrozoa_loader::DomainId;

use super::adapter::{Member, adapter, current, loaded_symbols};
use super::symbols::Symbols;

thread_local! {
    static STATES: RefCell<States> = const {
        RefCell::new(States { in_place: Owner::Thread, thread_of: None, visits: 0, set_aside: Vec::new() })
    };
}

/// A thread's visit to an interpreter, as far as libtorch's thread-local state goes.
///
/// Made before the interpreter's GIL is taken and dropped after it is released; visits nest as
/// scopes do.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub(crate) struct ThreadState {
    /// Whose state was in place before the visit; `None` where the thread's list is gone.
    before: Option<Owner>,
    /// Ends on the thread that began it.
    _thread: PhantomData<*mut ()>,
}

impl ThreadState {
    /// Begins a visit of the calling thread to the interpreter whose domain it is in, if that has
    /// a shared torch. `before` is the domain that the thread comes from.
    pub(crate) fn enter_current(before: Option<DomainId>) -> Option<ThreadState> {
        current().map(|member| ThreadState::enter(member, before))
    }

    fn enter(member: &'static Member, before: Option<DomainId>) -> ThreadState {
        // While the thread's own destructors run there is nothing left to exchange.
        let before = with_states(|states| {
            if states.visits == 0 {
                states.thread_of = before;
            }
            states.visits += 1;
            let before = states.in_place;
            states.put_in_place(states.owner(member));
            before
        });
        ThreadState { before, _thread: PhantomData }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        with_states(|states| {
            states.visits -= 1;
            states.put_in_place(before);
        });
    }
}

fn with_states<R>(action: impl FnOnce(&mut States) -> R) -> Option<R> {
    STATES.try_with(|states| action(&mut states.borrow_mut())).ok()
}

/// Whose a thread's state is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The thread's own: the host's, or that of the interpreter whose thread it is.
    Thread,
    /// An interpreter's, on a thread that visits it.
    Visited(&'static Member),
}

impl PartialEq for Owner {
    fn eq(&self, other: &Owner) -> bool {
        match (self, other) {
            (Owner::Thread, Owner::Thread) => true,
            (Owner::Visited(one), Owner::Visited(other)) => one.serial() == other.serial(),
            _ => false,
        }
    }
}

/// A thread's states: one that it has, and those that wait.
struct States {
    in_place: Owner,
    /// The domain that the thread was in before its outermost visit: a thread that Python has made is
    /// its interpreter's, and has that one's state already.
    thread_of: Option<DomainId>,
    /// How many visits there are, one inside the other.
    visits: usize,
    /// One for each owner that has had its turn, but for the one in place.
    set_aside: Vec<SetAside>,
}

impl States {
    fn owner(&self, member: &'static Member) -> Owner {
        match member.domain_id() {
            Some(domain) if self.thread_of == Some(domain) => Owner::Thread,
            _ => Owner::Visited(member),
        }
    }

    /// Exchanges the state in place for that of `owner`, at first a new thread's. An interpreter that
    /// this thread visits twice, with another one in between, finds its own state again.
    fn put_in_place(&mut self, owner: Owner) {
        if owner == self.in_place {
            return;
        }
        let place = match self.set_aside.iter().position(|state| state.owner == owner) {
            Some(place) => place,
            None => {
                // What interpreters that have ended left on this thread; their objects are gone.
                self.set_aside.retain(|state| state.owner.is_live());
                self.set_aside.push(SetAside::new(owner));
                self.set_aside.len() - 1
            }
        };
        let state = &mut self.set_aside[place];
        // If a visit loads libtorch, there is a state to exchange from its end on.
        if let Some(symbols) = loaded_symbols() {
            state.exchange(symbols);
        }
        state.owner = std::mem::replace(&mut self.in_place, owner);
    }
}

impl Owner {
    fn is_live(self) -> bool {
        match self {
            Owner::Thread => true,
            Owner::Visited(member) => !member.is_retired(),
        }
    }
}

/// A state that is not in place.
struct SetAside {
    owner: Owner,
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

impl SetAside {
    fn new(owner: Owner) -> SetAside {
        let layout = adapter().layout();
        SetAside {
            owner,
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
            // No pool has started if no new thread was seen: then there is one interpreter, that of a
            // command, and what the thread goes back to does not matter.
            self.autograd = match NEW_THREAD.get() {
                Some(state) => state.clone(),
                None => autograd_state(symbols),
            };
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

/// The state that threads are born with.
static NEW_THREAD: OnceLock<Vec<u64>> = OnceLock::new();

/// Notes the state that threads are born with. The calling thread has run nothing of libtorch yet.
pub(crate) fn note_new_thread() {
    if let Some(symbols) = loaded_symbols() {
        NEW_THREAD.get_or_init(|| autograd_state(symbols));
    }
}

/// A copy of the calling thread's `AutogradState`.
fn autograd_state(symbols: &Symbols) -> Vec<u64> {
    let words = adapter().layout().autograd_state_size / 8;
    // SAFETY: the function returns the address of the calling thread's object, of this size; it has
    // no pointers, so a copy is one more object.
    unsafe { std::slice::from_raw_parts((symbols.autograd_state)().cast::<u64>(), words).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::{Owner, ThreadState, with_states};
    use crate::torch::adapter::Adapter;
    use crate::torch::release::Release;
    use hydrozoa_loader::Loader;
    use std::sync::Arc;

    fn adapter() -> Arc<Adapter> {
        let loader = Loader::builder().build().unwrap();
        Adapter::of_process(&loader, &Release::named("2.11.0"), |_| {}).unwrap()
    }

    #[test]
    fn a_thread_forgets_the_state_of_interpreters_that_have_ended() {
        let adapter = adapter();
        for _ in 0..50 {
            let member = adapter.join(false, None);
            drop(ThreadState::enter(member, None));
            member.retire();
            let kept = with_states(|states| states.set_aside.len()).unwrap();
            assert!(kept <= 2, "{kept} states are kept");
        }
    }

    #[test]
    fn each_visit_has_the_state_of_its_interpreter_and_gives_it_back() {
        let adapter = adapter();
        let [one, other] = [adapter.join(false, None), adapter.join(false, None)];
        let in_place = || with_states(|states| states.in_place).unwrap();
        let outer = ThreadState::enter(one, None);
        let inner = ThreadState::enter(other, None);
        assert_eq!(in_place(), Owner::Visited(other));
        let again = ThreadState::enter(one, None);
        assert_eq!(in_place(), Owner::Visited(one));
        let nested = ThreadState::enter(one, None);
        drop(nested);
        assert_eq!(in_place(), Owner::Visited(one));
        drop(again);
        assert_eq!(in_place(), Owner::Visited(other));
        drop(inner);
        assert_eq!(in_place(), Owner::Visited(one));
        drop(outer);
        assert_eq!(in_place(), Owner::Thread);
        one.retire();
        other.retire();
    }
}
