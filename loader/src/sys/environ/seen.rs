//! The variables of locales and of the time zone in the process's environment, as each domain sees them.
//!
//! A program that changes `LC_ALL`, `LANG` or the variable of a category says which locale it and its children shall have
//! (setlocale(3), for the name ""). Some do so while they start in the locale C, and start in another mode where the variable is
//! set already. One that changes `TZ` says which time zone they shall have (tzset(3)). So a domain sees its own value of such a variable,
//! or the value before other domains changed it. A later change by the process's own code counts for all.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::table::entries;
use super::{Environment, PROCESS};
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
    Mutex::new(Rank::SeenVariables, BTreeMap::new());

const ZONE: &CStr = c"TZ";

/// Counts changes of the variable of the time zone by domains, in any environment.
static ZONES: AtomicU64 = AtomicU64::new(0);

/// Whether `setlocale` or `tzset` reads the variable.
fn is_one(name: &[u8]) -> bool {
    name == b"LANG" || name.starts_with(b"LC_") || name == ZONE.to_bytes()
}

/// Whether a domain has changed it in the process's environment. From then on the C library's zone is nobody's.
static IS_MIXED: AtomicBool = AtomicBool::new(false);

/// The number of changes of a time zone so far.
pub(crate) fn zone_changes() -> u64 {
    ZONES.load(Ordering::Acquire)
}

/// A variable was changed by code of a domain, or has a value in an environment that was made for one.
pub(super) fn note_change(name: &[u8]) {
    if name == ZONE.to_bytes() {
        ZONES.fetch_add(1, Ordering::AcqRel);
    }
}

/// Where a domain sees its time zone's variable.
#[derive(Debug)]
pub(crate) struct ZoneVariable {
    domain: DomainId,
    /// Its own environment; null for the process's.
    own: *const Environment,
}

// SAFETY: an environment may be read from any thread.
unsafe impl Send for ZoneVariable {}
// SAFETY: as above.
unsafe impl Sync for ZoneVariable {}

impl ZoneVariable {
    /// # Safety
    /// The environment lives as long as this.
    pub(crate) unsafe fn new(domain: DomainId, own: Option<&Environment>) -> Self {
        Self { domain, own: own.map_or(std::ptr::null(), std::ptr::from_ref) }
    }

    /// Its value, if it is set.
    pub(crate) fn value(&self) -> Option<CString> {
        // SAFETY: the promise of `new`.
        match unsafe { self.own.as_ref() } {
            Some(own) => own.text(ZONE),
            None => seen(self.domain, ZONE),
        }
    }

    /// Whether the process's environment has this value, too, and no domain has changed it: then the C library's time zone is the right one.
    pub(crate) fn is_the_process_s(value: Option<&CStr>) -> bool {
        !IS_MIXED.load(Ordering::Acquire) && in_process(ZONE).as_deref() == value
    }
}

/// Lets `change` change a variable of the process's environment for a domain.
pub(super) fn changing<T>(domain: Option<DomainId>, name: &[u8], change: impl FnOnce() -> T) -> T {
    let Some(domain) = domain.filter(|_| is_one(name)) else { return change() };
    let Ok(name) = CString::new(name) else { return change() };
    if *name == *ZONE {
        IS_MIXED.store(true, Ordering::Release);
        note_change(name.to_bytes());
    }
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

/// The value that a domain sees of such a variable of the process's environment.
pub(crate) fn seen(domain: DomainId, name: &CStr) -> Option<CString> {
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
pub(crate) fn forget_seen(domain: DomainId) {
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
