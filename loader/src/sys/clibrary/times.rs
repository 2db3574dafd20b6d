//! Times in parts and as texts: the structure and the text that hold the last answer.
//!
//! The time zone is the process's, and glibc guards it by a lock (time/tzset.c, `tzset_lock`). A fork waits until no thread
//! holds it: in the child of one program it would stay locked by a thread of another.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::io::Write;
use std::ptr;

use libc::{locale_t, time_t, tm, wchar_t};

use super::locked::under_lock;
use super::{Answer, Own, failed};
use crate::sys::answering::answering;
use crate::sys::lock;

/// Bytes of a text with the largest year (time/asctime.c).
const TEXT: usize = 128;

#[derive(Debug)]
pub(super) struct Times {
    parts: Own<tm>,
    text: Own<[u8; TEXT]>,
    /// The date that `getdate` parsed last, and its error number.
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

// Functions that use the time zone.
under_lock! {
    undisturbed, lock::undisturbed:
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
        let parts = self.parts.place().cast_const();
        all.push(Answer::behind("gmtime", undisturbed::gmtime_r as *const c_void, 1, parts));
        all.extend(Answer::functions(with_times(), &raw const *self));
        all.push(Answer::variable("getdate_err", &self.date_error));
        undisturbed::answers(all);
    }
}

answering! {
    fn with_times, own: &Times;

    /// `localtime(time)`.
    "localtime" => extern "C" fn localtime(time: *const time_t) -> *mut tm {
        // The re-entrant form does not look whether TZ has changed (time/tzset.c, __tz_convert).
        lock::undisturbed(|| {
            undisturbed::theirs::tzset();
            undisturbed::theirs::localtime_r(time, own.parts.place())
        })
    }

    /// `ctime(time)`.
    "ctime" => extern "C" fn ctime(time: *const time_t) -> *mut c_char {
        asctime(localtime(time, own), own)
    }

    /// `asctime(parts)`. The re-entrant form has room for years of four digits only (time/asctime.c).
    "asctime" => extern "C" fn asctime(parts: *const tm) -> *mut c_char {
        let Some(parts) = parts.as_ref() else { return failed(libc::EINVAL) };
        let Some(year) = parts.tm_year.checked_add(1900) else { return failed(libc::EOVERFLOW) };
        // The domain's text, of which one thread of a program makes use at a time.
        let text = own.text.place();
        let mut rest = (&mut *text).as_mut_slice();
        let day = of("SunMonTueWedThuFriSat", parts.tm_wday);
        let month = of("JanFebMarAprMayJunJulAugSepOctNovDec", parts.tm_mon);
        let [hour, minute, second] = [parts.tm_hour, parts.tm_min, parts.tm_sec].map(TwoDigits);
        let date = parts.tm_mday;
        let written = write!(rest, "{day} {month}{date:3} {hour}:{minute}:{second} {year}\n\0");
        debug_assert!(written.is_ok(), "six numbers have less than {TEXT} digits");
        text.cast()
    }

    /// `getdate(text)`.
    "getdate" => extern "C" fn getdate(text: *const c_char) -> *mut tm {
        let date = own.date.place();
        match undisturbed::getdate_r(text, date) {
            0 => date,
            error => {
                own.date_error.place().write(error);
                ptr::null_mut()
            }
        }
    }
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
