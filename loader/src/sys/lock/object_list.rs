//! The lock of glibc's list of loaded objects, which a fork leaves locked.
//!
//! `dl_iterate_phdr` holds it (`_dl_load_write_lock`; glibc, elf/dl-iteratephdr.c), and every load here asks
//! for the list. In the child glibc's fork frees the lock of its loader and the lock of thread-local data. It
//! does not free this one (posix/fork.c; glibc bug 19282), so this module does. The list is whole at any time:
//! one store to a pointer adds or removes an object.
//!
//! The lock is a recursive mutex in ld.so's own data, and has no name. Its behaviour identifies it: during a
//! callback of `dl_iterate_phdr` the calling thread owns it once more than before. If no mutex behaves so, or
//! several do, this module changes nothing.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::Once;
use crate::sys::functions::functions;
use crate::sys::thread;

/// The beginning of `pthread_mutex_t` on 64-bit machines (glibc, sysdeps/nptl/bits/struct_mutex.h).
#[repr(C)]
struct NativeMutex {
    lock: AtomicI32,
    count: AtomicU32,
    owner: AtomicI32,
    users: AtomicU32,
    kind: AtomicI32,
}

static LOCK: Once<Option<&'static NativeMutex>> = Once::new();

/// Finds the lock.
pub(super) fn prepare() {
    LOCK.get_or_init(|| {
        let found = find();
        if found.is_none() {
            tracing::debug!("the lock of the system loader's list of objects was not found");
        }
        found
    });
}

/// Frees the lock. The calling thread is the only one of a process that was just forked.
pub(super) fn reset() {
    let Some(&Some(mutex)) = LOCK.get() else { return };
    if mutex.lock.load(Ordering::Relaxed) != 0 {
        // If this thread had the lock, glibc does not recognise that any more: the mutex holds the id that
        // the thread had in the parent process.
        mutex.count.store(0, Ordering::Relaxed);
        mutex.owner.store(0, Ordering::Relaxed);
        mutex.users.store(0, Ordering::Relaxed);
        mutex.lock.store(0, Ordering::Release);
    }
}

fn find() -> Option<&'static NativeMutex> {
    unsafe extern "C-unwind" fn visit(
        _: *mut libc::dl_phdr_info,
        _: usize,
        owned: *mut c_void,
    ) -> c_int {
        // SAFETY: `find` passes the place of its pair: ld.so's data, and the mutexes that are owned there.
        let (data, owned) = unsafe { &mut *owned.cast::<(&[AtomicU64], Vec<(usize, u32)>)>() };
        *owned = owned_in(data);
        1
    }
    let data = loader_data()?;
    let before = owned_in(data);
    let mut pass = (data, Vec::new());
    // SAFETY: the callback has the signature and gets the value that it expects.
    unsafe { (functions().dl_iterate_phdr)(Some(visit), (&raw mut pass).cast()) };
    let is_new = |owned: &&(usize, u32)| {
        let depth = before.iter().find(|known| known.0 == owned.0).map_or(0, |known| known.1);
        owned.1 == depth + 1
    };
    let mut new = pass.1.iter().filter(is_new);
    let (Some(&(place, _)), None) = (new.next(), new.next()) else { return None };
    // SAFETY: the words there are those of a mutex, by what they did. They are never unmapped. glibc changes
    // them by atomic accesses.
    Some(unsafe { &*ptr::from_ref(&data[place]).cast::<NativeMutex>() })
}

/// The places in `data` of recursive mutexes that the calling thread owns, and how many times it owns each.
fn owned_in(data: &[AtomicU64]) -> Vec<(usize, u32)> {
    let own = thread::number();
    let places = 0..data.len().saturating_sub(size_of::<NativeMutex>() / 8 + 1);
    let mutex = |place: usize| {
        // SAFETY: the words lie in `data`; they are read as atomics, since other threads may change them.
        unsafe { &*ptr::from_ref(&data[place]).cast::<NativeMutex>() }
    };
    let is_owned = |place: &usize| {
        let mutex = mutex(*place);
        mutex.lock.load(Ordering::Relaxed) > 0
            && mutex.owner.load(Ordering::Relaxed) == own
            && mutex.users.load(Ordering::Relaxed) == 1
            && mutex.kind.load(Ordering::Relaxed) == libc::PTHREAD_MUTEX_RECURSIVE
    };
    let counted = |place| (place, mutex(place).count.load(Ordering::Relaxed));
    places.filter(is_owned).map(counted).collect()
}

/// The data of ld.so that holds its locks: the variable `_rtld_global`.
fn loader_data() -> Option<&'static [AtomicU64]> {
    /// RTLD_DL_SYMENT of dladdr1(3).
    const SYMBOL_ENTRY: c_int = 1;
    // SAFETY: the name is NUL-terminated.
    let address = unsafe { (functions().dlsym)(libc::RTLD_DEFAULT, c"_rtld_global".as_ptr()) };
    if address.is_null() {
        // SAFETY: no arguments; it clears the thread's error.
        unsafe { (functions().dlerror)() };
        return None;
    }
    // SAFETY: zero is a value of every field.
    let mut information: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut entry: *mut c_void = ptr::null_mut();
    // SAFETY: both places are valid.
    let status = unsafe {
        (functions().dladdr1)(address, &mut information, (&raw mut entry).cast(), SYMBOL_ENTRY)
    };
    if status == 0 || entry.is_null() || information.dli_saddr != address {
        return None;
    }
    // SAFETY: dladdr1 gave the entry of the symbol table that describes the variable.
    let size = unsafe { (*entry.cast::<libc::Elf64_Sym>()).st_size } as usize;
    // SAFETY: the variable is of that size and aligned as its pointers are. It is never unmapped. This module
    // reads it by atomics.
    (address as usize)
        .is_multiple_of(8)
        .then(|| unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), size / 8) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_owned_during_a_callback_and_free_in_a_child() {
        unsafe extern "C-unwind" fn visit(
            _: *mut libc::dl_phdr_info,
            _: usize,
            child: *mut c_void,
        ) -> c_int {
            let mutex = LOCK.get().unwrap().expect("this glibc has it");
            assert_eq!(mutex.owner.load(Ordering::Relaxed), thread::number());
            // SAFETY: the child only asks for the list of objects and ends; the place is that of a pid.
            unsafe {
                let pid = libc::fork();
                if pid == 0 {
                    libc::alarm(60);
                    reset();
                    let first = |_| ();
                    crate::sys::dynamic::for_each_object(first);
                    libc::_exit(42);
                }
                *child.cast::<libc::pid_t>() = pid;
            }
            1
        }
        prepare();
        let mut child: libc::pid_t = 0;
        let mut status = 0;
        // SAFETY: the callback has the signature and gets the place that it expects; the child is ours.
        unsafe {
            (functions().dl_iterate_phdr)(Some(visit), (&raw mut child).cast());
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:#x}");
    }
}
