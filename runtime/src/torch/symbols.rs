//! The exported functions of libtorch and libstdc++ that the adapter calls, or answers, or both.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use super::cxx::{Allocator, CxxFunction, CxxPair, CxxShared, CxxString, CxxVector};
use super::exported::exports;
use super::kernel::{
    CppFunction, KernelFunction, LibraryLayout, OperatorHandle, OperatorName, OptionalHandle,
    OptionalKey,
};

impl Symbols {
    /// `operator new` and `operator delete` of the process.
    pub(super) fn allocator(&self) -> Allocator {
        Allocator { new: self.operator_new, delete: self.operator_delete }
    }
}

exports! {
    /// Addresses in the one libtorch of the process.
    struct Symbols, SymbolExports, const EXPORTS;
    /// `operator new(size_t)`.
    operator_new: "_Znwm" => unsafe extern "C-unwind" fn(usize) -> *mut u8,
    /// `operator delete(void*)`.
    operator_delete: "_ZdlPv" => unsafe extern "C-unwind" fn(*mut u8),
    /// `torch::Library::Library(Kind, std::string, optional<DispatchKey>, const char*, uint32_t)`.
    library_new: "_ZN5torch7LibraryC1ENS0_4KindENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt8optionalIN3c1011DispatchKeyEEPKcj"
        => unsafe extern "C-unwind" fn(*mut LibraryLayout, u32, *mut CxxString, OptionalKey, *const c_char, u32),
    /// `torch::Library::_def(FunctionSchema&&, OperatorName*, const vector<Tag>&, _RegisterOrVerify)`.
    library_define: "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameERKSt6vectorIN2at3TagESaIS8_EENS_17_RegisterOrVerifyE"
        => unsafe extern "C-unwind" fn(*mut LibraryLayout, *mut c_void, *mut c_void, *const c_void, u32) -> *mut LibraryLayout,
    /// `torch::Library::_def(variant<OperatorName, FunctionSchema>&&, CppFunction&&, const vector<Tag>&)`.
    library_define_with_kernel: "_ZNR5torch7Library4_defEOSt7variantIJN3c1012OperatorNameENS2_14FunctionSchemaEEEONS_11CppFunctionERKSt6vectorIN2at3TagESaISB_EE"
        => unsafe extern "C-unwind" fn(*mut LibraryLayout, *mut c_void, *mut CppFunction, *const c_void) -> *mut LibraryLayout,
    /// `torch::Library::_impl(const char*, CppFunction&&, _RegisterOrVerify)`.
    library_implement: "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE"
        => unsafe extern "C-unwind" fn(*mut LibraryLayout, *const c_char, *mut CppFunction, u32) -> *mut LibraryLayout,
    /// `torch::Library::_fallback(CppFunction&&)`.
    library_fallback: "_ZNR5torch7Library9_fallbackEONS_11CppFunctionE"
        => unsafe extern "C-unwind" fn(*mut LibraryLayout, *mut CppFunction) -> *mut LibraryLayout,
    /// `torch::Library::reset()`: undoes the library's registrations.
    library_reset: "_ZN5torch7Library5resetEv" => unsafe extern "C-unwind" fn(*mut LibraryLayout),
    /// `c10::RegisterOperators::checkSchemaAndRegisterOp_(Options&&)`.
    legacy_register: "_ZN3c1017RegisterOperators25checkSchemaAndRegisterOp_EONS0_7OptionsE"
        => unsafe extern "C-unwind" fn(*mut c_void, *mut c_void),
    /// `torch::Library::_resolve(const char*) const`: the full operator name.
    library_resolve: "_ZNK5torch7Library8_resolveEPKc"
        => unsafe extern "C-unwind" fn(*mut OperatorName, *const LibraryLayout, *const c_char) -> *mut OperatorName,
    /// `c10::KernelFunction::~KernelFunction()`.
    kernel_destroy: "_ZN3c1014KernelFunctionD1Ev" => unsafe extern "C-unwind" fn(*mut KernelFunction),
    /// `c10::fallthrough_kernel`, known by its address.
    fallthrough_kernel: "_ZN3c1018fallthrough_kernelEPNS_14OperatorKernelERKNS_14OperatorHandleENS_14DispatchKeySetEPSt6vectorINS_6IValueESaIS7_EE"
        => *const c_void,
    /// `c10::Dispatcher::realSingleton()`.
    dispatcher: "_ZN3c1010Dispatcher13realSingletonEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `c10::Dispatcher::findOp(const OperatorName&)`.
    dispatcher_find: "_ZN3c1010Dispatcher6findOpERKNS_12OperatorNameE"
        => unsafe extern "C-unwind" fn(*mut OptionalHandle, *mut c_void, *const OperatorName) -> *mut OptionalHandle,
    /// `c10::Dispatcher::findSchemaOrThrow(const char*, const char*)`.
    dispatcher_find_or_throw: "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_"
        => unsafe extern "C-unwind" fn(*mut OperatorHandle, *mut c_void, *const c_char, *const c_char) -> *mut OperatorHandle,
    /// `torch::jit::getAllSortedOperatorsFor(Symbol)`.
    jit_sorted_operators_for: "_ZN5torch3jit24getAllSortedOperatorsForEN3c106SymbolE"
        => unsafe extern "C-unwind" fn(*mut CxxVector, u32) -> *mut CxxVector,
    /// `torch::jit::getAllOperators()`.
    jit_operators: "_ZN5torch3jit15getAllOperatorsEv" => unsafe extern "C-unwind" fn(*mut CxxVector) -> *mut CxxVector,
    /// `torch::jit::getAllOperatorsFor(Symbol)`.
    jit_operators_for: "_ZN5torch3jit18getAllOperatorsForEN3c106SymbolE"
        => unsafe extern "C-unwind" fn(*mut CxxVector, u32) -> *mut CxxVector,
    /// `torch::jit::findOperatorFor(const c10::OperatorName&)`: a `std::shared_ptr`.
    jit_operator_for: "_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE"
        => unsafe extern "C-unwind" fn(*mut CxxShared, *const OperatorName) -> *mut CxxShared,
    /// `torch::jit::deregisterOperator(const FunctionSchema&)`.
    jit_operator_deregister: "_ZN5torch3jit18deregisterOperatorERKN3c1014FunctionSchemaE"
        => unsafe extern "C-unwind" fn(*const c_void),
    /// `c10::InternedStrings::symbol(const std::string&)`: the `Symbol` of a name.
    name_intern: "_ZN3c1015InternedStrings6symbolERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        => unsafe extern "C-unwind" fn(*mut c_void, *const CxxString) -> u32,
    /// `c10::InternedStrings::string(Symbol)`: a pair of pointers to characters, in two registers.
    name_text: "_ZN3c1015InternedStrings6stringENS_6SymbolE"
        => unsafe extern "C-unwind" fn(*mut c_void, u32) -> CxxPair,
    /// `c10::InternedStrings::ns(Symbol)`.
    name_space: "_ZN3c1015InternedStrings2nsENS_6SymbolE" => unsafe extern "C-unwind" fn(*mut c_void, u32) -> u32,
    /// `c10::Dispatcher::getAllOpNames()`.
    dispatcher_operators: "_ZN3c1010Dispatcher13getAllOpNamesEv"
        => unsafe extern "C-unwind" fn(*mut CxxVector, *const c_void) -> *mut CxxVector,
    /// `c10::Dispatcher::getRegistrationsForDispatchKey(std::optional<DispatchKey>) const`.
    dispatcher_registrations: "_ZNK3c1010Dispatcher30getRegistrationsForDispatchKeyESt8optionalINS_11DispatchKeyEE"
        => unsafe extern "C-unwind" fn(*mut CxxVector, *const c_void, OptionalKey) -> *mut CxxVector,
    /// `c10::findSchemaDifferences(const FunctionSchema&, const FunctionSchema&)`.
    schema_differences: "_ZN3c1021findSchemaDifferencesB5cxx11ERKNS_14FunctionSchemaES2_"
        => unsafe extern "C-unwind" fn(*mut c_void, *const c_void, *const c_void) -> *mut c_void,
    /// `c10::impl::OperatorEntry::hasKernelForDispatchKey(DispatchKey) const`.
    entry_has_kernel: "_ZNK3c104impl13OperatorEntry23hasKernelForDispatchKeyENS_11DispatchKeyE"
        => unsafe extern "C-unwind" fn(*const c_void, u16) -> bool,
    /// `c10::impl::OperatorEntry::hasKernelForAnyDispatchKey(DispatchKeySet) const`.
    entry_has_any_kernel: "_ZNK3c104impl13OperatorEntry26hasKernelForAnyDispatchKeyENS_14DispatchKeySetE"
        => unsafe extern "C-unwind" fn(*const c_void, u64) -> bool,
    /// `c10::impl::OperatorEntry::hasComputedKernelForDispatchKey(DispatchKey) const`.
    entry_has_computed_kernel: "_ZNK3c104impl13OperatorEntry31hasComputedKernelForDispatchKeyENS_11DispatchKeyE"
        => unsafe extern "C-unwind" fn(*const c_void, u16) -> bool,
    /// `c10::impl::OperatorEntry::reportError(DispatchKey) const`; it throws.
    entry_report_error: "_ZNK3c104impl13OperatorEntry11reportErrorENS_11DispatchKeyE"
        => unsafe extern "C-unwind" fn(*const c_void, u16),
    /// `c10::impl::OperatorEntry::kernelForDispatchKey(DispatchKey) const`.
    entry_kernel: "_ZNK3c104impl13OperatorEntry20kernelForDispatchKeyENS_11DispatchKeyE"
        => unsafe extern "C-unwind" fn(*const c_void, u16) -> *const c_void,
    /// `c10::impl::OperatorEntry::getComputedKernelForDispatchKey(DispatchKey) const`, by `torch.library.get_kernel`.
    entry_computed_kernel: "_ZNK3c104impl13OperatorEntry31getComputedKernelForDispatchKeyENS_11DispatchKeyE"
        => unsafe extern "C-unwind" fn(*mut c_void, *const c_void, u16) -> *mut c_void,
    /// `c10::impl::OperatorEntry::dumpState() const`.
    entry_state: "_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev"
        => unsafe extern "C-unwind" fn(*mut CxxString, *const c_void) -> *mut CxxString,
    /// `c10::impl::OperatorEntry::dumpComputedTable() const`.
    entry_computed_table: "_ZNK3c104impl13OperatorEntry17dumpComputedTableB5cxx11Ev"
        => unsafe extern "C-unwind" fn(*mut CxxString, *const c_void) -> *mut CxxString,
    /// `c10::impl::OperatorEntry::checkInvariants() const`.
    entry_check: "_ZNK3c104impl13OperatorEntry15checkInvariantsEv"
        => unsafe extern "C-unwind" fn(*const c_void),
    /// `c10::Dispatcher::checkInvariants() const`.
    dispatcher_check: "_ZNK3c1010Dispatcher15checkInvariantsEv"
        => unsafe extern "C-unwind" fn(*const c_void),
    /// `c10::Dispatcher::findDanglingImpls() const`.
    dispatcher_dangling: "_ZNK3c1010Dispatcher17findDanglingImplsEv"
        => unsafe extern "C-unwind" fn(*mut CxxVector, *const c_void) -> *mut CxxVector,
    /// `c10::detail::torchCheckFail(const char*, const char*, uint32_t, const char*)`; it throws `c10::Error`.
    check_fail: "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
        => unsafe extern "C-unwind" fn(*const c_char, *const c_char, u32, *const c_char) -> !,
    /// The type information of `c10::OperatorKernel`.
    operator_kernel_typeinfo: "_ZTIN3c1014OperatorKernelE" => *const c_void,
    /// `c10::impl::PyInterpreter::disarm()`.
    interpreter_disarm: "_ZN3c104impl13PyInterpreter6disarmEv" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `at::impl::PythonOpRegistrationTrampoline::registerInterpreter(PyInterpreter*)`.
    trampoline_register: "_ZN2at4impl30PythonOpRegistrationTrampoline19registerInterpreterEPN3c104impl13PyInterpreterE"
        => unsafe extern "C-unwind" fn(*mut c_void) -> bool,
    /// `c10::impl::GPUTrace::set_trace(const PyInterpreter*)`.
    gpu_trace_set: "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE" => unsafe extern "C-unwind" fn(*const c_void),
    /// `torch::detail::class_base::class_base(const string&, const string&, string, const type_info&, const type_info&)`.
    class_new: "_ZN5torch6detail10class_baseC2ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES9_S7_RKSt9type_infoSC_"
        => unsafe extern "C-unwind" fn(*mut c_void, *const CxxString, *const CxxString, *mut CxxString, *const c_void, *const c_void),
    /// `torch::getCustomClass(const std::string&)`.
    class_by_name: "_ZN5torch14getCustomClassERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        => unsafe extern "C-unwind" fn(*mut CxxShared, *const CxxString) -> *mut CxxShared,
    /// `c10::getCustomClassTypeImpl(const std::type_index&)`.
    class_by_type: "_ZN3c1022getCustomClassTypeImplERKSt10type_index"
        => unsafe extern "C-unwind" fn(*mut CxxShared, *const *const c_void) -> *mut CxxShared,
    /// `c10::ivalue::checkCustomClassType(const ClassType*, const Type*)`.
    class_check: "_ZN3c106ivalue20checkCustomClassTypeEPKNS_9ClassTypeEPKNS_4TypeE"
        => unsafe extern "C-unwind" fn(*const c_void, *const c_void),
    /// `c10::ClassType::create(optional<QualifiedName>, weak_ptr<CompilationUnit>, bool, string, vector<string>)`.
    class_type_create: "_ZN3c109ClassType6createESt8optionalINS_13QualifiedNameEESt8weak_ptrIN5torch3jit15CompilationUnitEEbNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorISE_SaISE_EE"
        => unsafe extern "C-unwind" fn(*mut CxxShared, *mut c_void, *mut CxxShared, bool, *mut CxxString, *mut CxxVector) -> *mut CxxShared,
    /// `c10::ClassType::addAttribute(const string&, TypePtr, bool, bool)`.
    class_type_attribute: "_ZN3c109ClassType12addAttributeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEENS_4Type24SingletonOrSharedTypePtrIS9_EEbb"
        => unsafe extern "C-unwind" fn(*mut c_void, *const CxxString, *mut CxxShared, bool, bool) -> usize,
    /// `c10::CapsuleType::get()`.
    capsule_type: "_ZN3c1011CapsuleType3getEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `c10::AutogradState::get_tls_state()`.
    autograd_state: "_ZN3c1013AutogradState13get_tls_stateEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `c10::impl::TorchDispatchModeTLS::get_state()`.
    dispatch_modes: "_ZN3c104impl20TorchDispatchModeTLS9get_stateEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `at::impl::PythonTorchFunctionTLS::get_state()`.
    function_modes: "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `c10::impl::PythonDispatcherTLS::get_state()`.
    python_dispatcher_state: "_ZN3c104impl19PythonDispatcherTLS9get_stateEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `c10::impl::PythonDispatcherTLS::set_state(PyInterpreter*)`.
    python_dispatcher_set: "_ZN3c104impl19PythonDispatcherTLS9set_stateEPNS0_13PyInterpreterE" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `at::functorch::functorchTLSAccessor()`: a reference to the thread's `std::unique_ptr`.
    functorch_state: "_ZN2at9functorch20functorchTLSAccessorEv" => unsafe extern "C-unwind" fn() -> *mut *mut c_void,
    /// `c10::impl::IncludeDispatchKeyGuard(DispatchKeySet)`: its first member is the address of the
    /// thread's key sets.
    include_keys_guard: "_ZN3c104impl23IncludeDispatchKeyGuardC1ENS_14DispatchKeySetE"
        => unsafe extern "C-unwind" fn(*mut [*mut c_void; 2], u64),
    /// `c10::SetStackTraceFetcher(std::function<std::string()>)`.
    stack_trace_set: "_ZN3c1020SetStackTraceFetcherESt8functionIFNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEvEE"
        => unsafe extern "C-unwind" fn(*mut CxxFunction),
    /// `c10d::control_plane::registerHandler(const std::string&, std::function<...>)`.
    handler_register: "_ZN4c10d13control_plane15registerHandlerERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt8functionIFvRKNS0_7RequestERNS0_8ResponseEEE"
        => unsafe extern "C-unwind" fn(*const CxxString, *mut CxxFunction),
    /// `torch::jit::setEmitHooks(std::function<void(Module)>, std::function<void(StrongFunctionPtr)>)`.
    emit_hooks_set: "_ZN5torch3jit12setEmitHooksESt8functionIFvNS0_6ModuleEEES1_IFvNS0_17StrongFunctionPtrEEE"
        => unsafe extern "C-unwind" fn(*mut CxxFunction, *mut CxxFunction),
    /// `at::globalContext()`.
    context: "_ZN2at13globalContextEv" => unsafe extern "C-unwind" fn() -> *mut c_void,
    /// `at::Context::Context()`.
    context_new: "_ZN2at7ContextC1Ev" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `c10::get_default_dtype()`: a `TypeMeta`, whose number is that of the `ScalarType`.
    dtype: "_ZN3c1017get_default_dtypeEv" => unsafe extern "C-unwind" fn() -> u16,
    /// `c10::get_default_dtype_as_scalartype()`.
    dtype_as_scalar: "_ZN3c1031get_default_dtype_as_scalartypeEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `c10::get_default_complex_dtype()`.
    complex_dtype: "_ZN3c1025get_default_complex_dtypeEv" => unsafe extern "C-unwind" fn() -> u16,
    /// `c10::set_default_dtype(caffe2::TypeMeta)`.
    dtype_set: "_ZN3c1017set_default_dtypeEN6caffe28TypeMetaE" => unsafe extern "C-unwind" fn(u16),
    /// `c10::WarningUtils::get_warnAlways()`.
    warn_always: "_ZN3c1012WarningUtils14get_warnAlwaysEv" => unsafe extern "C-unwind" fn() -> bool,
    /// `c10::WarningUtils::set_warnAlways(bool)`.
    warn_always_set: "_ZN3c1012WarningUtils14set_warnAlwaysEb" => unsafe extern "C-unwind" fn(bool),
    /// `at::detail::getDefaultCPUGenerator()`: a reference to a `Generator`, which is one pointer.
    generator: "_ZN2at6detail22getDefaultCPUGeneratorEv" => unsafe extern "C-unwind" fn() -> *const *mut c_void,
    /// `at::detail::createCPUGenerator(uint64_t)`.
    generator_new: "_ZN2at6detail18createCPUGeneratorEm" => unsafe extern "C-unwind" fn(*mut *mut c_void, u64) -> *mut *mut c_void,
    /// `c10::detail::getNonDeterministicRandom(bool)`.
    random: "_ZN3c106detail25getNonDeterministicRandomEb" => unsafe extern "C-unwind" fn(bool) -> u64,
    /// `torch::jit::getExecutorMode()`.
    executor_mode: "_ZN5torch3jit15getExecutorModeEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::getProfilingMode()`.
    profiling_mode: "_ZN5torch3jit16getProfilingModeEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::getNumProfiledRuns()`.
    profiled_runs: "_ZN5torch3jit18getNumProfiledRunsEv" => unsafe extern "C-unwind" fn() -> *mut u64,
    /// `torch::jit::tensorexpr::getTEMustUseLLVMOnCPU()`.
    fuser_needs_llvm: "_ZN5torch3jit10tensorexpr21getTEMustUseLLVMOnCPUEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::tensorexpr::getTEGenerateBlockCode()`.
    fuser_block_code: "_ZN5torch3jit10tensorexpr22getTEGenerateBlockCodeEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::tensorexpr::getOptConditionals()`.
    fuser_conditionals: "_ZN5torch3jit10tensorexpr18getOptConditionalsEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::tensorexpr::getCatWoConditionals()`.
    fuser_cat_without_conditionals: "_ZN5torch3jit10tensorexpr20getCatWoConditionalsEv" => unsafe extern "C-unwind" fn() -> *mut u8,
    /// `torch::jit::tensorexpr::getTECudaPointwiseLoopLevels()`.
    fuser_loop_levels: "_ZN5torch3jit10tensorexpr28getTECudaPointwiseLoopLevelsEv" => unsafe extern "C-unwind" fn() -> *mut u32,
    /// `torch::jit::tensorexpr::getTECudaPointwiseBlockCount()`.
    fuser_block_count: "_ZN5torch3jit10tensorexpr28getTECudaPointwiseBlockCountEv" => unsafe extern "C-unwind" fn() -> *mut u32,
    /// `torch::jit::tensorexpr::getTECudaPointwiseBlockSize()`.
    fuser_block_size: "_ZN5torch3jit10tensorexpr27getTECudaPointwiseBlockSizeEv" => unsafe extern "C-unwind" fn() -> *mut u32,
    /// `torch::jit::tensorExprFuserEnabled()`.
    fuser: "_ZN5torch3jit22tensorExprFuserEnabledEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::setTensorExprFuserEnabled(bool)`.
    fuser_set: "_ZN5torch3jit25setTensorExprFuserEnabledEb" => unsafe extern "C-unwind" fn(u8),
    /// `torch::jit::tensorExprDynamicShapeFusionEnabled()`.
    fuser_dynamic_shapes: "_ZN5torch3jit35tensorExprDynamicShapeFusionEnabledEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::setTensorExprDynamicShapeFusionEnabled(bool)`.
    fuser_dynamic_shapes_set: "_ZN5torch3jit38setTensorExprDynamicShapeFusionEnabledEb" => unsafe extern "C-unwind" fn(u8),
    /// `torch::jit::getFusionGroupInlining()`.
    fuser_inlining: "_ZN5torch3jit22getFusionGroupInliningEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::debugSetFusionGroupInlining(bool)`.
    fuser_inlining_set: "_ZN5torch3jit27debugSetFusionGroupInliningEb" => unsafe extern "C-unwind" fn(u8),
    /// `torch::jit::getAutodiffSubgraphInlining()`.
    autodiff_inlining: "_ZN5torch3jit27getAutodiffSubgraphInliningEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::debugSetAutodiffSubgraphInlining(bool)`.
    autodiff_inlining_set: "_ZN5torch3jit32debugSetAutodiffSubgraphInliningEb" => unsafe extern "C-unwind" fn(u8),
    /// `torch::jit::canFuseOnCPULegacy()`.
    fuses_on_cpu_legacy: "_ZN5torch3jit18canFuseOnCPULegacyEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::overrideCanFuseOnCPULegacy(bool)`.
    fuses_on_cpu_legacy_set: "_ZN5torch3jit26overrideCanFuseOnCPULegacyEb" => unsafe extern "C-unwind" fn(u8),
    /// `at::functorch::isVmapFallbackEnabled()`.
    vmap_fallback: "_ZN2at9functorch21isVmapFallbackEnabledEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `at::functorch::setVmapFallbackEnabled(bool)`.
    vmap_fallback_set: "_ZN2at9functorch22setVmapFallbackEnabledEb" => unsafe extern "C-unwind" fn(u8),
    /// `torch::autograd::getAutogradFallbackMode()`.
    autograd_fallback: "_ZN5torch8autograd23getAutogradFallbackModeEv" => unsafe extern "C-unwind" fn() -> u32,
    /// `torch::autograd::setAutogradFallbackMode(AutogradFallbackMode)`.
    autograd_fallback_set: "_ZN5torch8autograd23setAutogradFallbackModeENS0_20AutogradFallbackModeE" => unsafe extern "C-unwind" fn(u32),
    /// `torch::jit::tensorexpr::fallbackAllowed()`.
    fuser_fallback: "_ZN5torch3jit10tensorexpr15fallbackAllowedEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::tensorexpr::setFallbackAllowed(bool)`.
    fuser_fallback_set: "_ZN5torch3jit10tensorexpr18setFallbackAllowedEb" => unsafe extern "C-unwind" fn(u8) -> u8,
    /// `torch::jit::autocastEnabled()`.
    script_autocast: "_ZN5torch3jit15autocastEnabledEv" => unsafe extern "C-unwind" fn() -> u8,
    /// `torch::jit::setAutocastMode(bool)`.
    script_autocast_set: "_ZN5torch3jit15setAutocastModeEb" => unsafe extern "C-unwind" fn(u8) -> u8,
    /// `at::set_num_threads(int)`.
    threads_set: "_ZN2at15set_num_threadsEi" => unsafe extern "C-unwind" fn(i32),
    /// `at::set_num_interop_threads(int)`.
    interop_threads_set: "_ZN2at23set_num_interop_threadsEi" => unsafe extern "C-unwind" fn(i32),
    /// `c10d::setDebugLevel(DebugLevel)`.
    debug_level_set: "_ZN4c10d13setDebugLevelENS_10DebugLevelE" => unsafe extern "C-unwind" fn(u32),
    /// `at::functorch::setVmapFallbackWarningEnabled(bool)`.
    vmap_warning_set: "_ZN2at9functorch29setVmapFallbackWarningEnabledEb" => unsafe extern "C-unwind" fn(bool),
    /// `torch::jit::setTexprReductionsEnabled(bool)`.
    fuser_reductions_set: "_ZN5torch3jit25setTexprReductionsEnabledEb" => unsafe extern "C-unwind" fn(bool),
    /// `torch::jit::overrideCanFuseOnCPU(bool)`.
    fuses_on_cpu_set: "_ZN5torch3jit20overrideCanFuseOnCPUEb" => unsafe extern "C-unwind" fn(bool),
    /// `torch::jit::overrideCanFuseOnGPU(bool)`.
    fuses_on_gpu_set: "_ZN5torch3jit20overrideCanFuseOnGPUEb" => unsafe extern "C-unwind" fn(bool),
    /// `torch::jit::setFusionStrategy(FusionStrategy&)`.
    fusion_strategy_set: "_ZN5torch3jit17setFusionStrategyERSt6vectorISt4pairINS0_14FusionBehaviorEmESaIS4_EE" => unsafe extern "C-unwind" fn(*mut c_void, *const c_void) -> *mut c_void,
    /// `torch::jit::set_jit_logging_levels(std::string)`.
    script_log_set: "_ZN5torch3jit22set_jit_logging_levelsENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" => unsafe extern "C-unwind" fn(*const c_void),
    /// `torch::autograd::ForwardADLevel::get_next_idx()`.
    level_enter: "_ZN5torch8autograd14ForwardADLevel12get_next_idxEv" => unsafe extern "C-unwind" fn() -> u64,
    /// `torch::autograd::ForwardADLevel::release_idx(uint64_t)`.
    level_leave: "_ZN5torch8autograd14ForwardADLevel11release_idxEm" => unsafe extern "C-unwind" fn(u64),
    /// `torch::autograd::ForwardADLevel::get_by_idx(uint64_t)`: a `std::shared_ptr`.
    level: "_ZN5torch8autograd14ForwardADLevel10get_by_idxEm"
        => unsafe extern "C-unwind" fn(*mut CxxShared, u64) -> *mut CxxShared,
    /// `torch::autograd::ForwardADLevel::try_get_by_idx(uint64_t)`: a `std::shared_ptr`, empty if there is no such level.
    level_or_none: "_ZN5torch8autograd14ForwardADLevel14try_get_by_idxEm"
        => unsafe extern "C-unwind" fn(*mut CxxShared, u64) -> *mut CxxShared,
    /// The virtual table of what `std::make_shared<ForwardADLevel>` allocates.
    level_vtable: "_ZTVSt23_Sp_counted_ptr_inplaceIN5torch8autograd14ForwardADLevelESaIvELN9__gnu_cxx12_Lock_policyE2EE"
        => *const *const c_void,
    /// `torch::autograd::impl::gradient_edge(const Variable&)`.
    gradient_edge: "_ZN5torch8autograd4impl13gradient_edgeERKN2at6TensorE"
        => unsafe extern "C-unwind" fn(*mut c_void, *const c_void) -> *mut c_void,
    /// `torch::autograd::AnomalyMode::_enabled`.
    anomaly: "_ZN5torch8autograd11AnomalyMode8_enabledE" => *const AtomicBool,
    /// `torch::autograd::AnomalyMode::_check_nan`.
    anomaly_nan: "_ZN5torch8autograd11AnomalyMode10_check_nanE" => *const AtomicBool,
    /// `c10d::register_process_group(const std::string&, const intrusive_ptr<ProcessGroup>&)`.
    group_register: "_ZN4c10d22register_process_groupERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKN3c1013intrusive_ptrINS_12ProcessGroupENS8_6detail34intrusive_target_default_null_typeISA_EEEE"
        => unsafe extern "C-unwind" fn(*const CxxString, *const c_void),
    /// `c10d::resolve_process_group(const std::string&)`: an `intrusive_ptr`.
    group_resolve: "_ZN4c10d21resolve_process_groupERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        => unsafe extern "C-unwind" fn(*mut *mut c_void, *const CxxString) -> *mut *mut c_void,
    /// `c10d::unregister_process_group(const std::string&)`.
    group_unregister: "_ZN4c10d24unregister_process_groupERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        => unsafe extern "C-unwind" fn(*const CxxString),
    /// `c10d::unregister_all_process_groups()`.
    group_unregister_all: "_ZN4c10d29unregister_all_process_groupsEv" => unsafe extern "C-unwind" fn(),
    /// `c10::impl::ensureCUDADeviceGuardSet()`.
    fake_device_ensure: "_ZN3c104impl24ensureCUDADeviceGuardSetEv" => unsafe extern "C-unwind" fn(),
    /// `c10::impl::device_guard_impl_registry`, an array of `std::atomic<const DeviceGuardImplInterface*>` by type of
    /// device. An object begins with its virtual table.
    device_guards: "_ZN3c104impl26device_guard_impl_registryE" => *const AtomicPtr<*const c_void>,
    /// `torch::CapturedTraceback::addPythonUnwinder(Python*)`.
    traceback_add: "_ZN5torch17CapturedTraceback17addPythonUnwinderEPNS0_6PythonE" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `torch::jit::registerOperator(Operator&&)`.
    jit_operator_register: "_ZN5torch3jit16registerOperatorEONS0_8OperatorE" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `torch::autograd::profiler::prepareProfiler(...)`.
    profiler_prepare: "_ZN5torch8autograd8profiler15prepareProfilerERKNS_8profiler4impl14ProfilerConfigERKSt3setINS3_12ActivityTypeESt4lessIS8_ESaIS8_EE"
        => unsafe extern "C-unwind" fn(*const c_void, *const c_void),
    /// `torch::autograd::profiler::enableProfiler(...)`.
    profiler_enable: "_ZN5torch8autograd8profiler14enableProfilerERKNS_8profiler4impl14ProfilerConfigERKSt3setINS3_12ActivityTypeESt4lessIS8_ESaIS8_EERKSt13unordered_setIN2at11RecordScopeESt4hashISH_ESt8equal_toISH_ESaISH_EE"
        => unsafe extern "C-unwind" fn(*const c_void, *const c_void, *const c_void),
    /// `torch::autograd::profiler::disableProfiler()`.
    profiler_disable: "_ZN5torch8autograd8profiler15disableProfilerEv" => unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    /// `torch::autograd::Engine::thread_init(int, const std::shared_ptr<ReadyQueue>&, bool)`.
    engine_thread: "_ZN5torch8autograd6Engine11thread_initEiRKSt10shared_ptrINS0_10ReadyQueueEEb"
        => unsafe extern "C-unwind" fn(*mut c_void, i32, *const c_void, bool),
    /// `torch::autograd::Engine::initialize_device_threads_pool()`.
    engine_initialize: "_ZN5torch8autograd6Engine30initialize_device_threads_poolEv" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `torch::autograd::Engine::start_device_threads()`.
    engine_start: "_ZN5torch8autograd6Engine20start_device_threadsEv" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `torch::autograd::Engine::stop()`.
    engine_stop: "_ZN5torch8autograd6Engine4stopEv" => unsafe extern "C-unwind" fn(*mut c_void),
    /// `torch::autograd::Engine::get_base_engine()`.
    base_engine: "_ZN5torch8autograd6Engine15get_base_engineEv" => *const c_void,
    /// `torch::jit::getDefaultPrintHandler()`.
    default_print_handler: "_ZN5torch3jit22getDefaultPrintHandlerB5cxx11Ev" => unsafe extern "C-unwind" fn() -> *const c_void,
}
