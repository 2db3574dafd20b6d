//! Which of an operator's registrations an interpreter sees: libtorch's and its own.
//!
//! `torch.library.register_fake` refuses an operator that "already has" a Meta kernel, and must not
//! see that of another interpreter. libtorch itself sees all. Needed in every release.
//!
//! Whoever reads an operator's kernels here holds the lock of those who register ([`super::readers`]).

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use super::super::adapter::{Member, adapter, lock, symbols};
use super::super::exported::{Answer, Exported};
use super::super::symbols::EXPORTS;
use super::entry::{name_of, table_entry};
use super::keys::{key_set, keys_of, table_index};
use super::registry::{REGISTRY, Registered, Registry};
use super::router::Router;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.entry_has_kernel.answered_by(has_kernel, member),
            EXPORTS.entry_has_any_kernel.answered_by(has_any_kernel, member),
            EXPORTS.entry_has_computed_kernel.answered_by(has_computed_kernel, member),
            SET_ERROR_REPORTER.answered_by(set_error_reporter, member),
            EXPORTS.entry_report_error.answered_by(report_error, member),
        ]
    }
}

/// `OperatorEntry::setReportErrorCallback_(std::unique_ptr<SafePyObject>)`.
const SET_ERROR_REPORTER: Exported<unsafe extern "C-unwind" fn(*const c_void, *mut *mut c_void)> =
    // SAFETY: `this`, and the address of the caller's pointer; nothing is returned.
    unsafe {
        Exported::new(
            "_ZN3c104impl13OperatorEntry23setReportErrorCallback_ESt10unique_ptrINS_12SafePyObjectESt14default_deleteIS3_EE",
        )
    };

/// `OperatorEntry::hasKernelForDispatchKey(DispatchKey) const`.
unsafe extern "C-unwind" fn has_kernel(
    entry: *const c_void,
    key: u16,
    member: &'static Member,
) -> bool {
    let registry = lock(&REGISTRY);
    // SAFETY: a live entry of the caller.
    unsafe {
        (symbols().entry_has_kernel)(entry, key)
            && is_visible(registry.as_ref(), &name_of(entry), key, member)
    }
}

/// `OperatorEntry::hasKernelForAnyDispatchKey(DispatchKeySet) const`.
unsafe extern "C-unwind" fn has_any_kernel(
    entry: *const c_void,
    keys: u64,
    member: &'static Member,
) -> bool {
    let registry = lock(&REGISTRY);
    // SAFETY: a live entry of the caller.
    let (any, operator) =
        unsafe { ((symbols().entry_has_any_kernel)(entry, keys), name_of(entry)) };
    if !any || !is_virtual(registry.as_ref(), &operator) {
        return any;
    }
    keys_of(keys, adapter().layout()).into_iter().any(|key| {
        // SAFETY: as above.
        unsafe {
            (symbols().entry_has_kernel)(entry, key)
                && is_visible(registry.as_ref(), &operator, key, member)
        }
    })
}

/// `OperatorEntry::hasComputedKernelForDispatchKey(DispatchKey) const`.
unsafe extern "C-unwind" fn has_computed_kernel(
    entry: *const c_void,
    key: u16,
    member: &'static Member,
) -> bool {
    let _registry = lock(&REGISTRY);
    // SAFETY: a live entry of the caller; the call refuses keys that are no runtime keys.
    let any = unsafe { (symbols().entry_has_computed_kernel)(entry, key) };
    let layout = adapter().layout();
    let Some(keys) = key_set(key, layout).filter(|_| any) else { return any };
    let index = table_index(keys, layout);
    // SAFETY: the table's functors are null or live objects, of which a router has three words.
    let router = unsafe {
        let functor = (*table_entry(entry, index)).functor as usize;
        (functor != 0).then(|| Router::at(functor)).flatten()
    };
    router.is_none_or(|router| router.serves(member, Some(index)))
}

/// Whether any interpreter registered kernels for the operator.
fn is_virtual(registry: Option<&Registry>, operator: &str) -> bool {
    registry
        .is_some_and(|tables| tables.operators.get(operator).is_some_and(|e| !e.slots.is_empty()))
}

/// Whether a registration in libtorch is libtorch's or the interpreter's own.
pub(super) fn is_visible(
    registry: Option<&Registry>,
    operator: &str,
    key: u16,
    member: &Member,
) -> bool {
    let operator = registry.and_then(|tables| tables.operators.get(operator));
    let slot = operator.and_then(|operator| operator.slots.iter().find(|slot| slot.key == key));
    slot.is_none_or(|slot| {
        slot.registered == Registered::Nothing
            || slot.had_kernel
            || slot.kernels.iter().any(|claim| claim.member == member.serial())
    })
}

/// Python error reporters by operator and interpreter: addresses of `c10::SafePyObject`.
type Reporters = HashMap<(String, u64), usize>;

static REPORTERS: Mutex<Option<Reporters>> = Mutex::new(None);

/// Frees the reporters of an interpreter that has ended. Their Python objects ended with it.
pub(super) fn forget(member: &Member) {
    let reporters = lock(&REPORTERS).as_mut().map(|all| taken_out(all, member.serial()));
    for reporter in reporters.into_iter().flatten().filter(|reporter| *reporter != 0) {
        // SAFETY: moved in by `set_error_reporter`, from C++'s `new`; nobody else has it now.
        unsafe { symbols().allocator().free(reporter as *mut u8) };
    }
}

fn taken_out(all: &mut Reporters, serial: u64) -> Vec<usize> {
    all.extract_if(|(_, owner), _| *owner == serial).map(|(_, reporter)| reporter).collect()
}

/// `c10::SafePyObject`: an object and the interpreter it belongs to.
#[repr(C)]
struct SafePyObject {
    object: *mut c_void,
    interpreter: *const *const *const *const c_void,
}

/// Slots of `PyInterpreterVTable`.
const DECREF: usize = 4;
const REPORT_ERROR: usize = 9;

impl SafePyObject {
    /// The interpreter's virtual object and the address of one of its functions.
    ///
    /// # Safety
    /// The object is live.
    unsafe fn method(&self, slot: usize) -> (*const c_void, *const c_void) {
        // SAFETY: `PyInterpreter` holds the address of the virtual object.
        unsafe {
            let interpreter = *self.interpreter;
            (interpreter.cast(), *(*interpreter).add(slot))
        }
    }
}

/// `OperatorEntry::setReportErrorCallback_(std::unique_ptr<SafePyObject>)`. libtorch would keep the
/// last interpreter's reporter and call it for every interpreter.
unsafe extern "C-unwind" fn set_error_reporter(
    entry: *const c_void,
    reporter: *mut *mut c_void,
    member: &'static Member,
) {
    // SAFETY: the pointer moves out of the caller's temporary.
    let reporter = unsafe { std::ptr::replace(reporter, std::ptr::null_mut()) };
    // SAFETY: a live entry of the caller.
    let key = (unsafe { name_of(entry) }, member.serial());
    let old = lock(&REPORTERS).get_or_insert_default().insert(key, reporter as usize);
    if let Some(old) = old.filter(|old| *old != 0) {
        let old = old as *mut SafePyObject;
        // SAFETY: what was moved in here is destroyed as `~SafePyObject` and `delete` do; the
        // caller holds its interpreter's GIL, and no lock is held.
        unsafe {
            let (interpreter, decref) = (*old).method(DECREF);
            let decref: unsafe extern "C-unwind" fn(*const c_void, *mut c_void) =
                std::mem::transmute(decref);
            decref(interpreter, (*old).object);
            symbols().allocator().free(old.cast());
        }
    }
}

/// `OperatorEntry::reportError(DispatchKey) const`, which throws.
unsafe extern "C-unwind" fn report_error(entry: *const c_void, key: u16, member: &'static Member) {
    // SAFETY: a live entry of the caller.
    let name = (unsafe { name_of(entry) }, member.serial());
    let reporter = lock(&REPORTERS).as_ref().and_then(|all| all.get(&name).copied()).unwrap_or(0);
    if reporter != 0 {
        let reporter = reporter as *const SafePyObject;
        // SAFETY: kept since `set_error_reporter`, of the interpreter that runs this thread.
        unsafe {
            let (interpreter, report) = (*reporter).method(REPORT_ERROR);
            let report: unsafe extern "C-unwind" fn(*const c_void, *mut c_void, u16) =
                std::mem::transmute(report);
            report(interpreter, (*reporter).object, key);
        }
    }
    // SAFETY: a live entry of the caller.
    unsafe { (symbols().entry_report_error)(entry, key) };
}

#[cfg(test)]
mod tests {
    use super::{Reporters, taken_out};

    #[test]
    fn the_reporters_of_an_interpreter_go_with_it() {
        let entry = |name: &str, serial, reporter| ((name.to_owned(), serial), reporter);
        let mut all: Reporters =
            [entry("a", 1, 10), entry("b", 1, 11), entry("a", 2, 20)].into_iter().collect();
        let mut taken = taken_out(&mut all, 1);
        taken.sort_unstable();
        assert_eq!(taken, [10, 11]);
        assert_eq!(all, [entry("a", 2, 20)].into_iter().collect());
    }
}
