//! Custom classes (`torch::class_`, torch/custom_class.h), per interpreter.
//!
//! The methods of a class that a replica registers are the replica's code and use its static data.
//! libtorch keeps one class for each name, in tables without a lock, until the process ends. A class
//! without methods goes there. Each interpreter gets a `ClassType` of its own with the same name. Lookups
//! by name and by C++ type find that one, in replicas and in libtorch itself ([`super::slots`]). Needed
//! in every release.
//!
//! An interpreter's methods end with it. The type in the schema of an operator may outlive it, where
//! another interpreter has defined the operator too. TorchScript code may call a method of that type. So
//! an interpreter stays mapped for good if an extension of its own registers classes
//! ([`Member::keep`]). libtorch_python's own are in no schema.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use hydrozoa_loader::ReplicaInfo;

use super::adapter::{Member, adapter, current, lock, symbols};
use super::cxx::{Allocator, CxxShared, CxxString, CxxVector, OwnedString, type_name};
use super::exported::{Answer, Exported, Stand};
use super::symbols::EXPORTS;

/// What stands for libtorch's functions.
pub(super) fn stands() -> [Stand; 2] {
    // SAFETY: each function does for the calling thread's interpreter what the symbol that its documentation names
    // does for the process.
    unsafe { [EXPORTS.class_by_name.means(by_name), EXPORTS.class_by_type.means(by_type)] }
}

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.class_new.answered_without_context(construct),
            COMPLETE_CONSTRUCTOR.answered_without_context(construct),
            EXPORTS.class_check.answered_by(check, member),
            METHOD.answered_by(keep_method, member),
        ]
    }
}

/// `class_base::class_base` as the constructor of a complete object, which does the same as
/// [`EXPORTS`]'s of a base: the class has no virtual bases.
const COMPLETE_CONSTRUCTOR: Exported<Constructor> =
    // SAFETY: the same parameters, by the name.
    unsafe {
        Exported::new(
            "_ZN5torch6detail10class_baseC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES9_S7_RKSt9type_infoSC_",
        )
    };

/// `torch::registerCustomClassMethod(std::unique_ptr<jit::Function>)`.
const METHOD: Exported<unsafe extern "C-unwind" fn(*mut *mut c_void)> =
    // SAFETY: the name states one parameter, which has a destructor and so goes by address.
    unsafe {
        Exported::new(
            "_ZN5torch25registerCustomClassMethodESt10unique_ptrINS_3jit8FunctionESt14default_deleteIS2_EE",
        )
    };

type Constructor = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const CxxString,
    *const CxxString,
    *mut CxxString,
    *const c_void,
    *const c_void,
);

/// The classes that replicas registered.
#[derive(Default)]
struct Classes {
    /// By qualified name, then interpreter. A name stays when its interpreters are gone, as in libtorch.
    by_name: HashMap<String, HashMap<u64, CxxShared>>,
    /// By interpreter and the name of a C++ type.
    by_type: HashMap<(u64, String), CxxShared>,
}

static CLASSES: Mutex<Option<Classes>> = Mutex::new(None);

/// `torch::detail::class_base`: the qualified name, and the type as `std::shared_ptr<ClassType>`.
#[repr(C)]
struct ClassBase {
    name: CxxString,
    class: CxxShared,
}

/// `class_base::class_base`. (Six arguments leave no register for a context.)
unsafe extern "C-unwind" fn construct(
    object: *mut c_void,
    namespace: *const CxxString,
    name: *const CxxString,
    doc: *mut CxxString,
    pointer_type: *const c_void,
    capsule_type: *const c_void,
) {
    let real = symbols().class_new;
    let base = object.cast::<ClassBase>();
    let Some(member) = current() else {
        // SAFETY: the caller's arguments.
        return unsafe { real(object, namespace, name, doc, pointer_type, capsule_type) };
    };
    // SAFETY: live strings of the caller.
    let qualified =
        unsafe { format!("__torch__.torch.classes.{}.{}", (*namespace).text(), (*name).text()) };
    if !is_of_torch(member, pointer_type) {
        member.keep();
    }
    let mut classes = lock(&CLASSES);
    let classes = classes.get_or_insert_default();
    let taken = classes.by_name.get(&qualified);
    if taken.is_some_and(|taken| taken.contains_key(&member.serial())) {
        // A repetition, which libtorch refuses.
        // SAFETY: the caller's arguments.
        unsafe { real(object, namespace, name, doc, pointer_type, capsule_type) };
    } else {
        if taken.is_none() {
            // SAFETY: live strings and types of the caller.
            unsafe { register_name(namespace, name, pointer_type, capsule_type) };
        }
        // SAFETY: room for the object, which is written whole.
        unsafe {
            CxxString::write(&raw mut (*base).name, &qualified, symbols().allocator());
            (&raw mut (*base).class).write(new_class(&qualified, doc));
        }
    }
    // SAFETY: both ways left a live object; the types are those of the caller.
    unsafe {
        let class = &(*base).class;
        let taken = classes.by_name.entry(qualified).or_default();
        taken.insert(member.serial(), class.retain());
        for info in [pointer_type, capsule_type] {
            classes.by_type.insert((member.serial(), type_name(info)), class.retain());
        }
    }
}

/// Has libtorch note a name for good, with a class that has no methods. It refuses a name that is not free.
///
/// # Safety
/// `class_base::class_base`'s, without the documentation.
unsafe fn register_name(
    namespace: *const CxxString,
    name: *const CxxString,
    pointer_type: *const c_void,
    capsule_type: *const c_void,
) {
    let mut doc = OwnedString::new("", symbols().allocator());
    let mut object = Box::new(MaybeUninit::<ClassBase>::uninit());
    // SAFETY: the caller's arguments, and room for the object. The types are keys: libtorch copies their addresses, and
    // reads the names behind them, which stay mapped with the replica's constants.
    unsafe {
        let place = object.as_mut_ptr().cast();
        (symbols().class_new)(place, namespace, name, doc.as_mut_ptr(), pointer_type, capsule_type);
    }
    // libtorch's tables have the class; nobody needs the object that has registered it.
    Box::leak(object);
}

/// Whether a type is one of the interpreter's libtorch_python.
fn is_of_torch(member: &Member, pointer_type: *const c_void) -> bool {
    let is_of = |replica: &ReplicaInfo| {
        (replica.base..replica.base + replica.size).contains(&pointer_type.addr())
            && replica.path.file_name().is_some_and(|name| name == "libtorch_python.so")
    };
    member.replicas().iter().any(is_of)
}

/// `std::optional<c10::QualifiedName>`: the name's parts, and itself in three cuts.
#[repr(C)]
struct OptionalQualifiedName {
    atoms: CxxVector,
    qualified: CxxString,
    prefix: CxxString,
    name: CxxString,
    engaged: bool,
}

const _: () = {
    assert!(
        size_of::<OptionalQualifiedName>() == 128
            && std::mem::offset_of!(OptionalQualifiedName, prefix) == 56
    );
    assert!(size_of::<ClassBase>() == 48);
};

/// A class type with the one attribute of custom classes, as `class_base`'s constructor makes it.
///
/// # Safety
/// `doc` is a live string, which is moved from.
unsafe fn new_class(qualified: &str, doc: *mut CxxString) -> CxxShared {
    let allocator = symbols().allocator();
    let (prefix, name) = qualified.rsplit_once('.').unwrap_or(("", qualified));
    let mut place = Box::new(MaybeUninit::<OptionalQualifiedName>::uninit());
    let mut class = CxxShared::NULL;
    // SAFETY: the argument is built in its final place, passed by value as the ABI does (the callee
    // moves from it), and destroyed here; the attribute's type is a singleton without an owner.
    unsafe {
        let argument = place.as_mut_ptr();
        write_atoms(&raw mut (*argument).atoms, qualified, allocator);
        CxxString::write(&raw mut (*argument).qualified, qualified, allocator);
        CxxString::write(&raw mut (*argument).prefix, prefix, allocator);
        CxxString::write(&raw mut (*argument).name, name, allocator);
        (&raw mut (*argument).engaged).write(true);
        let (mut unit, mut unresolved) = (CxxShared::NULL, CxxVector::EMPTY);
        (symbols().class_type_create)(
            &mut class,
            argument.cast(),
            &mut unit,
            false,
            doc,
            &mut unresolved,
        );
        (*argument).atoms.destroy_strings(allocator);
        for string in
            [&raw mut (*argument).qualified, &raw mut (*argument).prefix, &raw mut (*argument).name]
        {
            CxxString::destroy(string, allocator);
        }
        let mut attribute = OwnedString::new("capsule", allocator);
        let mut capsule = CxxShared::unowned((symbols().capsule_type)());
        (symbols().class_type_attribute)(
            class.object,
            attribute.as_mut_ptr(),
            &mut capsule,
            false,
            false,
        );
    }
    class
}

/// Writes the vector of a qualified name's parts.
///
/// # Safety
/// `place` is valid for writes.
unsafe fn write_atoms(place: *mut CxxVector, qualified: &str, allocator: Allocator) {
    let atoms: Vec<&str> = qualified.split('.').collect();
    // SAFETY: storage for all of them at once, so that no string moves once it is written.
    unsafe { place.write(CxxVector::of_strings(&atoms, allocator)) };
}

/// `torch::getCustomClass(const std::string&)`. A class that only other interpreters registered is not
/// found.
unsafe extern "C-unwind" fn by_name(
    result: *mut CxxShared,
    name: *const CxxString,
) -> *mut CxxShared {
    // SAFETY: a live string of the caller.
    let text = unsafe { (*name).text() };
    let known = current().and_then(|member| {
        let classes = lock(&CLASSES);
        let all = classes.as_ref()?.by_name.get(&text)?;
        Some(all.get(&member.serial()).map_or(CxxShared::NULL, CxxShared::retain))
    });
    match known {
        Some(class) => {
            // SAFETY: room for the result.
            unsafe { result.write(class) };
            result
        }
        // SAFETY: the caller's arguments.
        None => unsafe { (symbols().class_by_name)(result, name) },
    }
}

/// `c10::getCustomClassTypeImpl(const std::type_index&)`.
unsafe extern "C-unwind" fn by_type(
    result: *mut CxxShared,
    index: *const *const c_void,
) -> *mut CxxShared {
    let own = current().and_then(|member| {
        // SAFETY: a `std::type_index` holds the address of its type information.
        let key = (member.serial(), unsafe { type_name(*index) });
        lock(&CLASSES).as_ref()?.by_type.get(&key).map(CxxShared::retain)
    });
    match own {
        Some(class) => {
            // SAFETY: room for the result.
            unsafe { result.write(class) };
            result
        }
        // SAFETY: the caller's arguments.
        None => unsafe { (symbols().class_by_type)(result, index) },
    }
}

/// `c10::ivalue::checkCustomClassType(const ClassType* expected, const Type* actual)`. The types that
/// two interpreters have of one class are accepted for each other: their objects have one layout.
unsafe extern "C-unwind" fn check(
    expected: *const c_void,
    actual: *const c_void,
    _member: &'static Member,
) {
    if expected == actual {
        return;
    }
    let layout = adapter().layout();
    // SAFETY: both are class types (the second is an object's type), which begin as a `NamedType`
    // with an optional qualified name.
    let name = |class: *const c_void| unsafe {
        (*class.byte_add(layout.type_name + layout.qualified_name).cast::<CxxString>()).text()
    };
    let is_known =
        |name: &str| lock(&CLASSES).as_ref().is_some_and(|all| all.by_name.contains_key(name));
    if !expected.is_null() && !actual.is_null() {
        let expected_name = name(expected);
        if is_known(&expected_name) && expected_name == name(actual) {
            return;
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { (symbols().class_check)(expected, actual) };
}

/// `torch::registerCustomClassMethod(std::unique_ptr<jit::Function>)`: keeps a method alive. libtorch would keep it to the
/// end of the process, and destroy it then. It ends with the memory of its interpreter instead.
unsafe extern "C-unwind" fn keep_method(method: *mut *mut c_void, _member: &'static Member) {
    // SAFETY: the caller's argument, a `std::unique_ptr` that is moved from.
    unsafe { method.write(std::ptr::null_mut()) };
}

/// Forgets an interpreter's classes. Its types stay: objects may hold them.
pub(super) fn forget(member: &Member) {
    if let Some(classes) = lock(&CLASSES).as_mut() {
        for all in classes.by_name.values_mut() {
            all.remove(&member.serial());
        }
        classes.by_type.retain(|(serial, _), _| *serial != member.serial());
    }
}
