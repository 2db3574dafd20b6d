//! Locales of the C library (locale(7)): by the names of their categories, the process's, and a thread's.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{lconv, locale_t, nl_item};

use super::errno::set_errno;
use super::lock::{Mutex, Rank};

/// The categories without LC_ALL, and their variables, in the order in which glibc writes them (locale/setlocale.c).
pub(crate) const CATEGORIES: [(c_int, &CStr); 12] = [
    (libc::LC_CTYPE, c"LC_CTYPE"),
    (libc::LC_NUMERIC, c"LC_NUMERIC"),
    (libc::LC_TIME, c"LC_TIME"),
    (libc::LC_COLLATE, c"LC_COLLATE"),
    (libc::LC_MONETARY, c"LC_MONETARY"),
    (libc::LC_MESSAGES, c"LC_MESSAGES"),
    (7, c"LC_PAPER"),
    (8, c"LC_NAME"),
    (9, c"LC_ADDRESS"),
    (10, c"LC_TELEPHONE"),
    (11, c"LC_MEASUREMENT"),
    (12, c"LC_IDENTIFICATION"),
];

/// A name for each of [`CATEGORIES`].
pub(crate) type Names = [CString; CATEGORIES.len()];

unsafe extern "C" {
    fn nl_langinfo_l(item: nl_item, locale: locale_t) -> *mut c_char;
    fn nl_langinfo(item: nl_item) -> *mut c_char;
}

/// A locale that never changes and never ends, as those that `setlocale` has set in glibc: whoever uses it may keep
/// pointers into it.
#[derive(Debug)]
pub(crate) struct Locale {
    handle: Handle,
    names: Names,
    /// The result of `setlocale(LC_ALL, NULL)` for it.
    all: CString,
}

/// The C library's handle of a locale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(locale_t);

// SAFETY: a locale belongs to no thread.
unsafe impl Send for Handle {}
// SAFETY: as above; what it leads to does not change.
unsafe impl Sync for Handle {}

/// All that were made.
static LOCALES: Mutex<Vec<&'static Locale>> = Mutex::new(Rank::Locales, Vec::new());

impl Locale {
    /// The process's current locale. None if memory is exhausted.
    pub(crate) fn of_process() -> Option<&'static Locale> {
        let mut locales = LOCALES.lock();
        // <locale.h>, LC_GLOBAL_LOCALE.
        let global: locale_t = ptr::without_provenance_mut(usize::MAX);
        // SAFETY: the constant is a locale for this function.
        let handle = unsafe { libc::duplocale(global) };
        (!handle.is_null()).then(|| adopt(&mut locales, Handle(handle)))
    }

    /// The locale whose categories have these names. None if the C library lacks it; `errno` is its reason.
    pub(crate) fn named(names: &Names) -> Option<&'static Locale> {
        let mut locales = LOCALES.lock();
        if let Some(known) = locales.iter().find(|known| known.names == *names) {
            return Some(known);
        }
        let mut made: locale_t = ptr::null_mut();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                continue;
            }
            let same = CATEGORIES.iter().zip(names).filter(|(_, other)| *other == name);
            let mask = same.fold(0, |mask, ((category, _), _)| mask | 1 << category);
            // The second time that the C library is asked for a missing locale, it gives no reason.
            set_errno(libc::ENOENT);
            // SAFETY: the name ends in NUL; the base is null, or a locale that nobody else has.
            let next = unsafe { libc::newlocale(mask, name.as_ptr(), made) };
            if next.is_null() {
                free(Handle(made));
                return None;
            }
            made = next;
        }
        Some(adopt(&mut locales, Handle(made)))
    }

    /// The result of `setlocale(category, NULL)` where it is set. None for an unknown category.
    pub(crate) fn name(&self, category: c_int) -> Option<&CStr> {
        if category == libc::LC_ALL {
            return Some(&self.all);
        }
        let at = CATEGORIES.iter().position(|(known, _)| *known == category)?;
        Some(&self.names[at])
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }
}

/// Adds `handle`, which nobody else has, to `locales`, or frees it if one has the same names.
fn adopt(locales: &mut Vec<&'static Locale>, handle: Handle) -> &'static Locale {
    let names = CATEGORIES.map(|(category, _)| handle.name(category).to_owned());
    if let Some(known) = locales.iter().find(|known| known.names == names) {
        free(handle);
        return known;
    }
    let all = together(&names);
    let locale = Box::leak(Box::new(Locale { handle, names, all }));
    locales.push(locale);
    locale
}

/// Frees a locale that nobody else has. It may be null.
fn free(Handle(handle): Handle) {
    if !handle.is_null() {
        // SAFETY: by contract.
        unsafe { libc::freelocale(handle) };
    }
}

impl Handle {
    /// The name of one of its categories (glibc, <langinfo.h>, `_NL_LOCALE_NAME`).
    fn name(&self, category: c_int) -> &CStr {
        // SAFETY: each locale has this item, a string that lives as long.
        unsafe { CStr::from_ptr(nl_langinfo_l(category << 16 | 0xffff, self.0)) }
    }
}

/// The name of all categories together: one name, or `CATEGORY=NAME` of each (glibc, locale/setlocale.c, `new_composite_name`).
fn together(names: &Names) -> CString {
    if names.iter().all(|name| *name == names[0]) {
        return names[0].clone();
    }
    let one = |((_, category), name): (&(c_int, &CStr), &CString)| {
        [category.to_bytes(), name.to_bytes()].join(&b'=')
    };
    let all: Vec<Vec<u8>> = CATEGORIES.iter().zip(names).map(one).collect();
    CString::new(all.join(&b';')).expect("parts of strings without NUL")
}

/// The words of `struct __locale_struct` (glibc, bits/types/__locale_t.h): data and names of 13 categories, and three
/// tables of characters. Programs that glibc's `<ctype.h>` was compiled into depend on its layout.
const WORDS: usize = 13 + 3 + 13;

/// A locale that threads use and that is replaced while they do.
///
/// glibc's `setlocale` replaces the process's in the same way, word by word. The locales stay, so a thread that reads
/// meanwhile reads some categories of the old one and some of the new one. As in glibc a thread keeps its table of characters
/// until it asks for the place again ([`use_in_thread`]).
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct LocaleCell([AtomicUsize; WORDS]);

impl LocaleCell {
    pub(crate) fn of(locale: &'static Locale) -> LocaleCell {
        let place = LocaleCell([const { AtomicUsize::new(0) }; WORDS]);
        place.set(locale);
        place
    }

    /// Replaces the locale in the place.
    pub(crate) fn set(&self, locale: &'static Locale) {
        // SAFETY: a locale of glibc's has this many words, which never change: nobody else has its handle.
        let words = unsafe { locale.handle.0.cast::<[usize; WORDS]>().read() };
        for (place, word) in self.0.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// The handle by which threads use it. It is valid for as long as the place.
    pub(crate) fn handle(&self) -> Handle {
        Handle(ptr::from_ref(self).cast_mut().cast())
    }
}

/// Makes the calling thread use a locale, and returns the one that it has used.
///
/// # Safety
/// The locale is there until the thread uses another one.
pub(crate) unsafe fn use_in_thread(locale: Handle) -> Handle {
    // SAFETY: the caller's promise.
    Handle(unsafe { libc::uselocale(locale.0) })
}

/// The result of `setlocale(category, NULL)` for the process: null for an unknown category.
pub(crate) fn name_in_process(category: c_int) -> *mut c_char {
    // SAFETY: null asks and changes nothing.
    unsafe { libc::setlocale(category, ptr::null()) }
}

/// `localeconv` for the locale that the calling thread uses. glibc's writes into memory that all threads have in common;
/// this one takes the same items (locale/localeconv.c) from `nl_langinfo`.
pub(crate) fn conventions() -> lconv {
    const MONETARY: nl_item = libc::LC_MONETARY << 16;
    const NUMERIC: nl_item = libc::LC_NUMERIC << 16;
    // SAFETY: each locale has the items of <langinfo.h>, strings that end in NUL.
    let text = |item| unsafe { nl_langinfo(item) };
    // SAFETY: as above; a number is the first byte.
    let number = |item| match unsafe { *text(item) }.to_ne_bytes() {
        [u8::MAX] => c_char::MAX,
        byte => c_char::from_ne_bytes(byte),
    };
    let grouping = |item| match number(item) {
        c_char::MAX => c"".as_ptr().cast_mut(),
        _ => text(item),
    };
    lconv {
        decimal_point: text(NUMERIC),
        thousands_sep: text(NUMERIC + 1),
        grouping: grouping(NUMERIC + 2),
        int_curr_symbol: text(MONETARY),
        currency_symbol: text(MONETARY + 1),
        mon_decimal_point: text(MONETARY + 2),
        mon_thousands_sep: text(MONETARY + 3),
        mon_grouping: grouping(MONETARY + 4),
        positive_sign: text(MONETARY + 5),
        negative_sign: text(MONETARY + 6),
        int_frac_digits: number(MONETARY + 7),
        frac_digits: number(MONETARY + 8),
        p_cs_precedes: number(MONETARY + 9),
        p_sep_by_space: number(MONETARY + 10),
        n_cs_precedes: number(MONETARY + 11),
        n_sep_by_space: number(MONETARY + 12),
        p_sign_posn: number(MONETARY + 13),
        n_sign_posn: number(MONETARY + 14),
        int_p_cs_precedes: number(MONETARY + 16),
        int_p_sep_by_space: number(MONETARY + 17),
        int_n_cs_precedes: number(MONETARY + 18),
        int_n_sep_by_space: number(MONETARY + 19),
        int_p_sign_posn: number(MONETARY + 20),
        int_n_sign_posn: number(MONETARY + 21),
    }
}
