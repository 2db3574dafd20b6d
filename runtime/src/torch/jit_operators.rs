//! TorchScript operators that a replica registers itself (torch/csrc/jit/runtime/operator.h):
//! `prim::PythonOp`, which runs Python, the RPC operators, and an extension's own.
//!
//! libtorch would keep every interpreter's registration and use the first that it finds. It gets each
//! operator once, with an operation that calls the current interpreter's. Operators that libtorch
//! registers for those of the dispatcher do not come here. Needed in every release.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::adapter::{Member, adapter, current, fail, lock, symbols};
use super::cells::Cells;
use super::cxx::{CxxFunction, CxxString};
use super::exported::Answer;
use super::forward::{Arguments, forward, instances};
use super::locks::NoFork;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: the function does for its interpreter what the symbol that its documentation names does
    // for the process.
    unsafe { vec![EXPORTS.jit_operator_register.answered_by(register, member)] }
}

/// One operator's operations: addresses of creators (`Operation (*)(const Node*)`), or of leaked
/// `std::function<void(Stack&)>`s.
type Operations = Cells<AtomicPtr<c_void>>;

/// Operators by schema text (or name), for both kinds of operation.
static OPERATORS: Mutex<Option<HashMap<(String, bool), &'static Operations>>> = Mutex::new(None);

/// Operations of the operators whose creators have a forwarder.
static CREATORS: [Operations; FORWARDERS.0.len()] =
    [const { Operations::new() }; FORWARDERS.0.len()];

struct Forwarders([*const c_void; 16]);
// SAFETY: addresses of functions.
unsafe impl Sync for Forwarders {}

/// libtorch_python 2.11 registers one operator with a creator; extensions rarely any.
static FORWARDERS: Forwarders =
    Forwarders(instances!(creator: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15));

/// `torch::jit::registerOperator(Operator&&)`.
unsafe extern "C-unwind" fn register(operator: *mut c_void, member: &'static Member) {
    // libtorch locks its table of them.
    let _no_fork = NoFork::begin();
    let layout = adapter().layout();
    // SAFETY: a live operator; the fields are read as its variants' index bytes say.
    unsafe {
        let byte = |offset: usize| *operator.byte_add(offset).cast::<u8>();
        if byte(layout.jit_operator_index) != 1 {
            // Made from a dispatcher handle: the dispatcher's routers do the rest.
            return (symbols().jit_operator_register)(operator);
        }
        // Both kinds of schema begin with a string: the name, or the whole text.
        let name = (*operator.cast::<CxxString>()).text();
        let is_creator = byte(layout.jit_operation_index) == 1;
        let operation = operator.byte_add(layout.jit_operation);
        let own: *mut c_void = if is_creator {
            *operation.cast::<*mut c_void>()
        } else {
            let function = CxxFunction::take(operation.cast());
            std::ptr::from_mut(Box::leak(Box::new(function))).cast()
        };
        let mut operators = lock(&OPERATORS);
        let operators = operators.get_or_insert_default();
        let key = (name, is_creator);
        if let Some(operations) = operators.get(&key) {
            operations.of(member).store(own, Ordering::Release);
            return;
        }
        let operations: &'static Operations = if is_creator {
            let number = operators.keys().filter(|(_, is_creator)| *is_creator).count();
            let Some(operations) = CREATORS.get(number) else {
                // There is no forwarder left: the first interpreter's creator serves all.
                member.keep();
                tracing::warn!(
                    operator = key.0,
                    "a TorchScript operator's creator cannot be kept per interpreter"
                );
                return (symbols().jit_operator_register)(operator);
            };
            operation.cast::<*const c_void>().write(FORWARDERS.0[number]);
            operations
        } else {
            let operations: &'static Operations = Box::leak(Box::new(Operations::new()));
            let target = std::ptr::from_ref(operations).cast();
            operation
                .cast::<CxxFunction>()
                .write(CxxFunction::borrowed(target, run as *const c_void));
            operations
        };
        operations.of(member).store(own, Ordering::Release);
        operators.insert(key, operations);
        (symbols().jit_operator_register)(operator);
    }
}

/// Forwards to the current interpreter's creator of the operator numbered `OPERATOR`.
#[unsafe(naked)]
extern "C" fn creator<const OPERATOR: u32>() {
    forward!(OPERATOR, resolve)
}

/// The creator that a forwarder jumps to.
extern "C" fn resolve(operator: u32, _arguments: &mut Arguments) -> *const c_void {
    let own = own(&CREATORS[operator as usize]);
    if own.is_null() { refuse as *const c_void } else { own }
}

/// The invoker of a registered `std::function<void(Stack&)>`.
unsafe extern "C-unwind" fn run(target: *const *const Operations, stack: *mut c_void) {
    // SAFETY: the table that `register` leaked.
    let function = own(unsafe { &**target }).cast::<CxxFunction>();
    if function.is_null() {
        // SAFETY: it only throws.
        unsafe { refuse() };
        return;
    }
    // SAFETY: a function that `register` leaked, with the invoker of its type.
    unsafe {
        let invoker: unsafe extern "C-unwind" fn(*const c_void, *mut c_void) =
            std::mem::transmute((*function).invoker);
        invoker((&raw const (*function).target).cast(), stack);
    }
}

fn own(operations: &Operations) -> *mut c_void {
    current()
        .and_then(|member| operations.get(member))
        .map_or(std::ptr::null_mut(), |cell| cell.load(Ordering::Acquire))
}

unsafe extern "C-unwind" fn refuse() {
    fail(
        "other interpreters of this process registered this TorchScript operator, but not the one that runs it",
    );
}

/// Forgets an interpreter's operations. (They leak: destroying them would run its code.)
pub(super) fn forget(member: &Member) {
    for operations in lock(&OPERATORS).iter().flat_map(HashMap::values) {
        if let Some(cell) = operations.get(member) {
            cell.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}
