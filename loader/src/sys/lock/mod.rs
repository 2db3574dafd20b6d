//! Every lock and every lazily made value of this crate.
//!
//! A fork copies only the thread that calls it. A lock that another thread held would stay locked in
//! the child for ever. A value that another thread was making would never be ready. Both are impossible
//! here by construction, for static locks and for those in objects alike:
//!
//! - A thread passes a gate before it takes its first lock, and leaves it with its last one. A fork closes
//!   the gate and waits until no other thread is inside ([`gate`], [`fork`]). So in the child no other thread holds a
//!   [`Mutex`], and the data that it guards is whole. This needs no list of locks, which somebody could forget to extend.
//! - A [`Once`] waits for no thread: threads that come first together make a value each, and one counts.
//! - A thread holds a [`Reentrant`] while foreign code runs. That code may wait for the thread that forks,
//!   so a fork does not wait for the lock. The lock knows its owner by a number that no other thread ever
//!   has. It is free if its owner is not a thread of this process.
//! - A [`Latch`] belongs to one domain and guards plain numbers. It is free if its owner is not a thread of this process.
//! - The C library has locks of its own. A fork waits for those who may hold one, but not for ever ([`library_work`]).
//!
//! The locks are futexes (futex(2)), one word each. parking_lot has a table of waiting threads, which another
//! thread could have locked at the time of the fork. Threads take the locks in the order of [`Rank`]. Outside
//! of this module the crate makes no lock (`tests/tests/tidy`).

pub(crate) mod fork;
mod futex;
mod gate;
mod latch;
mod leaf_lock;
pub(crate) mod library_work;
mod object_list;
mod reentrant;

pub use gate::order_accesses;
pub use leaf_lock::LeafLock;

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;

pub(crate) use latch::Latch;
pub(crate) use reentrant::{Reentrant, Turn};

/// The data that a lock guards. A thread takes locks in this order only, and no two of one rank. A debug build
/// panics if a thread breaks the order. A release build looks only where a thread has to wait: it panics if
/// the thread holds a lock of that rank, since it may wait for itself. No code of a library runs while a thread holds one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The files that exist for this loader only ([`crate::image::provided`]).
    ProvidedFiles,
    /// The images of the process.
    Images,
    /// The plans of all images.
    Plans,
    /// The registrations of fork handlers.
    Forks,
    /// The table of domains.
    Domains,
    /// The replicas of one domain.
    Domain,
    /// The places that ended domains have left.
    Estates,
    /// The places that one domain has inherited.
    Inherited,
    /// The mappings, thread keys and threads of one domain.
    Belongings,
    /// The exit handlers of one domain.
    Exits,
    /// The handles that one replica has registered handlers with.
    Registered,
    /// The index of the system loader's objects.
    System,
    /// The directory of published replicas.
    Directory,
    /// The names that `dladdr` has given.
    Names,
    /// The system objects whose calls are redirected.
    Redirected,
    /// The errors of threads that end.
    Errors,
    /// The arrays of an environment.
    Environment,
    /// The shells that run for domains with an environment of their own.
    Shells,
    /// The C library's answers to code of one domain.
    Answers,
    /// The locales of domains.
    DomainLocales,
    /// The locales that were made.
    Locales,
    /// The values that domains have given to the variables of locales and of the time zone.
    SeenVariables,
    /// The places of thread-local data of system objects.
    ThreadOffsets,
    /// The modules with lazily allocated thread-local data.
    Modules,
    /// Broadcasts to all threads, one at a time.
    Broadcast,
    /// The parts of the arena that are in use.
    Arena,
    /// Changes of the rights of pages, one at a time.
    Writable,
    /// Ranges that are still to be unmapped.
    Owed,
    /// The record locks of domains.
    RecordLocks,
    /// The streams of directories below an enclosure's root.
    Streams,
    /// The holder of a [`Reentrant`].
    Holder,
    /// A lock of another crate or of the C library ([`undisturbed`]).
    Foreign,
}

thread_local! {
    /// The ranks of the locks that the thread holds, one bit each.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Notes that the calling thread takes a lock of `rank`, and lets it through the gate if it is its first.
/// Returns the ranks of the locks that it held before, one bit each.
#[inline]
fn enter(rank: Rank) -> u32 {
    let held = HELD.get();
    debug_assert!(
        held >> rank as u32 == 0,
        "a lock of rank {rank:?} is taken by a thread that holds {held:#b}, a bit for each rank"
    );
    if held == 0 {
        fork::enter();
    }
    HELD.set(held | 1 << rank as u32);
    held
}

#[inline]
fn leave(rank: Rank) {
    let held = HELD.get() & !(1 << rank as u32);
    HELD.set(held);
    if held == 0 {
        fork::leave();
    }
}

/// Calls `work` while no thread forks. A fork waits for it.
///
/// It is for code that takes a lock of another crate or of the C library. A fork at that moment would leave
/// the lock locked in the child. `work` must wait for no thread that may fork meanwhile, and must call
/// nothing of this crate.
#[inline]
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _no_fork = Undisturbed::begin();
    work()
}

/// While it lives no thread forks. It may be nested.
struct Undisturbed {
    /// Not inside of another one.
    outermost: bool,
}

impl Undisturbed {
    /// Waits while another thread forks.
    #[inline]
    fn begin() -> Undisturbed {
        let outermost = HELD.get() & 1 << Rank::Foreign as u32 == 0;
        if outermost {
            enter(Rank::Foreign);
        }
        Undisturbed { outermost }
    }
}

impl Drop for Undisturbed {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            leave(Rank::Foreign);
        }
    }
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// As [`TAKEN`], and others may be asleep.
const AWAITED: u32 = 2;

/// Mutual exclusion (the three states of Drepper, "Futexes Are Tricky", section 6).
pub(crate) struct Mutex<T> {
    state: AtomicU32,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time. That thread may also take it out.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Mutex<T> {
        Mutex { state: AtomicU32::new(FREE), rank, value: UnsafeCell::new(value) }
    }

    /// Waits until the lock is free and takes it.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = enter(self.rank);
        let free = self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.wait(held);
        }
        Guard { lock: self, _of_this_thread: PhantomData }
    }

    /// Waits, on a thread that `held` locks of these ranks before.
    #[cold]
    fn wait(&self, held: u32) {
        // `enter` noted only a rank that was noted before, so nothing is to be undone.
        assert!(
            held >> self.rank as u32 & 1 == 0,
            "a thread that holds a lock of rank {:?} would wait for itself",
            self.rank
        );
        // Locks are held for moments.
        for _ in 0..100 {
            std::hint::spin_loop();
            let free =
                self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                return;
            }
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            futex::wait(&self.state, AWAITED);
        }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mutex").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// The right to a [`Mutex`]'s value. Dropping it frees the lock.
pub(crate) struct Guard<'a, T> {
    lock: &'a Mutex<T>,
    _of_this_thread: PhantomData<*const ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody else has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other thread has the lock, and the borrow is as exclusive as that of the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.lock.state.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.lock.state, 1);
        }
        leave(self.lock.rank);
    }
}

/// A value that is made when code first asks for it. No thread waits for it. Threads that ask at once make
/// one each, and so does a child of a fork that interrupted the making. The first that is done counts.
/// Making it twice must do no harm.
pub(crate) struct Once<T>(OnceBox<T>);

impl<T> Once<T> {
    pub(crate) const fn new() -> Once<T> {
        Once(OnceBox::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(|| Box::new(make()))
    }

    pub(crate) fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        self.0.get_or_try_init(|| make().map(Box::new))
    }
}

impl<T: fmt::Debug> fmt::Debug for Once<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Once").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_changed_by_one_thread_at_a_time() {
        let lock = Mutex::new(Rank::Images, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut value = lock.lock();
                        let before = *value;
                        std::hint::spin_loop();
                        *value = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 80_000);
    }

    #[test]
    fn times_without_forks_may_be_nested() {
        undisturbed(|| undisturbed(|| assert_ne!(HELD.get(), 0)));
        assert_eq!(HELD.get(), 0);
        // The gate is open, for this thread and for others.
        let lock = Mutex::new(Rank::Images, 0);
        std::thread::scope(|scope| scope.spawn(|| *lock.lock() += 1).join()).unwrap();
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn locks_out_of_order_are_noticed() {
        let [images, files] = [Rank::Images, Rank::ProvidedFiles].map(|rank| Mutex::new(rank, ()));
        let wrong = |first: &Mutex<()>, second: &Mutex<()>| {
            let attempt = || {
                let _first = first.lock();
                drop(second.lock());
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).is_err()
        };
        assert!(!wrong(&files, &images));
        assert!(wrong(&images, &files));
        assert!(wrong(&images, &Mutex::new(Rank::Images, ())), "locks of one rank have no order");
        assert_eq!(HELD.get(), 0);
    }

    #[test]
    fn a_thread_that_takes_its_own_lock_again_panics_and_does_not_wait() {
        let lock = Mutex::new(Rank::Images, 0);
        let mut value = lock.lock();
        let again = || drop(lock.lock());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err());
        *value = 1;
        drop(value);
        assert_eq!(HELD.get(), 0);
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn a_value_that_several_threads_ask_for_first_is_one() {
        let once = Once::new();
        let begin = std::sync::atomic::AtomicBool::new(false);
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let make = || {
                while !begin.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                std::ptr::from_ref(once.get_or_init(|| 5)) as usize
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            begin.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
    }
}
