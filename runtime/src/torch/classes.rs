//! Custom classes (`torch::class_`, torch/custom_class.h), per interpreter.
//!
//! The methods of a class that a replica registers are the replica's code and use its static data.
//! libtorch keeps one class for each name, in tables without a lock. The first interpreter's class
//! goes there. Each further interpreter gets a `ClassType` of its own with the same name, and its
//! replicas find that one by name and by C++ type. Needed in every release.
//!
//! libtorch's own lookups by name find the first interpreter's class. They concern the type in an
//! operator's schema, where types are compared by name, and a class that is unpickled from a
//! TorchScript archive.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use super::adapter::{Member, adapter, current, lock, symbols};
use super::cxx::{Allocator, CxxShared, CxxString, CxxVector, OwnedString, type_name};
use super::exported::{Answer, Exported};
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.class_new.answered_without_context(construct),
            COMPLETE_CONSTRUCTOR.answered_without_context(construct),
            EXPORTS.class_by_name.answered_by(by_name, member),
            EXPORTS.class_by_type.answered_by(by_type, member),
            EXPORTS.class_check.answered_by(check, member),
            EXPORTS.class_method.answered_by(keep_method, member),
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
    /// By qualified name, then interpreter. A name stays when its interpreters are gone: libtorch
    /// keeps the first one's class.
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
    let mut classes = lock(&CLASSES);
    let classes = classes.get_or_insert_default();
    let taken = classes.by_name.get(&qualified);
    if taken.is_none_or(|taken| taken.contains_key(&member.serial())) {
        // The first of its name, or a repetition, which libtorch refuses.
        // SAFETY: the caller's arguments.
        unsafe { real(object, namespace, name, doc, pointer_type, capsule_type) };
    } else {
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
    member: &'static Member,
) -> *mut CxxShared {
    // SAFETY: a live string of the caller.
    let text = unsafe { (*name).text() };
    let known = {
        let classes = lock(&CLASSES);
        classes
            .as_ref()
            .and_then(|classes| classes.by_name.get(&text))
            .map(|all| all.get(&member.serial()).map_or(CxxShared::NULL, CxxShared::retain))
    };
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
    member: &'static Member,
) -> *mut CxxShared {
    // SAFETY: a `std::type_index` holds the address of its type information.
    let key = (member.serial(), unsafe { type_name(*index) });
    let own = lock(&CLASSES)
        .as_ref()
        .and_then(|classes| classes.by_type.get(&key))
        .map(CxxShared::retain);
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

/// `torch::registerCustomClassMethod(std::unique_ptr<jit::Function>)`: keeps a method alive, in a
/// vector that libtorch does not lock.
unsafe extern "C-unwind" fn keep_method(method: *mut *mut c_void, _member: &'static Member) {
    let _one_at_a_time = lock(&CLASSES);
    // SAFETY: the caller's argument.
    unsafe { (symbols().class_method)(method) };
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
