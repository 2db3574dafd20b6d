//! The interpreter that libtorch knows (c10/core/impl/PyInterpreter.h, PyInterpreterHooks.h).
//!
//! libtorch has one registry entry, one "global" interpreter, one trampoline and one GPU trace.
//! A replica gets its own registry, and its own interpreter as the global one. From torch 2.9 on,
//! tensors ask for the global one when they get a Python object. libtorch gets one interpreter object
//! of ours. Each of its methods forwards to the interpreter that the thread runs.
//!
//! torch 2.13 and later also call `getGlobalPyInterpreter` inside libc10 and libtorch_cpu, for
//! objects of any interpreter. The answer would need the object's owner. This is not implemented.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use super::adapter::{Member, adapter, current, lock, symbols};
use super::exported::{Answer, Exported};
use super::forward::{Arguments, forward, instances};
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            HOOKS_REGISTRY.answered_by(hooks_registry, member),
            GLOBAL_INTERPRETER.answered_by(global_interpreter, member),
            EXPORTS.trampoline_register.answered_by(register, member),
            EXPORTS.gpu_trace_set.answered_by(set_gpu_trace, member),
        ]
    }
}

/// `c10::impl::PyInterpreterHooksRegistry()`: a reference to the registry.
const HOOKS_REGISTRY: Exported<unsafe extern "C-unwind" fn() -> *const c_void> =
    // SAFETY: the name states that there are no parameters; a reference is returned as an address.
    unsafe { Exported::new("_ZN3c104impl26PyInterpreterHooksRegistryB5cxx11Ev") };

/// `c10::impl::getGlobalPyInterpreter()`.
const GLOBAL_INTERPRETER: Exported<unsafe extern "C-unwind" fn() -> *mut c_void> =
    // SAFETY: as above; it returns a `PyInterpreter*`.
    unsafe { Exported::new("_ZN3c104impl22getGlobalPyInterpreterEv") };

/// An empty `c10::Registry`: two hash maps, two flags, one more hash map, a mutex.
///
/// Inlined code of a replica registers its hooks in it. Nobody reads them: [`global_interpreter`]
/// answers for the replica's interpreter.
#[derive(Debug)]
#[repr(C)]
struct PrivateRegistry {
    creators: EmptyMap,
    priorities: EmptyMap,
    terminate: bool,
    warning: bool,
    help: EmptyMap,
    mutex: UnsafeCell<[u64; 5]>,
}

// SAFETY: C++ changes it under its mutex.
unsafe impl Sync for PrivateRegistry {}
// SAFETY: as above; it is only moved before it has an address that C++ knows.
unsafe impl Send for PrivateRegistry {}

/// libstdc++'s `std::unordered_map` without elements. Its bucket pointer is null until
/// [`PrivateRegistry::address`] points it to the single bucket within the object.
#[derive(Debug)]
#[repr(C)]
struct EmptyMap {
    buckets: AtomicPtr<c_void>,
    bucket_count: UnsafeCell<usize>,
    first: UnsafeCell<usize>,
    size: UnsafeCell<usize>,
    max_load_factor: UnsafeCell<f32>,
    next_resize: UnsafeCell<usize>,
    single_bucket: UnsafeCell<usize>,
}

impl EmptyMap {
    const fn new() -> EmptyMap {
        EmptyMap {
            buckets: AtomicPtr::new(std::ptr::null_mut()),
            bucket_count: UnsafeCell::new(1),
            first: UnsafeCell::new(0),
            size: UnsafeCell::new(0),
            max_load_factor: UnsafeCell::new(1.0),
            next_resize: UnsafeCell::new(0),
            single_bucket: UnsafeCell::new(0),
        }
    }

    fn place(&self) {
        let single = self.single_bucket.get().cast();
        // Only the first caller finds null; after that C++ owns the map.
        let _ = self.buckets.compare_exchange(
            std::ptr::null_mut(),
            single,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

impl PrivateRegistry {
    const fn new() -> PrivateRegistry {
        PrivateRegistry {
            creators: EmptyMap::new(),
            priorities: EmptyMap::new(),
            terminate: true,
            warning: true,
            help: EmptyMap::new(),
            mutex: UnsafeCell::new([0; 5]),
        }
    }

    /// Its address in its final place.
    fn address(&'static self) -> *const c_void {
        for map in [&self.creators, &self.priorities, &self.help] {
            map.place();
        }
        std::ptr::from_ref(self).cast()
    }
}

/// The registry of each interpreter, by serial number. A registry stays when its interpreter is
/// gone: the replica's code keeps its address.
static REGISTRIES: Mutex<BTreeMap<u64, &'static PrivateRegistry>> = Mutex::new(BTreeMap::new());

// As a program compiled against the headers of torch 2.11 prints them.
const _: () = {
    assert!(
        size_of::<PrivateRegistry>() == 216
            && std::mem::offset_of!(PrivateRegistry, priorities) == 56
    );
    assert!(std::mem::offset_of!(PrivateRegistry, help) == 120);
    assert!(std::mem::offset_of!(PrivateRegistry, mutex) == 176);
};

/// `c10::impl::PyInterpreterHooksRegistry()`. Needed from torch 2.9 on: a second registration under
/// the same key ends the process.
extern "C-unwind" fn hooks_registry(member: &'static Member) -> *const c_void {
    let mut registries = lock(&REGISTRIES);
    let registry = registries
        .entry(member.serial())
        .or_insert_with(|| Box::leak(Box::new(PrivateRegistry::new())));
    registry.address()
}

/// `c10::impl::getGlobalPyInterpreter()`, as libtorch_python calls it.
extern "C-unwind" fn global_interpreter(member: &'static Member) -> *mut c_void {
    member.interpreter.load(Ordering::Acquire)
}

/// `PythonOpRegistrationTrampoline::registerInterpreter(PyInterpreter*)`, which the constructor of a
/// replica's interpreter object calls. Each interpreter learns that it is the main one.
unsafe extern "C-unwind" fn register(interpreter: *mut c_void, member: &'static Member) -> bool {
    member.interpreter.store(interpreter, Ordering::Release);
    // SAFETY: the process's interpreter lives for ever; libtorch keeps the first that it gets.
    unsafe { (symbols().trampoline_register)(shared_interpreter()) };
    true
}

/// `c10::impl::GPUTrace::set_trace(const PyInterpreter*)`.
unsafe extern "C-unwind" fn set_gpu_trace(_interpreter: *const c_void, _member: &'static Member) {
    // SAFETY: as above.
    unsafe { (symbols().gpu_trace_set)(shared_interpreter()) };
}

/// The process's `PyInterpreter`: the address of an object with a virtual table of forwarders.
struct SharedInterpreter {
    object: *const *const c_void,
    vtable: *const c_void,
}

// SAFETY: read-only after construction.
unsafe impl Send for SharedInterpreter {}
// SAFETY: as above.
unsafe impl Sync for SharedInterpreter {}

/// The forwarders, by slot; more than any release has.
static METHODS: Methods = Methods(instances!(method:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35
    36 37 38 39 40 41 42 43 44 45 46 47));

struct Methods([*const c_void; 48]);
// SAFETY: addresses of functions.
unsafe impl Sync for Methods {}

fn shared_interpreter() -> *mut c_void {
    static SHARED: OnceLock<&'static SharedInterpreter> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        assert!(adapter().layout().interpreter_slots <= METHODS.0.len());
        let shared = Box::leak(Box::new(SharedInterpreter {
            object: std::ptr::null(),
            vtable: METHODS.0.as_ptr().cast(),
        }));
        // `PyInterpreter::vtable_` is the address of an object whose first word is its table.
        shared.object = (&raw const shared.vtable).cast();
        shared
    });
    std::ptr::from_ref(*shared).cast_mut().cast()
}

/// Forwards a virtual call on the process's interpreter object to slot `SLOT` of the current
/// interpreter's.
#[unsafe(naked)]
extern "C" fn method<const SLOT: u32>() {
    forward!(SLOT, resolve)
}

/// Finds the method of the current interpreter, and puts its object in place of ours.
extern "C" fn resolve(slot: u32, arguments: &mut Arguments) -> *const c_void {
    let hidden_result = adapter().layout().interpreter_hidden_results >> slot & 1 == 1;
    let interpreter = current()
        .map(|member: &Member| member.interpreter.load(Ordering::Acquire))
        .filter(|interpreter| !interpreter.is_null())
        .unwrap_or_else(no_interpreter);
    // SAFETY: a `PyInterpreter` holds the address of an object that begins with its virtual table.
    unsafe {
        let object = *interpreter.cast::<*const *const *const c_void>();
        arguments.integers[usize::from(hidden_result)] = object as usize;
        *(*object).add(slot as usize)
    }
}

/// The interpreter of threads that run none. It is the one that libc10 gives to objects that outlive
/// theirs (`PyInterpreter::disarm`). Its methods throw or do nothing.
fn no_interpreter() -> *mut c_void {
    static DISARMED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let known = DISARMED.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let interpreter = Box::leak(Box::new(MaybeUninit::<*const c_void>::zeroed())).as_mut_ptr();
    // SAFETY: a `PyInterpreter` is one pointer, which the call sets.
    unsafe { (symbols().interpreter_disarm)(interpreter.cast()) };
    DISARMED.store(interpreter.cast(), Ordering::Release);
    interpreter.cast()
}
