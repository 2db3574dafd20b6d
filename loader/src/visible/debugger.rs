//! The list that debuggers read: a namespace of our own behind glibc's list of loaded objects.
//!
//! gdb 13 and later follow `r_debug.r_next` when `r_version` is 2 (glibc 2.35 added it for `dlmopen`).
//! Entries in glibc's own list would make its next `dlclose` abort. Only debuggers read a namespace that
//! is appended to the chain.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use goblin::elf::dynamic::DT_DEBUG;

use crate::replica::Replica;
use crate::replica::link_map::LinkMap;
use crate::sys::lock::Once;
use crate::system::System;

/// `struct r_debug_extended` (`<link.h>` of glibc 2.35).
#[repr(C)]
struct RendezvousV2 {
    version: AtomicI32,
    map: AtomicPtr<LinkMap>,
    /// Address of the function that a debugger puts a breakpoint on.
    breakpoint: AtomicUsize,
    state: AtomicI32,
    loader_base: AtomicUsize,
    next: AtomicPtr<RendezvousV2>,
}

const CONSISTENT: i32 = 0;
const ADD: i32 = 1;
const DELETE: i32 = 2;

static OURS: RendezvousV2 = RendezvousV2 {
    version: AtomicI32::new(2),
    map: AtomicPtr::new(ptr::null_mut()),
    breakpoint: AtomicUsize::new(0),
    state: AtomicI32::new(CONSISTENT),
    loader_base: AtomicUsize::new(0),
    next: AtomicPtr::new(ptr::null_mut()),
};

/// glibc's own record. Found through DT_DEBUG of the executable: the symbol `_r_debug` may be a
/// copy in the executable, too short for the extended form.
static SYSTEM: Once<Option<&'static RendezvousV2>> = Once::new();

/// Finds glibc's record. Without it (an older glibc, a static executable) debuggers see no replica.
pub(crate) fn prepare(system: &System) {
    SYSTEM.get_or_init(|| {
        let executable = system.global().first()?.clone();
        let address = executable.value(DT_DEBUG).filter(|&address| address != 0)?;
        // SAFETY: ld.so stores the address of its `r_debug` in DT_DEBUG of the executable and keeps
        // it for the process's life. The field `next` is there since glibc 2.35 only, whose
        // `_r_debug` has room for it; `supports_namespaces` asks before it is touched.
        supports_namespaces().then(|| unsafe { &*(address as *const RendezvousV2) })
    });
}

/// Whether glibc's record has the extended form (2.35).
fn supports_namespaces() -> bool {
    // SAFETY: returns a constant string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let mut numbers =
        version.to_str().unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (2, 35)
}

/// The last entry of our list.
static LAST: AtomicPtr<LinkMap> = AtomicPtr::new(ptr::null_mut());

/// Appends replicas to the list, in load order. gdb searches each object that it knows from the head of
/// the list and removes it when found, so a list that only grows at its end costs gdb linear time. The
/// caller holds the directory's lock.
pub(crate) fn add(replicas: &[Arc<Replica>]) {
    notify(ADD, || {
        for replica in replicas {
            let map = ptr::from_ref(&*replica.link_map).cast_mut();
            let last = LAST.load(Ordering::Relaxed);
            replica.link_map.next.store(ptr::null_mut(), Ordering::Relaxed);
            replica.link_map.previous.store(last, Ordering::Relaxed);
            // SAFETY: entries of the list belong to published replicas, which live until `remove`.
            match unsafe { last.as_ref() } {
                Some(last) => last.next.store(map, Ordering::Release),
                None => OURS.map.store(map, Ordering::Release),
            }
            LAST.store(map, Ordering::Relaxed);
        }
    });
}

/// Takes replicas out of the list. The caller holds the directory's lock.
pub(crate) fn remove(replicas: &[Arc<Replica>]) {
    notify(DELETE, || {
        for replica in replicas {
            let next = replica.link_map.next.load(Ordering::Relaxed);
            let previous = replica.link_map.previous.load(Ordering::Relaxed);
            // SAFETY: neighbours in the list belong to published replicas.
            unsafe {
                match previous.as_ref() {
                    Some(previous) => previous.next.store(next, Ordering::Release),
                    None => OURS.map.store(next, Ordering::Release),
                }
                match next.as_ref() {
                    Some(next) => next.previous.store(previous, Ordering::Relaxed),
                    None => LAST.store(previous, Ordering::Relaxed),
                }
            }
        }
    });
}

/// Changes the list between the two stops that the protocol of `r_debug` asks for.
fn notify(state: i32, change: impl FnOnce()) {
    let Some(&Some(system)) = SYSTEM.get() else {
        return change();
    };
    link_behind(system);
    OURS.state.store(state, Ordering::Relaxed);
    stop(system);
    change();
    OURS.state.store(CONSISTENT, Ordering::Relaxed);
    stop(system);
}

/// Puts our record at the end of the chain. glibc's first `dlmopen` replaces the first link, so the chain
/// is checked each time.
fn link_behind(system: &'static RendezvousV2) {
    system.version.store(2, Ordering::Relaxed);
    OURS.breakpoint.store(system.breakpoint.load(Ordering::Relaxed), Ordering::Relaxed);
    OURS.loader_base.store(system.loader_base.load(Ordering::Relaxed), Ordering::Relaxed);
    let ours = ptr::from_ref(&OURS).cast_mut();
    let mut last = system;
    loop {
        let next = last.next.load(Ordering::Relaxed);
        if next == ours {
            return;
        }
        // SAFETY: the chain holds records of glibc's namespaces, which are never freed.
        match unsafe { next.as_ref() } {
            Some(next) => last = next,
            None => break,
        }
    }
    last.next.store(ours, Ordering::Release);
}

/// Calls the function on which a debugger has its breakpoint; it does nothing.
fn stop(system: &RendezvousV2) {
    let address = system.breakpoint.load(Ordering::Relaxed);
    if address != 0 {
        // SAFETY: `r_brk` is the address of glibc's empty function `_dl_debug_state`.
        let function: extern "C" fn() = unsafe {
            std::mem::transmute::<*const c_void, extern "C" fn()>(address as *const c_void)
        };
        function();
    }
}
