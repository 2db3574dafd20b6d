//! The functions of the C and C++ libraries whose frames may be discarded ([`super::discard`]).
//!
//! They take no lock of the process: mem*, str* and other computations, waits for what belongs to the caller, and system
//! calls. The C library's malloc and its kin lock an arena that all share, and are not here: an embedder with
//! heaps of its own names their functions itself. A stream's functions lock the stream.

use std::ffi::CStr;
use std::ptr;

use super::discard::Passes;
use crate::sys::functions::functions as dynamic_linker;

/// Computations, waits, and system calls.
const ALWAYS: &[&CStr] = &[
    // <string.h> and <wchar.h>, with the forms of _FORTIFY_SOURCE.
    c"memcpy",
    c"memmove",
    c"memset",
    c"memcmp",
    c"memchr",
    c"memrchr",
    c"rawmemchr",
    c"memmem",
    c"memccpy",
    c"mempcpy",
    c"bcmp",
    c"strlen",
    c"strnlen",
    c"strcpy",
    c"strncpy",
    c"stpcpy",
    c"stpncpy",
    c"strcat",
    c"strncat",
    c"strcmp",
    c"strncmp",
    c"strcasecmp",
    c"strncasecmp",
    c"strchr",
    c"strchrnul",
    c"strrchr",
    c"strstr",
    c"strcasestr",
    c"strspn",
    c"strcspn",
    c"strpbrk",
    c"wcslen",
    c"wcsnlen",
    c"wcscpy",
    c"wcscmp",
    c"wcsncmp",
    c"wcschr",
    c"wmemcpy",
    c"wmemmove",
    c"wmemset",
    c"wmemcmp",
    c"wmemchr",
    c"__memcpy_chk",
    c"__memmove_chk",
    c"__memset_chk",
    c"__strcpy_chk",
    c"__strncpy_chk",
    c"__strcat_chk",
    c"__strncat_chk",
    c"__stpcpy_chk",
    // Numbers of texts.
    c"strtol",
    c"strtoul",
    c"strtoll",
    c"strtoull",
    c"strtod",
    c"strtof",
    c"atoi",
    c"atol",
    c"atoll",
    c"atof",
    c"setjmp",
    c"_setjmp",
    c"__sigsetjmp",
    // Waits for what belongs to the caller.
    c"pthread_cond_wait",
    c"pthread_cond_timedwait",
    c"pthread_cond_clockwait",
    c"pthread_mutex_lock",
    c"pthread_mutex_timedlock",
    c"pthread_mutex_clocklock",
    c"pthread_rwlock_rdlock",
    c"pthread_rwlock_wrlock",
    c"pthread_barrier_wait",
    c"pthread_join",
    c"sem_wait",
    c"sem_timedwait",
    c"sem_clockwait",
    // The same without a wait, or with one for those who were in it: `pthread_cond_signal` waits for ever for one who has left a
    // wait in this way.
    c"pthread_cond_init",
    c"pthread_cond_signal",
    c"pthread_cond_broadcast",
    c"pthread_cond_destroy",
    c"pthread_mutex_init",
    c"pthread_mutex_trylock",
    c"pthread_mutex_unlock",
    c"pthread_mutex_destroy",
    c"pthread_rwlock_tryrdlock",
    c"pthread_rwlock_trywrlock",
    c"pthread_rwlock_unlock",
    c"sem_init",
    c"sem_post",
    c"sem_trywait",
    c"sem_destroy",
    // System calls.
    c"raise",
    c"kill",
    c"tgkill",
    c"pthread_kill",
    c"read",
    c"write",
    c"readv",
    c"writev",
    c"pread64",
    c"pwrite64",
    c"lseek64",
    c"poll",
    c"ppoll",
    c"select",
    c"pselect",
    c"epoll_wait",
    c"epoll_pwait",
    c"nanosleep",
    c"clock_nanosleep",
    c"usleep",
    c"sleep",
    c"recv",
    c"recvfrom",
    c"recvmsg",
    c"send",
    c"sendto",
    c"sendmsg",
    c"accept",
    c"accept4",
    c"connect",
    c"waitpid",
    c"wait4",
    c"waitid",
    c"pause",
    c"sigwait",
    c"sigwaitinfo",
    c"sigtimedwait",
    c"sched_yield",
    c"syscall",
    c"clock_gettime",
    c"gettimeofday",
    c"time",
    c"getpid",
    c"flock",
    c"pthread_sigmask",
    c"stat",
    c"stat64",
    c"lstat",
    c"lstat64",
    c"fstat",
    c"fstat64",
    c"fstatat",
    c"fstatat64",
    c"access",
    c"faccessat",
    c"readlink",
    c"mkdir",
    c"rmdir",
    c"unlink",
    c"unlinkat",
    c"rename",
    c"chmod",
    c"close",
    c"dup",
    c"dup2",
    c"pipe2",
    c"ioctl",
    c"fcntl64",
    c"lseek",
    c"ftruncate64",
    c"fsync",
    c"fdatasync",
    c"mprotect",
    c"madvise",
    c"getrandom",
    c"socket",
    c"bind",
    c"listen",
    c"shutdown",
    c"setsockopt",
    c"getsockopt",
    c"epoll_ctl",
];

/// Those that call functions of the caller.
const CALLING_BACK: &[&CStr] = &[c"qsort", c"qsort_r", c"bsearch", c"ffi_call"];

/// Those that end the process by `abort(3)`: their messages are written by then.
const RAISING: &[&CStr] = &[
    c"abort",
    c"__assert_fail",
    c"__assert",
    c"__assert_perror_fail",
    c"__stack_chk_fail",
    c"__chk_fail",
    c"__fortify_fail",
    c"__longjmp_chk",
    // C++ (Itanium C++ ABI: Exception Handling), where nobody catches.
    c"__cxa_throw",
    c"__cxa_rethrow",
    c"__cxa_pure_virtual",
    c"__cxa_deleted_virtual",
    c"__cxa_call_unexpected",
    c"_Unwind_Resume",
    c"_ZSt9terminatev",
    c"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
    c"_ZSt16__throw_bad_castv",
    c"_ZSt17__throw_bad_allocv",
    c"_ZSt19__throw_logic_errorPKc",
    c"_ZSt20__throw_length_errorPKc",
    c"_ZSt20__throw_out_of_rangePKc",
    c"_ZSt20__throw_system_errori",
    c"_ZSt24__throw_invalid_argumentPKc",
    c"_ZSt24__throw_out_of_range_fmtPKcz",
    c"_ZSt25__throw_bad_function_callv",
    c"_ZNSt6threadD1Ev",
];

/// Where to look.
const LIBRARIES: [&CStr; 4] = [c"libc.so.6", c"libstdc++.so.6", c"libgcc_s.so.1", c"libffi.so.8"];

/// The address of a function in one of the libraries, if that is loaded.
pub(super) fn address_of(name: &CStr) -> Option<usize> {
    addresses(name).next()
}

fn addresses(name: &CStr) -> impl Iterator<Item = usize> {
    LIBRARIES.into_iter().filter_map(move |library| in_library(library, name))
}

fn in_library(library: &CStr, name: &CStr) -> Option<usize> {
    let all = dynamic_linker();
    // SAFETY: the names are valid. A library that is loaded stays so, as the program or its libraries need it.
    let address = unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let handle = ptr::NonNull::new((all.dlopen)(library.as_ptr(), flags))?;
        let address = (all.dlsym)(handle.as_ptr(), name.as_ptr());
        (all.dlclose)(handle.as_ptr());
        address
    };
    (!address.is_null()).then(|| address.addr())
}

/// The functions, each of which may stand there several times.
pub(super) fn functions() -> impl Iterator<Item = (usize, Passes)> {
    let lists =
        [(ALWAYS, Passes::Always), (CALLING_BACK, Passes::CallingBack), (RAISING, Passes::Raising)];
    lists.into_iter().flat_map(|(names, passes)| {
        names.iter().flat_map(|name| addresses(name)).map(move |address| (address, passes))
    })
}

/// An address in each library that takes no lock and keeps no state: that of mathematics.
pub(super) fn libraries() -> impl Iterator<Item = usize> {
    in_library(c"libm.so.6", c"cos").into_iter()
}
