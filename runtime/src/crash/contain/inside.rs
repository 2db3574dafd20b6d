//! The guarded calls that each thread is in, noted off the stack: a crash may have damaged that.

use super::landing::Kept;
use super::{Contained, GuardEntry};
use crate::crash::threads::prepare_thread;
use crate::thread::departure;
use hydrozoa_loader::{DomainId, current, thread_number};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// Calls in one another of which a thread has notes. A crash in a deeper one is not contained.
const MOST: usize = 1024;

/// Results of [`begin`], if it is not the address of the call's [`Kept`]: the call does not begin, or begins without a note.
const REFUSED: usize = 0;
const UNNOTED: usize = 1;

/// A guarded call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Call {
    pub(super) kept: Kept,
    /// It is there as long as a call in it runs.
    pub(super) contained: *const Contained,
    /// The interpreter of the call around this one.
    outer: *mut Contained,
    /// The record that it is in. Null in the place of deeper calls.
    inside: *const Inside,
    pub(super) domain: Option<DomainId>,
    pub(super) exceptions: Exceptions,
}

/// The places of what a guard needs to take a note back by itself: in a [`Call`], in its [`Contained`] and in its [`Inside`].
pub(super) const CONTAINED: usize = offset_of!(Call, contained);
pub(super) const OUTER: usize = offset_of!(Call, outer);
pub(super) const INSIDE: usize = offset_of!(Call, inside);
pub(super) const OF: usize = offset_of!(Inside, of);
pub(super) const DEPTH: usize = offset_of!(Inside, depth);

/// The C++ library's notes of a thread's exceptions: those that are caught, and the number of those that fly (Itanium C++ ABI:
/// Exception Handling, 2.2.2).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Exceptions {
    caught: usize,
    uncaught: usize,
}

impl Exceptions {
    const NONE: Self = Self { caught: 0, uncaught: 0 };
}

/// A thread that makes guarded calls. Records stay for the life of the process, and are used again. The fields that a guard changes are
/// at the begin, where an instruction of AArch64 reaches them.
#[repr(C)]
pub(super) struct Inside {
    /// The kernel's number of the thread; 0 if there is none.
    thread: AtomicI32,
    /// The interpreter whose call is the innermost.
    of: AtomicPtr<Contained>,
    depth: AtomicUsize,
    /// Whether a signal that sends the thread home is on its way, or its handler runs.
    is_asked: AtomicBool,
    /// The interpreter that has refused a call, or crashed in one, last.
    refused: AtomicPtr<Contained>,
    /// Where the thread's domain stands.
    domain: AtomicPtr<Option<DomainId>>,
    /// Where the C++ library notes its exceptions; null if it was not loaded.
    exceptions: AtomicPtr<Exceptions>,
    next: AtomicPtr<Inside>,
    /// The last place is that of all deeper calls.
    calls: UnsafeCell<[Call; MOST + 1]>,
}

// SAFETY: the calls are the thread's own; others read the atomic fields.
unsafe impl Sync for Inside {}

static FIRST: AtomicPtr<Inside> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static OWN: Cell<*const Inside> = const { Cell::new(ptr::null()) };
    static LEAVING: Leaving = const { Leaving };
}

/// Frees the thread's record when it ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(own) = own() {
            OWN.set(ptr::null());
            own.thread.store(0, Ordering::Release);
        }
    }
}

fn own() -> Option<&'static Inside> {
    // SAFETY: null, or a record, which is never freed.
    unsafe { OWN.get().as_ref() }
}

/// All records.
pub(super) fn all() -> impl Iterator<Item = &'static Inside> {
    // SAFETY: as above.
    let record = |place: &AtomicPtr<Inside>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(record(&FIRST), move |one| record(&one.next))
}

/// The record of the thread with this number. A handler of signals may ask.
pub(super) fn of_thread(thread: libc::pid_t) -> Option<&'static Inside> {
    all().find(|one| one.thread.load(Ordering::Acquire) == thread)
}

/// The calling thread's innermost call.
pub(super) fn innermost() -> Option<Innermost> {
    own()?.innermost()
}

/// The interpreter that has refused the calling thread's last call, or crashed in it. It is there as long as the thread has a
/// reference to the interpreter.
pub(super) fn refused() -> *const Contained {
    own().map_or(ptr::null(), |own| own.refused.load(Ordering::Relaxed))
}

/// The innermost call of a thread: a copy, and the address of the original.
#[derive(Clone, Copy)]
pub(super) struct Innermost {
    pub(super) call: Call,
    own: usize,
}

impl Deref for Innermost {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl Innermost {
    /// Whether the frame of its guard is as it was.
    pub(super) fn is_whole(&self) -> bool {
        self.call.kept.is_whole(self.own)
    }

    /// As [`Kept::land`].
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn land(&self, context: *mut c_void) {
        // SAFETY: by contract.
        unsafe { self.call.kept.land(self.own, context) };
    }

    /// As [`Kept::land_now`].
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn land_now(&self) -> ! {
        // SAFETY: by contract.
        unsafe { self.call.kept.land_now(self.own) }
    }
}

impl Inside {
    /// The innermost call of the calling thread, whose record this is.
    pub(super) fn innermost(&self) -> Option<Innermost> {
        let depth = self.depth.load(Ordering::Relaxed);
        let last = depth.checked_sub(1).filter(|last| *last < MOST)?;
        // SAFETY: the thread's own, which changes it in no moment in which a handler of its signals reads it.
        let call = unsafe { &(*self.calls.get())[last] };
        Some(Innermost { call: *call, own: ptr::from_ref(call).expose_provenance() })
    }

    /// The kernel's number of the thread, if its innermost call is in that interpreter.
    pub(super) fn thread_in(&self, contained: *const Contained) -> Option<libc::pid_t> {
        let thread = self.thread.load(Ordering::Acquire);
        let is_in = ptr::eq(self.of.load(Ordering::SeqCst), contained);
        (thread != 0 && is_in).then_some(thread)
    }

    /// Whether a signal that sends the thread home is on its way, or its handler runs.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// Notes that such a signal is sent, or that its handler is done.
    pub(super) fn set_asked(&self, is_asked: bool) {
        self.is_asked.store(is_asked, Ordering::Release);
    }
}

/// Notes a call. `base` is the frame pointer of its guard.
pub(super) unsafe extern "C" fn begin(entry: &GuardEntry, base: *const usize) -> usize {
    // SAFETY: null, or an interpreter that the caller keeps during the call.
    let contained = unsafe { entry.contained.load(Ordering::Acquire).as_ref() };
    let (Some(own), Some(contained)) = (own(), contained) else {
        return begin_first(entry, base);
    };
    let depth = own.depth.load(Ordering::Relaxed);
    if depth >= MOST {
        own.depth.store(depth + 1, Ordering::Relaxed);
        return own.calls.get().cast::<Call>().wrapping_add(MOST).addr();
    }
    let exceptions = own.exceptions.load(Ordering::Relaxed);
    // SAFETY: the guard's frame is there. The thread's own record; no handler looks above its depth. The domain and the C++ library's
    // notes are the thread's. Field by field: the compiler would make the whole elsewhere, and copy it.
    let call = unsafe {
        let call = own.calls.get().cast::<Call>().add(depth);
        Kept::begin(&raw mut (*call).kept, base);
        (*call).contained = contained;
        (*call).outer = own.of.load(Ordering::Relaxed);
        (*call).inside = own;
        (*call).domain = own.domain.load(Ordering::Relaxed).read();
        (*call).exceptions = exceptions.as_ref().map_or(Exceptions::NONE, |now| *now);
        call
    };
    compiler_fence(Ordering::SeqCst);
    own.depth.store(depth + 1, Ordering::Relaxed);
    own.of.store(ptr::from_ref(contained).cast_mut(), Ordering::Relaxed);
    // In this order: the thread that sends others home looks after the crash (`hydrozoa_loader::order_accesses`).
    compiler_fence(Ordering::SeqCst);
    if contained.has_crashed() { refuse() } else { call.addr() }
}

/// Takes a note back. It lies apart, and cannot unwind, so that a call that begins needs no frame.
#[cold]
#[inline(never)]
extern "C" fn refuse() -> usize {
    end();
    REFUSED
}

/// The same for a thread's first call, and for the functions of an interpreter that has ended.
#[cold]
#[inline(never)]
extern "C" fn begin_first(entry: &GuardEntry, base: *const usize) -> usize {
    // SAFETY: as above.
    let contained = unsafe { entry.contained.load(Ordering::Acquire).as_ref() };
    match contained {
        None => REFUSED,
        // SAFETY: as above.
        Some(_) if prepare().is_some() => unsafe { begin(entry, base) },
        Some(contained) if contained.has_crashed() => REFUSED,
        Some(_) => UNNOTED,
    }
}

/// Forgets the innermost call, as a guard does by itself where nothing has crashed. Returns whether its interpreter has crashed meanwhile, maybe on another thread: then its results
/// count for nothing.
pub(super) extern "C" fn end() -> bool {
    let Some(own) = own() else { return false };
    let last = own.depth.load(Ordering::Relaxed) - 1;
    let mut has_crashed = false;
    if last < MOST {
        // SAFETY: the thread's own. The interpreter is there until the call has returned.
        let call = unsafe { &(*own.calls.get())[last] };
        // SAFETY: as above.
        has_crashed = unsafe { &*call.contained }.has_crashed();
        if has_crashed {
            own.refused.store(call.contained.cast_mut(), Ordering::Relaxed);
        }
        own.of.store(call.outer, Ordering::Relaxed);
    }
    compiler_fence(Ordering::SeqCst);
    own.depth.store(last, Ordering::Relaxed);
    has_crashed
}

/// After a landing: what the thread had noted when the innermost call began is as it was.
pub(super) fn restore() {
    let Some((own, call)) = own().and_then(|own| Some((own, own.innermost()?))) else { return };
    own.refused.store(call.contained.cast_mut(), Ordering::Relaxed);
    departure::forget_wait();
    if current::domain() != call.domain {
        // SAFETY: the thread goes on in the code that has made the call, in this domain.
        unsafe { current::replace(call.domain) };
    }
}

/// After that: the C++ library's notes are as they were, too. This asks the dynamic linker, whose lock others may hold for long.
pub(super) fn restore_exceptions() {
    let Some((own, call)) = own().and_then(|own| Some((own, own.innermost()?))) else { return };
    // It may have been loaded meanwhile.
    if let Some(place) = exceptions_of_thread() {
        own.exceptions.store(place, Ordering::Relaxed);
        // SAFETY: the calling thread's notes. Those that are caught since lie in frames that are gone.
        unsafe { place.write(call.exceptions) };
    }
}

/// Where the process's C++ library, if it is loaded, notes the calling thread's exceptions.
fn exceptions_of_thread() -> Option<*mut Exceptions> {
    type Globals = unsafe extern "C" fn() -> *mut Exceptions;
    // SAFETY: the names are valid. The function has this signature, and the library stays as long as code that uses it.
    unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let library = ptr::NonNull::new(libc::dlopen(c"libstdc++.so.6".as_ptr(), flags))?;
        let globals = libc::dlsym(library.as_ptr(), c"__cxa_get_globals".as_ptr());
        libc::dlclose(library.as_ptr());
        let globals = ptr::NonNull::new(globals)?;
        Some(std::mem::transmute::<*mut std::ffi::c_void, Globals>(globals.as_ptr())())
    }
}

/// A record for the calling thread, unless that ends.
#[cold]
fn prepare() -> Option<&'static Inside> {
    LEAVING.try_with(|_| ()).ok()?;
    prepare_thread();
    let thread = thread_number();
    let is_free = |one: &&Inside| {
        one.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let own = all().find(is_free).or_else(|| add(thread))?;
    own.of.store(ptr::null_mut(), Ordering::Relaxed);
    own.refused.store(ptr::null_mut(), Ordering::Relaxed);
    own.depth.store(0, Ordering::Relaxed);
    own.set_asked(false);
    let exceptions = exceptions_of_thread().unwrap_or(ptr::null_mut());
    own.exceptions.store(exceptions, Ordering::Relaxed);
    own.domain.store(current::place().cast_mut(), Ordering::Relaxed);
    OWN.set(own);
    Some(own)
}

/// A new record, at the begin of the list. Its pages take memory as they are used.
fn add(thread: libc::pid_t) -> Option<&'static Inside> {
    // SAFETY: new memory of zeroes, which is a record of no thread without calls, and stays.
    let record: &'static Inside = unsafe {
        let (both, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(ptr::null_mut(), size_of::<Inside>(), both, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        &*memory.cast::<Inside>()
    };
    record.thread.store(thread, Ordering::Relaxed);
    let own = ptr::from_ref(record).cast_mut();
    let mut first = FIRST.load(Ordering::Acquire);
    loop {
        record.next.store(first, Ordering::Relaxed);
        match FIRST.compare_exchange_weak(first, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(record),
            Err(now) => first = now,
        }
    }
}
