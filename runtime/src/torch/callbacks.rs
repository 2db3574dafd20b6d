//! Callbacks of the process that hold state of the interpreter that sets them: `std::function`s, and
//! two that libtorch lends by reference.
//!
//! Needed in every release. Otherwise an error in one interpreter would take another's stack trace,
//! and the import of torch would fail in the second interpreter ("Handler dump_traceback already
//! registered").

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock};

use super::adapter::{Member, current, fail, lock, symbols};
use super::cxx::{CxxFunction, CxxString};
use super::exported::{Answer, Exported};
use super::locks::NoFork;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.stack_trace_set.answered_by(set_stack_trace, member),
            EXPORTS.handler_register.answered_by(register_handler, member),
            EXPORTS.emit_hooks_set.answered_by(set_emit_hooks, member),
            EMIT_HOOKS.answered_by(emit_hooks, member),
            GIL_CHECKER.answered_by(gil_checker, member),
            PYTHON_FRAMES.answered_by(python_frames, member),
            COMPILED_AUTOGRAD.answered_by(set_compiled_autograd, member),
        ]
    }
}

/// `c10d::get_gil_checker()`: a reference to a function pointer.
const GIL_CHECKER: Exported<unsafe extern "C-unwind" fn() -> *const c_void> =
    // SAFETY: the name states that there are no parameters; a reference is returned as an address.
    unsafe { Exported::new("_ZN4c10d15get_gil_checkerEv") };

/// `torch::lazy::GetPythonFramesFunction()`: a reference to a `std::function`.
const PYTHON_FRAMES: Exported<unsafe extern "C-unwind" fn() -> *const c_void> =
    // SAFETY: as above.
    unsafe { Exported::new("_ZN5torch4lazy23GetPythonFramesFunctionEv") };

/// `torch::jit::getEmitHooks()`: a pair of `std::function`s.
const EMIT_HOOKS: Exported<
    unsafe extern "C-unwind" fn(*mut [CxxFunction; 2]) -> *mut [CxxFunction; 2],
> =
    // SAFETY: the name states that there are no parameters; the pair is returned in the caller's memory.
    unsafe { Exported::new("_ZN5torch3jit12getEmitHooksEv") };

/// `torch::autograd::Engine::set_compiled_autograd(compiled_autograd_fn)`, a static function.
const COMPILED_AUTOGRAD: Exported<unsafe extern "C-unwind" fn(*const c_void)> =
    // SAFETY: the name states one parameter, a function pointer; nothing is returned.
    unsafe {
        Exported::new(
            "_ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKSt10shared_ptrINS0_4NodeEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISF_EEE",
        )
    };

/// A function that an interpreter set. It was moved here and lives as long as the process.
#[derive(Clone, Copy)]
struct Kept {
    serial: u64,
    function: &'static CxxFunction,
}

// SAFETY: called from any thread, as the callbacks they are; never changed.
unsafe impl Send for Kept {}

impl Kept {
    /// # Safety
    /// `function` is live; what it is bound to belongs to the member's interpreter.
    unsafe fn take(member: &Member, function: *mut CxxFunction) -> Kept {
        // SAFETY: by contract.
        let function = unsafe { CxxFunction::take(function) };
        Kept { serial: member.serial(), function: Box::leak(Box::new(function)) }
    }

    fn target(&self) -> *const c_void {
        (&raw const self.function.target).cast()
    }
}

/// The functions of one callback, one of each interpreter at most.
type Callback = Mutex<Vec<Kept>>;

/// Sets the function of `kept`'s interpreter. One without a target is kept as nothing.
fn keep(callback: &Callback, kept: Kept) {
    let mut all = lock(callback);
    all.retain(|other| other.serial != kept.serial);
    if kept.function.is_callable() {
        all.push(kept);
    }
}

fn of_current(callback: &Callback) -> Option<Kept> {
    let serial = current()?.serial();
    lock(callback)
        .iter()
        .find(|kept| kept.serial == serial)
        .copied()
        .filter(|kept| kept.function.is_callable())
}

static STACK_TRACE: Callback = Mutex::new(Vec::new());

/// `c10::SetStackTraceFetcher(std::function<std::string()>)`.
unsafe extern "C-unwind" fn set_stack_trace(function: *mut CxxFunction, member: &'static Member) {
    static SET: OnceLock<()> = OnceLock::new();
    // SAFETY: the caller's temporary.
    keep(&STACK_TRACE, unsafe { Kept::take(member, function) });
    let _no_fork = NoFork::begin();
    SET.get_or_init(|| {
        let mut router =
            CxxFunction::borrowed(std::ptr::null(), fetch_stack_trace as *const c_void);
        // SAFETY: the function takes its argument's address.
        unsafe { (symbols().stack_trace_set)(&mut router) };
    });
}

unsafe extern "C-unwind" fn fetch_stack_trace(
    result: *mut CxxString,
    _target: *const c_void,
) -> *mut CxxString {
    match of_current(&STACK_TRACE) {
        Some(kept) => {
            // SAFETY: the invoker of a `std::function<std::string()>`.
            unsafe {
                let invoker: unsafe extern "C-unwind" fn(
                    *mut CxxString,
                    *const c_void,
                ) -> *mut CxxString = std::mem::transmute(kept.function.invoker);
                invoker(result, kept.target())
            }
        }
        None => {
            // SAFETY: room for the result.
            unsafe { CxxString::write(result, "", symbols().allocator()) };
            result
        }
    }
}

/// Handlers of the worker server by name. (`'static` tables, because libtorch keeps their address.)
static HANDLERS: Mutex<Option<HashMap<String, &'static Callback>>> = Mutex::new(None);

/// `c10d::control_plane::registerHandler(const std::string&, std::function<void(const Request&,
/// Response&)>)`. A handler is registered once. The first interpreter that is alive answers requests.
unsafe extern "C-unwind" fn register_handler(
    name: *const CxxString,
    function: *mut CxxFunction,
    member: &'static Member,
) {
    // SAFETY: a live string of the caller.
    let text = unsafe { (*name).text() };
    let mut handlers = lock(&HANDLERS);
    let handlers = handlers.get_or_insert_default();
    // SAFETY: the caller's temporary.
    let kept = unsafe { Kept::take(member, function) };
    if let Some(handler) = handlers.get(&text) {
        keep(handler, kept);
        return;
    }
    let handler: &'static Callback = Box::leak(Box::new(Mutex::new(vec![kept])));
    let mut router =
        CxxFunction::borrowed(std::ptr::from_ref(handler).cast(), handle as *const c_void);
    // SAFETY: as the caller's own call.
    unsafe { (symbols().handler_register)(name, &mut router) };
    handlers.insert(text, handler);
}

unsafe extern "C-unwind" fn handle(
    target: *const *const Callback,
    request: *const c_void,
    response: *mut c_void,
) {
    // SAFETY: the table that `register_handler` leaked.
    let first = lock(unsafe { &**target }).first().copied();
    match first.filter(|kept| kept.function.is_callable()) {
        // SAFETY: the invoker of such a function.
        Some(kept) => unsafe {
            let invoker: unsafe extern "C-unwind" fn(*const c_void, *const c_void, *mut c_void) =
                std::mem::transmute(kept.function.invoker);
            invoker(kept.target(), request, response);
        },
        None => fail("no interpreter is left that handles this request: each has been finalized"),
    }
}

static EMIT_MODULE: Callback = Mutex::new(Vec::new());
static EMIT_FUNCTION: Callback = Mutex::new(Vec::new());

/// `torch::jit::setEmitHooks(std::function<void(Module)>, std::function<void(StrongFunctionPtr)>)`.
unsafe extern "C-unwind" fn set_emit_hooks(
    module: *mut CxxFunction,
    function: *mut CxxFunction,
    member: &'static Member,
) {
    static SET: OnceLock<()> = OnceLock::new();
    // SAFETY: the caller's temporaries.
    unsafe {
        keep(&EMIT_MODULE, Kept::take(member, module));
        keep(&EMIT_FUNCTION, Kept::take(member, function));
    }
    let _no_fork = NoFork::begin();
    SET.get_or_init(|| {
        let router = |callback: &'static Callback| {
            CxxFunction::borrowed(std::ptr::from_ref(callback).cast(), emit as *const c_void)
        };
        // SAFETY: the function takes its arguments' addresses.
        unsafe {
            (symbols().emit_hooks_set)(&mut router(&EMIT_MODULE), &mut router(&EMIT_FUNCTION))
        };
    });
}

/// `torch::jit::getEmitHooks()`: what this interpreter has set. libtorch's own answer would be the functions that
/// `set_emit_hooks` gave it, and an interpreter that sets them again would call itself for ever.
unsafe extern "C-unwind" fn emit_hooks(
    result: *mut [CxxFunction; 2],
    member: &'static Member,
) -> *mut [CxxFunction; 2] {
    let copy = |callback: &Callback| {
        let kept = lock(callback).iter().find(|kept| kept.serial == member.serial()).copied();
        // SAFETY: what pybind11 binds can be copied; its interpreter asks for it, and so is alive.
        kept.map_or(CxxFunction::EMPTY, |kept| unsafe { kept.function.copy() })
    };
    // SAFETY: the caller's room for the pair.
    unsafe { result.write([copy(&EMIT_MODULE), copy(&EMIT_FUNCTION)]) };
    result
}

/// Both take one object, by address.
unsafe extern "C-unwind" fn emit(target: *const *const Callback, object: *mut c_void) {
    // SAFETY: one of the two tables.
    if let Some(kept) = of_current(unsafe { &**target }) {
        // SAFETY: the invoker of such a function.
        unsafe {
            let invoker: unsafe extern "C-unwind" fn(*const c_void, *mut c_void) =
                std::mem::transmute(kept.function.invoker);
            invoker(kept.target(), object);
        }
    }
}

/// Storage that a replica writes to in place of libtorch's.
#[derive(Debug)]
#[repr(transparent)]
struct Lent<T>(UnsafeCell<T>);

// SAFETY: written by C++ constructors, then only read.
unsafe impl<T> Sync for Lent<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Lent<T> {}

/// `c10d::get_gil_checker()`: a reference to a function pointer. NCCL's watchdog calls libtorch's to
/// see whether *the* GIL is stuck. libtorch's stays empty, and the watchdog checks no GIL.
extern "C-unwind" fn gil_checker(_member: &'static Member) -> *const c_void {
    static CHECKER: Lent<usize> = Lent(UnsafeCell::new(0));
    CHECKER.0.get().cast()
}

/// `torch::lazy::GetPythonFramesFunction()`: a reference to a `std::function`. libtorch's stays empty,
/// and the lazy backends record no Python frames.
extern "C-unwind" fn python_frames(_member: &'static Member) -> *const c_void {
    let frames: &'static Lent<CxxFunction> =
        Box::leak(Box::new(Lent(UnsafeCell::new(CxxFunction::EMPTY))));
    frames.0.get().cast()
}

/// `Engine::set_compiled_autograd(compiled_autograd_fn)`: libtorch has one, and calls it in every
/// backward pass of the process.
unsafe extern "C-unwind" fn set_compiled_autograd(
    function: *const c_void,
    _member: &'static Member,
) {
    if !function.is_null() {
        fail(
            "compiled autograd replaces the backward passes of the whole process, also those of other \
             interpreters; it is not available under torch policy `shared`: use policy `isolated`",
        );
    }
}

/// Forgets an interpreter's callbacks.
pub(super) fn forget(member: &Member) {
    let serial = member.serial();
    let forget = |callback: &Callback| lock(callback).retain(|kept| kept.serial != serial);
    for callback in [&STACK_TRACE, &EMIT_MODULE, &EMIT_FUNCTION] {
        forget(callback);
    }
    for handler in lock(&HANDLERS).iter().flat_map(HashMap::values) {
        forget(handler);
    }
}
