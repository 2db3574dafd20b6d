//! Which time zone a domain has, and the variables that show it.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU64, Ordering, fence};

use super::zone::Zone;
use crate::sys::environ::{ZoneVariable, zone_changes};
use crate::sys::lock::LeafLock;

/// The time zone of a domain.
#[derive(Debug)]
pub(super) struct Clock {
    variable: ZoneVariable,
    published: Published,
    pub shown: Shown,
}

/// The zone that a domain has found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// None before the first look.
    zone: Option<&'static Zone>,
    /// Whether it is another one than the process's.
    is_own: bool,
    /// Changes of time zones when it was looked up, and when it was compared with the process's.
    found_at: u64,
    compared_at: u64,
}

/// The same for threads that read it without a lock: what they read counts if the version is even, and the same before and after.
#[derive(Debug)]
struct Published {
    version: AtomicU64,
    zone: AtomicPtr<Zone>,
    is_own: AtomicBool,
    found_at: AtomicU64,
    compared_at: AtomicU64,
    /// Held by the thread that writes. No thread forks meanwhile.
    writing: LeafLock<()>,
}

impl Published {
    fn read(&self) -> (u64, Found) {
        let (version, found) = self.look();
        fence(Ordering::Acquire);
        if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
            return (version, found);
        }
        // Nobody writes now.
        self.writing.with(|()| self.look())
    }

    fn look(&self) -> (u64, Found) {
        let version = self.version.load(Ordering::Acquire);
        // SAFETY: zones stay for ever.
        let zone = unsafe { self.zone.load(Ordering::Relaxed).as_ref() };
        let found = Found {
            zone,
            is_own: self.is_own.load(Ordering::Relaxed),
            found_at: self.found_at.load(Ordering::Relaxed),
            compared_at: self.compared_at.load(Ordering::Relaxed),
        };
        (version, found)
    }

    /// False, without a change, if another thread has written since that version.
    fn write(&self, version: u64, found: Found) -> bool {
        self.writing.with(|()| {
            if self.version.load(Ordering::Relaxed) != version {
                return false;
            }
            self.version.store(version + 1, Ordering::Relaxed);
            fence(Ordering::Release);
            let zone = found.zone.map_or(ptr::null(), ptr::from_ref).cast_mut();
            self.zone.store(zone, Ordering::Relaxed);
            self.is_own.store(found.is_own, Ordering::Relaxed);
            self.found_at.store(found.found_at, Ordering::Relaxed);
            self.compared_at.store(found.compared_at, Ordering::Relaxed);
            self.version.store(version + 2, Ordering::Release);
            true
        })
    }
}

impl Clock {
    pub(super) fn new(variable: ZoneVariable) -> Clock {
        let published = Published {
            version: AtomicU64::new(0),
            zone: AtomicPtr::new(ptr::null_mut()),
            is_own: AtomicBool::new(false),
            found_at: AtomicU64::new(0),
            compared_at: AtomicU64::new(0),
            writing: LeafLock::new(()),
        };
        let clock = Clock { variable, published, shown: Shown::default() };
        clock.shown.show(None);
        clock
    }

    /// The domain's zone, if it is not the process's. `follows` is for functions that look at `TZ`, as `tzset` does.
    pub(super) fn zone(&self, follows: bool) -> Option<&'static Zone> {
        let changes = zone_changes();
        loop {
            let (version, last) = self.published.read();
            let known = last.zone.filter(|_| !follows || last.found_at == changes);
            if known.is_some() && last.compared_at == changes {
                return known.filter(|_| last.is_own);
            }
            let found_at = if known.is_some() { last.found_at } else { changes };
            let zone = known.unwrap_or_else(|| Zone::of(self.variable.value()));
            let is_own = !ZoneVariable::is_the_process_s(zone.value());
            let found = Found { zone: Some(zone), is_own, found_at, compared_at: changes };
            if self.published.write(version, found) {
                return is_own.then_some(zone);
            }
        }
    }
}

/// `tzname`, `timezone` and `daylight`.
#[derive(Debug, Default)]
pub(super) struct Shown {
    names: [AtomicPtr<c_char>; 2],
    west: AtomicI64,
    has_dst: AtomicI32,
}

/// The C library's own.
mod theirs {
    use super::*;

    unsafe extern "C" {
        pub static mut tzname: [*mut c_char; 2];
        pub static mut timezone: c_long;
        pub static mut daylight: c_int;
    }
}

impl Shown {
    /// The names of the variables, and where they are.
    pub(super) fn places(&self) -> [(&'static str, *const c_void); 6] {
        let names = self.names.as_ptr().cast();
        let (west, has_dst) =
            (self.west.as_ptr().cast_const().cast(), self.has_dst.as_ptr().cast_const().cast());
        [
            ("tzname", names),
            ("__tzname", names),
            ("timezone", west),
            ("__timezone", west),
            ("daylight", has_dst),
            ("__daylight", has_dst),
        ]
    }

    /// Shows a zone of the domain's, or else the process's.
    pub(super) fn show(&self, zone: Option<&'static Zone>) {
        let Some(zone) = zone else { return self.show_the_process_s() };
        let (names, west, has_dst) = zone.shown;
        self.set(names.map(|name| name.as_ptr().cast_mut()), west, has_dst.into());
    }

    /// Shows the C library's own.
    fn show_the_process_s(&self) {
        // SAFETY: aligned variables, which are there for the process's life. The C library changes each by one store of a word.
        unsafe {
            let [first, second] = [0, 1].map(|index| &raw mut theirs::tzname[index]);
            let names =
                [first, second].map(|name| AtomicPtr::from_ptr(name).load(Ordering::Relaxed));
            let west = AtomicI64::from_ptr(&raw mut theirs::timezone).load(Ordering::Relaxed);
            let has_dst = AtomicI32::from_ptr(&raw mut theirs::daylight).load(Ordering::Relaxed);
            self.set(names, west, has_dst);
        }
    }

    fn set(&self, names: [*mut c_char; 2], west: c_long, has_dst: c_int) {
        for (place, name) in self.names.iter().zip(names) {
            place.store(name, Ordering::Relaxed);
        }
        self.west.store(west, Ordering::Relaxed);
        self.has_dst.store(has_dst, Ordering::Relaxed);
    }
}
