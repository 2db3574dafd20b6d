//! The actions on signals that code of several interpreters sets, one over the other.
//!
//! The process has one action for a signal. Here code of each interpreter has one of its own, over that of the program. The
//! process does what was set last. Code is told of its own action or the program's, so it can put no other interpreter's
//! back. An interpreter's action goes when the interpreter ends, or when its code puts the program's action back. The action
//! below comes up again. An action of the program's own is found when the process no longer has the one
//! that was set here: it takes the place of all. Handlers of SIGCHLD stand beside each other ([`super::child_handlers`]).
//!
//! Handlers call this too (`faulthandler_user` in Modules/faulthandler.c puts back what was before it, raises the signal,
//! and sets its handler again). So nothing here allocates, and no signal comes while the lock is held.

use super::child_handlers::{self, ChildHandler};
use crate::crash;
use hydrozoa_loader::Process;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Signals have the numbers from 1 to 64.
const COUNT: usize = 65;

/// asm/signal.h: the C library's own business.
const SA_RESTORER: c_int = 0x0400_0000;

/// An action, as sigaction(2) has it.
#[derive(Clone, Copy)]
pub(super) struct Action {
    /// A function, SIG_DFL or SIG_IGN.
    pub(super) handler: usize,
    pub(super) flags: c_int,
    /// The first word of a set, which has all signals of the kernel.
    pub(super) mask: u64,
}

impl Action {
    pub(super) fn new(handler: usize, flags: c_int) -> Self {
        Self { handler, flags, mask: 0 }
    }

    pub(super) fn is_function(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    fn is(&self, other: &Self) -> bool {
        let flags = (self.flags ^ other.flags) & !SA_RESTORER;
        self.handler == other.handler && flags == 0 && self.mask == other.mask
    }

    /// Whether it does what `other` does: code may put the handler back and forget the rest.
    fn means(&self, other: &Self) -> bool {
        let of_children = libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT;
        let differs = (self.flags ^ other.flags) & of_children != 0;
        self.handler == other.handler && (self.is_function() || !differs)
    }

    pub(super) fn of(action: &libc::sigaction) -> Self {
        // SAFETY: a set has at least a word.
        let mask = unsafe { ptr::from_ref(&action.sa_mask).cast::<u64>().read() };
        // The kernel blocks neither, whoever asks for it (sigprocmask(2)).
        let mask = mask & !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1));
        Self { handler: action.sa_sigaction, flags: action.sa_flags, mask }
    }

    pub(super) fn into_libc(self) -> libc::sigaction {
        // SAFETY: zero is a value of every field, and a set has at least a word.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (self.handler, self.flags);
            ptr::from_mut(&mut action.sa_mask).cast::<u64>().write(self.mask);
            action
        }
    }

    /// That of the process.
    fn of_process(signal: c_int) -> Result<Self, c_int> {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: asks only; the place is written if the call succeeds.
        unsafe {
            match libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) {
                0 => Ok(Self::of(action.assume_init_ref())),
                _ => Err(*libc::__errno_location()),
            }
        }
    }

    /// Makes it that of the process.
    fn set(self, signal: c_int) -> Result<(), c_int> {
        // SAFETY: the action is one that code has set for this signal, or that the process had. An interpreter's
        // action is taken out before its code goes.
        unsafe {
            match libc::sigaction(signal, &self.into_libc(), ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(*libc::__errno_location()),
            }
        }
    }
}

/// The answer to a call.
pub(super) enum Decision {
    Pass,
    /// The wanted action is already set.
    Keep,
    Refuse,
}

/// The actions of one interpreter's code.
#[derive(Debug)]
pub(super) struct Handlers {
    /// Null before the first, and after the interpreter's end. Changed by the thread that has the turn.
    table: UnsafeCell<*mut Table>,
    has_ended: UnsafeCell<bool>,
    child: ChildHandler,
}

// SAFETY: only the thread that has the turn uses both.
unsafe impl Send for Handlers {}
// SAFETY: as above.
unsafe impl Sync for Handlers {}

/// In a mapping of its own.
struct Table {
    sets: [Set; COUNT],
    next: *mut Table,
}

#[derive(Clone, Copy)]
struct Set {
    action: Action,
    /// Greater than that of actions set earlier; 0 if none is set.
    order: u64,
}

/// The interpreters' actions, and the program's actions below them.
struct All {
    /// A list of the tables.
    first: *mut Table,
    order: u64,
    /// The program's actions on signals for which something is set.
    program: [Action; COUNT],
}

struct Shared(UnsafeCell<All>);

// SAFETY: only the thread that has the turn uses it.
unsafe impl Sync for Shared {}

static ALL: Shared = Shared(UnsafeCell::new(All {
    first: ptr::null_mut(),
    order: 0,
    program: [Action { handler: libc::SIG_DFL, flags: 0, mask: 0 }; COUNT],
}));

/// The process that has a thread whose turn it is; 0 for none. A forked child does not have that thread.
static TURN: AtomicU32 = AtomicU32::new(0);

/// The calling thread's turn, until this is dropped. It takes no signal meanwhile.
struct Turn {
    blocked: libc::sigset_t,
}

impl Turn {
    fn take() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are initialized, the second by `sigemptyset` in any case.
        let blocked = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), blocked.as_mut_ptr());
            blocked.assume_init()
        };
        let own = Process::current().number();
        let mut free = 0;
        while let Err(taken) =
            TURN.compare_exchange_weak(free, own, Ordering::Acquire, Ordering::Relaxed)
        {
            free = if taken == own { 0 } else { taken };
            // SAFETY: no precondition. A thread that has the turn makes some system calls.
            unsafe { libc::sched_yield() };
        }
        Self { blocked }
    }

    #[expect(clippy::mut_from_ref, reason = "who has the turn has it all")]
    fn all(&self) -> &mut All {
        // SAFETY: one thread has the turn, asks once, and keeps the result no longer.
        unsafe { &mut *ALL.0.get() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURN.store(0, Ordering::Release);
        // SAFETY: the set is what the thread had blocked.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.blocked, ptr::null_mut()) };
    }
}

impl Handlers {
    pub(super) const fn none() -> Self {
        Self {
            table: UnsafeCell::new(ptr::null_mut()),
            has_ended: UnsafeCell::new(false),
            child: ChildHandler::none(),
        }
    }

    /// Sets an action, if there is a new one and `decide` lets it pass: it gets the new one, the one that the code has set
    /// before, and the program's. Returns what stood before to this code.
    ///
    /// # Errors
    ///
    /// The number of the error.
    pub(super) fn exchange(
        &'static self,
        signal: c_int,
        new: Option<Action>,
        decide: impl FnOnce(&Action, Option<&Action>, &Action) -> Decision,
    ) -> Result<Action, c_int> {
        let turn = Turn::take();
        let all = turn.all();
        let now = Action::of_process(signal)?;
        // The C library knows the number, so it is one of the table's.
        let index = signal as usize;
        all.look(index, &now);
        // SAFETY: this thread has the turn.
        let (table, has_ended) = unsafe { (&mut *self.table.get(), *self.has_ended.get()) };
        // SAFETY: null, or a table that lives until the interpreter's end, which takes it out.
        let own = unsafe { (*table).as_ref() }.map(|table| table.sets[index]);
        let own = own.filter(|set| set.order > 0).map(|set| set.action);
        let program = all.of_program(index).unwrap_or(now);
        // The handler of reports stays below, unseen.
        let shown = Action::of(&crash::shown(signal, program.into_libc()));
        let before = own.unwrap_or(shown);
        let Some(new) = new else { return Ok(before) };
        match decide(&new, own.as_ref(), &shown) {
            Decision::Keep => return Ok(before),
            Decision::Pass if !has_ended => {}
            Decision::Pass | Decision::Refuse => return Err(libc::EPERM),
        }
        if table.is_null() {
            *table = all.add()?;
        }
        // SAFETY: as above, and nobody else has a reference.
        let set = &mut unsafe { &mut **table }.sets[index];
        let former = *set;
        all.program[index] = program;
        all.order += 1;
        // Code that lets go of SIGCHLD takes no other's handler with it.
        let lets_go = new.means(&shown) || signal == libc::SIGCHLD && !new.is_function();
        let order = if lets_go { 0 } else { all.order };
        *set = Set { action: new, order };
        if signal == libc::SIGCHLD {
            // Before the signal comes to it.
            child_handlers::PROGRAM.set(Some(&program));
            self.child.set((order > 0).then_some(&new));
        }
        all.settle(index, &now).inspect_err(|_| *set = former)?;
        Ok(before)
    }

    /// Takes out what the interpreter's code has set. It sets nothing from now on.
    pub(super) fn end(&'static self) {
        let turn = Turn::take();
        let all = turn.all();
        // SAFETY: this thread has the turn.
        let table = unsafe {
            *self.has_ended.get() = true;
            mem::replace(&mut *self.table.get(), ptr::null_mut())
        };
        // SAFETY: null, or a table that lives until it is taken out below.
        let Some(own) = (unsafe { table.as_mut() }) else { return };
        self.child.set(None);
        for index in 1..COUNT {
            let Ok(now) = Action::of_process(index as c_int) else { continue };
            all.look(index, &now);
            if mem::take(&mut own.sets[index].order) > 0 {
                // It was the process's action before.
                let _ = all.settle(index, &now);
            }
        }
        all.remove(table);
    }
}

/// The process's action, where this one was set last.
fn of_process(index: usize, action: Action) -> Action {
    let is_shared = index == libc::SIGCHLD as usize && action.is_function();
    if is_shared { child_handlers::action() } else { action }
}

impl All {
    fn tables(&self) -> impl Iterator<Item = *mut Table> + use<> {
        let some = |table: *mut Table| (!table.is_null()).then_some(table);
        // SAFETY: the list holds tables that are mapped.
        std::iter::successors(some(self.first), move |table| some(unsafe { (**table).next }))
    }

    /// The action that was set last for a signal.
    fn newest(&self, index: usize) -> Option<*mut Set> {
        // SAFETY: the list holds tables that are mapped, and this thread has the turn.
        let sets = self.tables().map(|table| unsafe { &raw mut (*table).sets[index] });
        // SAFETY: as above.
        let newest = sets.max_by_key(|set| unsafe { (**set).order });
        // SAFETY: as above.
        newest.filter(|set| unsafe { (**set).order } > 0)
    }

    /// The program's action, if something is set over it.
    fn of_program(&self, index: usize) -> Option<Action> {
        self.newest(index).map(|_| self.program[index])
    }

    /// Looks whether the process still has the action that was set last.
    fn look(&mut self, index: usize, now: &Action) {
        let Some(newest) = self.newest(index) else { return };
        // SAFETY: as in `newest`.
        let set = unsafe { &mut *newest };
        if of_process(index, set.action).is(now) {
            return;
        }
        if set.action.flags & libc::SA_RESETHAND != 0 && now.handler == libc::SIG_DFL {
            // It has handled a signal, once.
            set.order = 0;
            return;
        }
        // The program has set an action of its own.
        self.program[index] = *now;
        for table in self.tables() {
            // SAFETY: as in `newest`.
            unsafe { (*table).sets[index].order = 0 };
        }
    }

    /// Gives the process the action that was set last, or the program's. It has `now`.
    fn settle(&self, index: usize, now: &Action) -> Result<(), c_int> {
        // SAFETY: as in `newest`.
        let newest = self.newest(index).map(|set| of_process(index, unsafe { (*set).action }));
        let wanted = newest.unwrap_or(self.program[index]);
        if wanted.is(now) { Ok(()) } else { wanted.set(index as c_int) }
    }

    /// A new table in the list.
    fn add(&mut self) -> Result<*mut Table, c_int> {
        // SAFETY: maps new memory, of which the list has the address alone. It is full of zeroes, which are an empty table.
        unsafe {
            let table = libc::mmap(
                ptr::null_mut(),
                size_of::<Table>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if table == libc::MAP_FAILED {
                return Err(libc::ENOMEM);
            }
            let table = table.cast::<Table>();
            (*table).next = self.first;
            self.first = table;
            Ok(table)
        }
    }

    /// Takes a table out of the list, and unmaps it.
    fn remove(&mut self, table: *mut Table) {
        // SAFETY: the list holds tables that are mapped. Nobody else has this one's address.
        unsafe {
            let next = (*table).next;
            match self.tables().find(|before| (**before).next == table) {
                Some(before) => (*before).next = next,
                None => self.first = next,
            }
            libc::munmap(table.cast(), size_of::<Table>());
        }
    }
}
