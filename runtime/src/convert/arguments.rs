//! The arguments of a call.

use super::buffer::Buffer;
use super::tensor::Tensor;
use super::{Integer, ToPython, Value};
use crate::Result;
use crate::object::Object;
use crate::payload::release;
use crate::payload::table::{Kind, TaggedValue, Text};
use crate::session::Session;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Positional arguments: a tuple of up to twelve values, one value, or [`Spread`] for any number.
///
/// A list of values (`Vec`, slice, array) is one argument, as bytes and text are.
///
/// ```no_run
/// # fn f(object: hydrozoa::Object<'_>) -> hydrozoa::Result<()> {
/// use hydrozoa::Spread;
///
/// object.call(())?; // object()
/// object.call("text")?; // object('text')
/// object.call(("text", 1))?; // object('text', 1)
/// object.call(vec![1, 2])?; // object([1, 2])
/// object.call(Spread(vec![1, 2]))?; // object(1, 2)
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of arguments",
    note = "put the arguments into a tuple: `(argument,)`, `(first, second)`"
)]
pub trait ToArguments {
    /// Appends the arguments in order.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()>;
}

/// Named arguments: a tuple of up to twelve pairs, or any number of one type in an array, slice or
/// vector: `&[("dim", 1)]`, `(("dim", 1), ("keepdim", true))`, `()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of named arguments",
    note = "put pairs of name and value into a tuple: `((\"dim\", 1),)`"
)]
pub trait ToKeywords {
    /// Appends names with their values, in order.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()>;
}

/// The values of a slice, array or vector, each one argument: `f.call(Spread(&values))` is `f(*values)`.
#[derive(Clone, Copy, Debug)]
pub struct Spread<T>(pub T);

/// The arguments of one call on their way to its interpreter.
pub(crate) struct List<'a> {
    session: &'a Session,
    /// Positional arguments, and then one for each name.
    leaves: SmallVec<[TaggedValue; 8]>,
    names: SmallVec<[Text; 4]>,
    /// The memory that the leaves and the names view.
    _viewed: PhantomData<&'a ()>,
}

impl<'a> List<'a> {
    #[inline]
    pub(crate) fn new(session: &'a Session) -> Self {
        let (leaves, names) = (SmallVec::new(), SmallVec::new());
        Self { session, leaves, names, _viewed: PhantomData }
    }

    /// The same, with room for so many arguments.
    pub(crate) fn with_capacity(session: &'a Session, count: usize) -> Self {
        let mut list = Self::new(session);
        list.leaves.reserve(count);
        list
    }

    /// The place for positional arguments.
    #[inline]
    pub(crate) fn positional(&mut self) -> Positional<'_, 'a> {
        Positional(self)
    }

    /// The place for named arguments, which are behind all positional ones.
    #[inline]
    pub(crate) fn named(&mut self) -> Named<'_, 'a> {
        Named(self)
    }

    #[inline]
    fn push<T: ToPython + ?Sized>(&mut self, value: &'a T) -> Result<()> {
        let leaf = match value.as_plain() {
            Some(plain) => plain.leaf(self.session)?,
            None => {
                let object = value.to_python(self.session)?;
                TaggedValue::object(Kind::OWNED, object.into_handle_in(self.session)?)
            }
        };
        self.leaves.push(leaf);
        Ok(())
    }

    /// The values, and the names of the last ones. The caller takes over the references that the values own.
    #[inline]
    pub(crate) fn take(&mut self) -> (&[TaggedValue], &[Text]) {
        let (data, count) = (self.leaves.as_ptr(), self.leaves.len());
        // SAFETY: the values before stay where they are while `self` is borrowed, and need no destructor. The list does not
        // release values that are no longer in it.
        let leaves = unsafe {
            self.leaves.set_len(0);
            std::slice::from_raw_parts(data, count)
        };
        (leaves, &self.names)
    }
}

impl Drop for List<'_> {
    #[inline]
    fn drop(&mut self) {
        for leaf in &self.leaves {
            if leaf.kind == Kind::OWNED {
                // SAFETY: the reference is owned, and was not passed on: `take` empties the list.
                unsafe { release(self.session.inner().table(), leaf.as_object()) };
            }
        }
    }
}

/// Where [`ToArguments`] puts the positional arguments of a call.
pub struct Positional<'list, 'a>(&'list mut List<'a>);

impl<'a> Positional<'_, 'a> {
    /// Appends one argument.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    #[inline]
    pub fn push<T: ToPython + ?Sized>(&mut self, value: &'a T) -> Result<()> {
        self.0.push(value)
    }
}

/// Where [`ToKeywords`] puts the named arguments of a call.
pub struct Named<'list, 'a>(&'list mut List<'a>);

impl<'a> Named<'_, 'a> {
    /// Appends one argument with its name.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    #[inline]
    pub fn push<T: ToPython + ?Sized>(&mut self, name: &'a str, value: &'a T) -> Result<()> {
        self.0.push(value)?;
        self.0.names.push(Text::new(name));
        Ok(())
    }
}

/// Makes types lists of one argument.
macro_rules! one_argument {
    ($($type:ty),*; $(for<$($parameter:ident $(: $bound:path)?),+> $generic:ty),*;) => {
        $(one_argument!(impl {} $type);)*
        $(one_argument!(impl {<$($parameter $(: $bound)?),+>} $generic);)*
    };
    (impl {$($parameters:tt)*} $type:ty) => {
        impl $($parameters)* $crate::convert::ToArguments for $type {
            #[inline]
            fn append_to<'a>(&'a self, arguments: &mut $crate::convert::Positional<'_, 'a>) -> $crate::Result<()> {
                arguments.push(self)
            }
        }
    };
}
pub(crate) use one_argument;

one_argument! {
    bool, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64, str, String, Integer, Value, Tensor,
    Object<'_>, Buffer, char, Path, PathBuf, OsStr, OsString, Duration, SystemTime;
    for<T: ToPython> Option<T>, for<T: ToPython> [T], for<T: ToPython> Vec<T>,
    for<K: ToPython, V: ToPython, S> HashMap<K, V, S>, for<K: ToPython, V: ToPython> BTreeMap<K, V>,
    for<T: ToPython, S> HashSet<T, S>, for<T: ToPython> BTreeSet<T>;
}

impl<T: ToPython, const N: usize> ToArguments for [T; N] {
    #[inline]
    fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()> {
        arguments.push(self)
    }
}

impl<A: ToArguments + ?Sized> ToArguments for &A {
    #[inline]
    fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()> {
        (**self).append_to(arguments)
    }
}

macro_rules! spread {
    ($($(const $count:ident)? $values:ty),*) => {$(
        impl<T: ToPython $(, const $count: usize)?> ToArguments for Spread<$values> {
            fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()> {
                self.0.iter().try_for_each(|value| arguments.push(value))
            }
        }
    )*};
}

spread!(Vec<T>, &Vec<T>, &[T], const N [T; N], const N &[T; N]);

impl<S: AsRef<str>, T: ToPython> ToKeywords for [(S, T)] {
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
        self.iter().try_for_each(|(name, value)| arguments.push(name.as_ref(), value))
    }
}

impl<S: AsRef<str>, T: ToPython, const N: usize> ToKeywords for [(S, T); N] {
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
        self.as_slice().append_to(arguments)
    }
}

impl<S: AsRef<str>, T: ToPython> ToKeywords for Vec<(S, T)> {
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
        self.as_slice().append_to(arguments)
    }
}

impl<K: ToKeywords + ?Sized> ToKeywords for &K {
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
        (**self).append_to(arguments)
    }
}

macro_rules! tuples {
    ($($($name:ident $key:ident $index:tt),*;)*) => {$(
        impl<$($name: ToPython),*> ToArguments for ($($name,)*) {
            #[inline]
            #[allow(unused_variables, reason = "the empty tuple appends nothing")]
            fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()> {
                $(arguments.push(&self.$index)?;)*
                Ok(())
            }
        }

        impl<$($key: AsRef<str>, $name: ToPython),*> ToKeywords for ($(($key, $name),)*) {
            #[inline]
            #[allow(unused_variables, reason = "the empty tuple appends nothing")]
            fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
                $(arguments.push(self.$index.0.as_ref(), &self.$index.1)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    ;
    A KA 0;
    A KA 0, B KB 1;
    A KA 0, B KB 1, C KC 2;
    A KA 0, B KB 1, C KC 2, D KD 3;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7, I KI 8;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7, I KI 8, J KJ 9;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7, I KI 8, J KJ 9, K KK 10;
    A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7, I KI 8, J KJ 9, K KK 10, L KL 11;
}
