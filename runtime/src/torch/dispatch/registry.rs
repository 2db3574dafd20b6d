//! The dispatcher's registrations by interpreter.
//!
//! Replicas register through libraries of ours: one `torch::Library` for each definition and each
//! router. An interpreter that drops its own library removes its part and nothing else. The real
//! registration ends with its last part. libtorch is then as before, and a different definition may
//! follow.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::adapter::{Member, current, lock, symbols};
use super::super::cxx::{Allocator, CxxFunction, CxxString, OwnedString};
use super::super::kernel::{KernelFunction, LibraryLayout, OptionalKey};
use super::owned::{OwnedKernel, is_fallthrough};
use super::router::{Entries, Router};

/// A `torch::Library` of the process. Dropping it undoes its registrations.
pub(super) struct HostLibrary(Box<MaybeUninit<LibraryLayout>>);

// SAFETY: registrations are undone under the dispatcher's lock, from any thread.
unsafe impl Send for HostLibrary {}
// SAFETY: as above; nothing is reachable through a shared reference but its address.
unsafe impl Sync for HostLibrary {}

impl HostLibrary {
    /// Constructs one. The constructor may throw; nothing is left then.
    ///
    /// # Safety
    /// `file` is a C string that is never freed.
    pub(super) unsafe fn new(
        kind: u32,
        namespace: &str,
        key: OptionalKey,
        file: *const c_char,
        line: u32,
    ) -> HostLibrary {
        let mut library = Box::new(MaybeUninit::<LibraryLayout>::uninit());
        let mut namespace = OwnedString::new(namespace, symbols().allocator());
        // SAFETY: the box has the size and alignment of the class; the string is passed by value.
        unsafe {
            (symbols().library_new)(
                library.as_mut_ptr(),
                kind,
                namespace.as_mut_ptr(),
                key,
                file,
                line,
            );
        }
        HostLibrary(library)
    }

    pub(super) fn address(&self) -> *mut LibraryLayout {
        self.0.as_ptr().cast_mut()
    }

    pub(super) fn layout(&mut self) -> &mut LibraryLayout {
        // SAFETY: constructed by `new`.
        unsafe { self.0.assume_init_mut() }
    }
}

impl Drop for HostLibrary {
    fn drop(&mut self) {
        // SAFETY: a live library: its registrations are undone, then its members destroyed, as its
        // (inline) destructor does.
        unsafe {
            (symbols().library_reset)(self.address());
            let library = self.0.assume_init_mut();
            library.registrars.free(symbols().allocator());
            if library.has_namespace {
                CxxString::destroy(&mut library.namespace, symbols().allocator());
            }
        }
    }
}

/// All registrations. The lock is held while libtorch registers, which takes the dispatcher's own
/// lock but never a GIL.
pub(super) static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

#[derive(Default)]
pub(super) struct Registry {
    /// By full operator name.
    pub(super) operators: HashMap<String, Operator>,
    /// `TORCH_LIBRARY` blocks by namespace.
    pub(super) namespaces: HashMap<String, Namespace>,
    /// Fallbacks by dispatch key.
    pub(super) fallbacks: HashMap<u16, Slot>,
}

#[derive(Default)]
pub(super) struct Operator {
    pub(super) definition: Option<Definition>,
    pub(super) slots: Vec<Slot>,
}

impl Operator {
    /// The operator's slot for `key`, made on first use.
    pub(super) fn slot(&mut self, operator: &str, key: u16) -> &mut Slot {
        let place = self.slots.iter().position(|slot| slot.key == key).unwrap_or_else(|| {
            self.slots.push(Slot::new(operator, key));
            self.slots.len() - 1
        });
        &mut self.slots[place]
    }
}

/// One operator's schema, defined alike by each of its definers.
pub(super) struct Definition {
    /// The real registration.
    pub(super) _library: Arc<HostLibrary>,
    pub(super) definers: Vec<u64>,
}

pub(super) struct Namespace {
    pub(super) _library: HostLibrary,
    pub(super) owners: Vec<u64>,
}

/// All kernels for one operator and key.
pub(super) struct Slot {
    pub(super) key: u16,
    pub(super) router: &'static Router,
    /// The real registration.
    pub(super) library: Option<Arc<HostLibrary>>,
    pub(super) registered: Registered,
    /// Whether libtorch has a kernel of its own for this key, which the router replaces.
    pub(super) had_kernel: bool,
    /// In the order of registration, over all interpreters.
    pub(super) kernels: Vec<Claim>,
}

/// What the dispatcher holds for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    Nothing,
    /// The fallthrough kernel, which the dispatcher skips instead of calling. All interpreters with a
    /// part registered it. It then applies to those without a part as well.
    Fallthrough,
    Router(Entries),
}

/// One interpreter's kernel.
pub(super) struct Claim {
    pub(super) member: u64,
    pub(super) number: u64,
    pub(super) kernel: Arc<OwnedKernel>,
}

impl Slot {
    pub(super) fn new(operator: &str, key: u16) -> Slot {
        Slot {
            key,
            router: Router::new(operator.to_owned(), key),
            library: None,
            registered: Registered::Nothing,
            had_kernel: false,
            kernels: Vec::new(),
        }
    }

    /// What the dispatcher should hold for the kernels as they are, with `kernel` added.
    pub(super) fn wanted(&self, kernel: &KernelFunction) -> Registered {
        let kernels = || self.kernels.iter().map(|claim| &claim.kernel.0).chain([kernel]);
        if kernels().all(is_fallthrough) {
            return Registered::Fallthrough;
        }
        let all = Entries { unboxed: true, sym_unboxed: true };
        Registered::Router(kernels().map(Entries::of).fold(all, Entries::and))
    }

    /// Adds a kernel of the interpreter, which the router calls from now on.
    pub(super) fn claim(&mut self, member: &Member, kernel: Arc<OwnedKernel>) -> u64 {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The cell's old kernel is still owned by its claim, so that nothing is destroyed here.
        drop(self.router.set(member, Some(Arc::clone(&kernel))));
        self.kernels.push(Claim { member: member.serial(), number, kernel });
        number
    }

    /// Removes a kernel. The router calls the interpreter's previous one again, if there is one. The
    /// real registration ends with the last kernel. The caller drops the result without locks.
    pub(super) fn release(&mut self, member: &Member, number: u64) -> Option<Arc<OwnedKernel>> {
        let place = self.kernels.iter().position(|claim| claim.number == number)?;
        let claim = self.kernels.remove(place);
        let newest = self.kernels.iter().rev().find(|other| other.member == claim.member);
        drop(self.router.set(member, newest.map(|other| Arc::clone(&other.kernel))));
        if self.kernels.is_empty() {
            self.withdraw();
        }
        Some(claim.kernel)
    }

    /// Undoes the real registration.
    pub(super) fn withdraw(&mut self) {
        self.library = None;
        self.registered = Registered::Nothing;
    }
}

/// Something that an interpreter registered. It ends with the library that it was registered in.
pub(super) enum Token {
    Kernel { operator: String, key: u16, number: u64 },
    Definition { operator: String },
    Namespace { name: String },
    Fallback { key: u16, number: u64 },
}

struct Registration {
    member: &'static Member,
    token: Token,
}

/// Ties a registration to the interpreter's own library, as libtorch ties the dispatcher's handle.
///
/// # Safety
/// `library` is a live `torch::Library` of the calling thread.
pub(super) unsafe fn attach(library: *mut LibraryLayout, member: &'static Member, token: Token) {
    let registration = Box::new(Registration { member, token });
    // SAFETY: `RegistrationHandleRAII` is a `std::function<void()>` that its destructor calls.
    unsafe {
        let function = CxxFunction::owned(registration, deregister as *const c_void);
        (*library)
            .registrars
            .push(function, Allocator { new: own_memory, ..symbols().allocator() });
    }
}

/// `operator new` of the calling thread's interpreter. Objects of Python keep most libraries to its end, and CPython frees
/// none of those.
unsafe extern "C-unwind" fn own_memory(bytes: usize) -> *mut u8 {
    let own = current().map_or(ptr::null_mut(), |member| member.allocate(bytes));
    if own.is_null() { symbols().allocator().allocate(bytes) } else { own }
}

/// The invoker of those functions.
unsafe extern "C-unwind" fn deregister(target: *const [*mut c_void; 2]) {
    // SAFETY: the target that `attach` stored, alive until the function is destroyed.
    let registration = unsafe { &*(*target)[0].cast::<Registration>() };
    let member = registration.member;
    let mut registry = lock(&REGISTRY);
    let Some(tables) = registry.as_mut() else { return };
    let garbage = tables.release(member, &registration.token);
    drop(registry);
    if let Some(kernel) = garbage {
        discard(kernel);
    }
}

/// Drops a kernel, which may run Python. A C++ kernel is never freed: a caller that jumped to it
/// through its register entry holds no reference. (libtorch itself does not avoid this hazard.)
fn discard(kernel: Arc<OwnedKernel>) {
    let entries = Entries::of(&kernel.0);
    if entries.unboxed || entries.sym_unboxed {
        std::mem::forget(kernel);
    }
}

impl Registry {
    fn release(&mut self, member: &Member, token: &Token) -> Option<Arc<OwnedKernel>> {
        match token {
            Token::Kernel { operator, key, number } => self
                .operators
                .get_mut(operator)?
                .slots
                .iter_mut()
                .find(|slot| slot.key == *key)?
                .release(member, *number),
            Token::Fallback { key, number } => {
                self.fallbacks.get_mut(key)?.release(member, *number)
            }
            Token::Definition { operator } => {
                let operator = self.operators.get_mut(operator)?;
                let definition = operator.definition.as_mut()?;
                definition.definers.retain(|definer| *definer != member.serial());
                if definition.definers.is_empty() {
                    operator.definition = None;
                }
                None
            }
            Token::Namespace { name } => {
                let namespace = self.namespaces.get_mut(name)?;
                namespace.owners.retain(|owner| *owner != member.serial());
                if namespace.owners.is_empty() {
                    self.namespaces.remove(name);
                }
                None
            }
        }
    }

    /// Removes everything of an interpreter that is gone. Its kernels are not destroyed: that would call its
    /// Python. They end with its memory.
    pub(super) fn forget(&mut self, member: &Member) {
        let serial = member.serial();
        let slots = self.operators.values_mut().flat_map(|operator| &mut operator.slots);
        for slot in slots.chain(self.fallbacks.values_mut()) {
            let numbers: Vec<u64> = slot
                .kernels
                .iter()
                .filter(|claim| claim.member == serial)
                .map(|claim| claim.number)
                .collect();
            for number in numbers {
                if let Some(kernel) = slot.release(member, number).and_then(Arc::into_inner) {
                    std::mem::forget(kernel);
                }
            }
        }
        for operator in self.operators.values_mut() {
            if let Some(definition) = &mut operator.definition {
                definition.definers.retain(|definer| *definer != serial);
                if definition.definers.is_empty() {
                    operator.definition = None;
                }
            }
        }
        self.namespaces.retain(|_, namespace| {
            namespace.owners.retain(|owner| *owner != serial);
            !namespace.owners.is_empty()
        });
    }
}
