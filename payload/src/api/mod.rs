//! Python's C API as the other folders use it: owned references, names, types whose objects carry a value, and the payload's
//! own Python modules.

pub(crate) mod carriers;
pub(crate) mod fault;
pub(crate) mod interned;
pub(crate) mod own_modules;
pub(crate) mod reference;
pub(crate) mod under_gil;
