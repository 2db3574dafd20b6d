//! Environments (environ(7)): the process's, and those that domains have for themselves.

mod locales;
mod programs;
mod shell;
mod steady;
mod table;

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use self::table::{NoMemory, Table, entries, is_named};
use super::dynamic::ProgramArguments;
use super::lock::{Mutex, Once, Rank};
use crate::current;
use crate::id::DomainId;

pub(crate) use self::locales::{forget_locale_variables, locale_variable};
pub(crate) use self::programs::{Spawn, Strings};
pub(crate) use self::shell::{is_pipe, pclose, popen, run_shell};
pub(crate) use self::steady::Steady;

/// The environment of the process.
pub(crate) static PROCESS: Environment = Environment {
    own: None,
    owner: None,
    table: Mutex::new(Rank::Environment, Table::new()),
    arguments: Once::new(),
};

/// A variable `environ`, and the functions that read and change what it leads to.
///
/// Functions that read it take no lock and allocate nothing, so code between `vfork` and `execve` may call them.
#[derive(Debug)]
pub(crate) struct Environment {
    /// `environ`; none if it is the C library's.
    own: Option<AtomicPtr<*mut c_char>>,
    /// The domain that it was made for; none for the process's.
    owner: Option<DomainId>,
    table: Mutex<Table>,
    /// What constructors get, with the environment as the first of them finds it.
    arguments: Once<ProgramArguments>,
}

impl Environment {
    /// One with these entries, each `NAME=value`, for a domain. What is allocated for it is never freed.
    pub(crate) fn new(owner: DomainId, entries: Vec<CString>) -> io::Result<Environment> {
        let strings = entries.into_iter().map(CString::into_raw).collect();
        Self::of_strings(owner, strings)
            .map_err(|NoMemory| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    /// One with these strings, which are NUL-terminated and stay.
    fn of_strings(owner: DomainId, strings: Vec<*mut c_char>) -> Result<Environment, NoMemory> {
        let own = AtomicPtr::new(ptr::null_mut());
        let mut table = Table::new();
        table.begin(&own, strings)?;
        let table = Mutex::new(Rank::Environment, table);
        Ok(Environment { own: Some(own), owner: Some(owner), table, arguments: Once::new() })
    }

    /// The domain that it was made for; none for the process's.
    pub(crate) fn owner(&self) -> Option<DomainId> {
        self.owner
    }

    /// Its variable `environ`: the address of an array of strings that ends with a null pointer, or null. Other
    /// code may change it without an atomic store, by one store of a word.
    pub(crate) fn variable(&self) -> &AtomicPtr<*mut c_char> {
        match &self.own {
            Some(own) => own,
            None => process_variable(),
        }
    }

    /// The arguments of constructors.
    pub(crate) fn arguments(&self) -> &ProgramArguments {
        self.arguments.get_or_init(|| {
            let entries = entries(self.variable());
            // SAFETY: entries of an environment are NUL-terminated strings.
            ProgramArguments::with(entries.map(|entry| unsafe { CStr::from_ptr(entry) }))
        })
    }

    /// The array, as functions of the `exec` family take it.
    pub(crate) fn pointers(&self) -> *const *const c_char {
        self.variable().load(Ordering::Acquire).cast_const().cast()
    }

    /// `getenv`: the value of a variable, or null.
    pub(crate) fn value(&self, name: &CStr) -> *mut c_char {
        let name = name.to_bytes();
        if name.is_empty() {
            return ptr::null_mut();
        }
        let found = entries(self.variable()).find(|&entry| is_named(entry, name));
        found.map_or(ptr::null_mut(), |entry| entry.wrapping_add(name.len() + 1))
    }

    /// The value of a variable, if it is set.
    pub(crate) fn text(&self, name: &CStr) -> Option<CString> {
        let value = self.value(name);
        // SAFETY: a value of an environment ends in NUL. Another thread may change the environment meanwhile: the values stay
        // (table.rs), as those that the program has put there must.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_owned())
    }

    /// Has `change` change a variable. Of the process's environment it is the change of the domain whose code the thread runs.
    fn changing<T>(&self, name: &[u8], change: impl FnOnce(&mut Table) -> T) -> T {
        let domain = current::domain().filter(|_| self.own.is_none());
        let mut table = self.table.lock();
        locales::changing(domain, name, || change(&mut table))
    }
}

/// What the functions of <stdlib.h> that change an environment do.
pub(crate) trait Changes {
    /// `setenv`. `name` and `value` are none where the caller has passed null.
    fn set(&self, name: Option<&CStr>, value: Option<&CStr>, overwrite: bool) -> c_int;

    /// `putenv`: the string itself becomes part of the environment; without `=` it names a variable to remove
    /// (glibc's extension).
    ///
    /// # Safety
    /// A string that is not null is NUL-terminated, and stays for as long as it is part of the environment.
    unsafe fn put(&self, string: *mut c_char) -> c_int;

    /// `unsetenv`. `name` is none where the caller has passed null.
    fn unset(&self, name: Option<&CStr>) -> c_int;

    /// `clearenv`.
    fn clear(&self) -> c_int;
}

impl Changes for Environment {
    fn set(&self, name: Option<&CStr>, value: Option<&CStr>, overwrite: bool) -> c_int {
        let (Some(name), Some(value)) = (name.and_then(valid), value) else {
            return failed(libc::EINVAL);
        };
        let environ = self.variable();
        self.changing(name, |table| {
            if !overwrite && entries(environ).any(|entry| is_named(entry, name)) {
                return 0;
            }
            let entry = table.intern(name, value.to_bytes());
            status(entry.and_then(|entry| table.set(environ, name, entry)))
        })
    }

    unsafe fn put(&self, string: *mut c_char) -> c_int {
        if string.is_null() {
            return failed(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(string) }.to_bytes();
        let environ = self.variable();
        status(match text.iter().position(|&byte| byte == b'=') {
            Some(end) => {
                self.changing(&text[..end], |table| table.set(environ, &text[..end], string))
            }
            None if text.is_empty() => Ok(()),
            None => self.changing(text, |table| table.remove(environ, text)),
        })
    }

    fn unset(&self, name: Option<&CStr>) -> c_int {
        match name.and_then(valid) {
            Some(name) => status(self.changing(name, |table| table.remove(self.variable(), name))),
            None => failed(libc::EINVAL),
        }
    }

    fn clear(&self) -> c_int {
        if self.own.is_none() {
            for name in locales::set_in_process() {
                self.unset(Some(&name));
            }
        }
        let _table = self.table.lock();
        self.variable().store(ptr::null_mut(), Ordering::Release);
        0
    }
}

/// The C library's variable `environ`.
fn process_variable() -> &'static AtomicPtr<*mut c_char> {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: it is the C library's variable, aligned and there for the process's life. Other code may
    // change it without an atomic store, by one store of a word.
    unsafe { AtomicPtr::from_ptr(&raw mut environ) }
}

/// Whether the process runs with rights that its caller lacks (getauxval(3), AT_SECURE).
pub(crate) fn is_secure() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The bytes of a name that `setenv` and `unsetenv` take: not empty, without `=` (POSIX).
fn valid(name: &CStr) -> Option<&[u8]> {
    let name = name.to_bytes();
    (!name.is_empty() && !name.contains(&b'=')).then_some(name)
}

fn failed(code: c_int) -> c_int {
    set_errno(code);
    -1
}

fn status(outcome: Result<(), NoMemory>) -> c_int {
    outcome.map_or_else(|NoMemory| failed(libc::ENOMEM), |()| 0)
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the address of the thread's own variable.
    unsafe { *libc::__errno_location() = code };
}

/// The calling thread's `errno`.
fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}
