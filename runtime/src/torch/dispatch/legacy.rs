//! Old-style registration, `c10::RegisterOperators` (deprecated since torch 1.6).

use std::ffi::c_void;
use std::sync::Mutex;

use super::super::adapter::{Member, lock, symbols};
use super::super::exported::Answer;
use super::super::kernel::OperatorName;
use super::super::symbols::EXPORTS;
use super::registry::REGISTRY;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: the function does for its interpreter what the symbol that its documentation names does
    // for the process.
    unsafe { vec![EXPORTS.legacy_register.answered_by(register_legacy, member)] }
}

/// Names of operators that old-style `c10::RegisterOperators` objects registered.
static LEGACY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// `RegisterOperators::checkSchemaAndRegisterOp_(Options&&)`, which torchvision's image.so uses. The
/// first replica's kernels serve all interpreters: they are plain C++ functions, and their image stays
/// mapped. The API is deprecated and cannot register Python.
unsafe extern "C-unwind" fn register_legacy(
    registrar: *mut c_void,
    options: *mut c_void,
    _member: &'static Member,
) {
    // SAFETY: the options begin with the (always present) name or schema, both with a name first.
    let name = unsafe { (*options.cast::<OperatorName>()).full() };
    let mut names = lock(&LEGACY);
    if names.contains(&name) {
        return;
    }
    // Others read the operators' tables of kernels under this lock.
    let _registry = lock(&REGISTRY);
    // SAFETY: the caller's arguments.
    unsafe { (symbols().legacy_register)(registrar, options) };
    names.push(name);
}
