//! A thread's equipment before it runs an interpreter's code: a stack for signals, without which an overflow of its own stack
//! ends the process in silence, and a place in the list of such threads.
//!
//! Rust's standard library gives its threads a stack for signals. Others that enter get one here, and so do those that an
//! interpreter's code creates, and those of the runtime. A thread keeps it to its end.

use hydrozoa_loader::{current, thread_number};
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Bytes of a stack for signals. The kernel's record of a thread takes 1 to 11 KiB (AT_MINSIGSTKSZ), the handler of reports a
/// KiB before it changes to a stack of its own, and faulthandler's some KiB. Pages that nobody touches cost nothing.
const SIZE: usize = 64 << 10;

/// The threads that have been inside, by the kernel's numbers; 0 is free. A thread beyond them is in no list.
static INSIDE: [AtomicI32; 4096] = [const { AtomicI32::new(0) }; 4096];

thread_local! {
    static OWN: RefCell<Prepared> = const { RefCell::new(Prepared { place: None, stack: None }) };
}

/// The equipment of the calling thread; its drop, at the thread's end, gives it back.
struct Prepared {
    place: Option<&'static AtomicI32>,
    /// The address of its stack for signals.
    stack: Option<usize>,
}

/// Prepares the calling thread for the code of interpreters.
pub(crate) fn prepare_thread() {
    // Fails only while the thread's own destructors run.
    let _ = OWN.try_with(|own| {
        if let Ok(mut own) = own.try_borrow_mut() {
            if own.place.is_none() {
                own.place = place();
            }
            if own.stack.is_none() {
                own.stack = stack_for_signals();
            }
        }
    });
}

fn place() -> Option<&'static AtomicI32> {
    // A handler may read it from now on: in a library it is made at the first access.
    current::domain();
    let own = thread_number();
    INSIDE
        .iter()
        .find(|one| one.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok())
}

/// Whether the thread of this number has been inside.
pub(super) fn has_been_inside(thread: libc::pid_t) -> bool {
    INSIDE.iter().any(|one| one.load(Ordering::Acquire) == thread)
}

/// Gives the calling thread a stack for signals if it has none.
fn stack_for_signals() -> Option<usize> {
    // SAFETY: asks, maps new memory, and gives it to the kernel for this thread.
    unsafe {
        let mut now = none();
        if libc::sigaltstack(ptr::null(), &mut now) != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(ptr::null_mut(), SIZE, both, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        let new = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIZE };
        if libc::sigaltstack(&new, ptr::null_mut()) != 0 {
            libc::munmap(memory, SIZE);
            return None;
        }
        Some(memory.expose_provenance())
    }
}

fn none() -> libc::stack_t {
    libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(0, Ordering::Release);
        }
        let Some(stack) = self.stack else { return };
        // SAFETY: the memory that `stack_for_signals` has mapped for this thread. It is unmapped if the thread has another stack
        // for signals, or none.
        unsafe {
            let mut now = none();
            libc::sigaltstack(ptr::null(), &mut now);
            let is_free =
                now.ss_sp.addr() != stack || libc::sigaltstack(&none(), ptr::null_mut()) == 0;
            if is_free {
                libc::munmap(ptr::with_exposed_provenance_mut(stack), SIZE);
            }
        }
    }
}
