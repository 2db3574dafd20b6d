//! `syscall`, with the numbers of functions that this crate answers by name.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr;

use crate::arch::gathering;
use crate::dl::{Interposed, programs, record_locks};
use crate::replica::thunk::Interposition;
use crate::sys::{children, process};

/// The function of <unistd.h>.
pub(super) fn uses(context: usize) -> Vec<Interposed> {
    // SAFETY: `gathering` has defined the function.
    let call = unsafe { Interposition::with_hidden_context(syscall as *const c_void, context) };
    vec![("syscall", call)]
}

gathering!(syscall => call_gathered);

/// `syscall(number, arguments...)`.
///
/// # Safety
/// As syscall(2), of the seven words at `arguments`.
unsafe extern "C" fn call_gathered(arguments: *const usize, context: usize) -> c_long {
    // SAFETY: the words are the arguments' registers, and a word of the caller's stack, whatever it has.
    let [number, rest @ ..] = unsafe { arguments.cast::<[usize; 7]>().read() };
    let [a, b, c, d, e, _] = rest;
    let number = number as c_long;
    // SAFETY: the caller's promise; the context is the owner's, which has the domain.
    let status = unsafe {
        let owner = record_locks::owner(context);
        let domain = owner.domain.0 as usize;
        let place = ptr::with_exposed_provenance_mut::<c_int>;
        match number {
            libc::SYS_wait4 => {
                let usage = ptr::with_exposed_provenance_mut(d);
                children::wait_by_number(a as c_int, place(b), c as c_int, usage, owner.domain)
            }
            libc::SYS_waitid => {
                let report = ptr::with_exposed_provenance_mut(c);
                let usage = ptr::with_exposed_provenance_mut(e);
                let (kind, id) = (a as libc::idtype_t, b as libc::id_t);
                children::wait_by_kind(kind, id, report, d as c_int, usage, owner.domain)
            }
            libc::SYS_fcntl => record_locks::fcntl(a as c_int, b as c_int, c, context),
            libc::SYS_close => record_locks::close(a as c_int, context),
            libc::SYS_dup3 => record_locks::dup3(a as c_int, b as c_int, c as c_int, context),
            libc::SYS_close_range => {
                record_locks::close_range(a as c_uint, b as c_uint, c as c_int, context)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => record_locks::dup2(a as c_int, b as c_int, context),
            _ => {
                let result = process::call(number, rest);
                if result > 0 && process::makes_child(number, &rest) {
                    programs::note(result as isize, domain);
                }
                return result;
            }
        }
    };
    c_long::from(status)
}
