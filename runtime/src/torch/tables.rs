//! Tables of libtorch that every look-up locks: names (`c10::Symbol`) and TorchScript's operators.
//!
//! The child of a fork looks up operators by name. A fork waits for these functions, as for those that read the
//! dispatcher's table ([`super::dispatch`]). They call nothing of Python. Needed in every release.

use std::ffi::c_void;

use super::adapter::symbols;
use super::cxx::{CxxPair, CxxShared, CxxString, CxxVector};
use super::exported::Stand;
use super::kernel::OperatorName;
use super::locks::NoFork;
use super::symbols::EXPORTS;

/// What stands for libtorch's functions.
pub(super) fn stands() -> [Stand; 7] {
    // SAFETY: each function is the one that its documentation names.
    unsafe {
        [
            EXPORTS.name_intern.means(intern),
            EXPORTS.name_text.means(text),
            EXPORTS.name_space.means(namespace),
            EXPORTS.jit_operators.means(operators),
            EXPORTS.jit_operators_for.means(operators_for),
            EXPORTS.jit_operator_for.means(operator_for),
            EXPORTS.jit_operator_deregister.means(deregister),
        ]
    }
}

/// `c10::InternedStrings::symbol(const std::string&)`.
unsafe extern "C-unwind" fn intern(names: *mut c_void, name: *const CxxString) -> u32 {
    let _no_fork = NoFork::begin();
    // SAFETY: the caller's arguments, as in all functions below.
    unsafe { (symbols().name_intern)(names, name) }
}

/// `c10::InternedStrings::string(Symbol)`.
unsafe extern "C-unwind" fn text(names: *mut c_void, symbol: u32) -> CxxPair {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().name_text)(names, symbol) }
}

/// `c10::InternedStrings::ns(Symbol)`.
unsafe extern "C-unwind" fn namespace(names: *mut c_void, symbol: u32) -> u32 {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().name_space)(names, symbol) }
}

/// `torch::jit::getAllOperators()`.
unsafe extern "C-unwind" fn operators(result: *mut CxxVector) -> *mut CxxVector {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().jit_operators)(result) }
}

/// `torch::jit::getAllOperatorsFor(Symbol)`.
unsafe extern "C-unwind" fn operators_for(result: *mut CxxVector, symbol: u32) -> *mut CxxVector {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().jit_operators_for)(result, symbol) }
}

/// `torch::jit::findOperatorFor(const c10::OperatorName&)`.
unsafe extern "C-unwind" fn operator_for(
    result: *mut CxxShared,
    name: *const OperatorName,
) -> *mut CxxShared {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().jit_operator_for)(result, name) }
}

/// `torch::jit::deregisterOperator(const FunctionSchema&)`.
unsafe extern "C-unwind" fn deregister(schema: *const c_void) {
    let _no_fork = NoFork::begin();
    // SAFETY: as above.
    unsafe { (symbols().jit_operator_deregister)(schema) }
}
