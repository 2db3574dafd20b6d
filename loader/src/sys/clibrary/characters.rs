//! Conversions of characters: each function has a state for callers that bring none (mbrtowc(3), "anonymous state").

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use libc::wchar_t;

use super::{Answer, Own};
use crate::arch::gathering;

/// `mbstate_t` (glibc, bits/types/__mbstate_t.h).
type ConversionState = u64;

#[derive(Debug, Default)]
pub(super) struct Characters {
    mbtowc: Own<ConversionState>,
    wctomb: Own<ConversionState>,
    mbrlen: Own<ConversionState>,
    mbrtowc: Own<ConversionState>,
    mbrtoc16: Own<ConversionState>,
    c16rtomb: Own<ConversionState>,
    wcrtomb: Own<ConversionState>,
    mbsrtowcs: Own<ConversionState>,
    mbsnrtowcs: Own<ConversionState>,
    wcsrtombs: Own<ConversionState>,
    wcsnrtombs: Own<ConversionState>,
}

impl Characters {
    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        for (name, target, arguments, state) in [
            ("mblen", mblen as *const c_void, 2, &self.mbtowc),
            ("mbtowc", mbtowc as *const c_void, 3, &self.mbtowc),
            ("wctomb", wctomb as *const c_void, 2, &self.wctomb),
            ("__wctomb_chk", wctomb_checked as *const c_void, 3, &self.wctomb),
            ("mbrlen", own::mbrlen as *const c_void, 3, &self.mbrlen),
            ("__mbrlen", own::mbrlen as *const c_void, 3, &self.mbrlen),
            ("mbrtowc", own::mbrtowc as *const c_void, 4, &self.mbrtowc),
            ("__mbrtowc", own::mbrtowc as *const c_void, 4, &self.mbrtowc),
            // glibc has one function under both names, and so one state (wcsmbs/mbrtowc.c).
            ("mbrtoc32", own::mbrtowc as *const c_void, 4, &self.mbrtowc),
            ("mbrtoc16", own::mbrtoc16 as *const c_void, 4, &self.mbrtoc16),
            ("c16rtomb", own::c16rtomb as *const c_void, 3, &self.c16rtomb),
            ("wcrtomb", own::wcrtomb as *const c_void, 3, &self.wcrtomb),
            ("c32rtomb", own::wcrtomb as *const c_void, 3, &self.wcrtomb),
            ("__wcrtomb_chk", own::__wcrtomb_chk as *const c_void, 4, &self.wcrtomb),
            ("mbsrtowcs", own::mbsrtowcs as *const c_void, 4, &self.mbsrtowcs),
            ("__mbsrtowcs_chk", own::__mbsrtowcs_chk as *const c_void, 5, &self.mbsrtowcs),
            ("mbsnrtowcs", own::mbsnrtowcs as *const c_void, 5, &self.mbsnrtowcs),
            ("wcsrtombs", own::wcsrtombs as *const c_void, 4, &self.wcsrtombs),
            ("__wcsrtombs_chk", own::__wcsrtombs_chk as *const c_void, 5, &self.wcsrtombs),
            ("wcsnrtombs", own::wcsnrtombs as *const c_void, 5, &self.wcsnrtombs),
        ] {
            all.push(Answer::behind(name, target, arguments, state.place()));
        }
        for (name, target, state) in [
            ("__mbsnrtowcs_chk", mbsnrtowcs_checked as *const c_void, &self.mbsnrtowcs),
            ("__wcsnrtombs_chk", wcsnrtombs_checked as *const c_void, &self.wcsnrtombs),
        ] {
            all.push(Answer::hidden(name, target, state.place()));
        }
    }
}

/// Functions that take the domain's state where the caller passes none.
macro_rules! with_state {
    ($(fn $name:ident($($before:ident: $type:ty),*; state $(; $behind:ident: $last:ty)?) -> $result:ty;)*) => {
        mod theirs {
            use super::*;

            unsafe extern "C" {
                $(pub fn $name($($before: $type,)* state: *mut ConversionState $(, $behind: $last)?) -> $result;)*
            }
        }

        mod own {
            use super::*;

            $(
                /// The C library's function of that name.
                ///
                /// # Safety
                /// As for that function. Called through its thunk.
                pub unsafe extern "C" fn $name(
                    $($before: $type,)*
                    state: *mut ConversionState,
                    $($behind: $last,)?
                    own: *mut ConversionState,
                ) -> $result {
                    let state = if state.is_null() { own } else { state };
                    // SAFETY: the caller's promise, and the thunk's state.
                    unsafe { theirs::$name($($before,)* state $(, $behind)?) }
                }
            )*
        }
    };
}

with_state! {
    fn mbrlen(text: *const c_char, size: usize; state) -> usize;
    fn mbrtowc(to: *mut wchar_t, text: *const c_char, size: usize; state) -> usize;
    fn mbrtoc16(to: *mut u16, text: *const c_char, size: usize; state) -> usize;
    fn c16rtomb(to: *mut c_char, character: c_uint; state) -> usize;
    fn wcrtomb(to: *mut c_char, character: wchar_t; state) -> usize;
    fn __wcrtomb_chk(to: *mut c_char, character: wchar_t; state; room: usize) -> usize;
    fn mbsrtowcs(to: *mut wchar_t, from: *mut *const c_char, size: usize; state) -> usize;
    fn __mbsrtowcs_chk(to: *mut wchar_t, from: *mut *const c_char, size: usize; state; room: usize) -> usize;
    fn mbsnrtowcs(to: *mut wchar_t, from: *mut *const c_char, bytes: usize, size: usize; state) -> usize;
    fn wcsrtombs(to: *mut c_char, from: *mut *const wchar_t, size: usize; state) -> usize;
    fn __wcsrtombs_chk(to: *mut c_char, from: *mut *const wchar_t, size: usize; state; room: usize) -> usize;
    fn wcsnrtombs(to: *mut c_char, from: *mut *const wchar_t, count: usize, size: usize; state) -> usize;
}

/// The C library's own: asked whether characters have states in the thread's locale.
mod whether {
    use super::*;

    unsafe extern "C" {
        pub fn mblen(text: *const c_char, size: usize) -> c_int;
        pub fn mbtowc(to: *mut wchar_t, text: *const c_char, size: usize) -> c_int;
        pub fn wctomb(to: *mut c_char, character: wchar_t) -> c_int;
    }
}

gathering!(mbsnrtowcs_checked => mbsnrtowcs_gathered);
gathering!(wcsnrtombs_checked => wcsnrtombs_gathered);

/// A function of six arguments that are integers and pointers, of which the fifth is the state.
type SixArguments = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;

unsafe extern "C" {
    fn __mbsnrtowcs_chk(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> usize;
    fn __wcsnrtombs_chk(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> usize;
}

/// # Safety
/// As for the function `theirs`, of the six words at `arguments`.
unsafe fn gathered(
    theirs: SixArguments,
    arguments: *const [usize; 6],
    own: *mut ConversionState,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let [to, from, count, size, state, room] = *arguments;
        let state = if state == 0 { own.expose_provenance() } else { state };
        theirs(to, from, count, size, state, room)
    }
}

/// `__mbsnrtowcs_chk(to, from, bytes, size, state, room)`.
///
/// # Safety
/// As for that function, of the six words at `arguments`. Called through its thunk.
unsafe extern "C" fn mbsnrtowcs_gathered(
    arguments: *const [usize; 6],
    own: *mut ConversionState,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { gathered(__mbsnrtowcs_chk, arguments, own) }
}

/// `__wcsnrtombs_chk(to, from, count, size, state, room)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn wcsnrtombs_gathered(
    arguments: *const [usize; 6],
    own: *mut ConversionState,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { gathered(__wcsnrtombs_chk, arguments, own) }
}

/// `mblen(text, size)` (stdlib/mblen.c): it restarts with each character.
///
/// # Safety
/// As mblen(3).
unsafe extern "C" fn mblen(text: *const c_char, size: usize, _: *mut ConversionState) -> c_int {
    if text.is_null() {
        // SAFETY: asks whether characters have states.
        return unsafe { whether::mblen(text, 0) };
    }
    // SAFETY: the caller's promise; the state is this call's.
    unsafe { mbtowc(ptr::null_mut(), text, size, &mut 0) }
}

/// `mbtowc(to, text, size)` (stdlib/mbtowc.c).
///
/// # Safety
/// As mbtowc(3).
unsafe extern "C" fn mbtowc(
    to: *mut wchar_t,
    text: *const c_char,
    size: usize,
    own: *mut ConversionState,
) -> c_int {
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe {
        if text.is_null() {
            *own = 0;
            return whether::mbtowc(ptr::null_mut(), text, 0);
        }
        if *text == 0 {
            if !to.is_null() {
                *to = 0;
            }
            return 0;
        }
        // It reports every error as -1.
        (theirs::mbrtowc(to, text, size, own).cast_signed() as c_int).max(-1)
    }
}

/// `wctomb(to, character)` (stdlib/wctomb.c).
///
/// # Safety
/// As wctomb(3).
unsafe extern "C" fn wctomb(
    to: *mut c_char,
    character: wchar_t,
    own: *mut ConversionState,
) -> c_int {
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe {
        if to.is_null() {
            *own = 0;
            return whether::wctomb(to, character);
        }
        theirs::wcrtomb(to, character, own).cast_signed() as c_int
    }
}

/// `__wctomb_chk(to, character, room)`.
///
/// # Safety
/// As wctomb(3).
unsafe extern "C" fn wctomb_checked(
    to: *mut c_char,
    character: wchar_t,
    room: usize,
    own: *mut ConversionState,
) -> c_int {
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe {
        if to.is_null() {
            return wctomb(to, character, own);
        }
        theirs::__wcrtomb_chk(to, character, own, room).cast_signed() as c_int
    }
}
