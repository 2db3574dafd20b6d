//! The arguments of a call.

use super::ToPython;
use crate::Result;
use crate::object::Object;
use crate::session::Session;

/// Positional arguments: a tuple of up to eight values, or an array, slice or vector of any number of
/// values of one type.
pub trait ToArguments {
    /// Appends the arguments in order.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    fn append_to<'session>(
        &self,
        session: &'session Session,
        values: &mut Vec<Object<'session>>,
    ) -> Result<()>;
}

/// Named arguments: a tuple of up to eight pairs, or any number of one type in an array, slice or
/// vector: `&[("dim", 1)]`, `(("dim", 1), ("keepdim", true))`, `()`.
pub trait ToKeywords {
    /// Appends names with their values, in order.
    ///
    /// # Errors
    ///
    /// A failed conversion.
    fn append_to<'name, 'session>(
        &'name self,
        session: &'session Session,
        named: &mut Vec<(&'name str, Object<'session>)>,
    ) -> Result<()>;
}

impl<T: ToPython> ToArguments for [T] {
    fn append_to<'session>(
        &self,
        session: &'session Session,
        values: &mut Vec<Object<'session>>,
    ) -> Result<()> {
        for value in self {
            values.push(value.to_python(session)?);
        }
        Ok(())
    }
}

impl<T: ToPython, const N: usize> ToArguments for [T; N] {
    fn append_to<'session>(
        &self,
        session: &'session Session,
        values: &mut Vec<Object<'session>>,
    ) -> Result<()> {
        self.as_slice().append_to(session, values)
    }
}

impl<T: ToPython> ToArguments for Vec<T> {
    fn append_to<'session>(
        &self,
        session: &'session Session,
        values: &mut Vec<Object<'session>>,
    ) -> Result<()> {
        self.as_slice().append_to(session, values)
    }
}

impl<A: ToArguments + ?Sized> ToArguments for &A {
    fn append_to<'session>(
        &self,
        session: &'session Session,
        values: &mut Vec<Object<'session>>,
    ) -> Result<()> {
        (**self).append_to(session, values)
    }
}

impl<S: AsRef<str>, T: ToPython> ToKeywords for [(S, T)] {
    fn append_to<'name, 'session>(
        &'name self,
        session: &'session Session,
        named: &mut Vec<(&'name str, Object<'session>)>,
    ) -> Result<()> {
        for (name, value) in self {
            named.push((name.as_ref(), value.to_python(session)?));
        }
        Ok(())
    }
}

impl<S: AsRef<str>, T: ToPython, const N: usize> ToKeywords for [(S, T); N] {
    fn append_to<'name, 'session>(
        &'name self,
        session: &'session Session,
        named: &mut Vec<(&'name str, Object<'session>)>,
    ) -> Result<()> {
        self.as_slice().append_to(session, named)
    }
}

impl<S: AsRef<str>, T: ToPython> ToKeywords for Vec<(S, T)> {
    fn append_to<'name, 'session>(
        &'name self,
        session: &'session Session,
        named: &mut Vec<(&'name str, Object<'session>)>,
    ) -> Result<()> {
        self.as_slice().append_to(session, named)
    }
}

impl<K: ToKeywords + ?Sized> ToKeywords for &K {
    fn append_to<'name, 'session>(
        &'name self,
        session: &'session Session,
        named: &mut Vec<(&'name str, Object<'session>)>,
    ) -> Result<()> {
        (**self).append_to(session, named)
    }
}

macro_rules! tuples {
    ($(($($name:ident $key:ident $index:tt),*);)*) => {$(
        impl<$($name: ToPython),*> ToArguments for ($($name,)*) {
            #[allow(unused_variables, reason = "the empty tuple appends nothing")]
            fn append_to<'session>(
                &self,
                session: &'session Session,
                values: &mut Vec<Object<'session>>,
            ) -> Result<()> {
                $(values.push(self.$index.to_python(session)?);)*
                Ok(())
            }
        }

        impl<$($key: AsRef<str>, $name: ToPython),*> ToKeywords for ($(($key, $name),)*) {
            #[allow(unused_variables, reason = "the empty tuple appends nothing")]
            fn append_to<'name, 'session>(
                &'name self,
                session: &'session Session,
                named: &mut Vec<(&'name str, Object<'session>)>,
            ) -> Result<()> {
                $(named.push((self.$index.0.as_ref(), self.$index.1.to_python(session)?));)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    ();
    (A KA 0);
    (A KA 0, B KB 1);
    (A KA 0, B KB 1, C KC 2);
    (A KA 0, B KB 1, C KC 2, D KD 3);
    (A KA 0, B KB 1, C KC 2, D KD 3, E KE 4);
    (A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5);
    (A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6);
    (A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5, G KG 6, H KH 7);
}
