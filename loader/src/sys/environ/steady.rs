//! A variable `environ` for one program among several that have the process's environment in common.
//!
//! The process's `environ` moves when any of them removes a variable or has no room for one. A program that reads `environ`
//! twice, and expects the same where it has changed nothing, is right by itself and wrong beside others.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::table::{NoMemory, entries};
use super::{Changes, Environment, PROCESS, Spawn, process_variable, valid};
use crate::id::DomainId;

/// The environment as it was when this was made, with the program's own changes since, which the process's environment gets too.
#[derive(Debug)]
pub(crate) struct Steady(Environment);

impl Steady {
    /// The process's environment as it is now. Its strings are those that [`PROCESS`] hands out, so many of these have them in
    /// common.
    pub(crate) fn of_process(owner: DomainId) -> io::Result<Steady> {
        let no_memory = |NoMemory| io::Error::from_raw_os_error(libc::ENOMEM);
        let mut strings = Vec::new();
        for entry in entries(process_variable()) {
            // SAFETY: entries of an environment are NUL-terminated strings.
            let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
            if let Some(end) = text.iter().position(|&byte| byte == b'=') {
                let string = PROCESS.table.lock().intern(&text[..end], &text[end + 1..]);
                strings.push(string.map_err(no_memory)?);
            }
        }
        let steady = Environment::of_strings(owner, strings).map_err(no_memory)?;
        Ok(Steady(steady))
    }

    /// The domain that it was made for.
    pub(crate) fn owner(&self) -> Option<DomainId> {
        self.0.owner()
    }

    /// Its variable `environ`.
    pub(crate) fn variable(&self) -> &AtomicPtr<*mut c_char> {
        self.0.variable()
    }

    /// The call, with the process's environment in place of this one.
    pub(crate) fn with_current(&self, mut call: Spawn) -> Spawn {
        if call.variables == self.variable().load(Ordering::Relaxed).cast_const().cast() {
            call.variables = PROCESS.pointers();
        }
        call
    }
}

/// Each change is made in the process's environment and in this one.
impl Changes for Steady {
    fn set(&self, name: Option<&CStr>, value: Option<&CStr>, overwrite: bool) -> c_int {
        let status = PROCESS.set(name, value, overwrite);
        if let (0, Some(name), Some(value)) = (status, name, value)
            && let Some(text) = valid(name)
            && (overwrite || self.0.value(name).is_null())
        {
            let entry = PROCESS.table.lock().intern(text, value.to_bytes());
            // Without memory this environment stays as it is; the process's has the variable.
            let _ = entry.and_then(|entry| self.0.table.lock().set(self.variable(), text, entry));
        }
        status
    }

    unsafe fn put(&self, string: *mut c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            match PROCESS.put(string) {
                0 => self.0.put(string),
                status => status,
            }
        }
    }

    fn unset(&self, name: Option<&CStr>) -> c_int {
        match PROCESS.unset(name) {
            0 => self.0.unset(name),
            status => status,
        }
    }

    fn clear(&self) -> c_int {
        PROCESS.clear();
        self.0.clear()
    }
}
