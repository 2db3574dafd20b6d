//! The C library's functions that open descriptors, for a domain's functions of the same names. Of their arguments each is a word.

use std::ffi::c_int;

unsafe extern "C-unwind" {
    pub(crate) fn creat(path: usize, mode: usize) -> c_int;
    pub(crate) fn tmpfile() -> *mut libc::FILE;
    pub(crate) fn mkstemp(path: usize) -> c_int;
    pub(crate) fn mkostemp(path: usize, flags: usize) -> c_int;
    pub(crate) fn mkstemps(path: usize, length: usize) -> c_int;
    pub(crate) fn mkostemps(path: usize, length: usize, flags: usize) -> c_int;
    pub(crate) fn shm_open(name: usize, flags: usize, mode: usize) -> c_int;
    pub(crate) fn memfd_create(name: usize, flags: usize) -> c_int;
    pub(crate) fn dup(descriptor: usize) -> c_int;
    pub(crate) fn pipe(places: usize) -> c_int;
    pub(crate) fn pipe2(places: usize, flags: usize) -> c_int;
    pub(crate) fn socket(family: usize, kind: usize, protocol: usize) -> c_int;
    pub(crate) fn socketpair(family: usize, kind: usize, protocol: usize, places: usize) -> c_int;
    pub(crate) fn accept(socket: usize, address: usize, length: usize) -> c_int;
    pub(crate) fn accept4(socket: usize, address: usize, length: usize, flags: usize) -> c_int;
    pub(crate) fn posix_openpt(flags: usize) -> c_int;
    pub(crate) fn openpty(
        terminal: usize,
        other: usize,
        name: usize,
        attributes: usize,
        size: usize,
    ) -> c_int;
    pub(crate) fn eventfd(value: usize, flags: usize) -> c_int;
    pub(crate) fn epoll_create(size: usize) -> c_int;
    pub(crate) fn epoll_create1(flags: usize) -> c_int;
    pub(crate) fn inotify_init() -> c_int;
    pub(crate) fn inotify_init1(flags: usize) -> c_int;
    pub(crate) fn signalfd(descriptor: usize, signals: usize, flags: usize) -> c_int;
    pub(crate) fn timerfd_create(clock: usize, flags: usize) -> c_int;
    pub(crate) fn open(path: usize, flags: usize, mode: usize) -> c_int;
    pub(crate) fn openat(folder: usize, path: usize, flags: usize, mode: usize) -> c_int;
    pub(crate) fn __open_2(path: usize, flags: usize) -> c_int;
    pub(crate) fn __openat_2(folder: usize, path: usize, flags: usize) -> c_int;
    pub(crate) fn fopen(path: usize, mode: usize) -> *mut libc::FILE;
}

/// Functions for paths and directories, which open none or are asked after that.
pub(crate) use libc::{
    access, closedir, dirfd, faccessat, fdopen, fstatat, major, malloc, minor, opendir, readdir,
    readlink, readlinkat, realpath, rewinddir, seekdir, statx, telldir,
};
