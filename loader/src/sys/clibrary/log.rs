//! `syslog`: a program's name, options, facility, mask and connection.
//!
//! glibc has one of each for a process, and no function returns the name or the options. So this module builds and sends
//! messages itself, as glibc does (misc/syslog.c).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Answer;
use crate::arch::variadic;
use crate::sys::errno::{errno, set_errno};
use crate::sys::lock::{Latch, undisturbed};

/// The settings. Numbers, and a pointer of the program's: good at any moment.
#[derive(Debug)]
struct Settings {
    /// The text that the program gave to `openlog` and keeps. Null for the name of the process.
    name: *const c_char,
    options: c_int,
    facility: c_int,
    mask: c_int,
    /// SOCK_DGRAM or SOCK_STREAM, whatever the log's socket is.
    kind: c_int,
    /// The socket, or -1.
    socket: c_int,
    is_connected: bool,
}

// SAFETY: a text of the program's.
unsafe impl Send for Settings {}

#[derive(Debug)]
pub(super) struct Log(Latch<Settings>);

/// The arguments behind those that have names: a `va_list`, which both machines pass by address.
type Arguments = *mut c_void;

unsafe extern "C" {
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: Arguments) -> c_int;
    fn __vasprintf_chk(
        to: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
    fn strftime_l(
        to: *mut c_char,
        size: usize,
        format: *const c_char,
        time: *const libc::tm,
        locale: libc::locale_t,
    ) -> usize;
    static program_invocation_short_name: *const c_char;
}

impl Log {
    pub(super) fn new() -> Log {
        Log(Latch::new(Settings {
            name: ptr::null(),
            options: 0,
            facility: libc::LOG_USER,
            mask: 0xff,
            kind: libc::SOCK_DGRAM,
            socket: -1,
            is_connected: false,
        }))
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let own = &raw const *self;
        for (name, target, arguments) in [
            ("openlog", openlog as *const c_void, 3),
            ("closelog", closelog as *const c_void, 0),
            ("setlogmask", setlogmask as *const c_void, 1),
            ("vsyslog", vsyslog as *const c_void, 3),
            ("__vsyslog_chk", vsyslog_checked as *const c_void, 4),
        ] {
            all.push(Answer::behind(name, target, arguments, own));
        }
        all.push(Answer::hidden("syslog", syslog as *const c_void, own));
        all.push(Answer::hidden("__syslog_chk", syslog_checked as *const c_void, own));
    }
}

impl Log {
    /// Closes the connection, and forgets the name, whose memory may go away.
    pub(super) fn end(&self) {
        closelog(self);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end();
    }
}

/// `openlog(name, options, facility)`.
extern "C" fn openlog(name: *const c_char, options: c_int, facility: c_int, own: &Log) {
    let mut settings = own.0.lock();
    if !name.is_null() {
        settings.name = name;
    }
    settings.options = options;
    if facility != 0 && facility & !libc::LOG_FACMASK == 0 {
        settings.facility = facility;
    }
    if options & libc::LOG_NDELAY != 0 {
        settings.connect();
    }
}

/// `closelog()`.
extern "C" fn closelog(own: &Log) {
    let mut settings = own.0.lock();
    settings.disconnect();
    settings.name = ptr::null();
    settings.kind = libc::SOCK_DGRAM;
}

/// `setlogmask(mask)`. With 0 it asks.
extern "C" fn setlogmask(mask: c_int, own: &Log) -> c_int {
    let mut settings = own.0.lock();
    let old = settings.mask;
    if mask != 0 {
        settings.mask = mask;
    }
    old
}

variadic!(syslog(2) => syslog_listed);
variadic!(syslog_checked(3) => syslog_checked_listed);

/// `syslog(priority, format, ...)`.
///
/// # Safety
/// As syslog(3). Called through its thunk.
unsafe extern "C" fn syslog_listed(named: *const [usize; 2], arguments: Arguments, own: &Log) {
    // SAFETY: the caller's promise.
    unsafe {
        let [priority, format] = *named;
        vsyslog(priority as c_int, ptr::with_exposed_provenance(format), arguments, own);
    }
}

/// `__syslog_chk(priority, flag, format, ...)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn syslog_checked_listed(
    named: *const [usize; 3],
    arguments: Arguments,
    own: &Log,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let [priority, flag, format] = *named;
        let format = ptr::with_exposed_provenance(format);
        vsyslog_checked(priority as c_int, flag as c_int, format, arguments, own);
    }
}

/// `vsyslog(priority, format, arguments)`.
///
/// # Safety
/// As vsyslog(3). Called through its thunk.
unsafe extern "C" fn vsyslog(
    priority: c_int,
    format: *const c_char,
    arguments: Arguments,
    own: &Log,
) {
    // SAFETY: the caller's promise.
    own.log(priority, |text| unsafe { vasprintf(text, format, arguments) });
}

/// `__vsyslog_chk(priority, flag, format, arguments)`.
///
/// # Safety
/// As above.
unsafe extern "C" fn vsyslog_checked(
    priority: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: Arguments,
    own: &Log,
) {
    // SAFETY: the caller's promise.
    own.log(priority, |text| unsafe { __vasprintf_chk(text, flag, format, arguments) });
}

impl Log {
    /// Logs the text that `print` allocates.
    fn log(&self, priority: c_int, print: impl FnOnce(*mut *mut c_char) -> c_int) {
        // `%m` is the error at the time of the call.
        let error = errno();
        let valid = libc::LOG_PRIMASK | libc::LOG_FACMASK;
        if priority & !valid != 0 {
            let words = format!("syslog: unknown facility/priority: {priority:x}");
            let options = libc::LOG_CONS | libc::LOG_PERROR | libc::LOG_PID;
            self.0.lock().log(libc::LOG_ERR | options, words.as_bytes());
        }
        let mut text = ptr::null_mut();
        set_errno(error);
        if print(&mut text) < 0 {
            return;
        }
        // SAFETY: the C library has allocated the text, which ends in NUL.
        unsafe {
            self.0.lock().log(priority & valid, CStr::from_ptr(text).to_bytes());
            libc::free(text.cast());
        }
    }
}

impl Settings {
    fn log(&mut self, priority: c_int, words: &[u8]) {
        if 1 << (priority & libc::LOG_PRIMASK) & self.mask == 0 {
            return;
        }
        let facility = if priority & libc::LOG_FACMASK == 0 { self.facility } else { 0 };
        // SAFETY: texts of the program and of the process.
        let name = unsafe {
            let name = if self.name.is_null() { program_invocation_short_name } else { self.name };
            CStr::from_ptr(name).to_bytes()
        };
        let process = match self.options & libc::LOG_PID {
            0 => String::new(),
            _ => format!("[{}]", std::process::id()),
        };
        let message = [name, process.as_bytes(), b": ", words].concat();
        if self.options & libc::LOG_PERROR != 0 {
            let end: &[u8] = if message.ends_with(b"\n") { b"" } else { b"\n" };
            write(libc::STDERR_FILENO, &[&message, end].concat());
        }
        let begin = format!("<{}>{}", priority | facility, now());
        let mut record = [begin.as_bytes(), &message].concat();
        self.connect();
        // A NUL ends a message in a stream (misc/syslog.c).
        if self.kind == libc::SOCK_STREAM {
            record.push(0);
        }
        if !self.send(&record) {
            self.disconnect();
            self.connect();
            if !self.send(&record) {
                self.disconnect();
                if self.options & libc::LOG_CONS != 0 {
                    to_console(&[&message, &b"\r\n"[..]].concat());
                }
            }
        }
    }

    fn send(&self, record: &[u8]) -> bool {
        // SAFETY: the record is of that size.
        self.is_connected
            && unsafe {
                let (start, size) = (record.as_ptr().cast(), record.len());
                libc::send(self.socket, start, size, libc::MSG_NOSIGNAL) >= 0
            }
    }

    /// Connects, by the other kind of socket if the log's differs from the first.
    fn connect(&mut self) {
        for _ in 0..2 {
            if self.is_connected {
                return;
            }
            if self.socket == -1 {
                // SAFETY: no memory is passed.
                self.socket =
                    unsafe { libc::socket(libc::AF_UNIX, self.kind | libc::SOCK_CLOEXEC, 0) };
            }
            let error = errno();
            let address = address();
            // SAFETY: an address of that size.
            let status = unsafe {
                let size = size_of_val(&address) as libc::socklen_t;
                libc::connect(self.socket, (&raw const address).cast(), size)
            };
            if status == 0 {
                self.is_connected = true;
                return;
            }
            let is_other_kind = errno() == libc::EPROTOTYPE;
            self.disconnect();
            set_errno(error);
            if !is_other_kind {
                return;
            }
            self.kind = libc::SOCK_DGRAM + libc::SOCK_STREAM - self.kind;
        }
    }

    fn disconnect(&mut self) {
        if self.socket != -1 {
            // SAFETY: the socket is this one's.
            unsafe { libc::close(self.socket) };
        }
        (self.socket, self.is_connected) = (-1, false);
    }
}

/// The log's address (<paths.h>, `_PATH_LOG`).
fn address() -> libc::sockaddr_un {
    let mut path = [0; 108];
    for (to, from) in path.iter_mut().zip(b"/dev/log") {
        *to = *from as c_char;
    }
    libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: path }
}

/// The time in a message (see [`super::times`]), as `Mmm dd hh:mm:ss ` of the C locale. Empty in a year that `struct tm` does not have.
fn now() -> String {
    let mut text = [0u8; 32];
    // SAFETY: values of these types, and a text of that size.
    let length = undisturbed(|| unsafe {
        let time = libc::time(ptr::null_mut());
        let mut parts = std::mem::zeroed();
        if libc::localtime_r(&time, &mut parts).is_null() {
            return 0;
        }
        let locale = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut());
        let format = c"%h %e %T ".as_ptr();
        strftime_l(text.as_mut_ptr().cast(), text.len(), format, &parts, locale)
    });
    String::from_utf8_lossy(&text[..length]).into_owned()
}

fn write(descriptor: c_int, bytes: &[u8]) {
    // SAFETY: the bytes are there.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
}

fn to_console(bytes: &[u8]) {
    // SAFETY: a name.
    let console = unsafe {
        libc::open(c"/dev/console".as_ptr(), libc::O_WRONLY | libc::O_NOCTTY | libc::O_CLOEXEC)
    };
    if console >= 0 {
        write(console, bytes);
        // SAFETY: opened above.
        unsafe { libc::close(console) };
    }
}
