//! Environments (environ(7)): the process's, and domains' own.

mod programs;
mod seen;
mod shell;
mod table;

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use self::table::{NoMemory, Table, entries, is_named};
use super::dynamic::ProgramArguments;
use super::errno::failed;
use super::lock::{Mutex, Once, Rank};
use crate::id::DomainId;

pub(crate) use self::programs::{Spawn, Strings};
pub(crate) use self::seen::{ZoneVariable, forget_seen, seen, zone_changes};
pub(crate) use self::shell::{is_pipe, pclose, popen, run_shell};

/// The environment of the process.
pub(crate) static PROCESS: Environment = Environment {
    own: None,
    owner: None,
    is_steady: false,
    table: Mutex::new(Rank::Environment, Table::new()),
    arguments: Once::new(),
};

/// A variable `environ`, and the functions that read and change the environment behind it.
///
/// Functions that read it take no lock and allocate nothing, so code between `vfork` and `execve` may call them.
#[derive(Debug)]
pub(crate) struct Environment {
    /// `environ`; none if it is the C library's.
    own: Option<AtomicPtr<*mut c_char>>,
    /// The domain that it was made for; none for the process's.
    owner: Option<DomainId>,
    /// Whether each change is made in the process's environment too ([`Environment::steady`]).
    is_steady: bool,
    table: Mutex<Table>,
    /// The arguments that constructors get, with the environment as the first of them finds it.
    arguments: Once<ProgramArguments>,
}

impl Environment {
    /// An environment with these entries, each `NAME=value`, for a domain. Its memory is never freed.
    pub(crate) fn new(owner: DomainId, entries: Vec<CString>) -> io::Result<Environment> {
        let strings = entries.into_iter().map(CString::into_raw).collect();
        Self::of_strings(owner, strings, false).map_err(no_memory)
    }

    /// The process's environment as it is now, with a variable `environ` for one program among several that share it. Each
    /// change that this program makes also reaches the process's.
    ///
    /// The process's `environ` moves when any of them removes a variable or needs room for one. A program that reads
    /// `environ` twice and expects no change, having made none, is correct alone and wrong beside others.
    pub(crate) fn steady(owner: DomainId) -> io::Result<Environment> {
        let mut strings = Vec::new();
        for entry in entries(process_variable()) {
            // SAFETY: entries of an environment are NUL-terminated strings.
            let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
            if let Some(end) = text.iter().position(|&byte| byte == b'=') {
                // Many steady ones share the process's strings.
                let string = PROCESS.table.lock().intern(&text[..end], &text[end + 1..]);
                strings.push(string.map_err(no_memory)?);
            }
        }
        Self::of_strings(owner, strings, true).map_err(no_memory)
    }

    /// One with these strings, which are NUL-terminated and stay.
    fn of_strings(
        owner: DomainId,
        strings: Vec<*mut c_char>,
        is_steady: bool,
    ) -> Result<Environment, NoMemory> {
        let own = AtomicPtr::new(ptr::null_mut());
        let mut table = Table::new();
        table.begin(&own, strings)?;
        // It may have another time zone than the process's.
        seen::note_change(b"TZ");
        let (table, arguments) = (Mutex::new(Rank::Environment, table), Once::new());
        Ok(Environment { own: Some(own), owner: Some(owner), is_steady, table, arguments })
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

    /// Lets `change` change a variable. In the process's environment it counts for `caller`.
    fn changing<T>(
        &self,
        caller: Option<DomainId>,
        name: &[u8],
        change: impl FnOnce(&mut Table) -> T,
    ) -> T {
        let domain = caller.filter(|_| self.own.is_none());
        let mut table = self.table.lock();
        let result = seen::changing(domain, name, || change(&mut table));
        seen::note_change(name);
        result
    }
}

/// The functions of <stdlib.h> that change an environment. `caller` is the domain whose code the thread runs.
impl Environment {
    /// `setenv`. None stands for a null `name` or `value`.
    pub(crate) fn set(
        &self,
        caller: Option<DomainId>,
        name: Option<&CStr>,
        value: Option<&CStr>,
        overwrite: bool,
    ) -> c_int {
        let (Some(text), Some(value)) = (name.and_then(valid), value) else {
            return failed(libc::EINVAL);
        };
        if self.is_refused(|process| process.set(caller, name, Some(value), overwrite)) {
            return -1;
        }
        let value = value.to_bytes();
        let shared = self.is_steady.then(|| PROCESS.table.lock().intern(text, value));
        let environ = self.variable();
        self.changing(caller, text, |table| {
            if !overwrite && entries(environ).any(|entry| is_named(entry, text)) {
                return 0;
            }
            let entry = shared.unwrap_or_else(|| table.intern(text, value));
            status(entry.and_then(|entry| table.set(environ, text, entry)))
        })
    }

    /// `putenv`: the string itself becomes part of the environment; without `=` it names a variable to remove
    /// (glibc's extension).
    ///
    /// # Safety
    /// A string that is not null is NUL-terminated, and stays for as long as it is part of the environment.
    pub(crate) unsafe fn put(&self, caller: Option<DomainId>, string: *mut c_char) -> c_int {
        if string.is_null() {
            return failed(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        if self.is_refused(|process| unsafe { process.put(caller, string) }) {
            return -1;
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(string) }.to_bytes();
        let environ = self.variable();
        let remove = |table: &mut Table| table.remove(environ, text);
        status(match text.iter().position(|&byte| byte == b'=') {
            Some(end) => self
                .changing(caller, &text[..end], |table| table.set(environ, &text[..end], string)),
            None if text.is_empty() => Ok(()),
            None => self.changing(caller, text, remove),
        })
    }

    /// `unsetenv`. None stands for a null `name`.
    pub(crate) fn unset(&self, caller: Option<DomainId>, name: Option<&CStr>) -> c_int {
        let Some(text) = name.and_then(valid) else { return failed(libc::EINVAL) };
        if self.is_refused(|process| process.unset(caller, name)) {
            return -1;
        }
        status(self.changing(caller, text, |table| table.remove(self.variable(), text)))
    }

    /// `clearenv`.
    pub(crate) fn clear(&self, caller: Option<DomainId>) -> c_int {
        if self.is_refused(|process| process.clear(caller)) {
            return -1;
        }
        if self.own.is_none() {
            for name in seen::set_in_process() {
                self.unset(caller, Some(&name));
            }
        }
        let _table = self.table.lock();
        self.variable().store(ptr::null_mut(), Ordering::Release);
        seen::note_change(b"TZ");
        0
    }

    /// Makes a change in the process's environment, if this one is steady. Whether that has failed.
    fn is_refused(&self, change: impl FnOnce(&Environment) -> c_int) -> bool {
        self.is_steady && change(&PROCESS) != 0
    }

    /// The call, with the process's environment in place of this one.
    pub(crate) fn with_current(&self, mut call: Spawn) -> Spawn {
        if call.variables == self.variable().load(Ordering::Relaxed).cast_const().cast() {
            call.variables = PROCESS.pointers();
        }
        call
    }
}

fn no_memory(_: NoMemory) -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
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

fn status(outcome: Result<(), NoMemory>) -> c_int {
    outcome.map_or_else(|NoMemory| failed(libc::ENOMEM), |()| 0)
}
