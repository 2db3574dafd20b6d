//! bytes, list, tuple, dict.

use super::{FromPython, Inspected, List, Plain, ToPython, filled, room};
use crate::object::Object;
use crate::payload::table::{Handle, Kind, TaggedValue};
use crate::session::Session;
use crate::thread::stack;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::ptr;

/// A new list, tuple or dict (of keys and values in turn).
pub(super) fn gather<'session, 'item, T: ToPython + ?Sized + 'item>(
    session: &'session Session,
    kind: Kind,
    items: impl IntoIterator<Item = &'item T>,
) -> Result<Object<'session>> {
    // A container in a container comes here again before it calls Python.
    stack::check()?;
    let _attached = session.attach();
    let items = items.into_iter();
    let mut list = List::with_capacity(session, items.size_hint().0);
    let mut places = list.positional();
    for item in items {
        places.push(item)?;
    }
    gather_list(session, kind, &mut list)
}

/// The same of values in a list.
pub(super) fn gather_list<'session>(
    session: &'session Session,
    kind: Kind,
    list: &mut List<'_>,
) -> Result<Object<'session>> {
    session.object(|inner, out, sink| {
        let (leaves, _) = list.take();
        let len = if kind == Kind::DICT { leaves.len() / 2 } else { leaves.len() };
        // SAFETY: `object` attaches; the leaves are valid, and `len` counts items or pairs.
        unsafe { (inner.table().gather)(kind, leaves.as_ptr(), len, out, sink) }
    })
}

/// The items of a list or tuple, if `from` makes something of each.
pub(super) fn plain_items<T>(
    object: &Object<'_>,
    from: impl Fn(Plain<'_>) -> Option<T>,
) -> Result<Option<Vec<T>>> {
    // Length, items and views are read in one turn of the GIL, in which no Python code runs.
    let inspected = Inspected::new(object)?;
    if !matches!(inspected.kind(), Kind::LIST | Kind::TUPLE) {
        return Ok(None);
    }
    let len = inspected.leaf.len;
    let mut leaves = filled(TaggedValue::new(Kind::NONE), len, || object.type_name())?;
    object.perform(|table, handle, sink| {
        // SAFETY: attached; there is room for `len` items.
        unsafe { (table.tagged_items)(handle, leaves.as_mut_ptr(), len, sink) }
    })?;
    let mut values = room(len, || object.type_name())?;
    for leaf in &leaves {
        // SAFETY: the container keeps its items, and they their bytes.
        let Some(value) = unsafe { Plain::of(leaf) }.and_then(&from) else { return Ok(None) };
        values.push(value);
    }
    Ok(Some(values))
}

/// The items of a list or tuple.
pub(super) fn sequence<'session>(object: &Object<'session>) -> Result<Vec<Object<'session>>> {
    scatter(object, &[Kind::LIST, Kind::TUPLE], "list or tuple")
}

/// The items of a container of one of `kinds`; keys and values in turn of a dict.
pub(super) fn scatter<'session>(
    object: &Object<'session>,
    kinds: &[Kind],
    expected: &str,
) -> Result<Vec<Object<'session>>> {
    let session = object.session();
    // Length and items are read in one turn of the GIL, so that no other thread changes the container in between.
    let _attached = session.attach();
    let inspected = Inspected::new(object)?;
    if !kinds.contains(&inspected.kind()) {
        return Err(inspected.unexpected(expected));
    }
    let len = inspected.leaf.len;
    let count = if inspected.kind() == Kind::DICT { 2 * len } else { len };
    let mut handles: Vec<Handle> = filled(ptr::null_mut(), count, || object.type_name())?;
    let mut objects = room(count, || object.type_name())?;
    object.perform(|table, handle, sink| {
        // SAFETY: attached; `handles` has room for `len` items or pairs.
        unsafe { (table.scatter)(handle, handles.as_mut_ptr(), len, sink) }
    })?;
    // SAFETY: success means that every slot holds an owned reference.
    objects
        .extend(handles.into_iter().map(|handle| unsafe { Object::from_owned(session, handle) }));
    Ok(objects)
}

/// The keys and values of a dict.
pub(super) fn pairs<'session>(
    object: &Object<'session>,
) -> Result<impl Iterator<Item = (Object<'session>, Object<'session>)> + use<'session>> {
    let mut items = scatter(object, &[Kind::DICT], "dict")?.into_iter();
    Ok(std::iter::from_fn(move || Some((items.next()?, items.next()?))))
}

impl<T: ToPython> ToPython for [T] {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        T::slice_to_python(self, session)
    }
}

impl<T: ToPython, const N: usize> ToPython for [T; N] {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        T::slice_to_python(self, session)
    }
}

impl<T: ToPython> ToPython for Vec<T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        T::slice_to_python(self, session)
    }
}

impl<'session, T: FromPython<'session>> FromPython<'session> for Vec<T> {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        T::vec_from_python(object)
    }
}

macro_rules! maps {
    ($($map:ident<$key:ident: $($bound:path)|+ $(, $hasher:ident)?>),*) => {$(
        impl<$key: ToPython, V: ToPython $(, $hasher)?> ToPython for $map<$key, V $(, $hasher)?> {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                let items = self
                    .iter()
                    .flat_map(|(key, value)| [key as &dyn ToPython, value as &dyn ToPython]);
                gather(session, Kind::DICT, items)
            }
        }

        impl<'session, $key, V $(, $hasher)?> FromPython<'session>
            for $map<$key, V $(, $hasher)?>
        where
            $key: FromPython<'session> $(+ $bound)+,
            V: FromPython<'session>,
            $($hasher: BuildHasher + Default,)?
        {
            fn from_python(object: &Object<'session>) -> Result<Self> {
                pairs(object)?
                    .map(|(key, value)| Ok(($key::from_python(&key)?, V::from_python(&value)?)))
                    .collect()
            }
        }
    )*};
}

maps!(HashMap<K: Eq | Hash, S>, BTreeMap<K: Ord>);

macro_rules! tuples {
    ($($count:literal: $($name:ident $index:tt),+;)*) => {$(
        impl<$($name: ToPython),+> ToPython for ($($name,)+) {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                let _attached = session.attach();
                let mut list = List::new(session);
                $(list.positional().push(&self.$index)?;)+
                gather_list(session, Kind::TUPLE, &mut list)
            }
        }

        impl<'session, $($name: FromPython<'session>),+> FromPython<'session> for ($($name,)+) {
            fn from_python(object: &Object<'session>) -> Result<Self> {
                let items = sequence(object)?;
                if items.len() != $count {
                    return Err(Error::convert(
                        concat!("a tuple of ", $count),
                        object.type_name(),
                        format!("it has {} items", items.len()),
                    ));
                }
                Ok(($($name::from_python(&items[$index])?,)+))
            }
        }
    )*};
}

tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}
