//! The locale of each domain.
//!
//! `setlocale` changes the locale of the process. A domain is a program of its own, so it sets a locale of its own:
//! [`Locale`]s are the C library's, and the threads that run the domain's code use that of the domain
//! (uselocale(3)). A domain that has set none uses the process's.
//!
//! The current domain of a thread decides ([`crate::current`]). A thread that is inside the domain while another one sets the
//! domain's first locale uses it from its next entry on. Threads that the domain's code has created use it at once. Until
//! then they have the process's as it was at the domain's first thread or first `localeconv`.

use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use libc::lconv;

use crate::id::DomainId;
use crate::sys::locale::{
    Handle, Locale, LocaleCell, Names, conventions, name_in_process, use_in_thread,
};
use crate::sys::lock::{Mutex, Rank};

/// The locale of a domain that has set one, created a thread or asked for conventions.
struct Own {
    place: LocaleCell,
    /// The locale in the place, once the domain's code has set it. Null before: then it is a copy of the process's.
    set: AtomicPtr<Locale>,
    /// The result of `localeconv`. Written under the lock of [`DOMAINS`].
    conventions: UnsafeCell<lconv>,
}

// SAFETY: the cell is written under one lock. Code of the domain reads it while another of its threads may call
// `localeconv`, which POSIX does not forbid that to do (localeconv(3), "MT-Unsafe race:localeconv").
unsafe impl Sync for Own {}
// SAFETY: pointers into locales, which never end.
unsafe impl Send for Own {}

impl Own {
    /// The locale that the domain's code has set.
    fn set(&self) -> Option<&'static Locale> {
        // SAFETY: null or a locale, and those never end.
        unsafe { self.set.load(Ordering::Acquire).as_ref() }
    }
}

struct Domains {
    own: BTreeMap<DomainId, Arc<Own>>,
    /// Entries of ended domains, for new ones. They are not freed: a thread that neither a host nor a domain has
    /// marked may have called `setlocale`, and uses the place until it ends.
    spare: Vec<Arc<Own>>,
}

static DOMAINS: Mutex<Domains> =
    Mutex::new(Rank::DomainLocales, Domains { own: BTreeMap::new(), spare: Vec::new() });

/// Whether a domain has ever set a locale.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Counts the changes of [`DOMAINS`].
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The locale that the thread used before it used a domain's; none while it uses none.
    static OUTER: Cell<Option<Handle>> = const { Cell::new(None) };
    /// The domain whose code has created the thread, and its place.
    static BORN: Cell<Option<(DomainId, Handle)>> = const { Cell::new(None) };
    /// The place that [`place_of`] found for a domain in [`DOMAINS`], after so many changes.
    static LAST: Cell<(u64, Option<DomainId>, Option<Handle>)> = const { Cell::new((0, None, None)) };
}

/// Makes the calling thread use the locale of the domain whose code it is going to run.
#[inline]
pub(crate) fn follow(domain: Option<DomainId>) {
    if ACTIVE.load(Ordering::Relaxed) {
        switch(domain);
    }
}

#[cold]
fn switch(domain: Option<DomainId>) {
    match domain.and_then(place_of) {
        // SAFETY: places are never freed.
        Some(place) => unsafe { enter(place) },
        None => {
            if let Some(outer) = OUTER.take() {
                // SAFETY: the thread used it, and does so again.
                unsafe { use_in_thread(outer) };
            }
        }
    }
}

/// # Safety
/// The place is there until the thread uses another locale.
unsafe fn enter(place: Handle) {
    // SAFETY: the caller's promise.
    let before = unsafe { use_in_thread(place) };
    if OUTER.get().is_none() {
        OUTER.set(Some(before));
    }
}

/// The place whose locale the calling thread uses in a domain. None if the domain uses the process's.
fn place_of(domain: DomainId) -> Option<Handle> {
    if let Some((home, place)) = BORN.get()
        && home == domain
    {
        return Some(place);
    }
    let changes = CHANGES.load(Ordering::Acquire);
    let (then, last, place) = LAST.get();
    if then == changes && last == Some(domain) {
        return place;
    }
    let own = DOMAINS.lock().own.get(&domain).cloned();
    let place = own.filter(|own| own.set().is_some()).map(|own| own.place.handle());
    LAST.set((changes, Some(domain), place));
    place
}

/// Begins a thread that the domain's code has created. It uses the domain's place before a locale was set, so it uses the
/// first one that another thread sets.
pub(crate) fn begin_thread(domain: DomainId) {
    let own = own(&mut DOMAINS.lock(), domain);
    if let Some(place) = own.map(|own| own.place.handle()) {
        BORN.set(Some((domain, place)));
        // SAFETY: places are never freed.
        unsafe { enter(place) };
    }
}

/// `setlocale(category, NULL)`.
pub(crate) fn name(domain: DomainId, category: c_int) -> *mut c_char {
    let set = || DOMAINS.lock().own.get(&domain).and_then(|own| own.set());
    let locale = if ACTIVE.load(Ordering::Relaxed) { set() } else { None };
    let Some(locale) = locale else { return name_in_process(category) };
    locale.name(category).map_or(ptr::null_mut(), |name| name.as_ptr().cast_mut())
}

/// `setlocale`: sets the names that `change` makes of the ones in force. `change` returns none for an error.
///
/// A domain that sets the process's locale keeps using the process's: programs restore LC_CTYPE as they start, and no visit
/// should cost more for that.
pub(crate) fn set(
    domain: DomainId,
    change: impl FnOnce(&Names) -> Option<Names>,
) -> Option<&'static Locale> {
    let mut domains = DOMAINS.lock();
    let own = own(&mut domains, domain)?;
    let (is_own, before) = match own.set() {
        Some(locale) => (true, locale),
        None => (false, Locale::of_process()?),
    };
    let locale = Locale::named(&change(before.names())?)?;
    if !is_own && ptr::eq(locale, before) {
        return Some(locale);
    }
    own.place.set(locale);
    if own.set.swap(ptr::from_ref(locale).cast_mut(), Ordering::AcqRel).is_null() {
        CHANGES.fetch_add(1, Ordering::Release);
    }
    ACTIVE.store(true, Ordering::Relaxed);
    // SAFETY: places are never freed.
    unsafe { enter(own.place.handle()) };
    Some(locale)
}

/// `localeconv`. The next call from the same domain changes the result, as in glibc. Null if memory is exhausted.
pub(crate) fn conventions_in(domain: DomainId) -> *mut lconv {
    let mut domains = DOMAINS.lock();
    let Some(own) = own(&mut domains, domain) else { return ptr::null_mut() };
    let result = own.conventions.get();
    // SAFETY: under the lock.
    unsafe { result.write(conventions()) };
    result
}

/// Finds or makes the entry of a domain. None if memory is exhausted.
fn own(domains: &mut Domains, domain: DomainId) -> Option<Arc<Own>> {
    if let Some(own) = domains.own.get(&domain) {
        return Some(own.clone());
    }
    let process = Locale::of_process()?;
    let own = match domains.spare.pop() {
        Some(spare) => {
            spare.set.store(ptr::null_mut(), Ordering::Release);
            spare.place.set(process);
            spare
        }
        None => Arc::new(Own {
            place: LocaleCell::of(process),
            set: AtomicPtr::new(ptr::null_mut()),
            conventions: UnsafeCell::new(conventions()),
        }),
    };
    domains.own.insert(domain, own.clone());
    Some(own)
}

/// Forgets the locale of a domain that has ended.
pub(crate) fn forget(domain: DomainId) {
    let domains = &mut *DOMAINS.lock();
    if let Some(own) = domains.own.remove(&domain) {
        domains.spare.push(own);
        CHANGES.fetch_add(1, Ordering::Release);
    }
}
