//! Translated messages: the text domain of a program, and the folders that its text domains are bound to.
//!
//! glibc has one binding for each name of a text domain. It finds a catalog by a path that has the name in it, so `x` and
//! `./x` are two names of one file. Each folder and character set that some program has bound a name to has a spelling of
//! the name. glibc's binding of a spelling never changes, and programs with equal bindings share the catalogs.

use std::ffi::{CStr, CString, c_char, c_int, c_ulong};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Answer;
use crate::sys::answering::answering;
use crate::sys::lock::{Mutex, Rank};

unsafe extern "C" {
    fn dcgettext(name: *const c_char, text: *const c_char, category: c_int) -> *mut c_char;
    fn dcngettext(
        name: *const c_char,
        one: *const c_char,
        many: *const c_char,
        count: c_ulong,
        category: c_int,
    ) -> *mut c_char;
    fn bindtextdomain(name: *const c_char, folder: *const c_char) -> *mut c_char;
    fn bind_textdomain_codeset(name: *const c_char, set: *const c_char) -> *mut c_char;
}

/// The text domains of a program.
#[derive(Debug)]
pub(super) struct Messages {
    /// Those that the program has bound or chosen, the newest first. None goes away before the program.
    known: AtomicPtr<Named>,
    /// The chosen one; null for glibc's default.
    chosen: AtomicPtr<Named>,
    changing: Mutex<()>,
}

/// A name of a text domain.
#[derive(Debug)]
struct Named {
    name: CString,
    /// Null unless the program has bound it.
    binding: AtomicPtr<Binding>,
    next: *const Named,
}

/// The folder and character set that programs have bound a name to. It stays, as in glibc.
#[derive(Debug)]
struct Binding {
    name: CString,
    folder: Option<CString>,
    character_set: Option<CString>,
    /// The name under which glibc keeps this binding.
    spelling: CString,
}

static BINDINGS: Mutex<Vec<&'static Binding>> = Mutex::new(Rank::Answers, Vec::new());

/// glibc's text domain of a program that has chosen none (intl/dcigettext.c).
const DEFAULT: &CStr = c"messages";

impl Binding {
    fn of(name: &CStr, folder: Option<&CStr>, set: Option<&CStr>) -> &'static Binding {
        let mut bindings = BINDINGS.lock();
        let same = |known: &&&Binding| known.name.as_c_str() == name;
        let is_it = |known: &&Binding| {
            (known.folder.as_deref(), known.character_set.as_deref()) == (folder, set)
        };
        if let Some(known) = bindings.iter().filter(same).find(|known| is_it(known)) {
            return known;
        }
        let spelling = spelling(name, bindings.iter().filter(same).count());
        for (bind, value) in [
            (bindtextdomain as unsafe extern "C" fn(_, _) -> _, folder),
            (bind_textdomain_codeset, set),
        ] {
            if let Some(value) = value {
                // SAFETY: texts that end in NUL, of which glibc makes copies.
                unsafe { bind(spelling.as_ptr(), value.as_ptr()) };
            }
        }
        let [folder, character_set] = [folder, set].map(|text| text.map(CStr::to_owned));
        let binding = Binding { name: name.to_owned(), folder, character_set, spelling };
        let binding = Box::leak(Box::new(binding));
        bindings.push(binding);
        binding
    }
}

/// The spelling of a name with this number: its bits, the last first, as `./` and `.//`.
fn spelling(name: &CStr, number: usize) -> CString {
    // Not the name itself: that belongs to the program that has loaded this loader.
    let mut rest = number + 2;
    let mut path = Vec::new();
    while rest > 1 {
        path.extend_from_slice(if rest & 1 == 0 { b"./" } else { b".//" });
        rest >>= 1;
    }
    path.extend_from_slice(name.to_bytes());
    CString::new(path).expect("parts of strings without NUL")
}

impl Messages {
    pub(super) fn new() -> Messages {
        Messages {
            known: AtomicPtr::default(),
            chosen: AtomicPtr::default(),
            changing: Mutex::new(Rank::Answers, ()),
        }
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        all.extend(Answer::functions(functions(), &raw const *self));
    }

    /// The entry of a name, if the program has bound or chosen it.
    fn find(&self, name: &CStr) -> Option<&Named> {
        let mut next = self.known.load(Ordering::Acquire).cast_const();
        // SAFETY: null or an entry, which stays until the end of the program.
        while let Some(named) = unsafe { next.as_ref() } {
            if named.name.as_c_str() == name {
                return Some(named);
            }
            next = named.next;
        }
        None
    }

    /// Finds or makes the entry of a name.
    fn named(&self, name: &CStr) -> &Named {
        let _turn = self.changing.lock();
        if let Some(known) = self.find(name) {
            return known;
        }
        let next = self.known.load(Ordering::Relaxed);
        let named = Named { name: name.to_owned(), binding: AtomicPtr::default(), next };
        let named = Box::leak(Box::new(named));
        self.known.store(named, Ordering::Release);
        named
    }

    /// The text domain that the program has chosen.
    fn chosen(&self) -> Option<&Named> {
        // SAFETY: null or an entry.
        unsafe { self.chosen.load(Ordering::Acquire).as_ref() }
    }

    /// The name under which glibc keeps the program's text domain `name`, or the chosen one if it is null.
    ///
    /// # Safety
    /// A name that is not null is NUL-terminated.
    unsafe fn spelled(&self, name: *const c_char) -> *const c_char {
        let named = if name.is_null() {
            let default = || self.find(DEFAULT);
            self.chosen().or_else(default)
        } else {
            // SAFETY: the caller's promise.
            self.find(unsafe { CStr::from_ptr(name) })
        };
        let Some(named) = named else {
            return if name.is_null() { DEFAULT.as_ptr() } else { name };
        };
        match named.binding() {
            Some(binding) => binding.spelling.as_ptr(),
            None => named.name.as_ptr(),
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        let mut next = *self.known.get_mut();
        while !next.is_null() {
            // SAFETY: made by `named`, and in the list once.
            next = unsafe { Box::from_raw(next) }.next.cast_mut();
        }
    }
}

impl Named {
    fn binding(&self) -> Option<&'static Binding> {
        // SAFETY: null or a binding, and those never end.
        unsafe { self.binding.load(Ordering::Acquire).as_ref() }
    }

    fn bind(&self, folder: Option<&CStr>, set: Option<&CStr>) -> &'static Binding {
        let binding = Binding::of(&self.name, folder, set);
        self.binding.store(ptr::from_ref(binding).cast_mut(), Ordering::Release);
        binding
    }
}

/// <locale.h>, LC_MESSAGES.
const MESSAGES: c_int = libc::LC_MESSAGES;

type Text = *const c_char;

answering! {
    fn functions, own: &Messages;

    /// `gettext(text)`.
    "gettext" => extern "C" fn gettext(text: Text) -> *mut c_char {
        dcgettext(own.spelled(ptr::null()), text, MESSAGES)
    }

    /// `dgettext(name, text)`.
    "dgettext", "__dgettext" => extern "C" fn dgettext(name: Text, text: Text) -> *mut c_char {
        dcgettext(own.spelled(name), text, MESSAGES)
    }

    /// `dcgettext(name, text, category)`.
    "dcgettext", "__dcgettext" => extern "C" fn own_dcgettext(
        name: Text, text: Text, category: c_int,
    ) -> *mut c_char {
        dcgettext(own.spelled(name), text, category)
    }

    /// `ngettext(one, many, count)`.
    "ngettext" => extern "C" fn ngettext(one: Text, many: Text, count: c_ulong) -> *mut c_char {
        dcngettext(own.spelled(ptr::null()), one, many, count, MESSAGES)
    }

    /// `dngettext(name, one, many, count)`.
    "dngettext" => extern "C" fn dngettext(
        name: Text, one: Text, many: Text, count: c_ulong,
    ) -> *mut c_char {
        dcngettext(own.spelled(name), one, many, count, MESSAGES)
    }

    /// `dcngettext(name, one, many, count, category)`.
    "dcngettext" => extern "C" fn own_dcngettext(
        name: Text, one: Text, many: Text, count: c_ulong, category: c_int,
    ) -> *mut c_char {
        dcngettext(own.spelled(name), one, many, count, category)
    }

    /// `textdomain(name)` (intl/textdomain.c).
    "textdomain" => extern "C" fn textdomain(name: Text) -> *mut c_char {
        if !name.is_null() {
            let name = CStr::from_ptr(name);
            let named = match name.is_empty() || name == DEFAULT {
                true => ptr::null_mut(),
                false => ptr::from_ref(own.named(name)).cast_mut(),
            };
            own.chosen.store(named, Ordering::Release);
        }
        own.chosen().map_or(DEFAULT.as_ptr(), |chosen| chosen.name.as_ptr()).cast_mut()
    }

    /// `bindtextdomain(name, folder)` (intl/bindtextdom.c).
    "bindtextdomain" => extern "C" fn own_bindtextdomain(name: Text, folder: Text) -> *mut c_char {
        let Some(name) = named(name) else { return ptr::null_mut() };
        let known = own.find(name).and_then(Named::binding);
        let set = known.and_then(|known| known.character_set.as_deref());
        let binding = match folder.is_null() {
            true => known,
            false => Some(own.named(name).bind(Some(CStr::from_ptr(folder)), set)),
        };
        match binding.and_then(|binding| binding.folder.as_ref()) {
            Some(folder) => folder.as_ptr().cast_mut(),
            // It asks glibc, and changes nothing.
            None => bindtextdomain(name.as_ptr(), ptr::null()),
        }
    }

    /// `bind_textdomain_codeset(name, set)` (intl/bindtextdom.c).
    "bind_textdomain_codeset" => extern "C" fn bind_character_set(name: Text, set: Text) -> *mut c_char {
        let Some(name) = named(name) else { return ptr::null_mut() };
        let known = own.find(name).and_then(Named::binding);
        let folder = known.and_then(|known| known.folder.as_deref());
        let binding = match set.is_null() {
            true => known,
            false => Some(own.named(name).bind(folder, Some(CStr::from_ptr(set)))),
        };
        let set = binding.and_then(|binding| binding.character_set.as_ref());
        set.map_or(ptr::null_mut(), |set| set.as_ptr().cast_mut())
    }
}

/// The name of a text domain. glibc binds none without a name.
///
/// # Safety
/// A name that is not null is NUL-terminated.
unsafe fn named<'a>(name: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_different_names_of_one_file() {
        let all: std::collections::BTreeSet<_> =
            (0..1000).map(|number| spelling(c"x", number)).collect();
        assert_eq!(all.len(), 1000);
        let name = std::path::Path::new("./x");
        let is_it = |own: &CString| std::path::Path::new(own.to_str().unwrap()) == name;
        assert!(all.iter().all(is_it));
        assert!(all.iter().all(|path| path.count_bytes() < 32));
    }
}
