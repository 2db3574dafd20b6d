//! Process groups of torch.distributed by name (`c10d`'s registry).
//!
//! The name of an interpreter's first group is `0` in every interpreter, and libtorch takes a name once. Here a name
//! is registered with the number of its interpreter behind it. Needed in every release.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use super::adapter::{Member, current, lock, symbols};
use super::cxx::CxxString;
use super::exported::Stand;
use super::symbols::EXPORTS;

/// What stands for libtorch's functions.
pub(super) fn stands() -> [Stand; 4] {
    // SAFETY: each function does for the calling thread's interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        [
            EXPORTS.group_register.means(register),
            EXPORTS.group_resolve.means(resolve),
            EXPORTS.group_unregister.means(unregister),
            EXPORTS.group_unregister_all.means(unregister_all),
        ]
    }
}

/// The names that interpreters have registered, each with its interpreter.
static NAMES: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// Calls `action` with the name that libtorch has for the interpreter's group `name`.
///
/// # Safety
/// `name` is a live string.
unsafe fn with_own_name<R>(
    name: *const CxxString,
    member: &Member,
    action: impl FnOnce(*const CxxString) -> R,
) -> R {
    /// Frees the string also if C++ throws.
    struct Freed(MaybeUninit<CxxString>);
    impl Drop for Freed {
        fn drop(&mut self) {
            // SAFETY: the string was written before.
            unsafe { CxxString::destroy(self.0.as_mut_ptr(), symbols().allocator()) };
        }
    }
    // SAFETY: by contract.
    let text = unsafe { (*name).text() };
    let mut own = Freed(MaybeUninit::uninit());
    // SAFETY: room for a string.
    unsafe {
        CxxString::write(own.0.as_mut_ptr(), &own_name(&text, member), symbols().allocator())
    };
    action(own.0.as_ptr())
}

fn own_name(name: &str, member: &Member) -> String {
    format!("{name} of interpreter {}", member.serial())
}

/// `c10d::register_process_group(const std::string&, const intrusive_ptr<ProcessGroup>&)`.
unsafe extern "C-unwind" fn register(name: *const CxxString, group: *const c_void) {
    let Some(member) = current() else {
        // SAFETY: libtorch's own function and its caller's arguments.
        return unsafe { (symbols().group_register)(name, group) };
    };
    // SAFETY: the caller's arguments.
    unsafe {
        with_own_name(name, member, |own| (symbols().group_register)(own, group));
        lock(&NAMES).push((member.serial(), (*name).text()));
    }
}

/// `c10d::resolve_process_group(const std::string&)`.
unsafe extern "C-unwind" fn resolve(
    result: *mut *mut c_void,
    name: *const CxxString,
) -> *mut *mut c_void {
    match current() {
        // SAFETY: the caller's arguments.
        Some(member) => unsafe {
            with_own_name(name, member, |own| (symbols().group_resolve)(result, own))
        },
        // SAFETY: libtorch's own function and its caller's arguments.
        None => unsafe { (symbols().group_resolve)(result, name) },
    }
}

/// `c10d::unregister_process_group(const std::string&)`.
unsafe extern "C-unwind" fn unregister(name: *const CxxString) {
    let Some(member) = current() else {
        // SAFETY: libtorch's own function and its caller's argument.
        return unsafe { (symbols().group_unregister)(name) };
    };
    // SAFETY: the caller's argument.
    unsafe {
        let text = (*name).text();
        lock(&NAMES).retain(|(serial, known)| *serial != member.serial() || *known != text);
        with_own_name(name, member, |own| (symbols().group_unregister)(own));
    }
}

/// `c10d::unregister_all_process_groups()`.
unsafe extern "C-unwind" fn unregister_all() {
    match current() {
        Some(member) => forget(member),
        // SAFETY: libtorch's own function.
        None => unsafe { (symbols().group_unregister_all)() },
    }
}

/// Unregisters an interpreter's groups.
pub(super) fn forget(member: &Member) {
    let names: Vec<String> = {
        let mut names = lock(&NAMES);
        let own = names.extract_if(.., |(serial, _)| *serial == member.serial());
        own.map(|(_, name)| name).collect()
    };
    for name in names {
        let mut text = MaybeUninit::<CxxString>::uninit();
        // SAFETY: room for a string, which is read and then freed.
        unsafe {
            CxxString::write(text.as_mut_ptr(), &own_name(&name, member), symbols().allocator());
            (symbols().group_unregister)(text.as_ptr());
            CxxString::destroy(text.as_mut_ptr(), symbols().allocator());
        }
    }
}
