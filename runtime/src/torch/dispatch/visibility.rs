//! Which operators exist for an interpreter: libtorch's, and those that it defines itself.
//!
//! An operator that only other interpreters define has no kernel for this one and may go at any time.
//! `torch.ops.namespace.name` fails for it as it does in another process, and it is on no list:
//! `torch.export` looks up every listed operator. Needed in every release.
//!
//! A fork waits for these functions: the dispatcher counts who reads its table, and whoever changes it waits for them.

use std::ffi::{CStr, c_char, c_void};

use super::super::adapter::{Member, adapter, fail, lock, symbols};
use super::super::cxx::{CxxShared, CxxVector};
use super::super::exported::Answer;
use super::super::kernel::{OperatorHandle, OperatorName, OptionalHandle, OptionalKey};
use super::super::locks::NoFork;
use super::super::symbols::EXPORTS;
use super::entry::{name_of, schema_of};
use super::introspection::is_visible;
use super::registry::{REGISTRY, Registry};

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.dispatcher_find.answered_by(find, member),
            EXPORTS.dispatcher_find_or_throw.answered_by(find_or_throw, member),
            EXPORTS.jit_sorted_operators_for.answered_by(sorted_script_operators, member),
            EXPORTS.dispatcher_operators.answered_by(all_operators, member),
            EXPORTS.dispatcher_registrations.answered_by(registrations, member),
        ]
    }
}

/// Whether libtorch or the interpreter defines the operator.
fn is_defined(operator: &str, member: &Member) -> bool {
    defines(lock(&REGISTRY).as_ref(), operator, member)
}

fn defines(registry: Option<&Registry>, operator: &str, member: &Member) -> bool {
    let entry = registry.and_then(|tables| tables.operators.get(operator));
    let Some(entry) = entry else { return true };
    match &entry.definition {
        Some(definition) => definition.definers.contains(&member.serial()),
        // Replicas have kernels for an operator of libtorch, or for one whose definers are gone.
        None => schema_of(operator).is_some(),
    }
}

/// `Dispatcher::findOp(const OperatorName&)`.
unsafe extern "C-unwind" fn find(
    result: *mut OptionalHandle,
    dispatcher: *mut c_void,
    name: *const OperatorName,
    member: &'static Member,
) -> *mut OptionalHandle {
    let _no_fork = NoFork::begin();
    // SAFETY: the caller's arguments; then the result is written, and is trivially destructible.
    unsafe {
        (symbols().dispatcher_find)(result, dispatcher, name);
        if (*result).engaged && !is_defined(&(*name).full(), member) {
            (*result).engaged = false;
        }
    }
    result
}

/// `Dispatcher::findSchemaOrThrow(const char*, const char*)`.
unsafe extern "C-unwind" fn find_or_throw(
    result: *mut OperatorHandle,
    dispatcher: *mut c_void,
    name: *const c_char,
    overload: *const c_char,
    member: &'static Member,
) -> *mut OperatorHandle {
    let _no_fork = NoFork::begin();
    // SAFETY: the caller's arguments.
    unsafe {
        (symbols().dispatcher_find_or_throw)(result, dispatcher, name, overload);
        if !is_defined(&name_of((*result).entry), member) {
            let text = |string: *const c_char| CStr::from_ptr(string).to_string_lossy();
            fail(&format!("Could not find schema for {}.{}", text(name), text(overload)));
        }
    }
    result
}

/// `torch::jit::getAllSortedOperatorsFor(Symbol)`, by which `torch.ops` finds overloads.
unsafe extern "C-unwind" fn sorted_script_operators(
    result: *mut CxxVector,
    symbol: u32,
    member: &'static Member,
) -> *mut CxxVector {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe {
        (symbols().jit_sorted_operators_for)(result, symbol);
        retain_operators(result, member);
    }
    result
}

/// # Safety
/// `operators` is a live `std::vector<std::shared_ptr<torch::jit::Operator>>`.
unsafe fn retain_operators(operators: *mut CxxVector, member: &Member) {
    let index = adapter().layout().jit_operator_index;
    // SAFETY: an operator with index byte 0 begins with a dispatcher handle; libtorch's table of
    // operators owns what is taken out here as well.
    unsafe {
        (*operators).retain::<CxxShared>(
            |operator| {
                *operator.object.byte_add(index).cast::<u8>() != 0
                    || is_defined(
                        &name_of((*operator.object.cast::<OperatorHandle>()).entry),
                        member,
                    )
            },
            |from, to| std::ptr::copy(from, to, 1),
            |operator| (*operator).release(),
        );
    }
}

/// `Dispatcher::getAllOpNames()`, without the operators that only other interpreters define.
unsafe extern "C-unwind" fn all_operators(
    result: *mut CxxVector,
    dispatcher: *const c_void,
    member: &'static Member,
) -> *mut CxxVector {
    let _no_fork = NoFork::begin();
    // SAFETY: the caller's arguments; then the result is a vector of names.
    unsafe {
        (symbols().dispatcher_operators)(result, dispatcher);
        retain(result, |name| is_defined(name, member));
    }
    result
}

/// `Dispatcher::getRegistrationsForDispatchKey(std::optional<DispatchKey>) const`.
unsafe extern "C-unwind" fn registrations(
    result: *mut CxxVector,
    dispatcher: *const c_void,
    key: OptionalKey,
    member: &'static Member,
) -> *mut CxxVector {
    // It reads every operator's table of kernels.
    let registry = lock(&REGISTRY);
    let registry = registry.as_ref();
    // SAFETY: as above.
    unsafe {
        (symbols().dispatcher_registrations)(result, dispatcher, key);
        retain(result, |name| {
            defines(registry, name, member)
                && key.key().is_none_or(|key| is_visible(registry, name, key, member))
        });
    }
    result
}

/// # Safety
/// `names` is a live `std::vector<OperatorName>`.
unsafe fn retain(names: *mut CxxVector, keep: impl Fn(&str) -> bool) {
    // SAFETY: by contract.
    unsafe {
        (*names).retain::<OperatorName>(
            |name| keep(&name.full()),
            |from, to| OperatorName::relocate(from, to),
            |name| OperatorName::destroy(name, symbols().allocator()),
        );
    }
}
