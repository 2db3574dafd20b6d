//! Routers. A router is the one kernel that the dispatcher holds for an operator and a key. It calls
//! the current interpreter's kernel.
//!
//! It is a `c10::OperatorKernel` made by hand: virtual table and count, then fields of ours. It is
//! never freed, since copies of its kernel function may be anywhere (computed tables,
//! `torch.library.get_kernel`).

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::super::adapter::{Member, adapter, current, fail, symbols};
use super::super::cells::Cells;
use super::super::forward::{Arguments, forward};
use super::super::kernel::{KernelFunction, OperatorHandle};
use super::entry::{find, table_entry};
use super::keys::{below_highest, table_index};
use super::owned::{OwnedKernel, is_fallthrough};

/// The virtual functions of `c10::intrusive_ptr_target`, behind the type information that the ABI
/// places before them. torch before 2.10 has the first three only.
#[repr(C)]
struct Vtable {
    offset_to_top: isize,
    typeinfo: *const c_void,
    destroy: [extern "C" fn(*mut c_void); 2],
    release_resources: extern "C" fn(*mut c_void),
    incref_pyobject: extern "C" fn(*const c_void),
    decref_pyobject: extern "C" fn(*const c_void),
    try_incref_pyobject: extern "C" fn(*const c_void) -> bool,
}

// SAFETY: read-only after it was made; the pointer is to type information of a loaded library.
unsafe impl Send for Vtable {}
// SAFETY: as above.
unsafe impl Sync for Vtable {}

static VTABLE: OnceLock<Vtable> = OnceLock::new();

extern "C" fn nothing(_: *mut c_void) {}
extern "C" fn nothing_const(_: *const c_void) {}
extern "C" fn no(_: *const c_void) -> bool {
    false
}

/// What a router's first word holds: the address of the first virtual function.
fn vtable() -> *const c_void {
    let vtable = VTABLE.get_or_init(|| Vtable {
        offset_to_top: 0,
        typeinfo: symbols().operator_kernel_typeinfo,
        destroy: [nothing; 2],
        release_resources: nothing,
        incref_pyobject: nothing_const,
        decref_pyobject: nothing_const,
        try_incref_pyobject: no,
    });
    (&raw const vtable.destroy).cast()
}

/// The kernels of all interpreters for one operator and one dispatch key.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Router {
    vtable: *const c_void,
    count: AtomicU64,
    /// Its own address, which tells a router from uninitialised memory for a result.
    this: *const Router,
    /// For messages: `namespace::name.overload`, and the key's number.
    operator: String,
    key: u16,
    kernels: Cells<Cell>,
    /// What the dispatch table held where the router's registration changed it, by table index.
    /// Interpreters that registered nothing go on using it.
    inherited: RwLock<Vec<(usize, KernelFunction)>>,
}

/// One interpreter's newest kernel.
type Cell = RwLock<Option<Arc<OwnedKernel>>>;

// SAFETY: the pointers are its own address and addresses of loaded code and immortal functors.
unsafe impl Send for Router {}
// SAFETY: as above; what changes is behind locks.
unsafe impl Sync for Router {}

/// `c10::detail::kUniqueRef`: one owner, one observer (the owners).
const UNIQUE: u64 = 1 | 1 << 32;

impl Router {
    pub(super) fn new(operator: String, key: u16) -> &'static Router {
        let router = Box::leak(Box::new(Router {
            vtable: vtable(),
            count: AtomicU64::new(UNIQUE),
            this: std::ptr::null(),
            operator,
            key,
            kernels: Cells::new(),
            inherited: RwLock::default(),
        }));
        router.this = router;
        router
    }

    /// A kernel function that calls the router; it owns one reference.
    pub(super) fn kernel(&'static self, entries: Entries) -> KernelFunction {
        self.count.fetch_add(1, Ordering::Relaxed);
        let entry = |offered: bool, entry: extern "C" fn()| {
            if offered { entry as *const c_void } else { std::ptr::null() }
        };
        KernelFunction::new(
            self.address(),
            call,
            entry(entries.unboxed, unboxed),
            entry(entries.sym_unboxed, sym_unboxed),
        )
    }

    /// Sets or clears the interpreter's kernel. The caller drops the old one, without locks.
    pub(super) fn set(
        &self,
        member: &Member,
        kernel: Option<Arc<OwnedKernel>>,
    ) -> Option<Arc<OwnedKernel>> {
        let cell = self.kernels.of(member);
        std::mem::replace(&mut *cell.write().unwrap_or_else(PoisonError::into_inner), kernel)
    }

    pub(super) fn kernel_of(&self, member: &Member) -> Option<Arc<OwnedKernel>> {
        self.kernels.get(member)?.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kernel for a thread that runs no interpreter's code. There must be only one.
    fn only_kernel(&self) -> Option<Arc<OwnedKernel>> {
        let mut kernels = self
            .kernels
            .iter()
            .filter_map(|cell| cell.read().unwrap_or_else(PoisonError::into_inner).clone());
        kernels.next().filter(|_| kernels.next().is_none())
    }

    pub(super) fn inherit(&self, inherited: Vec<(usize, KernelFunction)>) {
        *self.inherited.write().unwrap_or_else(PoisonError::into_inner) = inherited;
    }

    /// What an interpreter without a kernel of its own uses at an index of the table. The functor was
    /// retained for good by [`Router::inherit`]'s caller.
    fn inherited(&self, index: usize) -> Option<KernelFunction> {
        let inherited = self.inherited.read().unwrap_or_else(PoisonError::into_inner);
        inherited.iter().find(|(at, _)| *at == index).map(|(_, kernel)| kernel.borrowed())
    }

    /// Whether a call of the interpreter that ends in this router finds a kernel.
    pub(super) fn serves(&self, member: &Member, index: Option<usize>) -> bool {
        self.kernel_of(member).is_some()
            || match index {
                Some(index) => self.inherited(index).is_some(),
                None => !self.inherited.read().unwrap_or_else(PoisonError::into_inner).is_empty(),
            }
    }

    pub(super) fn address(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The router at `address`, if there is one.
    ///
    /// # Safety
    /// `address` is readable for a word, and for three if the first is a router's virtual table.
    pub(super) unsafe fn at(address: usize) -> Option<&'static Router> {
        let router = address as *const Router;
        // SAFETY: by contract; routers are never freed.
        unsafe { ((*router).vtable == vtable() && (*router).this == router).then(|| &*router) }
    }

    fn missing(&self) -> String {
        let place = match self.key {
            0 => String::new(),
            key => format!(" for dispatch key {key}"),
        };
        match current() {
            Some(member) => format!(
                "operator {}{place} has no kernel in {}: another interpreter of this process registered \
                 one, and each interpreter runs its own; import or register it here too",
                self.operator,
                member.name()
            ),
            None => format!(
                "operator {}{place} has kernels in several interpreters of this process, and this thread runs \
                 none of them; call it from a session",
                self.operator
            ),
        }
    }
}

/// The entries of a router beside the boxed one: those that all of its kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) unboxed: bool,
    pub(super) sym_unboxed: bool,
}

impl Entries {
    pub(super) fn of(kernel: &KernelFunction) -> Entries {
        Entries { unboxed: !kernel.unboxed.is_null(), sym_unboxed: !kernel.sym_unboxed.is_null() }
    }

    pub(super) fn and(self, other: Entries) -> Entries {
        Entries {
            unboxed: self.unboxed && other.unboxed,
            sym_unboxed: self.sym_unboxed && other.sym_unboxed,
        }
    }
}

/// The boxed entry of every router.
unsafe extern "C-unwind" fn call(
    router: *mut c_void,
    operator: *const OperatorHandle,
    keys: u64,
    stack: *mut c_void,
) {
    // SAFETY: the dispatcher passes the functor of the kernel function, which is a router, and the
    // operator it dispatches.
    let (router, entry) = unsafe { (&*router.cast::<Router>(), (*operator).entry) };
    let choice = router.choose(|| Some(entry), keys);
    match &choice {
        Choice::Own(kernel) => {
            // SAFETY: a registered kernel, called as the dispatcher calls it; `choice` keeps it alive.
            unsafe { call_boxed(&kernel.0, operator, keys, stack) }
        }
        // SAFETY: a kernel that is or was in the dispatcher's table, and lives as long as there.
        Choice::Shared(kernel, keys) => unsafe { call_boxed(kernel, operator, *keys, stack) },
        Choice::Missing => fail(&router.missing()),
    }
}

/// Where a call goes.
enum Choice {
    /// To the interpreter's own kernel.
    Own(Arc<OwnedKernel>),
    /// To a kernel of no interpreter, or to another router, with these keys.
    Shared(KernelFunction, u64),
    Missing,
}

impl Router {
    /// Chooses for a call. `entry` finds the operator's entry, which is needed only to fall through.
    fn choose(&self, entry: impl FnOnce() -> Option<*const c_void>, keys: u64) -> Choice {
        let below = |keys| entry().map_or(Choice::Missing, |entry| below(entry, keys));
        let own = match current() {
            Some(member) => self.kernel_of(member),
            None => self.only_kernel(),
        };
        match own {
            Some(kernel) if is_fallthrough(&kernel.0) => below(keys),
            Some(kernel) => Choice::Own(kernel),
            None => match self.inherited(table_index(keys, adapter().layout())) {
                Some(kernel) if is_fallthrough(&kernel) => below(keys),
                Some(kernel) => Choice::Shared(kernel, keys),
                None => Choice::Missing,
            },
        }
    }
}

/// The kernel that a call reaches when it falls through its highest key.
fn below(entry: *const c_void, mut keys: u64) -> Choice {
    let layout = adapter().layout();
    loop {
        let lower = below_highest(keys, layout);
        if lower == keys || lower == 0 {
            return Choice::Missing;
        }
        keys = lower;
        // SAFETY: `entry` is the dispatcher's `OperatorEntry` of this call.
        let kernel = unsafe { &*table_entry(entry, table_index(keys, layout)) };
        if kernel.boxed.is_none() {
            return Choice::Missing;
        }
        if !is_fallthrough(kernel) {
            return Choice::Shared(kernel.borrowed(), keys);
        }
    }
}

/// # Safety
/// As the dispatcher: the stack holds the operator's arguments.
unsafe fn call_boxed(
    kernel: &KernelFunction,
    operator: *const OperatorHandle,
    keys: u64,
    stack: *mut c_void,
) {
    if let Some(boxed) = kernel.boxed {
        // SAFETY: by contract.
        unsafe { boxed(kernel.functor, operator, keys, stack) };
    }
}

thread_local! {
    /// What [`raise_pending`] throws. A resolver cannot throw.
    static PENDING: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The register entry of every router: forwards to the current interpreter's kernel.
#[unsafe(naked)]
extern "C" fn unboxed() {
    forward!(0, resolve_unboxed)
}

/// As [`unboxed`], for the entry that takes symbolic integers.
#[unsafe(naked)]
extern "C" fn sym_unboxed() {
    forward!(1, resolve_unboxed)
}

/// Finds the kernel behind a register entry (`symbolic` is 0 or 1). Replaces the functor and the keys
/// among the arguments, and returns the kernel's entry.
///
/// The arguments are `(OperatorKernel*, DispatchKeySet, ...)`. If the result is returned in memory,
/// its address comes before them. The first argument shows whether it does.
extern "C" fn resolve_unboxed(symbolic: u32, arguments: &mut Arguments) -> *const c_void {
    // SAFETY: the first argument is a router or the address of an object that the call will write:
    // both are readable for a word.
    let first = unsafe { Router::at(arguments.integers[0]) };
    let (router, place) = match first {
        Some(router) => (router, 0),
        // SAFETY: then the second argument is the functor of the kernel function: a router.
        None => (unsafe { &*(arguments.integers[1] as *const Router) }, 1),
    };
    let keys = arguments.integers[place + 1] as u64;
    let (kernel, keys) = match router.choose(|| find(&router.operator), keys) {
        // A kernel with a register entry is never freed (see `registry::discard`).
        Choice::Own(kernel) => (kernel.0.borrowed(), keys),
        Choice::Shared(kernel, keys) => (kernel, keys),
        Choice::Missing => (KernelFunction::NONE, keys),
    };
    let entry = if symbolic == 1 { kernel.sym_unboxed } else { kernel.unboxed };
    if entry.is_null() {
        // While the thread's own values are destroyed, the error has no text.
        let _ = PENDING.try_with(|message| message.replace(router.missing()));
        return raise_pending as *const c_void;
    }
    arguments.integers[place] = kernel.functor as usize;
    arguments.integers[place + 1] = keys as usize;
    entry
}

unsafe extern "C-unwind" fn raise_pending() {
    fail(&PENDING.try_with(RefCell::take).unwrap_or_default());
}
