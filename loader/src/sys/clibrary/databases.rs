//! The databases that programs go through, and the functions for it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Answer;
use super::listings::{Found, Listing, Source, filled};
use super::lookups::set_host_error;
use super::network_groups;
use super::records;
use crate::sys::answering::answering;
use crate::sys::errno::set_errno;

/// Databases: the structure of an entry, and the C library's functions that rewind, give an entry, fill the caller's memory
/// with one, and close. Some rewind with an argument; those of host names have an error's number behind the others.
macro_rules! databases {
    ($($field:ident: $layout:ident, $set:ident($($stay:expr => $stay_type:ty)?), $next:ident,
        $fill:ident($($error:expr => $error_type:ty)?), $end:ident;)*) => {
        unsafe extern "C" {
            $(
                fn $set($(_: $stay_type)?);
                fn $fill(
                    head: *mut u8, rest: *mut c_char, length: usize, found: Found $(, _: $error_type)?
                ) -> c_int;
                fn $end();
            )*
        }

        /// The positions of a domain.
        #[derive(Debug)]
        pub(super) struct Databases {
            $($field: Listing,)*
            file_systems: Listing,
            terminals: Listing,
            shells: Listing,
            network_group: network_groups::NetworkGroup,
        }

        impl Databases {
            pub(super) const fn new() -> Databases {
                Databases {
                    $($field: Listing::of(&Source {
                        layout: records::$layout,
                        rewind: || {
                            // SAFETY: a function of that signature.
                            unsafe { $set($($stay)?) };
                            1
                        },
                        next: |memory| {
                            filled(&records::$layout, memory, |head, rest, length, found| {
                                // SAFETY: the memory is of that size.
                                unsafe { $fill(head, rest, length, found $(, $error)?) }
                            })
                        },
                        close: || {
                            // SAFETY: no arguments.
                            unsafe { $end() }
                        },
                    }),)*
                    file_systems: Listing::of(&FILE_SYSTEMS),
                    terminals: Listing::of(&TERMINALS),
                    shells: Listing::of(&SHELLS),
                    network_group: network_groups::NetworkGroup::new(),
                }
            }

            pub(super) fn answers(&self, all: &mut Vec<Answer>) {
                $(
                    let listing = &raw const self.$field;
                    let (target, arguments) = match is_given(&[$(stringify!($stay))?]) {
                        false => (forget as *const c_void, 0),
                        true => (forget_and_stay as *const c_void, 1),
                    };
                    all.push(Answer::behind(stringify!($set), target, arguments, listing));
                    all.push(Answer::behind(stringify!($next), show as *const c_void, 0, listing));
                    let (target, arguments) = match is_given(&[$(stringify!($error))?]) {
                        false => (fill as *const c_void, 4),
                        true => (fill_of_host as *const c_void, 5),
                    };
                    all.push(Answer::behind(stringify!($fill), target, arguments, listing));
                    all.push(Answer::behind(stringify!($end), forget as *const c_void, 0, listing));
                )*
                all.extend(Answer::functions(of_file_systems(), &raw const self.file_systems));
                all.extend(Answer::functions(of_terminals(), &raw const self.terminals));
                all.extend(Answer::functions(of_shells(), &raw const self.shells));
                self.network_group.answers(all);
            }
        }
    };
}

databases! {
    groups: GROUP, setgrent(), getgrent, getgrent_r(), endgrent;
    users: USER, setpwent(), getpwent, getpwent_r(), endpwent;
    shadows: SHADOW, setspent(), getspent, getspent_r(), endspent;
    shadow_groups: SHADOW_GROUP, setsgent(), getsgent, getsgent_r(), endsgent;
    services: SERVICE, setservent(0 => c_int), getservent, getservent_r(), endservent;
    protocols: PROTOCOL, setprotoent(0 => c_int), getprotoent, getprotoent_r(), endprotoent;
    networks: NETWORK, setnetent(0 => c_int), getnetent, getnetent_r(&mut 0 => *mut c_int), endnetent;
    hosts: HOST, sethostent(0 => c_int), gethostent, gethostent_r(&mut 0 => *mut c_int), endhostent;
    programs: PROGRAM, setrpcent(0 => c_int), getrpcent, getrpcent_r(), endrpcent;
    mail_aliases: MAIL_ALIAS, setaliasent(), getaliasent, getaliasent_r(), endaliasent;
}

static FILE_SYSTEMS: Source = Source {
    layout: records::FILE_SYSTEM,
    // SAFETY: no arguments, as in the others below.
    rewind: || unsafe { setfsent() },
    // SAFETY: as above.
    next: |_| unsafe { getfsent() },
    // SAFETY: as above.
    close: || unsafe { endfsent() },
};
static TERMINALS: Source = Source {
    layout: records::TERMINAL,
    // SAFETY: as above.
    rewind: || unsafe { setttyent() },
    // SAFETY: as above.
    next: |_| unsafe { getttyent() },
    close: || {
        // SAFETY: as above.
        unsafe { endttyent() };
    },
};
static SHELLS: Source = Source {
    layout: records::LINE,
    rewind: || {
        // SAFETY: as above.
        unsafe { setusershell() };
        1
    },
    next: |memory| {
        // SAFETY: as above.
        let line = unsafe { getusershell() };
        memory[0] = line.expose_provenance() as u64;
        if line.is_null() { ptr::null() } else { memory.as_ptr().cast() }
    },
    // SAFETY: as above.
    close: || unsafe { endusershell() },
};

unsafe extern "C" {
    fn setfsent() -> c_int;
    fn getfsent() -> *const u8;
    fn endfsent();
    fn setttyent() -> c_int;
    fn getttyent() -> *const u8;
    fn endttyent() -> c_int;
    fn setusershell();
    fn getusershell() -> *const c_char;
    fn endusershell();
}

/// Whether a row of the table has an argument.
fn is_given(argument: &[&str]) -> bool {
    !argument.is_empty()
}

/// `setgrent()`, `endgrent()` and the like.
extern "C" fn forget(listing: &Listing) {
    listing.forget();
}

/// `setservent(stay)` and the like. `stay` (keep the connection open) concerns only look-ups by name.
extern "C" fn forget_and_stay(_stay: c_int, listing: &Listing) {
    listing.forget();
}

/// `getgrent()` and the like.
extern "C" fn show(listing: &Listing) -> *mut u8 {
    listing.next(|_| true)
}

/// `getgrent_r(head, rest, length, found)` and the like.
///
/// # Safety
/// As getgrent_r(3).
unsafe extern "C" fn fill(
    head: *mut u8,
    rest: *mut u8,
    length: usize,
    found: *mut *mut u8,
    listing: &Listing,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let status = listing.copy(head, rest, length);
        found.write(if status == 0 { head } else { ptr::null_mut() });
        if status != 0 {
            set_errno(status);
        }
        status
    }
}

/// `gethostent_r(head, rest, length, found, error)`, `getnetent_r`.
///
/// # Safety
/// As gethostent_r(3).
unsafe extern "C" fn fill_of_host(
    head: *mut u8,
    rest: *mut u8,
    length: usize,
    found: *mut *mut u8,
    error: *mut c_int,
    listing: &Listing,
) -> c_int {
    // NETDB_INTERNAL and HOST_NOT_FOUND (<netdb.h>).
    let [internal, not_found] = [-1, 1];
    // SAFETY: the caller's promise.
    unsafe {
        let status = fill(head, rest, length, found, listing);
        if status != 0 {
            let number = if status == libc::ERANGE { internal } else { not_found };
            error.write(number);
            set_host_error(number);
        }
        status
    }
}

/// The first entry whose text at `offset` is `text`.
///
/// # Safety
/// `text` ends in NUL.
unsafe fn by_text(listing: &Listing, text: *const c_char, offset: usize) -> *mut u8 {
    // SAFETY: by contract.
    let text = unsafe { CStr::from_ptr(text) };
    listing.forget();
    listing.next(|entry| {
        // SAFETY: a structure with a pointer to a text, or null, at the offset.
        unsafe {
            let own = entry.add(offset).cast::<*const c_char>().read();
            !own.is_null() && CStr::from_ptr(own) == text
        }
    })
}

/// Whether the database is there, after the list was restarted.
fn open(listing: &Listing) -> c_int {
    listing.forget();
    listing.read().into()
}

answering! {
    fn of_file_systems, listing: &Listing;

    /// `setfsent()`.
    "setfsent" => extern "C" fn setfsent_in() -> c_int {
        open(listing)
    }

    /// `getfsent()`.
    "getfsent" => extern "C" fn getfsent_in() -> *mut u8 {
        show(listing)
    }

    /// `getfsspec(device)`. The device is the first part.
    "getfsspec" => extern "C" fn by_device(device: *const c_char) -> *mut u8 {
        by_text(listing, device, 0)
    }

    /// `getfsfile(folder)`. The folder is the second part.
    "getfsfile" => extern "C" fn by_folder(folder: *const c_char) -> *mut u8 {
        by_text(listing, folder, size_of::<usize>())
    }

    /// `endfsent()`.
    "endfsent" => extern "C" fn endfsent_in() {
        listing.forget();
    }
}

answering! {
    fn of_terminals, listing: &Listing;

    /// `setttyent()`.
    "setttyent" => extern "C" fn setttyent_in() -> c_int {
        open(listing)
    }

    /// `getttyent()`.
    "getttyent" => extern "C" fn getttyent_in() -> *mut u8 {
        show(listing)
    }

    /// `getttynam(name)`, after which the list restarts (misc/getttyent.c). The name is the first part.
    "getttynam" => extern "C" fn by_terminal(name: *const c_char) -> *mut u8 {
        let found = by_text(listing, name, 0);
        listing.forget();
        found
    }

    /// `endttyent()`.
    "endttyent" => extern "C" fn endttyent_in() -> c_int {
        listing.forget();
        1
    }
}

answering! {
    fn of_shells, listing: &Listing;

    /// `setusershell()`, `endusershell()`.
    "setusershell", "endusershell" => extern "C" fn restart_shells() {
        listing.forget();
    }

    /// `getusershell()`. The structure is one pointer.
    "getusershell" => extern "C" fn show_line() -> *mut c_char {
        let line = listing.next(|_| true);
        if line.is_null() { ptr::null_mut() } else { *line.cast() }
    }
}
