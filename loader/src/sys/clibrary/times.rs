//! Times in parts and as texts: the structure and the text that hold the last answer, and the time zone.
//!
//! glibc has one time zone, that of the process's `TZ`, under a lock (time/tzset.c, `tzset_lock`). A fork waits until no thread
//! holds it: in the child of one program it would stay locked by a thread of another. A domain for which `TZ` has another value has a
//! zone of its own ([`Zone`]).

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::io::Write;
use std::ptr;

use libc::{locale_t, time_t, tm, wchar_t};

use super::clock::Clock;
use super::locked::under_lock;
use super::zone::Zone;
use super::{Answer, Own, failed};
use crate::sys::answering::answering;
use crate::sys::environ::ZoneVariable;
use crate::sys::errno::set_errno;
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
    clock: Clock,
}

impl Times {
    pub(super) fn new(variable: ZoneVariable) -> Times {
        // SAFETY: numbers and a pointer, for which zero is a value.
        let none = || Own::new(unsafe { std::mem::zeroed::<tm>() });
        let (parts, text) = (none(), Own::new([0; TEXT]));
        let clock = Clock::new(variable);
        Times { parts, text, date: none(), date_error: Own::new(0), clock }
    }
}

impl Clock {
    /// Calls the C library's function, if its zone is the domain's; or the domain's zone, if that is another one or has become so meanwhile.
    fn theirs<T>(&self, follows: bool, call: impl FnOnce() -> T) -> Result<T, &'static Zone> {
        if let Some(zone) = self.zone(follows) {
            return Err(zone);
        }
        let result = lock::undisturbed(call);
        match self.zone(follows) {
            Some(zone) => Err(zone),
            None => {
                self.shown.show(None);
                Ok(result)
            }
        }
    }

    /// `tzset`.
    fn set(&self) {
        // SAFETY: no precondition.
        if let Err(zone) = self.theirs(true, || unsafe { zoned::tzset() }) {
            self.shown.show(Some(zone));
        }
    }

    /// `localtime_r`, or with `follows` the function that looks whether `TZ` has changed (time/tzset.c, `__tz_convert`).
    ///
    /// # Safety
    /// As for that function.
    unsafe fn local(&self, follows: bool, time: *const time_t, parts: *mut tm) -> *mut tm {
        // SAFETY: the caller's promise.
        let theirs = || unsafe {
            if follows {
                zoned::tzset();
            }
            zoned::localtime_r(time, parts)
        };
        match self.theirs(follows, theirs) {
            Ok(answer) => answer,
            // SAFETY: the caller's promise.
            Err(zone) => unsafe { self.local_in(zone, *time, parts) },
        }
    }

    /// The same in a zone of the domain's.
    ///
    /// # Safety
    /// There is room for the parts.
    unsafe fn local_in(&self, zone: &'static Zone, time: time_t, parts: *mut tm) -> *mut tm {
        let local = zone.at(time);
        let Some(shifted) = time.checked_add(local.offset) else { return failed(libc::EOVERFLOW) };
        // SAFETY: the caller's promise.
        unsafe {
            if undisturbed::gmtime_r(&shifted, parts).is_null() {
                return ptr::null_mut();
            }
            (*parts).tm_isdst = local.is_dst.into();
            (*parts).tm_gmtoff = local.offset;
            (*parts).tm_zone = local.name.as_ptr();
        }
        self.shown.show(Some(zone));
        parts
    }

    /// `mktime` in a zone of the domain's.
    ///
    /// # Safety
    /// As for that function.
    unsafe fn moment(&self, zone: &'static Zone, parts: *mut tm) -> time_t {
        // SAFETY: the caller's promise.
        unsafe {
            let mut fields = *parts;
            // It returns -1 for a second, too.
            fields.tm_wday = -1;
            let utc = undisturbed::timegm(&mut fields);
            if fields.tm_wday == -1 {
                return -1;
            }
            let is_dst = ((*parts).tm_isdst >= 0).then_some((*parts).tm_isdst > 0);
            let time = zone.moment(utc, is_dst);
            let mut local = fields;
            if self.local_in(zone, time, &mut local).is_null() {
                set_errno(libc::EOVERFLOW);
                return -1;
            }
            *parts = local;
            time
        }
    }

    /// The format with the digits of the time in place of `%s`, which the C library would take from its own zone; none if it has no `%s`.
    ///
    /// # Safety
    /// The format ends with a zero, and the time is one in parts.
    unsafe fn with_seconds<C: Copy + PartialEq>(
        &self,
        (format, letter): (*const C, fn(u8) -> C),
        parts: *const tm,
    ) -> Option<Vec<C>> {
        let (mut new, mut has_seconds) = (Vec::new(), false);
        let mut at = format;
        // SAFETY: the caller's promise; nothing behind the zero is read.
        unsafe {
            // Few formats have the letter at all.
            while *at != letter(b's') {
                if *at == letter(0) {
                    return None;
                }
                at = at.add(1);
            }
            at = format;
            while *at != letter(0) {
                let begin = at;
                at = at.add(1);
                if *begin == letter(b'%') {
                    // Flags, a width and modifiers (glibc's manual, "Formatting Calendar Time").
                    while b"_-0^#+123456789EO".iter().any(|one| *at == letter(*one)) {
                        at = at.add(1);
                    }
                    if *at == letter(b's')
                        && let Some(zone) = self.zone(true)
                    {
                        let time = self.moment(zone, &mut { *parts });
                        new.extend(time.to_string().bytes().map(letter));
                        (at, has_seconds) = (at.add(1), true);
                        continue;
                    }
                    if *at != letter(0) {
                        at = at.add(1);
                    }
                }
                new.extend((0..at.offset_from(begin)).map(|index| *begin.offset(index)));
            }
        }
        new.push(letter(0));
        has_seconds.then_some(new)
    }
}

// Functions that use the C library's time zone, or its lock.
under_lock! {
    undisturbed, lock::undisturbed:
    fn gmtime_r(time: *const time_t, parts: *mut tm) -> *mut tm;
    fn timegm(parts: *mut tm) -> time_t;
    fn strptime(text: *const c_char, format: *const c_char, parts: *mut tm) -> *mut c_char;
    fn getdate_r(text: *const c_char, date: *mut tm) -> c_int;
}

/// Functions of the C library that a domain with a zone of its own has its own of.
mod zoned {
    use super::*;

    unsafe extern "C" {
        pub fn tzset();
        pub fn localtime_r(time: *const time_t, parts: *mut tm) -> *mut tm;
        pub fn asctime_r(parts: *const tm, text: *mut c_char) -> *mut c_char;
        pub fn mktime(parts: *mut tm) -> time_t;
        pub fn strftime(
            to: *mut c_char,
            size: usize,
            format: *const c_char,
            parts: *const tm,
        ) -> usize;
        pub fn strftime_l(
            to: *mut c_char,
            size: usize,
            format: *const c_char,
            parts: *const tm,
            locale: locale_t,
        ) -> usize;
        pub fn wcsftime(
            to: *mut wchar_t,
            size: usize,
            format: *const wchar_t,
            parts: *const tm,
        ) -> usize;
        pub fn wcsftime_l(
            to: *mut wchar_t,
            size: usize,
            format: *const wchar_t,
            parts: *const tm,
            locale: locale_t,
        ) -> usize;
    }
}

impl Times {
    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let parts = self.parts.place().cast_const();
        all.push(Answer::behind("gmtime", undisturbed::gmtime_r as *const c_void, 1, parts));
        all.extend(Answer::functions(with_times(), &raw const *self));
        all.push(Answer::variable("getdate_err", &self.date_error));
        let variables = self.clock.shown.places();
        all.extend(variables.map(|(name, place)| Answer::place(name, place)));
        undisturbed::answers(all);
    }
}

/// Calls the C library's function, with a format in which the time stands for `%s` where the domain has a zone of its own.
macro_rules! formatted {
    ($own:ident, $format:ident, $parts:ident, $call:expr) => {{
        let format = ($format, (|byte| byte as _) as fn(u8) -> _);
        let changed = $own.clock.with_seconds(format, $parts);
        let $format = changed.as_ref().map_or($format, |changed| changed.as_ptr());
        lock::undisturbed(|| $call)
    }};
}

answering! {
    fn with_times, own: &Times;

    /// `tzset()`.
    "tzset" => extern "C" fn tzset() {
        own.clock.set();
    }

    /// `localtime(time)`.
    "localtime" => extern "C" fn localtime(time: *const time_t) -> *mut tm {
        own.clock.local(true, time, own.parts.place())
    }

    /// `localtime_r(time, parts)`.
    "localtime_r" => extern "C" fn localtime_r(time: *const time_t, parts: *mut tm) -> *mut tm {
        own.clock.local(false, time, parts)
    }

    /// `ctime(time)`.
    "ctime" => extern "C" fn ctime(time: *const time_t) -> *mut c_char {
        asctime(localtime(time, own), own)
    }

    /// `ctime_r(time, text)`.
    "ctime_r" => extern "C" fn ctime_r(time: *const time_t, text: *mut c_char) -> *mut c_char {
        let mut parts = std::mem::zeroed();
        let parts = localtime_r(time, &mut parts, own);
        if parts.is_null() { ptr::null_mut() } else { zoned::asctime_r(parts, text) }
    }

    /// `mktime(parts)`.
    "mktime", "timelocal" => extern "C" fn mktime(parts: *mut tm) -> time_t {
        let mut theirs = *parts;
        match own.clock.theirs(true, || zoned::mktime(&mut theirs)) {
            Ok(time) => {
                *parts = theirs;
                time
            }
            Err(zone) => own.clock.moment(zone, parts),
        }
    }

    /// `strftime(to, size, format, parts)`.
    "strftime" => extern "C" fn strftime(
        to: *mut c_char, size: usize, format: *const c_char, parts: *const tm,
    ) -> usize {
        formatted!(own, format, parts, zoned::strftime(to, size, format, parts))
    }

    /// `strftime_l(to, size, format, parts, locale)`.
    "strftime_l" => extern "C" fn strftime_l(
        to: *mut c_char, size: usize, format: *const c_char, parts: *const tm, locale: locale_t,
    ) -> usize {
        formatted!(own, format, parts, zoned::strftime_l(to, size, format, parts, locale))
    }

    /// `wcsftime(to, size, format, parts)`.
    "wcsftime" => extern "C" fn wcsftime(
        to: *mut wchar_t, size: usize, format: *const wchar_t, parts: *const tm,
    ) -> usize {
        formatted!(own, format, parts, zoned::wcsftime(to, size, format, parts))
    }

    /// `wcsftime_l(to, size, format, parts, locale)`.
    "wcsftime_l" => extern "C" fn wcsftime_l(
        to: *mut wchar_t, size: usize, format: *const wchar_t, parts: *const tm, locale: locale_t,
    ) -> usize {
        formatted!(own, format, parts, zoned::wcsftime_l(to, size, format, parts, locale))
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
