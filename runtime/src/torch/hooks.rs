//! Function pointers of the process that every interpreter sets. Each is set once, to a forwarder that
//! jumps to the current interpreter's function.
//!
//! Needed in every release. Otherwise the interpreter that is last would win: `saved_tensors_hooks`
//! would run in another interpreter's autograd engine, `torch.jit.trace` would walk another's Python
//! stack, and a script's `print` would write through another's streams.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::adapter::{Member, current, symbols, system_symbol};
use super::cells::Cells;
use super::cxx::CxxVector;
use super::exported::{Answer, Exported};
use super::forward::{Arguments, forward};
use super::locks::NoFork;

/// One such pointer.
struct Hook {
    /// Its setter, a function of one function pointer.
    setter: Exported<unsafe extern "C-unwind" fn(*mut c_void)>,
    /// Its forwarder.
    forwarder: extern "C" fn(),
    /// The function for a thread without an interpreter, or whose interpreter has set none.
    default: Default,
    /// Each interpreter's function.
    functions: Cells<AtomicPtr<c_void>>,
}

/// What a hook calls where no interpreter has set it.
enum Default {
    /// This function, which does what libtorch's own does.
    Function(*const c_void),
    /// A function of libtorch.
    Torch(fn() -> *const c_void),
    /// The function of any other interpreter, or [`no_object`]. Python or the host has asked libtorch to use it.
    Any,
}

// SAFETY: addresses of functions.
unsafe impl Sync for Default {}
// SAFETY: as above.
unsafe impl Send for Default {}

/// A hook that returns a `std::vector`.
unsafe extern "C" fn empty_vector(result: *mut CxxVector) -> *mut CxxVector {
    // SAFETY: room for the result.
    unsafe { result.write(CxxVector::EMPTY) };
    result
}

/// A hook that returns a `std::unique_ptr`. The profiler does without a tracer of Python if it gets none
/// (`RecordQueue` in torch/csrc/profiler/collection.cpp).
unsafe extern "C" fn no_object(result: *mut *mut c_void) -> *mut *mut c_void {
    // SAFETY: room for the result.
    unsafe { result.write(std::ptr::null_mut()) };
    result
}

/// A hook that only receives something.
extern "C" fn ignore() {}

macro_rules! hooks {
    ($count:literal hooks: $($number:literal $setter:literal, $default:expr;)*) => {
        static HOOKS: [Hook; $count] = [$(Hook {
            // SAFETY: a setter of a function pointer, by its name.
            setter: unsafe { Exported::new($setter) },
            forwarder: hook::<$number>,
            default: $default,
            functions: Cells::new(),
        }),*];

        /// What the domain of `member` interposes: the setters.
        pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
            // SAFETY: `set` sets the function for its interpreter.
            unsafe { vec![$(HOOKS[$number].setter.answered_by(set::<$number>, member)),*] }
        }
    };
}

hooks! {
    7 hooks:
    // torch::autograd::set_default_engine_stub(Engine& (*)())
    0 "_ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE", Default::Torch(|| symbols().base_engine);
    // torch::jit::tracer::setPythonCallstack(std::vector<StackEntry> (*)())
    1 "_ZN5torch3jit6tracer18setPythonCallstackEPFSt6vectorINS0_10StackEntryESaIS3_EEvE", Default::Function(empty_vector as *const c_void);
    // torch::jit::tracer::setRecordSourceLocation(void (*)(Node*))
    2 "_ZN5torch3jit6tracer23setRecordSourceLocationEPFvPNS0_4NodeEE", Default::Function(ignore as *const c_void);
    // torch::jit::tracer::setWarn(void (*)(const std::string&))
    3 "_ZN5torch3jit6tracer7setWarnEPFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE", Default::Function(ignore as *const c_void);
    // torch::jit::setPrintHandler(void (*)(const std::string&))
    4 "_ZN5torch3jit15setPrintHandlerEPFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE", Default::Torch(default_print_handler);
    // torch::profiler::impl::python_tracer::registerTracer(MakeFn)
    5 "_ZN5torch8profiler4impl13python_tracer14registerTracerEPFSt10unique_ptrINS2_16PythonTracerBaseESt14default_deleteIS4_EEPNS1_11RecordQueueEE", Default::Any;
    // torch::profiler::impl::python_tracer::registerMemoryTracer(MakeMemoryFn)
    6 "_ZN5torch8profiler4impl13python_tracer20registerMemoryTracerEPFSt10unique_ptrINS2_22PythonMemoryTracerBaseESt14default_deleteIS4_EEvE", Default::Any;
}

fn default_print_handler() -> *const c_void {
    // SAFETY: a function without arguments that returns an address.
    unsafe { (symbols().default_print_handler)() }
}

/// A setter as replicas call it.
unsafe extern "C-unwind" fn set<const HOOK: u32>(function: *mut c_void, member: &'static Member) {
    static SET: [OnceLock<()>; HOOKS.len()] = [const { OnceLock::new() }; HOOKS.len()];
    let hook = &HOOKS[HOOK as usize];
    hook.functions.of(member).store(function, Ordering::Release);
    if function.is_null() {
        return;
    }
    let real = system_symbol(hook.setter.name);
    let _no_fork = NoFork::begin();
    SET[HOOK as usize].get_or_init(|| {
        // SAFETY: libtorch defines the setter there, and gets a function that has the signature of
        // the one that it forwards to.
        unsafe { hook.setter.at(real)(hook.forwarder as *mut c_void) };
    });
}

/// Forwards to the current interpreter's function in the hook numbered `HOOK`.
#[unsafe(naked)]
extern "C" fn hook<const HOOK: u32>() {
    forward!(HOOK, resolve)
}

/// The function that the hook's forwarder jumps to.
extern "C" fn resolve(hook: u32, _arguments: &mut Arguments) -> *const c_void {
    function_of(&HOOKS[hook as usize])
}

/// The function for the calling thread. It is never null: the forwarder jumps to it.
fn function_of(hook: &Hook) -> *const c_void {
    let function = |cell: &AtomicPtr<c_void>| cell.load(Ordering::Acquire);
    let own = current()
        .and_then(|member| hook.functions.get(member))
        .map_or(std::ptr::null_mut(), function);
    if !own.is_null() {
        return own;
    }
    match &hook.default {
        Default::Function(function) => *function,
        Default::Torch(function) => function(),
        Default::Any => hook
            .functions
            .iter()
            .map(function)
            .find(|other| !other.is_null())
            .map_or(no_object as *const c_void, |other| other.cast_const()),
    }
}

/// Forgets an interpreter's functions.
pub(super) fn forget(member: &Member) {
    for hook in &HOOKS {
        if let Some(cell) = hook.functions.get(member) {
            cell.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_gets_a_function_for_each_hook_when_no_interpreter_has_set_one() {
        let own = HOOKS.iter().filter(|hook| !matches!(hook.default, Default::Torch(_)));
        let functions: Vec<_> = own.map(function_of).collect();
        assert_eq!(functions.len(), 5);
        assert!(functions.iter().all(|function| !function.is_null()), "{functions:?}");
        let mut result = std::ptr::without_provenance_mut(1);
        // SAFETY: room for the result.
        unsafe { no_object(&mut result) };
        assert!(result.is_null());
    }
}
