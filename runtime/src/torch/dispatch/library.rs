//! `torch::Library` as replicas use it (torch/library.h): TORCH_LIBRARY blocks of extensions and of
//! libtorch_python, and Python's `torch.library`.
//!
//! An interpreter's own library object holds no registration, only handles that remove the
//! interpreter's part when the object goes. Needed in every release.

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::super::adapter::{Member, adapter, current, fail, lock, symbols};
use super::super::cxx::CxxString;
use super::super::exported::{Answer, Exported};
use super::super::kernel::{CppFunction, LibraryLayout, OperatorName, OptionalKey, kind};
use super::super::symbols::EXPORTS;
use super::claim::{Request, register};
use super::entry::{Before, schema_of};
use super::registry::{
    Definition, HostLibrary, Namespace, Operator, REGISTRY, Registry, Slot, Token, attach,
};

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.library_new.answered_without_context(construct),
            BASE_CONSTRUCTOR.answered_without_context(construct),
            EXPORTS.library_define.answered_by(define, member),
            EXPORTS.library_define_with_kernel.answered_by(define_with_kernel, member),
            EXPORTS.library_implement.answered_by(implement, member),
            EXPORTS.library_fallback.answered_by(fall_back, member),
        ]
    }
}

/// `Library::Library` as the constructor of a base, which does the same as [`EXPORTS`]'s of a
/// complete object: the class has no virtual bases.
const BASE_CONSTRUCTOR: Exported<Constructor> =
    // SAFETY: the same parameters, by the name.
    unsafe {
        Exported::new(
            "_ZN5torch7LibraryC2ENS0_4KindENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt8optionalIN3c1011DispatchKeyEEPKcj",
        )
    };

type Constructor = unsafe extern "C-unwind" fn(
    *mut LibraryLayout,
    u32,
    *mut CxxString,
    OptionalKey,
    *const c_char,
    u32,
);

/// `_RegisterOrVerify`.
const REGISTER: u32 = 0;
const VERIFY: u32 = 1;

/// `Library::Library`. libtorch allows one DEF of a namespace in a process. It gets one for all
/// interpreters, and each interpreter's own library becomes a FRAGMENT.
unsafe extern "C-unwind" fn construct(
    library: *mut LibraryLayout,
    requested: u32,
    namespace: *mut CxxString,
    key: OptionalKey,
    file: *const c_char,
    line: u32,
) {
    let real = symbols().library_new;
    let Some(member) = current().filter(|_| requested == kind::DEF) else {
        // SAFETY: the caller's arguments.
        return unsafe { real(library, requested, namespace, key, file, line) };
    };
    // SAFETY: a live string of the caller.
    let name = unsafe { (*namespace).text() };
    let mut registry = lock(&REGISTRY);
    let tables = registry.get_or_insert_default();
    match tables.namespaces.get_mut(&name) {
        Some(taken) if taken.owners.contains(&member.serial()) => {
            // The interpreter repeats its own block, which libtorch refuses.
            // SAFETY: as above.
            return unsafe { real(library, requested, namespace, key, file, line) };
        }
        Some(taken) => taken.owners.push(member.serial()),
        None => {
            // SAFETY: `file` is a literal of an image that stays mapped.
            let host = unsafe { HostLibrary::new(kind::DEF, &name, key, file, line) };
            tables
                .namespaces
                .insert(name.clone(), Namespace { _library: host, owners: vec![member.serial()] });
        }
    }
    drop(registry);
    // SAFETY: as above, then the library is live.
    unsafe {
        real(library, kind::FRAGMENT, namespace, key, file, line);
        attach(library, member, Token::Namespace { name });
    }
}

/// `Library::_def(FunctionSchema&&, ...)`. The first interpreter's definition is registered. Others
/// join it if their schema is the same.
unsafe extern "C-unwind" fn define(
    library: *mut LibraryLayout,
    schema: *mut c_void,
    out_name: *mut c_void,
    tags: *const c_void,
    verify: u32,
    member: &'static Member,
) -> *mut LibraryLayout {
    let real = symbols().library_define;
    // SAFETY: a live library, and a schema, whose first member is its name.
    let (own, name) = unsafe { (&*library, &*schema.cast::<OperatorName>()) };
    let operator = own.has_namespace.then(|| qualified(name, own));
    let Some(operator) = operator.filter(|_| own.kind != kind::IMPL && verify == REGISTER) else {
        // SAFETY: the caller's arguments; libtorch refuses them.
        return unsafe { real(library, schema, out_name, tags, verify) };
    };
    let mut registry = lock(&REGISTRY);
    let tables = registry.get_or_insert_default();
    match join_definition(tables, member, &operator, schema) {
        Joined::Yes => {
            // Checks the namespace, fills `out_name` and finds the definition that exists.
            // SAFETY: the caller's arguments.
            unsafe { real(library, schema, out_name, tags, VERIFY) };
        }
        Joined::Differs(message) => {
            drop(registry);
            fail(&message);
        }
        Joined::No => {
            let host = host(own, kind::FRAGMENT);
            // SAFETY: the caller's arguments, with our library.
            unsafe { real(host.address(), schema, out_name, tags, verify) };
            let definition =
                Definition { _library: Arc::new(host), definers: vec![member.serial()] };
            tables.operators.entry(operator.clone()).or_default().definition = Some(definition);
        }
    }
    drop(registry);
    // SAFETY: a live library of the calling thread.
    unsafe { attach(library, member, Token::Definition { operator }) };
    library
}

/// `Library::_def(name or schema, CppFunction&&, ...)`: a definition with its catch-all kernel. Without
/// a schema, libtorch infers one from the kernel's C++ type.
unsafe extern "C-unwind" fn define_with_kernel(
    library: *mut LibraryLayout,
    name_or_schema: *mut c_void,
    function: *mut CppFunction,
    tags: *const c_void,
    member: &'static Member,
) -> *mut LibraryLayout {
    let real = symbols().library_define_with_kernel;
    // SAFETY: both alternatives of the variant begin with the operator's name.
    let (own, name) = unsafe { (&*library, &*name_or_schema.cast::<OperatorName>()) };
    if !own.has_namespace || own.kind == kind::IMPL {
        // SAFETY: the caller's arguments; libtorch refuses them.
        return unsafe { real(library, name_or_schema, function, tags) };
    }
    let operator = qualified(name, own);
    // SAFETY: the variant's index byte is 1 for a schema; a name comes with an inferred one.
    let schema = unsafe {
        let index = *name_or_schema.cast::<u8>().add(adapter().layout().name_or_schema_index);
        if index == 1 { name_or_schema } else { (*function).inferred_schema }
    };
    let key = kernel_key(own, function).unwrap_or(adapter().layout().composite_implicit);
    let mut registry = lock(&REGISTRY);
    let tables = registry.get_or_insert_default();
    let joined = join_definition(tables, member, &operator, schema);
    let entry = tables.operators.entry(operator.clone()).or_default();
    let number = match joined {
        Joined::Differs(message) => {
            drop(registry);
            fail(&message);
        }
        // SAFETY: a live function of the caller.
        Joined::Yes => unsafe { implement_for(entry, &operator, key, member, own, function) },
        Joined::No => {
            let host = Arc::new(host(own, kind::FRAGMENT));
            let slot = entry.slot(&operator, key);
            let define = |_: &mut Slot| {
                // SAFETY: the caller's arguments, with our library.
                unsafe { real(host.address(), name_or_schema, function, tags) };
                Arc::clone(&host)
            };
            // SAFETY: a live function of the caller.
            let number = unsafe { register(slot, member, function, Request::Definition, define) };
            entry.definition = Some(Definition { _library: host, definers: vec![member.serial()] });
            number
        }
    };
    drop(registry);
    // SAFETY: a live library of the calling thread.
    unsafe {
        attach(library, member, Token::Definition { operator: operator.clone() });
        attach(library, member, Token::Kernel { operator, key, number });
    }
    library
}

/// `Library::_impl`: a kernel for one operator and key.
unsafe extern "C-unwind" fn implement(
    library: *mut LibraryLayout,
    name: *const c_char,
    function: *mut CppFunction,
    verify: u32,
    member: &'static Member,
) -> *mut LibraryLayout {
    // SAFETY: a live library of the caller.
    let own = unsafe { &*library };
    if !own.has_namespace || verify != REGISTER {
        // SAFETY: the caller's arguments.
        return unsafe { (symbols().library_implement)(library, name, function, verify) };
    }
    let operator = resolve(library, name);
    let key = kernel_key(own, function).unwrap_or(adapter().layout().composite_implicit);
    let mut registry = lock(&REGISTRY);
    let entry = registry.get_or_insert_default().operators.entry(operator.clone()).or_default();
    // SAFETY: a live function of the caller.
    let number = unsafe { implement_for(entry, &operator, key, member, own, function) };
    drop(registry);
    // SAFETY: a live library of the calling thread.
    unsafe { attach(library, member, Token::Kernel { operator, key, number }) };
    library
}

/// Registers a kernel for one operator and key; the registry's lock is held.
///
/// # Safety
/// `function` is live.
unsafe fn implement_for(
    entry: &mut Operator,
    operator: &str,
    key: u16,
    member: &'static Member,
    own: &LibraryLayout,
    function: *mut CppFunction,
) -> u64 {
    let implement = |slot: &mut Slot| {
        let before = Before::of(operator, key);
        let host = host(own, kind::IMPL);
        let name = CString::new(operator).unwrap_or_default();
        // SAFETY: a live library and function, and a C string.
        unsafe {
            (symbols().library_implement)(host.address(), name.as_ptr(), function, REGISTER);
        }
        slot.had_kernel = before.had_kernel;
        slot.router.inherit(before.replaced_by(operator, slot.router.address()));
        Arc::new(host)
    };
    let slot = entry.slot(operator, key);
    // SAFETY: by contract.
    unsafe { register(slot, member, function, Request::Kernel, implement) }
}

/// `Library::_fallback`: the kernel of a key for all operators without one.
unsafe extern "C-unwind" fn fall_back(
    library: *mut LibraryLayout,
    function: *mut CppFunction,
    member: &'static Member,
) -> *mut LibraryLayout {
    let real = symbols().library_fallback;
    // SAFETY: a live library of the caller.
    let own = unsafe { &*library };
    let key = kernel_key(own, function);
    let Some(key) = key.filter(|_| own.kind == kind::IMPL && !own.has_namespace) else {
        // SAFETY: the caller's arguments; libtorch refuses them.
        return unsafe { real(library, function) };
    };
    let mut registry = lock(&REGISTRY);
    let slot = registry
        .get_or_insert_default()
        .fallbacks
        .entry(key)
        .or_insert_with(|| Slot::new("(fallback)", key));
    let fall_back = |_: &mut Slot| {
        let host = host(own, kind::IMPL);
        // SAFETY: the caller's function, with our library.
        unsafe { real(host.address(), function) };
        Arc::new(host)
    };
    // SAFETY: a live function of the caller.
    let number = unsafe { register(slot, member, function, Request::Kernel, fall_back) };
    drop(registry);
    // SAFETY: a live library of the calling thread.
    unsafe { attach(library, member, Token::Fallback { key, number }) };
    library
}

/// The dispatch key that a kernel is for: its own, else its library's.
fn kernel_key(own: &LibraryLayout, function: *const CppFunction) -> Option<u16> {
    // SAFETY: a live function of the caller.
    unsafe { (*function).dispatch_key.key() }.or(own.dispatch_key.key())
}

enum Joined {
    /// The interpreter is now one of the definers.
    Yes,
    /// No other interpreter defined it, or this one has already. libtorch decides.
    No,
    /// Another interpreter defined it differently.
    Differs(String),
}

fn join_definition(
    tables: &mut Registry,
    member: &Member,
    operator: &str,
    schema: *const c_void,
) -> Joined {
    let definition = tables.operators.get_mut(operator).and_then(|entry| entry.definition.as_mut());
    let Some(definition) = definition.filter(|found| !found.definers.contains(&member.serial()))
    else {
        return Joined::No;
    };
    if let Some(difference) = differences(operator, schema) {
        return Joined::Differs(format!(
            "another interpreter of this process defines operator {operator} with another schema \
             ({difference}); under torch policy `shared` an operator has one schema in the process and \
             kernels for each interpreter: drop the other definition first, or use policy `isolated`"
        ));
    }
    definition.definers.push(member.serial());
    Joined::Yes
}

/// What `c10::findSchemaDifferences` says of the registered schema and `schema`, if they differ.
fn differences(operator: &str, schema: *const c_void) -> Option<String> {
    let existing = schema_of(operator)?;
    if schema.is_null() {
        return None;
    }
    /// `std::optional<std::string>`.
    #[repr(C)]
    struct OptionalString {
        string: CxxString,
        engaged: bool,
    }
    let mut result = MaybeUninit::<OptionalString>::uninit();
    // SAFETY: two live schemas; the result is written, and its string destroyed where it is.
    unsafe {
        (symbols().schema_differences)(result.as_mut_ptr().cast(), existing, schema);
        let result = result.assume_init_mut();
        result.engaged.then(|| {
            let text = result.string.text();
            CxxString::destroy(&mut result.string, symbols().allocator());
            text
        })
    }
}

/// A library of ours like the interpreter's own.
fn host(own: &LibraryLayout, kind: u32) -> HostLibrary {
    // libtorch reads "_" as the wildcard namespace, of a library of fallbacks.
    let namespace = if own.has_namespace { own.namespace.text() } else { "_".to_owned() };
    // SAFETY: the file's name is a literal of an image that stays mapped.
    let mut host =
        unsafe { HostLibrary::new(kind, &namespace, own.dispatch_key, own.file, own.line) };
    host.layout().python_module = own.python_module;
    host
}

/// The operator's full name; libtorch adds the library's namespace where there is none.
fn qualified(name: &OperatorName, own: &LibraryLayout) -> String {
    let name = name.full();
    if name.contains("::") { name } else { format!("{}::{name}", own.namespace.text()) }
}

/// `Library::_resolve`: the full name of an operator that is named in a library.
fn resolve(library: *mut LibraryLayout, name: *const c_char) -> String {
    let mut resolved = MaybeUninit::<OperatorName>::uninit();
    // SAFETY: a live library and a C string; the result is two strings, destroyed where they are.
    unsafe {
        (symbols().library_resolve)(resolved.as_mut_ptr(), library, name);
        let text = resolved.assume_init_ref().full();
        OperatorName::destroy(resolved.as_mut_ptr(), symbols().allocator());
        text
    }
}
