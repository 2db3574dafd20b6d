//! The variables of locales in the process's environment, as each domain sees them.
//!
//! A program that changes `LC_ALL`, `LANG` or the variable of a category says which locale it and its children shall have
//! (setlocale(3), for the name ""). Some do so while they start in the locale C, and start in another mode where the variable is
//! set already. So a domain sees its own value of such a variable, or the value before other domains changed it. A later
//! change by the process's own code counts for all.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

use super::PROCESS;
use super::table::entries;
use crate::id::DomainId;
use crate::sys::lock::{Mutex, Rank};

/// The value of a variable; none if it is not set.
type Value = Option<CString>;

/// A variable that domains have changed.
struct Changed {
    before: Value,
    own: BTreeMap<DomainId, Value>,
    /// Its value since the last of their changes.
    now: Value,
}

static CHANGED: Mutex<BTreeMap<CString, Changed>> =
    Mutex::new(Rank::LocaleVariables, BTreeMap::new());

/// Whether `setlocale` reads the variable.
fn is_one(name: &[u8]) -> bool {
    name == b"LANG" || name.starts_with(b"LC_")
}

/// Lets `change` change a variable of the process's environment for a domain.
pub(super) fn changing<T>(domain: Option<DomainId>, name: &[u8], change: impl FnOnce() -> T) -> T {
    let Some(domain) = domain.filter(|_| is_one(name)) else { return change() };
    let Ok(name) = CString::new(name) else { return change() };
    let mut all = CHANGED.lock();
    let before = in_process(&name);
    let result = change();
    let now = in_process(&name);
    let known = all.remove(&name).filter(|known| known.now == before);
    let mut changed = known.unwrap_or(Changed { before, own: BTreeMap::new(), now: None });
    changed.own.insert(domain, now.clone());
    changed.now = now;
    all.insert(name, changed);
    result
}

/// The value that a domain sees of a variable of the process's environment that `setlocale` reads.
pub(crate) fn locale_variable(domain: DomainId, name: &CStr) -> Option<CString> {
    let all = CHANGED.lock();
    let now = in_process(name);
    match all.get(name) {
        Some(changed) if changed.now == now => {
            changed.own.get(&domain).unwrap_or(&changed.before).clone()
        }
        _ => now,
    }
}

/// Forgets an ended domain's values of them.
pub(crate) fn forget_locale_variables(domain: DomainId) {
    for changed in CHANGED.lock().values_mut() {
        changed.own.remove(&domain);
    }
}

/// Those that are set in the process's environment.
pub(super) fn set_in_process() -> Vec<CString> {
    let names = entries(PROCESS.variable()).filter_map(|entry| {
        // SAFETY: entries of an environment are NUL-terminated strings.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
        is_one(name).then(|| CString::new(name).expect("a part of a string without NUL"))
    });
    names.collect()
}

fn in_process(name: &CStr) -> Value {
    PROCESS.text(name)
}
