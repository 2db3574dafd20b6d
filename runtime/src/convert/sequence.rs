//! Vectors and arrays from any sequence, and sets.

use super::{FromPython, Inspected, ToPython, container};
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use crate::{Error, Result};
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, Hash};

/// The source of a vector, in error messages.
const EXPECTED: &str = "a sequence or set";

/// The items of a sequence or a set: `list`, `tuple`, `range`, `set`, `frozenset`, `bytes`, `array`, numpy
/// arrays, and classes with `__len__` and `__getitem__`. A `str` is refused although it is a sequence of
/// strings: a string in place of a vector of strings means a forgotten list around it.
pub(super) fn items<'session>(object: &Object<'session>) -> Result<Vec<Object<'session>>> {
    let _attached = object.session().attach();
    let inspected = Inspected::new(object)?;
    match inspected.kind() {
        Kind::LIST | Kind::TUPLE => container::sequence(object),
        Kind::BYTES | Kind::BYTE_ARRAY => listed(object),
        Kind::OTHER if is_sequence(object)? => listed(object),
        _ => Err(inspected.unexpected(EXPECTED)),
    }
}

/// The items of `list(object)`.
fn listed<'session>(object: &Object<'session>) -> Result<Vec<Object<'session>>> {
    let builtins = object.session().import("builtins")?;
    container::sequence(&builtins.call_method("list", (object,))?)
}

fn is_sequence(object: &Object<'_>) -> Result<bool> {
    let session = object.session();
    let abstract_classes = session.import("collections.abc")?;
    let is_a = |name: &str| instance_of(object, &abstract_classes.getattr(name)?);
    if is_a("Sequence")? || is_a("Set")? {
        return Ok(true);
    }
    // Arrays of numpy and of the standard library are registered as none of these.
    let class = session.import("builtins")?.call_method("type", (object,))?;
    let has = |method: &str| class.getattr(method).is_ok();
    Ok(!is_a("Mapping")? && has("__len__") && has("__getitem__"))
}

/// `isinstance(object, class)`.
pub(super) fn instance_of(object: &Object<'_>, class: &Object<'_>) -> Result<bool> {
    object.session().import("builtins")?.call_method("isinstance", (object, class))?.truth()
}

impl<'session, T: FromPython<'session>, const N: usize> FromPython<'session> for [T; N] {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        Self::try_from(T::vec_from_python(object)?).map_err(|items| {
            let reason = format!("it has {} items", items.len());
            Error::convert(format!("{N} items"), object.type_name(), reason)
        })
    }
}

/// The items of a `set` or `frozenset`.
fn set_items<'session>(object: &Object<'session>) -> Result<Vec<Object<'session>>> {
    let _attached = object.session().attach();
    let builtins = object.session().import("builtins")?;
    let classes = (builtins.getattr("set")?, builtins.getattr("frozenset")?);
    if !builtins.call_method("isinstance", (object, classes))?.truth()? {
        let reason = "it is of another type";
        return Err(Error::convert("set or frozenset", object.type_name(), reason));
    }
    listed(object)
}

/// A `set` of the items.
fn set_of<'session, 'item, T: ToPython + 'item>(
    session: &'session Session,
    items: impl Iterator<Item = &'item T>,
) -> Result<Object<'session>> {
    let _attached = session.attach();
    let items = items.map(|item| item as &dyn ToPython);
    let tuple = container::gather(session, Kind::TUPLE, items)?;
    session.import("builtins")?.call_method("set", (tuple,))
}

impl<T: ToPython, S> ToPython for HashSet<T, S> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        set_of(session, self.iter())
    }
}

impl<'session, T, S> FromPython<'session> for HashSet<T, S>
where
    T: FromPython<'session> + Eq + Hash,
    S: BuildHasher + Default,
{
    fn from_python(object: &Object<'session>) -> Result<Self> {
        set_items(object)?.iter().map(T::from_python).collect()
    }
}

impl<T: ToPython> ToPython for BTreeSet<T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        set_of(session, self.iter())
    }
}

impl<'session, T: FromPython<'session> + Ord> FromPython<'session> for BTreeSet<T> {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        set_items(object)?.iter().map(T::from_python).collect()
    }
}
