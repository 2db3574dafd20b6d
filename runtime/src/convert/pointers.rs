//! Text of other types than `String`, and values behind pointers.

use super::{FromPython, ToPython};
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

impl ToPython for char {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let mut utf8 = [0; 4];
        self.encode_utf8(&mut utf8).to_python(session)
    }
}

impl FromPython<'_> for char {
    /// A `str` of one character.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let text = String::from_python(object)?;
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(character),
            _ => {
                let reason = format!("it has {} characters", text.chars().count());
                Err(Error::convert("a str of one character", object.type_name(), reason))
            }
        }
    }
}

impl<T: ToPython + ToOwned + ?Sized> ToPython for Cow<'_, T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        (**self).to_python(session)
    }
}

impl<'session, T> FromPython<'session> for Cow<'_, T>
where
    T: ToOwned<Owned: FromPython<'session>> + ?Sized,
{
    /// Always owned: Python may free the object at any time.
    fn from_python(object: &Object<'session>) -> Result<Self> {
        T::Owned::from_python(object).map(Cow::Owned)
    }
}

macro_rules! pointers {
    ($($pointer:ident),*) => {$(
        impl<T: ToPython + ?Sized> ToPython for $pointer<T> {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                (**self).to_python(session)
            }
        }

        impl<'session, T: FromPython<'session>> FromPython<'session> for $pointer<T> {
            fn from_python(object: &Object<'session>) -> Result<Self> {
                T::from_python(object).map(Self::new)
            }
        }

        impl FromPython<'_> for $pointer<str> {
            fn from_python(object: &Object<'_>) -> Result<Self> {
                String::from_python(object).map(Self::from)
            }
        }

        impl<'session, T: FromPython<'session>> FromPython<'session> for $pointer<[T]> {
            fn from_python(object: &Object<'session>) -> Result<Self> {
                Vec::from_python(object).map(Self::from)
            }
        }
    )*};
}

pointers!(Box, Rc, Arc);
