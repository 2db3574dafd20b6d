//! Groups of the network (netgroup(5)), whose entries are read when the group is named.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::Answer;
use super::listings::{Found, Listing, Source, alone, filled};
use super::records;
use crate::sys::errno::{errno, set_errno};

/// It is read when its name is given.
static TRIPLES: Source =
    Source { layout: records::TRIPLE, rewind: || 0, next: |_| ptr::null(), close: || () };

/// A domain's position in the group that it named last.
#[derive(Debug)]
pub(super) struct NetworkGroup(Listing);

impl NetworkGroup {
    pub(super) const fn new() -> NetworkGroup {
        NetworkGroup(Listing::of(&TRIPLES))
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        for (name, target, arguments) in [
            ("setnetgrent", read as *const c_void, 1),
            ("getnetgrent", show as *const c_void, 3),
            ("getnetgrent_r", fill as *const c_void, 5),
            ("endnetgrent", end as *const c_void, 0),
        ] {
            all.push(Answer::behind(name, target, arguments, &raw const self.0));
        }
    }
}

/// `endnetgrent()`.
extern "C" fn end(listing: &Listing) {
    listing.forget();
}

type Part = *mut *mut c_char;

/// `setnetgrent(name)`.
///
/// # Safety
/// As setnetgrent(3).
unsafe extern "C" fn read(name: *const c_char, listing: &Listing) -> c_int {
    unsafe extern "C" {
        fn setnetgrent(name: *const c_char) -> c_int;
        fn getnetgrent_r(
            host: Part,
            user: Part,
            domain: Part,
            rest: *mut c_char,
            length: usize,
        ) -> c_int;
        fn endnetgrent();
    }
    let next = |triple: *mut u8, rest, length, found: Found| {
        let [host, user, domain] =
            [0, 1, 2].map(|at| triple.cast::<*mut c_char>().wrapping_add(at));
        // SAFETY: the memory is of that size, and begins with three pointers.
        unsafe {
            if getnetgrent_r(host, user, domain, rest, length) == 0 {
                return errno();
            }
            found.write(triple);
        }
        0
    };
    let (rest, status) = alone(|| {
        // SAFETY: the caller's promise.
        let status = unsafe { setnetgrent(name) };
        let (mut memory, mut rest) = (vec![0; 256], VecDeque::new());
        loop {
            set_errno(libc::ENOENT);
            let triple = filled(&records::TRIPLE, &mut memory, next);
            if triple.is_null() {
                break;
            }
            // SAFETY: three texts in the memory.
            rest.push_back(unsafe { records::TRIPLE.record(triple) });
        }
        // SAFETY: no arguments.
        unsafe { endnetgrent() };
        (rest, status)
    });
    listing.fill(rest, status != 0);
    status
}

/// `getnetgrent(host, user, domain)`.
///
/// # Safety
/// As getnetgrent(3).
unsafe extern "C" fn show(host: Part, user: Part, domain: Part, listing: &Listing) -> c_int {
    let triple = listing.next(|_| true).cast::<[*mut c_char; 3]>();
    // SAFETY: null or an entry; the caller's promise.
    unsafe {
        let Some(texts) = triple.as_ref() else { return 0 };
        [host, user, domain].into_iter().zip(texts).for_each(|(place, text)| place.write(*text));
    }
    1
}

/// `getnetgrent_r(host, user, domain, rest, length)`.
///
/// # Safety
/// As getnetgrent_r(3).
unsafe extern "C" fn fill(
    host: Part,
    user: Part,
    domain: Part,
    rest: *mut u8,
    length: usize,
    listing: &Listing,
) -> c_int {
    let mut triple = [ptr::null_mut(); 3];
    // SAFETY: the caller's promise.
    unsafe {
        let status = listing.copy((&raw mut triple).cast(), rest, length);
        if status != 0 {
            set_errno(status);
            return 0;
        }
        [host, user, domain].into_iter().zip(triple).for_each(|(place, text)| place.write(text));
    }
    1
}
