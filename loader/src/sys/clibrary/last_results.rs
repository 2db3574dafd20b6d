//! Functions that return the address of their last result.

use std::ffi::{CStr, c_char, c_double, c_int, c_long, c_void};
use std::ptr;

use super::{Answer, Own, failed};
use crate::sys::answering::answering;
use crate::sys::functions::functions;
use crate::sys::lock::Reentrant;

/// Texts of a name: of a terminal, a file, a user.
type Text = Own<[c_char; libc::PATH_MAX as usize]>;

type Mount = (libc::mntent, [c_char; 4096]);

#[derive(Debug)]
pub(super) struct Results {
    /// The place where `strtok` continues.
    token: Own<*mut c_char>,
    /// `l64a`: up to six digits.
    digits: Own<[c_char; 8]>,
    /// `ecvt` and `fcvt`, with more room than glibc's (misc/efgcvt-template.c, MAXDIG and FCVT_MAXDIG).
    number: Own<[c_char; 32]>,
    long_number: Own<[c_char; 400]>,
    /// `qecvt` and `qfcvt`.
    quadruple: Own<[c_char; 48]>,
    long_quadruple: Own<Vec<c_char>>,
    hardware: Own<[u8; 8]>,
    hardware_text: Own<[c_char; 24]>,
    /// `inet_nsap_ntoa`: three characters for each of 255 bytes.
    access_point: Own<[c_char; 768]>,
    terminal: Own<Option<Box<Text>>>,
    pseudo_terminal: Own<Option<Box<Text>>>,
    login: Own<[c_char; 64]>,
    user: Own<[c_char; 64]>,
    file: Own<[c_char; 32]>,
    password: Own<Vec<u8>>,
    /// `getmntent`: the structure, and the texts that it points to.
    mount: Own<Option<Box<Mount>>>,
    /// `crypt`: the password's hash, and its working memory.
    hash: Own<Vec<u64>>,
    /// `signgam`.
    sign: Own<c_int>,
}

impl Default for Results {
    fn default() -> Results {
        Results {
            token: Own::new(ptr::null_mut()),
            digits: Own::new([0; 8]),
            number: Own::new([0; 32]),
            long_number: Own::new([0; 400]),
            quadruple: Own::new([0; 48]),
            long_quadruple: Own::new(Vec::new()),
            hardware: Own::new([0; 8]),
            hardware_text: Own::new([0; 24]),
            access_point: Own::new([0; 768]),
            terminal: Own::new(None),
            pseudo_terminal: Own::new(None),
            login: Own::new([0; 64]),
            user: Own::new([0; 64]),
            file: Own::new([0; 32]),
            password: Own::new(Vec::new()),
            mount: Own::new(None),
            hash: Own::new(Vec::new()),
            sign: Own::new(0),
        }
    }
}

unsafe extern "C" {
    fn strtok_r(
        text: *mut c_char,
        delimiters: *const c_char,
        rest: *mut *mut c_char,
    ) -> *mut c_char;
    fn ether_aton_r(text: *const c_char, address: *mut u8) -> *mut u8;
    fn ether_ntoa_r(address: *const u8, text: *mut c_char) -> *mut c_char;
    fn inet_nsap_ntoa(size: c_int, bytes: *const u8, text: *mut c_char) -> *mut c_char;
    fn ecvt_r(
        number: c_double,
        digits: c_int,
        point: *mut c_int,
        sign: *mut c_int,
        text: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fcvt_r(
        number: c_double,
        digits: c_int,
        point: *mut c_int,
        sign: *mut c_int,
        text: *mut c_char,
        size: usize,
    ) -> c_int;
    fn lgamma_r(number: c_double, sign: *mut c_int) -> c_double;
    fn lgammaf_r(number: f32, sign: *mut c_int) -> f32;
    /// Its number is of a type that Rust lacks. Only its address is used.
    fn lgammal_r();
    fn getmntent_r(
        stream: *mut libc::FILE,
        mount: *mut libc::mntent,
        text: *mut c_char,
        size: c_int,
    ) -> *mut libc::mntent;
    fn getpass(prompt: *const c_char) -> *mut c_char;
    fn cuserid(text: *mut c_char) -> *mut c_char;
    fn getlogin_r(text: *mut c_char, size: usize) -> c_int;
}

impl Results {
    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        // glibc's own functions, with the domain's state as their last argument.
        let token = self.token.place().cast::<c_void>().cast_const();
        let sign = self.sign.place().cast::<c_void>().cast_const();
        let hardware = self.hardware.place().cast::<c_void>().cast_const();
        let hardware_text = self.hardware_text.place().cast::<c_void>().cast_const();
        for (name, target, arguments, state) in [
            ("strtok", strtok_r as *const c_void, 2, token),
            ("ether_aton", ether_aton_r as *const c_void, 1, hardware),
            ("ether_ntoa", ether_ntoa_r as *const c_void, 1, hardware_text),
            ("lgamma", lgamma_r as *const c_void, 0, sign),
            ("lgammaf32x", lgamma_r as *const c_void, 0, sign),
            ("lgammaf64", lgamma_r as *const c_void, 0, sign),
            ("gamma", lgamma_r as *const c_void, 0, sign),
            ("lgammaf", lgammaf_r as *const c_void, 0, sign),
            ("lgammaf32", lgammaf_r as *const c_void, 0, sign),
            ("gammaf", lgammaf_r as *const c_void, 0, sign),
            ("lgammal", lgammal_r as *const c_void, 0, sign),
            ("lgammaf64x", lgammal_r as *const c_void, 0, sign),
            ("gammal", lgammal_r as *const c_void, 0, sign),
        ] {
            all.push(Answer::behind(name, target, arguments, state));
        }
        all.push(Answer::variable("signgam", &self.sign));
        all.push(Answer::variable("__signgam", &self.sign));
        let own = &raw const *self;
        for (name, target, arguments) in [
            ("ecvt", ecvt as *const c_void, 3),
            ("fcvt", fcvt as *const c_void, 3),
            ("qecvt", quadruple::qecvt as *const c_void, 3),
            ("qfcvt", quadruple::qfcvt as *const c_void, 3),
        ] {
            all.push(Answer::behind(name, target, arguments, own));
        }
        all.extend(Answer::functions(with_results(), own));
    }
}

/// `ecvt(number, digits, point, sign)` with glibc's size of the text.
///
/// # Safety
/// As ecvt(3). Called through its thunk.
unsafe extern "C" fn ecvt(
    number: c_double,
    digits: c_int,
    point: *mut c_int,
    sign: *mut c_int,
    own: &Results,
) -> *mut c_char {
    let text = own.number.place().cast();
    // SAFETY: the caller's promise; the text has more bytes.
    unsafe { ecvt_r(number, digits, point, sign, text, 20) };
    text
}

/// `fcvt(number, digits, point, sign)`: glibc tries a small text first.
///
/// # Safety
/// As fcvt(3). Called through its thunk.
unsafe extern "C" fn fcvt(
    number: c_double,
    digits: c_int,
    point: *mut c_int,
    sign: *mut c_int,
    own: &Results,
) -> *mut c_char {
    let text = own.long_number.place().cast();
    // SAFETY: the caller's promise; the text has more bytes.
    unsafe {
        if fcvt_r(number, digits, point, sign, text, 20) == -1 {
            fcvt_r(number, digits, point, sign, text, 308 + 20);
        }
    }
    text
}

/// `ecvt` and `fcvt` for `long double`, a type that Rust lacks.
#[cfg_attr(
    target_arch = "aarch64",
    expect(improper_ctypes_definitions, reason = "a vector is passed as such a number is")
)]
mod quadruple {
    use super::*;
    use crate::arch::{LONG_DOUBLE_DIGITS, LongDouble};

    /// glibc's size of a text (misc/qefgcvt.c, MAXDIG).
    const SHORT: usize = LONG_DOUBLE_DIGITS + 3;
    /// The same for all digits before the point.
    const LONG: usize = 4932 + SHORT;

    type Convert = unsafe extern "C" fn(
        LongDouble,
        c_int,
        *mut c_int,
        *mut c_int,
        *mut c_char,
        usize,
    ) -> c_int;

    mod of_library {
        // Rust lets a function with such an argument be defined and called, and not be declared.
        unsafe extern "C" {
            pub(super) fn qecvt_r();
            pub(super) fn qfcvt_r();
        }
    }

    fn convert(function: unsafe extern "C" fn()) -> Convert {
        // SAFETY: this is the signature of both (qecvt_r(3)).
        unsafe { std::mem::transmute::<unsafe extern "C" fn(), Convert>(function) }
    }

    /// `qecvt(number, digits, point, sign)`.
    ///
    /// # Safety
    /// As qecvt(3). Called through its thunk.
    pub unsafe extern "C" fn qecvt(
        number: LongDouble,
        digits: c_int,
        point: *mut c_int,
        sign: *mut c_int,
        own: &Results,
    ) -> *mut c_char {
        let text = own.quadruple.place().cast();
        // SAFETY: the caller's promise; the text has more bytes.
        unsafe { convert(of_library::qecvt_r)(number, digits, point, sign, text, SHORT) };
        text
    }

    /// `qfcvt(number, digits, point, sign)`.
    ///
    /// # Safety
    /// As above.
    pub unsafe extern "C" fn qfcvt(
        number: LongDouble,
        digits: c_int,
        point: *mut c_int,
        sign: *mut c_int,
        own: &Results,
    ) -> *mut c_char {
        let convert = convert(of_library::qfcvt_r);
        // SAFETY: the caller's promise; the text has as many bytes.
        unsafe {
            let text = &mut *own.long_quadruple.place();
            text.resize(LONG, 0);
            if convert(number, digits, point, sign, text.as_mut_ptr(), SHORT) == -1 {
                convert(number, digits, point, sign, text.as_mut_ptr(), LONG);
            }
            text.as_mut_ptr()
        }
    }
}

/// The name that `name` writes into the text, or null with its error.
///
/// # Safety
/// One thread of a program uses the text at a time.
unsafe fn named(
    text: &Own<Option<Box<Text>>>,
    name: impl Fn(*mut c_char, usize) -> c_int,
) -> *mut c_char {
    // SAFETY: by contract.
    let text = unsafe { &mut *text.place() };
    let text = text.get_or_insert_with(|| Box::new(Own::new([0; libc::PATH_MAX as usize])));
    match name(text.place().cast(), size_of::<Text>()) {
        0 => text.place().cast(),
        error => failed(error),
    }
}

answering! {
    fn with_results, own: &Results;

    /// `ttyname(descriptor)`.
    "ttyname" => extern "C" fn ttyname(descriptor: c_int) -> *mut c_char {
        named(&own.terminal, |text, size| libc::ttyname_r(descriptor, text, size))
    }

    /// `ptsname(descriptor)`.
    "ptsname" => extern "C" fn ptsname(descriptor: c_int) -> *mut c_char {
        named(&own.pseudo_terminal, |text, size| libc::ptsname_r(descriptor, text, size))
    }

    /// `getlogin()`.
    "getlogin" => extern "C" fn getlogin() -> *mut c_char {
        let text = own.login.place().cast();
        // glibc has room for 33 bytes (login/getlogin.c). The text has more.
        match getlogin_r(text, 33) {
            0 => text,
            error => failed(error),
        }
    }

    /// `tmpnam(text)`.
    "tmpnam" => extern "C" fn tmpnam(text: *mut c_char) -> *mut c_char {
        let text = if text.is_null() { own.file.place().cast() } else { text };
        // Not by a reference: linkers warn of those.
        let address = (functions().dlsym)(libc::RTLD_DEFAULT, c"tmpnam_r".as_ptr());
        if address.is_null() {
            return failed(libc::ENOSYS);
        }
        // The function of that name, and a text of L_tmpnam (20) bytes or more.
        let name: unsafe extern "C" fn(*mut c_char) -> *mut c_char = std::mem::transmute(address);
        name(text)
    }

    /// `getmntent(stream)`.
    "getmntent" => extern "C" fn getmntent(stream: *mut libc::FILE) -> *mut libc::mntent {
        let own = &mut *own.mount.place();
        // Of pointers and numbers zero is a value.
        let (mount, text) =
            &mut **own.get_or_insert_with(|| Box::new((std::mem::zeroed(), [0; 4096])));
        getmntent_r(stream, mount, text.as_mut_ptr(), text.len() as c_int)
    }
    /// `l64a(number)` (stdlib/l64a.c).
    "l64a" => extern "C" fn l64a(number: c_long) -> *mut c_char {
        const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut rest = number as u32;
        let mut text = [0; 8];
        for digit in &mut text {
            if rest == 0 {
                break;
            }
            *digit = DIGITS[(rest & 63) as usize] as c_char;
            rest >>= 6;
        }
        let place = own.digits.place();
        place.write(text);
        place.cast()
    }

    /// `inet_nsap_ntoa(size, bytes, text)`.
    "inet_nsap_ntoa" => extern "C" fn access_point(
        size: c_int, bytes: *const u8, text: *mut c_char,
    ) -> *mut c_char {
        let text = if text.is_null() { own.access_point.place().cast() } else { text };
        inet_nsap_ntoa(size, bytes, text)
    }

    /// `cuserid(text)`. The domain's text has more than L_cuserid bytes.
    "cuserid" => extern "C" fn own_cuserid(text: *mut c_char) -> *mut c_char {
        if !text.is_null() {
            return cuserid(text);
        }
        let text = own.user.place().cast::<c_char>();
        cuserid(text);
        // Without a name it returns no result.
        if *text == 0 { ptr::null_mut() } else { text }
    }

    /// `getpass(prompt)`. One domain at a time asks at the terminal. The C library's text is copied, and then overwritten.
    "getpass" => extern "C" fn own_getpass(prompt: *const c_char) -> *mut c_char {
        static ASKING: Reentrant = Reentrant::new();
        let _turn = ASKING.lock();
        let text = getpass(prompt);
        if text.is_null() {
            return text;
        }
        let copy = &mut *own.password.place();
        copy.fill(0);
        let size = CStr::from_ptr(text).count_bytes();
        *copy = std::slice::from_raw_parts(text.cast(), size + 1).to_vec();
        ptr::write_bytes(text, 0, size);
        copy.as_mut_ptr().cast()
    }

    /// `crypt(words, setting)`, by the function of libcrypt that was found under that name. The library is loaded: its
    /// `crypt` was bound to. It stays.
    "crypt" => extern "C" fn crypt(words: *const c_char, setting: *const c_char) -> *mut c_char {
        type Hash = unsafe extern "C" fn(*const c_char, *const c_char, *mut u64) -> *mut c_char;
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let library = (functions().dlopen)(c"libcrypt.so.1".as_ptr(), flags);
        let hash = (functions().dlsym)(library, c"crypt_r".as_ptr());
        if hash.is_null() {
            return failed(libc::ENOSYS);
        }
        // `struct crypt_data` of glibc 2.27, of zeros at first. That of libxcrypt has 32768 bytes (crypt(3)).
        const SIZE: usize = 131_232;
        let data = &mut *own.hash.place();
        data.resize(SIZE.div_ceil(size_of::<u64>()), 0);
        std::mem::transmute::<*mut c_void, Hash>(hash)(words, setting, data.as_mut_ptr())
    }
}
