//! Entries of the system's databases by name or number, and the memory that holds the last one.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::{FILE, gid_t, uid_t};

use super::Answer;
use crate::sys::errno::{errno, set_errno};
use crate::sys::lock::{Mutex, Rank};

/// Memory for answers of one function, the one that waits longest first.
///
/// A program with one thread has one, as in glibc. Threads that ask at once have one each. Memory that the program may
/// still read is never freed.
#[derive(Debug)]
struct Slot(Mutex<VecDeque<Box<AnswerBuffer>>>);

/// The memory that the re-entrant functions fill.
#[derive(Debug)]
struct AnswerBuffer {
    /// The structure. `struct spwd` is the largest.
    head: [u64; 10],
    /// The data that it points to.
    rest: Vec<u64>,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot(Mutex::new(Rank::Answers, VecDeque::new()))
    }
}

/// Words of memory at first, as in glibc (nss/getXXbyYY.c).
const BEGIN: usize = 1024 / size_of::<u64>();

impl Slot {
    /// The structure that `ask` finds, or null. `ask` gets a structure and a buffer, which grows while `ask` has ERANGE.
    fn answer(
        &self,
        mut ask: impl FnMut(*mut u8, *mut c_char, usize) -> (c_int, *mut c_void),
    ) -> *mut c_void {
        let waiting = self.0.lock().pop_front();
        let mut memory = waiting
            .unwrap_or_else(|| Box::new(AnswerBuffer { head: [0; 10], rest: vec![0; BEGIN] }));
        let found = loop {
            let rest = &mut memory.rest;
            let length = size_of_val(&rest[..]);
            match ask(memory.head.as_mut_ptr().cast(), rest.as_mut_ptr().cast(), length) {
                (libc::ERANGE, _) => *rest = vec![0; 2 * rest.len()],
                (_, found) => break found,
            }
        };
        let error = errno();
        self.0.lock().push_back(memory);
        set_errno(error);
        found
    }
}

/// Functions that look something up by a re-entrant function of the same arguments.
macro_rules! lookups {
    (
        $(fn $name:ident($($argument:ident: $type:ty),*) by $re_entrant:ident;)*
        hosts: $(fn $host:ident($($of_host:ident: $host_type:ty),*) by $host_re_entrant:ident;)*
        streams: $(fn $stream:ident by $stream_re_entrant:ident;)*
    ) => {
        /// The memory of each function.
        #[derive(Debug, Default)]
        pub(super) struct Lookups {
            $($name: Slot,)* $($host: Slot,)* $($stream: Slot,)*
        }

        mod theirs {
            use super::*;

            unsafe extern "C" {
                $(pub fn $re_entrant(
                    $($argument: $type,)* head: *mut u8, rest: *mut c_char, length: usize, found: *mut *mut c_void,
                ) -> c_int;)*
                $(pub fn $host_re_entrant(
                    $($of_host: $host_type,)* head: *mut u8, rest: *mut c_char, length: usize, found: *mut *mut c_void,
                    error: *mut c_int,
                ) -> c_int;)*
                $(pub fn $stream_re_entrant(
                    stream: *mut FILE, head: *mut u8, rest: *mut c_char, length: usize, found: *mut *mut c_void,
                ) -> c_int;)*
            }
        }

        mod own {
            use super::*;

            $(
                /// The C library's function of that name.
                ///
                /// # Safety
                /// As for that function.
                pub unsafe extern "C" fn $name($($argument: $type,)* slot: &Slot) -> *mut c_void {
                    slot.answer(|head, rest, length| {
                        let mut found = ptr::null_mut();
                        // SAFETY: the caller's promise; the memory is of that size.
                        let status = unsafe { theirs::$re_entrant($($argument,)* head, rest, length, &mut found) };
                        (status, found)
                    })
                }
            )*
            $(
                /// The C library's function of that name.
                ///
                /// # Safety
                /// As for that function.
                pub unsafe extern "C" fn $host($($of_host: $host_type,)* slot: &Slot) -> *mut c_void {
                    let mut error = 0;
                    let found = slot.answer(|head, rest, length| {
                        let mut found = ptr::null_mut();
                        // SAFETY: the caller's promise; the memory is of that size.
                        let status = unsafe {
                            theirs::$host_re_entrant($($of_host,)* head, rest, length, &mut found, &mut error)
                        };
                        // ERANGE means too little memory only together with this (gethostbyname_r(3)).
                        (if error == NETDB_INTERNAL { status } else { 0 }, found)
                    });
                    if error != 0 {
                        set_host_error(error);
                    }
                    found
                }
            )*
            $(
                /// The C library's function of that name.
                ///
                /// # Safety
                /// As for that function.
                pub unsafe extern "C" fn $stream(stream: *mut FILE, slot: &Slot) -> *mut c_void {
                    // SAFETY: the caller's promise.
                    unsafe { read(stream, theirs::$stream_re_entrant, slot) }
                }
            )*
        }

        impl Lookups {
            pub(super) fn answers(&self, all: &mut Vec<Answer>) {
                $(all.push(Answer::behind(
                    stringify!($name), own::$name as *const c_void, [$(stringify!($argument)),*].len(), &self.$name,
                ));)*
                $(all.push(Answer::behind(
                    stringify!($host), own::$host as *const c_void, [$(stringify!($of_host)),*].len(), &self.$host,
                ));)*
                $(all.push(Answer::behind(
                    stringify!($stream), own::$stream as *const c_void, 1, &self.$stream,
                ));)*
            }
        }
    };
}

lookups! {
    fn getgrnam(name: *const c_char) by getgrnam_r;
    fn getgrgid(number: gid_t) by getgrgid_r;
    fn getpwnam(name: *const c_char) by getpwnam_r;
    fn getpwuid(number: uid_t) by getpwuid_r;
    fn getspnam(name: *const c_char) by getspnam_r;
    fn sgetspent(line: *const c_char) by sgetspent_r;
    fn getsgnam(name: *const c_char) by getsgnam_r;
    fn sgetsgent(line: *const c_char) by sgetsgent_r;
    fn getservbyname(name: *const c_char, protocol: *const c_char) by getservbyname_r;
    fn getservbyport(port: c_int, protocol: *const c_char) by getservbyport_r;
    fn getprotobyname(name: *const c_char) by getprotobyname_r;
    fn getprotobynumber(number: c_int) by getprotobynumber_r;
    fn getrpcbyname(name: *const c_char) by getrpcbyname_r;
    fn getrpcbynumber(number: c_int) by getrpcbynumber_r;
    fn getaliasbyname(name: *const c_char) by getaliasbyname_r;
    hosts:
    fn gethostbyname(name: *const c_char) by gethostbyname_r;
    fn gethostbyname2(name: *const c_char, family: c_int) by gethostbyname2_r;
    fn gethostbyaddr(address: *const c_void, size: u32, family: c_int) by gethostbyaddr_r;
    fn getnetbyname(name: *const c_char) by getnetbyname_r;
    fn getnetbyaddr(number: u32, family: c_int) by getnetbyaddr_r;
    streams:
    fn fgetgrent by fgetgrent_r;
    fn fgetpwent by fgetpwent_r;
    fn fgetspent by fgetspent_r;
    fn fgetsgent by fgetsgent_r;
}

/// <netdb.h>.
const NETDB_INTERNAL: c_int = -1;

/// Sets the calling thread's `h_errno`.
pub(super) fn set_host_error(error: c_int) {
    unsafe extern "C" {
        fn __h_errno_location() -> *mut c_int;
    }
    // SAFETY: the address of the thread's own variable.
    unsafe { *__h_errno_location() = error };
}

/// Reads the next entry of a stream.
///
/// # Safety
/// As fgetgrent(3), of which kind `next` is.
unsafe fn read(
    stream: *mut FILE,
    next: unsafe extern "C" fn(*mut FILE, *mut u8, *mut c_char, usize, *mut *mut c_void) -> c_int,
    slot: &Slot,
) -> *mut c_void {
    // SAFETY: numbers, for which zero is a value.
    let mut begin = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's promise.
    let may_return = unsafe { libc::fgetpos(stream, &mut begin) } == 0;
    slot.answer(|head, rest, length| {
        let mut found = ptr::null_mut();
        // SAFETY: the caller's promise; the memory is of that size. A line that does not fit is read again.
        let status = unsafe {
            let status = next(stream, head, rest, length, &mut found);
            if status == libc::ERANGE && !(may_return && libc::fsetpos(stream, &begin) == 0) {
                return (libc::EIO, ptr::null_mut());
            }
            status
        };
        (status, found)
    })
}
