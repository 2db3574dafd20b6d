//! Functions that open descriptors: what code of one program among several opens is noted as that program's.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::dl::{Interposed, files};
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::{descriptors, opening};

/// Defines a function of the same name for each of the C library's. It calls that one, and notes the descriptor that is the
/// result or is behind it, or the descriptors at the addresses in brackets.
///
/// All arguments are words. The function takes what it declares of each (psABI, 3.2.3).
macro_rules! opening {
    ($uses:ident by $module:ident; $($($name:literal),+ => $function:ident($($argument:ident),*) -> $result:ty $(, at [$($place:expr),+])?;)+) => {
        $(
            /// # Safety
            /// As the C library's, and called through its thunk.
            unsafe extern "C-unwind" fn $function($($argument: usize,)* context: usize) -> $result {
                // SAFETY: the caller's promise.
                let result = unsafe { $module::$function($($argument),*) };
                opening!(@note result, DomainId(context as u32) $(, $($place),+)?);
                result
            }
        )+

        fn $uses(domain: DomainId) -> Vec<Interposed> {
            let mut all = Vec::new();
            $({
                let arguments = [$(stringify!($argument)),*] as [&str; _];
                // SAFETY: the function takes so many words, and then the context.
                let one = unsafe {
                    Interposition::with_context($function as *const c_void, arguments.len(), domain.0 as usize)
                };
                all.extend([$($name),+].map(|name| (name, one)));
            })+
            all
        }
    };
    (@note $result:ident, $domain:expr) => { $result.note($domain) };
    (@note $result:ident, $domain:expr, $($place:expr),+) => {
        if $result == 0 {
            for place in [$($place),+] {
                // SAFETY: the function has written a descriptor there.
                let opened = unsafe { ptr::with_exposed_provenance::<c_int>(place).read() };
                descriptors::note(opened, $domain);
            }
        }
    };
}

/// The result of a function that opens something.
trait Opened {
    fn note(&self, domain: DomainId);
}

impl Opened for c_int {
    fn note(&self, domain: DomainId) {
        descriptors::note(*self, domain);
    }
}

impl Opened for *mut libc::FILE {
    fn note(&self, domain: DomainId) {
        // SAFETY: a stream that has just been opened.
        unsafe { descriptors::note_stream(*self, domain) };
    }
}

const NEXT: usize = size_of::<c_int>();

opening! { uses_of_paths by files;
    "open", "open64", "__open", "__open64" => open(path, flags, mode) -> c_int;
    "openat", "openat64" => openat(folder, path, flags, mode) -> c_int;
    "__open_2", "__open64_2" => __open_2(path, flags) -> c_int;
    "__openat_2", "__openat64_2" => __openat_2(folder, path, flags) -> c_int;
    "fopen", "fopen64", "_IO_fopen" => fopen(path, mode) -> *mut libc::FILE;
}

opening! { uses_of_the_rest by opening;
    "creat", "creat64" => creat(path, mode) -> c_int;
    "tmpfile", "tmpfile64" => tmpfile() -> *mut libc::FILE;
    "mkstemp", "mkstemp64" => mkstemp(path) -> c_int;
    "mkostemp", "mkostemp64" => mkostemp(path, flags) -> c_int;
    "mkstemps", "mkstemps64" => mkstemps(path, length) -> c_int;
    "mkostemps", "mkostemps64" => mkostemps(path, length, flags) -> c_int;
    "shm_open" => shm_open(name, flags, mode) -> c_int;
    "memfd_create" => memfd_create(name, flags) -> c_int;
    "dup", "__dup" => dup(descriptor) -> c_int;
    "pipe", "__pipe" => pipe(places) -> c_int, at [places, places + NEXT];
    "pipe2" => pipe2(places, flags) -> c_int, at [places, places + NEXT];
    "socket" => socket(family, kind, protocol) -> c_int;
    "socketpair" => socketpair(family, kind, protocol, places) -> c_int, at [places, places + NEXT];
    "accept" => accept(socket, address, length) -> c_int;
    "accept4" => accept4(socket, address, length, flags) -> c_int;
    "posix_openpt" => posix_openpt(flags) -> c_int;
    "openpty" => openpty(terminal, other, name, attributes, size) -> c_int, at [terminal, other];
    "eventfd" => eventfd(value, flags) -> c_int;
    "epoll_create" => epoll_create(size) -> c_int;
    "epoll_create1" => epoll_create1(flags) -> c_int;
    "inotify_init" => inotify_init() -> c_int;
    "inotify_init1" => inotify_init1(flags) -> c_int;
    "signalfd" => signalfd(descriptor, signals, flags) -> c_int;
    "timerfd_create" => timerfd_create(clock, flags) -> c_int;
}

/// The functions of <fcntl.h>, <stdio.h>, <stdlib.h>, <sys/socket.h>, <unistd.h>, and of the headers of further kinds of
/// descriptors.
pub(super) fn uses(domain: DomainId) -> Vec<Interposed> {
    let mut all = uses_of_paths(domain);
    all.extend(uses_of_the_rest(domain));
    all
}
