//! The databases that programs go through, and the functions for it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Answer;
use super::listings::{Found, Listing, Source, filled};
use super::lookups::set_host_error;
use super::network_groups;
use super::records;
use crate::sys::environ::set_errno;

/// A database with a function that fills a structure and a buffer, and one of host names, whose function has an error's
/// number behind them.
macro_rules! source {
    ($layout:ident, $set:ident($($argument:expr)?), $next:ident($($error:expr)?), $end:ident) => {
        Source {
            layout: records::$layout,
            rewind: || {
                // SAFETY: a function of that signature.
                unsafe { $set($($argument)?) };
                1
            },
            next: |memory| {
                filled(&records::$layout, memory, |head, rest, length, found| {
                    // SAFETY: the memory is of that size.
                    unsafe { $next(head, rest, length, found $(, $error)?) }
                })
            },
            close: || {
                // SAFETY: no arguments.
                unsafe { $end() }
            },
        }
    };
}

static GROUPS: Source = source!(GROUP, setgrent(), getgrent_r(), endgrent);
static USERS: Source = source!(USER, setpwent(), getpwent_r(), endpwent);
static SHADOWS: Source = source!(SHADOW, setspent(), getspent_r(), endspent);
static SHADOW_GROUPS: Source = source!(SHADOW_GROUP, setsgent(), getsgent_r(), endsgent);
static SERVICES: Source = source!(SERVICE, setservent(0), getservent_r(), endservent);
static PROTOCOLS: Source = source!(PROTOCOL, setprotoent(0), getprotoent_r(), endprotoent);
static NETWORKS: Source = source!(NETWORK, setnetent(0), getnetent_r(&mut 0), endnetent);
static HOSTS: Source = source!(HOST, sethostent(0), gethostent_r(&mut 0), endhostent);
static PROGRAMS: Source = source!(PROGRAM, setrpcent(0), getrpcent_r(), endrpcent);
static MAIL_ALIASES: Source = source!(MAIL_ALIAS, setaliasent(), getaliasent_r(), endaliasent);
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
    fn setgrent();
    fn getgrent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endgrent();
    fn setpwent();
    fn getpwent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endpwent();
    fn setspent();
    fn getspent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endspent();
    fn setsgent();
    fn getsgent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endsgent();
    fn setservent(stay: c_int);
    fn getservent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endservent();
    fn setprotoent(stay: c_int);
    fn getprotoent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endprotoent();
    fn setnetent(stay: c_int);
    fn getnetent_r(
        head: *mut u8,
        rest: *mut c_char,
        length: usize,
        found: Found,
        error: *mut c_int,
    ) -> c_int;
    fn endnetent();
    fn sethostent(stay: c_int);
    fn gethostent_r(
        head: *mut u8,
        rest: *mut c_char,
        length: usize,
        found: Found,
        error: *mut c_int,
    ) -> c_int;
    fn endhostent();
    fn setrpcent(stay: c_int);
    fn getrpcent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endrpcent();
    fn setaliasent();
    fn getaliasent_r(head: *mut u8, rest: *mut c_char, length: usize, found: Found) -> c_int;
    fn endaliasent();
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

/// The positions of a domain.
#[derive(Debug)]
pub(super) struct Databases {
    groups: Listing,
    users: Listing,
    shadows: Listing,
    shadow_groups: Listing,
    services: Listing,
    protocols: Listing,
    networks: Listing,
    hosts: Listing,
    programs: Listing,
    mail_aliases: Listing,
    file_systems: Listing,
    terminals: Listing,
    shells: Listing,
    network_group: network_groups::NetworkGroup,
}

impl Databases {
    pub(super) fn new() -> Databases {
        Databases {
            groups: Listing::of(&GROUPS),
            users: Listing::of(&USERS),
            shadows: Listing::of(&SHADOWS),
            shadow_groups: Listing::of(&SHADOW_GROUPS),
            services: Listing::of(&SERVICES),
            protocols: Listing::of(&PROTOCOLS),
            networks: Listing::of(&NETWORKS),
            hosts: Listing::of(&HOSTS),
            programs: Listing::of(&PROGRAMS),
            mail_aliases: Listing::of(&MAIL_ALIASES),
            file_systems: Listing::of(&FILE_SYSTEMS),
            terminals: Listing::of(&TERMINALS),
            shells: Listing::of(&SHELLS),
            network_group: network_groups::NetworkGroup::new(),
        }
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let forget = |arguments| match arguments {
            0 => forget as *const c_void,
            _ => forget_and_stay as *const c_void,
        };
        for (listing, set, arguments, next, copy, end) in [
            (&self.groups, "setgrent", 0, "getgrent", "getgrent_r", "endgrent"),
            (&self.users, "setpwent", 0, "getpwent", "getpwent_r", "endpwent"),
            (&self.shadows, "setspent", 0, "getspent", "getspent_r", "endspent"),
            (&self.shadow_groups, "setsgent", 0, "getsgent", "getsgent_r", "endsgent"),
            (&self.services, "setservent", 1, "getservent", "getservent_r", "endservent"),
            (&self.protocols, "setprotoent", 1, "getprotoent", "getprotoent_r", "endprotoent"),
            (&self.networks, "setnetent", 1, "getnetent", "getnetent_r", "endnetent"),
            (&self.hosts, "sethostent", 1, "gethostent", "gethostent_r", "endhostent"),
            (&self.programs, "setrpcent", 1, "getrpcent", "getrpcent_r", "endrpcent"),
            (&self.mail_aliases, "setaliasent", 0, "getaliasent", "getaliasent_r", "endaliasent"),
        ] {
            all.push(Answer::behind(set, forget(arguments), arguments, listing));
            all.push(Answer::behind(next, show as *const c_void, 0, listing));
            let of_hosts = ["gethostent_r", "getnetent_r"].contains(&copy);
            all.push(match of_hosts {
                true => Answer::behind(copy, fill_of_host as *const c_void, 5, listing),
                false => Answer::behind(copy, fill as *const c_void, 4, listing),
            });
            all.push(Answer::behind(end, forget(0), 0, listing));
        }
        for (listing, name, target, arguments) in [
            (&self.file_systems, "setfsent", open as *const c_void, 0),
            (&self.file_systems, "getfsent", show as *const c_void, 0),
            (&self.file_systems, "getfsspec", by_device as *const c_void, 1),
            (&self.file_systems, "getfsfile", by_folder as *const c_void, 1),
            (&self.file_systems, "endfsent", forget(0), 0),
            (&self.terminals, "setttyent", open as *const c_void, 0),
            (&self.terminals, "getttyent", show as *const c_void, 0),
            (&self.terminals, "getttynam", by_terminal as *const c_void, 1),
            (&self.terminals, "endttyent", close as *const c_void, 0),
            (&self.shells, "setusershell", forget(0), 0),
            (&self.shells, "getusershell", show_line as *const c_void, 0),
            (&self.shells, "endusershell", forget(0), 0),
        ] {
            all.push(Answer::behind(name, target, arguments, listing));
        }
        self.network_group.answers(all);
    }
}

/// `setgrent()`, `endgrent()` and the like.
extern "C" fn forget(listing: &Listing) {
    listing.forget();
}

/// `setservent(stay)` and the like. Whether a connection stays open is for the looks-up by name.
extern "C" fn forget_and_stay(_stay: c_int, listing: &Listing) {
    listing.forget();
}

/// `endttyent()`.
extern "C" fn close(listing: &Listing) -> c_int {
    listing.forget();
    1
}

/// `setfsent()`, `setttyent()`.
extern "C" fn open(listing: &Listing) -> c_int {
    listing.forget();
    listing.read().into()
}

/// `getgrent()` and the like.
extern "C" fn show(listing: &Listing) -> *mut u8 {
    listing.next(|_| true)
}

/// `getusershell()`.
extern "C" fn show_line(listing: &Listing) -> *mut c_char {
    let line = listing.next(|_| true);
    // SAFETY: a structure with one pointer.
    if line.is_null() { ptr::null_mut() } else { unsafe { *line.cast() } }
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

/// `getfsspec(device)`.
///
/// # Safety
/// As getfsspec(3).
unsafe extern "C" fn by_device(device: *const c_char, listing: &Listing) -> *mut u8 {
    // SAFETY: the caller's promise; the device is the first part.
    unsafe { by_text(listing, device, 0) }
}

/// `getfsfile(folder)`.
///
/// # Safety
/// As getfsfile(3).
unsafe extern "C" fn by_folder(folder: *const c_char, listing: &Listing) -> *mut u8 {
    // SAFETY: the caller's promise; the folder is the second part.
    unsafe { by_text(listing, folder, size_of::<usize>()) }
}

/// `getttynam(name)`, after which the list begins anew (misc/getttyent.c).
///
/// # Safety
/// As getttynam(3).
unsafe extern "C" fn by_terminal(name: *const c_char, listing: &Listing) -> *mut u8 {
    // SAFETY: the caller's promise; the name is the first part.
    let found = unsafe { by_text(listing, name, 0) };
    listing.forget();
    found
}
