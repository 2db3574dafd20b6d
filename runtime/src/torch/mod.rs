//! torch in many interpreters.
//!
//! Policy [`TorchPolicy::Isolated`] replicates torch's C++ libraries with each interpreter and needs
//! nothing from here. Policy [`TorchPolicy::Shared`] loads them once, by the system's loader; each
//! interpreter has its own libtorch_python. What libtorch keeps for *the* interpreter is then
//! answered from outside: every reference of a replica to one of the functions listed in
//! [`interpositions`] comes here instead.
//!
//! | file | what libtorch has once | what interpreters get |
//! |---|---|---|
//! | [`dispatch`] | operators, their kernels | one schema, kernels each |
//! | [`interpreter`] | the Python interpreter | each its own; libtorch a forwarder |
//! | [`hooks`], [`callbacks`] | engine stub, tracer, print ... | each its own, by thread |
//! | [`classes`] | custom classes by name | class types each |
//! | [`jit_operators`] | TorchScript operators | operations each |
//! | [`traceback`] | gatherers of Python frames | each asked on its own threads |
//! | [`profiler`] | one profiler session | taken by one at a time |

//! | [`thread_state`] | modes and guards by thread | exchanged around visits |
//! | [`gil`] | - | which interpreter a thread runs |
//!
//! Process-wide by libtorch's nature, and left so: the default generators, default dtype, thread
//! counts, precision and determinism flags, anomaly mode, warnings given once, the caching
//! allocators, the profiler, compiled autograd (refused), RPC.
//!
//! Functions that stand in for C++ functions state the original's parameters in the terms of the
//! psABI (see [`cxx`]) and end, where there is a register for it, with the context: the address of
//! the [`Member`]. They are `extern "C-unwind"`: C++ exceptions pass through them.

mod adapter;
mod callbacks;
mod cells;
mod classes;
mod cxx;
mod dispatch;
mod forward;
mod gil;
mod hooks;
mod interpreter;
mod jit_operators;
mod profiler;
mod release;
mod symbols;
mod thread_state;

mod traceback;

use std::ffi::c_void;

use hydrozoa_loader::Interposition;

pub use adapter::{Adapter, AdapterError, Member};
pub use thread_state::ThreadState;

/// How interpreters have torch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TorchPolicy {
    /// [`TorchPolicy::Shared`] where the release is known ([`known_release`]), else isolated.
    #[default]
    Auto,
    /// libtorch once in the process: one CUDA caching allocator, the library that `tch` in the host
    /// sees, the least memory.
    Shared,
    /// libtorch in each interpreter: generators and flags of its own; any release.
    Isolated,
}

/// Whether policy `shared` knows the release (`torch.__version__`, e.g. `2.11.0+cu130`).
pub fn known_release(version: &str) -> bool {
    release::layout(version).is_some()
}

/// What a domain interposes for its interpreter.
fn interpositions(member: &'static Member) -> Vec<(String, Interposition)> {
    let context = std::ptr::from_ref(member) as usize;
    let with_context = |symbol: &str, target: *const c_void, arguments: usize| {
        // SAFETY: the mangled names below have the signatures, whose arguments are integers and pointers;
        // each function takes those and the address of the member, which is never freed.
        (symbol.to_owned(), unsafe { Interposition::with_context(target, arguments, context) })
    };
    let direct = |symbol: &str, target: *const c_void| {
        // SAFETY: as above, without a context.
        (symbol.to_owned(), unsafe { Interposition::function(target) })
    };
    let mut all = vec![
        with_context("PyGILState_Ensure", gil::ensure as *const c_void, 0),
        with_context("PyGILState_Release", gil::release as *const c_void, 1),
        with_context("PyEval_AcquireThread", gil::acquire_thread as *const c_void, 1),
        with_context("PyEval_RestoreThread", gil::restore_thread as *const c_void, 1),
        with_context("PyEval_SaveThread", gil::save_thread as *const c_void, 0),
        with_context("PyThreadState_DeleteCurrent", gil::delete_current as *const c_void, 0),
        with_context(
            "_ZN5torch8autograd6Engine11thread_initEiRKSt10shared_ptrINS0_10ReadyQueueEEb",
            gil::engine_thread as *const c_void,
            4,
        ),
        with_context(
            "_ZN3c104impl26PyInterpreterHooksRegistryB5cxx11Ev",
            interpreter::hooks_registry as *const c_void,
            0,
        ),
        with_context(
            "_ZN3c104impl22getGlobalPyInterpreterEv",
            interpreter::global_interpreter as *const c_void,
            0,
        ),
        with_context(
            "_ZN2at4impl30PythonOpRegistrationTrampoline19registerInterpreterEPN3c104impl13PyInterpreterE",
            interpreter::register as *const c_void,
            1,
        ),
        with_context(
            "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE",
            interpreter::set_gpu_trace as *const c_void,
            1,
        ),
        with_context(
            "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameERKSt6vectorIN2at3TagESaIS8_EENS_17_RegisterOrVerifyE",
            dispatch::library::define as *const c_void,
            5,
        ),
        with_context(
            "_ZNR5torch7Library4_defEOSt7variantIJN3c1012OperatorNameENS2_14FunctionSchemaEEEONS_11CppFunctionERKSt6vectorIN2at3TagESaISB_EE",
            dispatch::library::define_with_kernel as *const c_void,
            4,
        ),
        with_context(
            "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE",
            dispatch::library::implement as *const c_void,
            4,
        ),
        with_context(
            "_ZNR5torch7Library9_fallbackEONS_11CppFunctionE",
            dispatch::library::fall_back as *const c_void,
            2,
        ),
        with_context(
            "_ZN3c1017RegisterOperators25checkSchemaAndRegisterOp_EONS0_7OptionsE",
            dispatch::legacy::register_legacy as *const c_void,
            2,
        ),
        with_context(
            "_ZNK3c104impl13OperatorEntry23hasKernelForDispatchKeyENS_11DispatchKeyE",
            dispatch::introspection::has_kernel as *const c_void,
            2,
        ),
        with_context(
            "_ZNK3c104impl13OperatorEntry26hasKernelForAnyDispatchKeyENS_14DispatchKeySetE",
            dispatch::introspection::has_any_kernel as *const c_void,
            2,
        ),
        with_context(
            "_ZNK3c104impl13OperatorEntry31hasComputedKernelForDispatchKeyENS_11DispatchKeyE",
            dispatch::introspection::has_computed_kernel as *const c_void,
            2,
        ),
        with_context(
            "_ZN3c1010Dispatcher6findOpERKNS_12OperatorNameE",
            dispatch::visibility::find as *const c_void,
            3,
        ),
        with_context(
            "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_",
            dispatch::visibility::find_or_throw as *const c_void,
            4,
        ),
        with_context(
            "_ZN5torch3jit24getAllSortedOperatorsForEN3c106SymbolE",
            dispatch::visibility::sorted_script_operators as *const c_void,
            2,
        ),
        with_context(
            "_ZN3c1010Dispatcher13getAllOpNamesEv",
            dispatch::visibility::all_operators as *const c_void,
            2,
        ),
        with_context(
            "_ZNK3c1010Dispatcher30getRegistrationsForDispatchKeyESt8optionalINS_11DispatchKeyEE",
            dispatch::visibility::registrations as *const c_void,
            3,
        ),
        with_context(
            "_ZN3c104impl13OperatorEntry23setReportErrorCallback_ESt10unique_ptrINS_12SafePyObjectESt14default_deleteIS3_EE",
            dispatch::introspection::set_error_reporter as *const c_void,
            2,
        ),
        with_context(
            "_ZNK3c104impl13OperatorEntry11reportErrorENS_11DispatchKeyE",
            dispatch::introspection::report_error as *const c_void,
            2,
        ),
        with_context(
            "_ZN5torch14getCustomClassERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            classes::by_name as *const c_void,
            2,
        ),
        with_context(
            "_ZN3c1022getCustomClassTypeImplERKSt10type_index",
            classes::by_type as *const c_void,
            2,
        ),
        with_context(
            "_ZN3c106ivalue20checkCustomClassTypeEPKNS_9ClassTypeEPKNS_4TypeE",
            classes::check as *const c_void,
            2,
        ),
        with_context(
            "_ZN5torch25registerCustomClassMethodESt10unique_ptrINS_3jit8FunctionESt14default_deleteIS2_EE",
            classes::keep_method as *const c_void,
            1,
        ),
        with_context(
            "_ZN3c1020SetStackTraceFetcherESt8functionIFNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEvEE",
            callbacks::set_stack_trace as *const c_void,
            1,
        ),
        with_context(
            "_ZN4c10d13control_plane15registerHandlerERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt8functionIFvRKNS0_7RequestERNS0_8ResponseEEE",
            callbacks::register_handler as *const c_void,
            2,
        ),
        with_context(
            "_ZN5torch3jit12setEmitHooksESt8functionIFvNS0_6ModuleEEES1_IFvNS0_17StrongFunctionPtrEEE",
            callbacks::set_emit_hooks as *const c_void,
            2,
        ),
        with_context("_ZN4c10d15get_gil_checkerEv", callbacks::gil_checker as *const c_void, 0),
        with_context(
            "_ZN5torch4lazy23GetPythonFramesFunctionEv",
            callbacks::python_frames as *const c_void,
            0,
        ),
        with_context(
            "_ZN5torch8autograd6Engine21set_compiled_autogradEPFSt6vectorIN2at6TensorESaIS4_EERKSt10shared_ptrINS0_4NodeEERKNS0_9GraphTaskEbRKS2_INS0_4EdgeESaISF_EEE",
            callbacks::set_compiled_autograd as *const c_void,
            1,
        ),
        with_context(
            "_ZN5torch17CapturedTraceback17addPythonUnwinderEPNS0_6PythonE",
            traceback::add as *const c_void,
            1,
        ),
        with_context(
            "_ZN5torch3jit16registerOperatorEONS0_8OperatorE",
            jit_operators::register as *const c_void,
            1,
        ),
        with_context(
            "_ZN5torch8autograd8profiler15prepareProfilerERKNS_8profiler4impl14ProfilerConfigERKSt3setINS3_12ActivityTypeESt4lessIS8_ESaIS8_EE",
            profiler::prepare as *const c_void,
            2,
        ),
        with_context(
            "_ZN5torch8autograd8profiler14enableProfilerERKNS_8profiler4impl14ProfilerConfigERKSt3setINS3_12ActivityTypeESt4lessIS8_ESaIS8_EERKSt13unordered_setIN2at11RecordScopeESt4hashISH_ESt8equal_toISH_ESaISH_EE",
            profiler::enable as *const c_void,
            3,
        ),
        with_context(
            "_ZN5torch8autograd8profiler15disableProfilerEv",
            profiler::disable as *const c_void,
            1,
        ),
    ];
    // Six arguments: no register is left for a context, and the thread's interpreter counts.
    for constructor in ["C1", "C2"] {
        all.push(direct(
            &format!(
                "_ZN5torch7Library{constructor}ENS0_4KindENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt8optionalIN3c1011DispatchKeyEEPKcj"
            ),
            dispatch::library::construct as *const c_void,
        ));
        all.push(direct(
            &format!(
                "_ZN5torch6detail10class_base{constructor}ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES9_S7_RKSt9type_infoSC_"
            ),
            classes::construct as *const c_void,
        ));
    }
    all.extend(hooks::interpositions(context));
    all
}

/// Takes an interpreter out of all tables.
fn forget(member: &'static Member) {
    profiler::forget(member);
    callbacks::forget(member);
    hooks::forget(member);
    jit_operators::forget(member);
    classes::forget(member);
    dispatch::forget(member);
}
