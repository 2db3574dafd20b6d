//! The file that says who is logged in (utmp(5)): its name, and the position in it.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use libc::utmpx as Login;

use super::listings::{Listing, Source, alone};
use super::records::Record;
use super::{Answer, Own, failed, records};
use crate::sys::answering::answering;
use crate::sys::lock::{Mutex, Rank};

/// It is read with the name of its file.
static LOGINS: Source =
    Source { layout: records::LOGIN, rewind: || 1, next: |_| ptr::null(), close: || () };

#[derive(Debug)]
pub(super) struct Logins {
    listing: Listing,
    /// The file that the program has named.
    file: Mutex<Option<CString>>,
    /// The record that `pututline` wrote last.
    written: Own<Option<Record>>,
}

/// The file of a program that has named none (<paths.h>, `_PATH_UTMP`).
const DEFAULT: &CStr = c"/var/run/utmp";

unsafe extern "C" {
    fn utmpname(file: *const c_char) -> c_int;
    fn setutent();
    fn getutent_r(login: *mut Login, found: *mut *mut Login) -> c_int;
    fn pututline(login: *const Login) -> *mut Login;
    fn endutent();
}

impl Logins {
    pub(super) fn new() -> Logins {
        Logins {
            listing: Listing::of(&LOGINS),
            file: Mutex::new(Rank::Answers, None),
            written: Own::new(None),
        }
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        all.extend(Answer::functions(functions(), &raw const *self));
    }

    /// Calls `work` while the C library uses the program's file.
    fn with_file<T>(&self, work: impl FnOnce() -> T) -> T {
        let file = self.file.lock().clone();
        alone(|| {
            // SAFETY: a text that ends in NUL, of which the C library makes a copy. No other domain uses the file meanwhile.
            unsafe {
                utmpname(file.as_deref().unwrap_or(DEFAULT).as_ptr());
                setutent();
                let result = work();
                endutent();
                utmpname(DEFAULT.as_ptr());
                result
            }
        })
    }

    /// The next one that `is_it` accepts, or null with an error.
    fn find(&self, is_it: impl Fn(&Login) -> bool) -> *mut Login {
        if !self.listing.is_read() {
            let all = self.with_file(|| {
                let mut all = VecDeque::new();
                // SAFETY: bytes and numbers, for which zero is a value.
                let mut login: Login = unsafe { std::mem::zeroed() };
                // SAFETY: places of these types; a structure without pointers.
                unsafe {
                    while getutent_r(&mut login, &mut ptr::null_mut()) == 0 {
                        all.push_back(records::LOGIN.record((&raw const login).cast()));
                    }
                }
                all
            });
            self.listing.fill(all, true);
        }
        // SAFETY: an entry of the list.
        let found = self.listing.next(|entry| is_it(unsafe { &*entry.cast() }));
        if found.is_null() { failed(libc::ESRCH) } else { found.cast() }
    }
}

/// Whether `known` matches as in `getutid` (login/utmp_file.c, `matches_id` and `matches_type`).
fn has_id(known: &Login, wanted: &Login) -> bool {
    match wanted.ut_type {
        libc::RUN_LVL | libc::BOOT_TIME | libc::NEW_TIME | libc::OLD_TIME => {
            known.ut_type == wanted.ut_type
        }
        _ => {
            let is_process = (libc::INIT_PROCESS..=libc::DEAD_PROCESS).contains(&known.ut_type);
            let has_ids = known.ut_id[0] != 0 && wanted.ut_id[0] != 0;
            is_process
                && match has_ids {
                    true => text(&known.ut_id) == text(&wanted.ut_id),
                    false => text(&known.ut_line) == text(&wanted.ut_line),
                }
        }
    }
}

fn has_line(known: &Login, wanted: &Login) -> bool {
    [libc::USER_PROCESS, libc::LOGIN_PROCESS].contains(&known.ut_type)
        && text(&known.ut_line) == text(&wanted.ut_line)
}

/// The bytes before the first NUL.
fn text(bytes: &[c_char]) -> &[c_char] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

answering! {
    fn functions, own: &Logins;

    /// `setutent()`, `endutent()`.
    "setutent", "setutxent", "endutent", "endutxent" => extern "C" fn begin() {
        own.listing.forget();
    }

    /// `getutent()`.
    "getutent", "getutxent" => extern "C" fn next() -> *mut Login {
        own.find(|_| true)
    }

    /// `getutid(wanted)`.
    "getutid", "getutxid" => extern "C" fn by_id(wanted: &Login) -> *mut Login {
        own.find(|known| has_id(known, wanted))
    }

    /// `getutline(wanted)`.
    "getutline", "getutxline" => extern "C" fn by_line(wanted: &Login) -> *mut Login {
        own.find(|known| has_line(known, wanted))
    }

    /// `getutent_r(to, found)`.
    "getutent_r" => extern "C" fn next_into(to: *mut Login, found: *mut *mut Login) -> c_int {
        copy(next(own), to, found)
    }

    /// `getutid_r(wanted, to, found)`.
    "getutid_r" => extern "C" fn by_id_into(
        wanted: &Login, to: *mut Login, found: *mut *mut Login,
    ) -> c_int {
        copy(by_id(wanted, own), to, found)
    }

    /// `getutline_r(wanted, to, found)`.
    "getutline_r" => extern "C" fn by_line_into(
        wanted: &Login, to: *mut Login, found: *mut *mut Login,
    ) -> c_int {
        copy(by_line(wanted, own), to, found)
    }

    /// `pututline(login)`.
    "pututline", "pututxline" => extern "C" fn put(login: *const Login) -> *mut Login {
        let written = own.with_file(|| {
            let written = pututline(login);
            // Its result stays until the next call.
            (!written.is_null()).then(|| records::LOGIN.record(written.cast()))
        });
        let kept = &mut *own.written.place();
        *kept = written;
        kept.as_ref().map_or(ptr::null_mut(), |written| written.place().cast())
    }

    /// `utmpname(file)`.
    "utmpname", "utmpxname" => extern "C" fn name_file(file: *const c_char) -> c_int {
        own.listing.forget();
        let old = own.file.lock().replace(CStr::from_ptr(file).to_owned());
        drop(old);
        0
    }
}

/// Copies the found record to the caller's memory.
///
/// # Safety
/// As getutent_r(3); `login` is null or a structure.
unsafe fn copy(login: *mut Login, to: *mut Login, found: *mut *mut Login) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if login.is_null() {
            found.write(ptr::null_mut());
            return -1;
        }
        to.copy_from(login, 1);
        found.write(to);
    }
    0
}
