//! `setlocale` and `localeconv`: the locale of one program among several is its own.
//!
//! The other functions of <locale.h> and those that depend on a locale use the thread's ([`crate::locale`]). Libraries
//! that exist once for all domains still set the process's locale.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use crate::domain;
use crate::id::DomainId;
use crate::locale;
use crate::sys::answering::answering;
use crate::sys::answering::types::lconv;
use crate::sys::environ::{self, Environment};
use crate::sys::errno::set_errno;
use crate::sys::locale::{CATEGORIES, Names};

answering! {
    pub(super) fn functions, context: usize;

    /// `setlocale(category, name)`. The strings that it returns stay, which POSIX does not ask for.
    "setlocale" => extern "C" fn setlocale(category: c_int, name: *const c_char) -> *mut c_char {
        let id = DomainId(context as u32);
        if name.is_null() { locale::name(id, category) } else { set(id, category, CStr::from_ptr(name)) }
    }

    /// `localeconv()`.
    "localeconv" => extern "C" fn localeconv() -> *mut lconv {
        locale::conventions_in(DomainId(context as u32))
    }
}

fn set(id: DomainId, category: c_int, name: &CStr) -> *mut c_char {
    let domain = domain::by_id(id);
    let own: Option<&Environment> =
        domain.as_ref().and_then(|domain| domain.0.environment.as_deref());
    let variable = |name: &CStr| match own {
        Some(own) => own.text(name),
        None => environ::seen(id, name),
    };
    let locale = locale::set(id, |names| {
        let changed = change(names, category, name, &variable);
        if changed.is_none() {
            set_errno(libc::EINVAL);
        }
        changed
    });
    let name = locale.and_then(|locale| locale.name(category));
    name.map_or(ptr::null_mut(), |name| name.as_ptr().cast_mut())
}

/// The names after `setlocale(category, name)`. None for an unknown category, or if `name` lists categories but not each
/// exactly once (glibc, locale/setlocale.c).
fn change(
    names: &Names,
    category: c_int,
    name: &CStr,
    environment: &impl Fn(&CStr) -> Option<CString>,
) -> Option<Names> {
    let mut changed = names.clone();
    let resolved = |name: &[u8], variable| match name {
        [] => from(environment, variable),
        name => CString::new(name).expect("a part of a string without NUL"),
    };
    if category != libc::LC_ALL {
        let at = CATEGORIES.iter().position(|(known, _)| *known == category)?;
        changed[at] = resolved(name.to_bytes(), CATEGORIES[at].1);
        return Some(changed);
    }
    if !name.to_bytes().contains(&b';') {
        for (place, (_, variable)) in changed.iter_mut().zip(CATEGORIES) {
            *place = resolved(name.to_bytes(), variable);
        }
        return Some(changed);
    }
    let mut missing = CATEGORIES.map(|_| true);
    for part in name.to_bytes().split(|&byte| byte == b';') {
        let end = part.iter().position(|&byte| byte == b'=')?;
        let is_named = |(_, variable): &(c_int, &CStr)| variable.to_bytes() == &part[..end];
        let at = CATEGORIES.iter().position(is_named)?;
        changed[at] = resolved(&part[end + 1..], CATEGORIES[at].1);
        missing[at] = false;
    }
    (!missing.contains(&true)).then_some(changed)
}

/// The environment's name for a category (setlocale(3), for the name "").
fn from(environment: &impl Fn(&CStr) -> Option<CString>, variable: &CStr) -> CString {
    let mut values = [c"LC_ALL", variable, c"LANG"].into_iter().filter_map(environment);
    values.find(|value| !value.is_empty()).unwrap_or_else(|| c"C".to_owned())
}
