//! Times in parts and as texts: the structure and the text that the last answer is in.
//!
//! The time zone is the process's, and glibc has a lock for it (time/tzset.c, `tzset_lock`). A fork waits until no thread has
//! it: in the child of one program it would stay locked by a thread of another.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::io::Write;
use std::ptr;

use libc::{locale_t, time_t, tm, wchar_t};

use super::{Answer, Context, Own, failed};
use crate::sys::lock;

/// Bytes of a text with the largest year (time/asctime.c).
const TEXT: usize = 128;

#[derive(Debug)]
pub(super) struct Times {
    parts: Own<tm>,
    text: Own<[u8; TEXT]>,
    /// What `getdate` has understood, and why it has not.
    date: Own<tm>,
    date_error: Own<c_int>,
}

impl Default for Times {
    fn default() -> Times {
        // SAFETY: numbers and a pointer, for which zero is a value.
        let none = || Own::new(unsafe { std::mem::zeroed::<tm>() });
        Times { parts: none(), text: Own::new([0; TEXT]), date: none(), date_error: Own::new(0) }
    }
}

/// Functions that use the time zone.
macro_rules! undisturbed {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod theirs {
            use super::*;

            unsafe extern "C" {
                $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
            }
        }

        mod undisturbed {
            use super::*;

            $(
                /// The C library's function of that name, during which no thread forks.
                ///
                /// # Safety
                /// As for that function.
                pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                    // SAFETY: the caller's promise.
                    lock::undisturbed(|| unsafe { theirs::$name($($argument),*) })
                }
            )*

            pub fn answers(all: &mut Vec<Answer>) {
                for (name, target) in [$((stringify!($name), $name as *const c_void)),*] {
                    all.push(Answer { name, target, context: Context::None });
                }
            }
        }
    };
}

undisturbed! {
    fn tzset();
    fn gmtime_r(time: *const time_t, parts: *mut tm) -> *mut tm;
    fn localtime_r(time: *const time_t, parts: *mut tm) -> *mut tm;
    fn ctime_r(time: *const time_t, text: *mut c_char) -> *mut c_char;
    fn mktime(parts: *mut tm) -> time_t;
    fn timelocal(parts: *mut tm) -> time_t;
    fn timegm(parts: *mut tm) -> time_t;
    fn strptime(text: *const c_char, format: *const c_char, parts: *mut tm) -> *mut c_char;
    fn strftime(to: *mut c_char, size: usize, format: *const c_char, parts: *const tm) -> usize;
    fn strftime_l(to: *mut c_char, size: usize, format: *const c_char, parts: *const tm, locale: locale_t) -> usize;
    fn wcsftime(to: *mut wchar_t, size: usize, format: *const wchar_t, parts: *const tm) -> usize;
    fn wcsftime_l(to: *mut wchar_t, size: usize, format: *const wchar_t, parts: *const tm, locale: locale_t) -> usize;
    fn getdate_r(text: *const c_char, date: *mut tm) -> c_int;
}

impl Times {
    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let own = &raw const *self;
        let parts = self.parts.place().cast_const();
        all.push(Answer::behind("gmtime", undisturbed::gmtime_r as *const c_void, 1, parts));
        all.push(Answer::behind("localtime", localtime as *const c_void, 1, parts));
        all.push(Answer::behind("asctime", asctime as *const c_void, 1, own));
        all.push(Answer::behind("ctime", ctime as *const c_void, 1, own));
        all.push(Answer::behind("getdate", getdate as *const c_void, 1, own));
        all.push(Answer::variable("getdate_err", &self.date_error));
        undisturbed::answers(all);
    }
}

/// `localtime(time)`.
///
/// # Safety
/// As localtime(3). Called through its thunk.
unsafe extern "C" fn localtime(time: *const time_t, parts: *mut tm) -> *mut tm {
    // SAFETY: the caller's promise, and the thunk's state. The re-entrant form does not look whether TZ has changed
    // (time/tzset.c, __tz_convert).
    lock::undisturbed(|| unsafe {
        theirs::tzset();
        theirs::localtime_r(time, parts)
    })
}

/// `ctime(time)`.
///
/// # Safety
/// As ctime(3). Called through its thunk.
unsafe extern "C" fn ctime(time: *const time_t, own: &Times) -> *mut c_char {
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe { asctime(localtime(time, own.parts.place()), own) }
}

/// `asctime(parts)`. The re-entrant form has room for years of four digits only (time/asctime.c).
///
/// # Safety
/// As asctime(3). Called through its thunk.
unsafe extern "C" fn asctime(parts: *const tm, own: &Times) -> *mut c_char {
    // SAFETY: the caller's promise.
    let Some(parts) = (unsafe { parts.as_ref() }) else { return failed(libc::EINVAL) };
    let Some(year) = parts.tm_year.checked_add(1900) else { return failed(libc::EOVERFLOW) };
    let text = own.text.place();
    // SAFETY: the domain's text, of which one thread of a program makes use at a time.
    let mut rest = unsafe { (&mut *text).as_mut_slice() };
    let day = of("SunMonTueWedThuFriSat", parts.tm_wday);
    let month = of("JanFebMarAprMayJunJulAugSepOctNovDec", parts.tm_mon);
    let [hour, minute, second] = [parts.tm_hour, parts.tm_min, parts.tm_sec].map(TwoDigits);
    let date = parts.tm_mday;
    let written = write!(rest, "{day} {month}{date:3} {hour}:{minute}:{second} {year}\n\0");
    debug_assert!(written.is_ok(), "six numbers have less than {TEXT} digits");
    text.cast()
}

/// The name of a day or month.
fn of(names: &'static str, number: c_int) -> &'static str {
    let first = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(3);
    names.get(first..first.saturating_add(3)).unwrap_or("???")
}

/// `%.2d`: two digits at least, and a sign before them.
struct TwoDigits(c_int);

impl fmt::Display for TwoDigits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(formatter, "{sign}{:02}", self.0.unsigned_abs())
    }
}

/// `getdate(text)`.
///
/// # Safety
/// As getdate(3). Called through its thunk.
unsafe extern "C" fn getdate(text: *const c_char, own: &Times) -> *mut tm {
    let date = own.date.place();
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe {
        match undisturbed::getdate_r(text, date) {
            0 => date,
            error => {
                own.date_error.place().write(error);
                ptr::null_mut()
            }
        }
    }
}
