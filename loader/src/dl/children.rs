//! `wait` and its relatives: code of one program among several waits for that program's children.

use std::ffi::c_int;
use std::ptr;

use crate::id::DomainId;
use crate::sys::answering::answering;
use crate::sys::answering::types::{id_t, idtype_t, pid_t, rusage, siginfo_t};
use crate::sys::children;

answering! {
    pub(super) fn functions, context: usize;

    /// `wait(status)`.
    "wait", "__wait" => extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
        wait4(-1, status, 0, ptr::null_mut(), context)
    }

    /// `waitpid(child, status, options)`.
    "waitpid", "__waitpid" => extern "C-unwind" fn waitpid(
        child: pid_t, status: *mut c_int, options: c_int,
    ) -> pid_t {
        wait4(child, status, options, ptr::null_mut(), context)
    }

    /// `wait3(status, options, usage)`.
    "wait3" => extern "C-unwind" fn wait3(
        status: *mut c_int, options: c_int, usage: *mut rusage,
    ) -> pid_t {
        wait4(-1, status, options, usage, context)
    }

    /// `wait4(child, status, options, usage)`.
    "wait4" => extern "C-unwind" fn wait4(
        child: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage,
    ) -> pid_t {
        children::wait_by_number(child, status, options, usage, DomainId(context as u32))
    }

    /// `waitid(kind, id, report, options)`.
    "waitid" => extern "C-unwind" fn waitid(
        kind: idtype_t, id: id_t, report: *mut siginfo_t, options: c_int,
    ) -> c_int {
        children::wait_by_kind(kind, id, report, options, ptr::null_mut(), DomainId(context as u32))
    }
}
