//! The functions that start programs with the environment of their caller, or search its `PATH`.
//!
//! The `exec` functions allocate nothing and take no lock: they may run between `vfork` and `execve`.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use super::Environment;
use crate::sys::errno::{errno, failed, set_errno};

/// The longest name of a file, and the longest folder of `PATH`, that glibc looks at (posix/execvpe.c).
const NAME_MAX: usize = 255;
const PATH_MAX: usize = libc::PATH_MAX as usize;
/// The search path without `PATH` (glibc's `_CS_PATH`).
const DEFAULT_PATH: &CStr = c"/bin:/usr/bin";

/// Null-terminated arrays of strings, as programs get them.
pub(crate) type Strings = *const *const c_char;

/// The arguments of `posix_spawn` and `posix_spawnp`, as the C library's functions take them.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Spawn {
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: Strings,
    pub(super) variables: Strings,
}

impl Spawn {
    /// Lets `start` make the call, and returns its result and the new process's number, if any.
    ///
    /// # Safety
    /// As posix_spawn(3).
    pub(crate) unsafe fn with_number(
        self,
        start: impl FnOnce(Spawn) -> c_int,
    ) -> (c_int, Option<libc::pid_t>) {
        let mut number = 0;
        let code = start(Spawn { pid: &mut number, ..self });
        if code != 0 {
            return (code, None);
        }
        // SAFETY: null, or the caller's place for it.
        unsafe { self.pid.as_mut() }.into_iter().for_each(|place| *place = number);
        (code, Some(number))
    }

    /// `posix_spawn`.
    ///
    /// # Safety
    /// As posix_spawn(3).
    pub(crate) unsafe fn start(self) -> c_int {
        let Self { pid, file, actions, attributes, arguments, variables } = self;
        let (arguments, variables) = (arguments.cast(), variables.cast());
        // SAFETY: the caller's promise.
        unsafe { libc::posix_spawn(pid, file, actions, attributes, arguments, variables) }
    }

    /// `posix_spawnp`, which searches the process's `PATH`.
    ///
    /// # Safety
    /// As posix_spawn(3).
    pub(crate) unsafe fn search_and_start(self) -> c_int {
        let Self { pid, file, actions, attributes, arguments, variables } = self;
        let (arguments, variables) = (arguments.cast(), variables.cast());
        // SAFETY: the caller's promise.
        unsafe { libc::posix_spawnp(pid, file, actions, attributes, arguments, variables) }
    }
}

impl Environment {
    /// `execv(path, arguments)`.
    ///
    /// # Safety
    /// As execv(3).
    pub(crate) unsafe fn execute(&self, path: *const c_char, arguments: Strings) -> c_int {
        // SAFETY: the caller's promise; `pointers` is an array that ends with a null pointer.
        unsafe { libc::execve(path, arguments, self.pointers()) }
    }

    /// `execvpe(file, arguments, variables)`, or `execvp` without `variables`: the search follows the `PATH` of
    /// this environment. glibc's own functions search the process's `PATH` in both cases.
    ///
    /// # Safety
    /// As execvpe(3).
    pub(crate) unsafe fn search_and_execute(
        &self,
        file: &CStr,
        arguments: Strings,
        variables: Option<Strings>,
    ) -> c_int {
        let variables = variables.unwrap_or_else(|| self.pointers());
        let attempt = |path: &CStr| {
            // With a slash in the name it searches nothing. It hands a file without a known format to the shell.
            // SAFETY: the caller's promise.
            unsafe { libc::execvpe(path.as_ptr(), arguments, variables) };
            errno()
        };
        failed(self.along_path(file, attempt))
    }

    /// `posix_spawnp`, with the `PATH` of this environment. A relative entry of `PATH` starts from the folder of the caller,
    /// not from the one that the call's actions go to.
    ///
    /// # Safety
    /// As posix_spawnp(3).
    pub(crate) unsafe fn search_and_spawn(&self, call: Spawn) -> c_int {
        // SAFETY: the caller's promise.
        let file = unsafe { CStr::from_ptr(call.file) };
        self.along_path(file, |path| {
            // Looked at before, since the actions of a child that finds no program would happen again for the next
            // folder.
            if path != file && !is_program(path) {
                return errno();
            }
            // SAFETY: the caller's promise.
            unsafe { Spawn { file: path.as_ptr(), ..call }.start() }
        })
    }

    /// Calls `attempt` with the files that `file` may mean, until one gives a result other than an error that says
    /// that it is missing. Returns the last result, or EACCES if any attempt gave it (glibc, posix/execvpe.c).
    fn along_path(&self, file: &CStr, mut attempt: impl FnMut(&CStr) -> c_int) -> c_int {
        let name = file.to_bytes();
        if name.is_empty() {
            return libc::ENOENT;
        }
        if name.contains(&b'/') {
            return attempt(file);
        }
        if name.len() > NAME_MAX {
            return libc::ENAMETOOLONG;
        }
        let path = self.value(c"PATH");
        let path = match path.is_null() {
            true => DEFAULT_PATH,
            // SAFETY: entries of an environment are NUL-terminated strings.
            false => unsafe { CStr::from_ptr(path) },
        };
        let mut buffer = [0; PATH_MAX + NAME_MAX + 2];
        let (mut last, mut denied) = (libc::ENOENT, false);
        for folder in path.to_bytes().split(|&byte| byte == b':') {
            // An empty entry is the current folder.
            let folder = if folder.is_empty() { b"." } else { folder };
            if folder.len() >= PATH_MAX {
                continue;
            }
            let parts = [folder, b"/", name, b"\0"];
            let mut end = 0;
            for part in parts {
                buffer[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
            let candidate = CStr::from_bytes_until_nul(&buffer).expect("a NUL was put behind it");
            last = attempt(candidate);
            match last {
                libc::EACCES => denied = true,
                libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return last,
            }
        }
        if denied { libc::EACCES } else { last }
    }
}

/// Whether the process may execute the file; if not, `errno` says why.
fn is_program(path: &CStr) -> bool {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a NUL-terminated path, and a place to write to.
    if unsafe { libc::stat(path.as_ptr(), facts.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: `stat` has filled it.
    if unsafe { facts.assume_init() }.st_mode & libc::S_IFMT != libc::S_IFREG {
        set_errno(libc::EACCES);
        return false;
    }
    // SAFETY: as above.
    unsafe { libc::eaccess(path.as_ptr(), libc::X_OK) == 0 }
}
