//! `dlsym` and `dlvsym`.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use super::handle::{self, Handle};
use super::{clear_error, is_of_the_process, set_error, text};
use crate::bind::binding::Binding;
use crate::bind::scope::Scope;
use crate::current;
use crate::domain::needs;
use crate::domain::{self, Domain};
use crate::id::DomainId;
use crate::image::IMAGES;
use crate::image::symbols::{Name, sysv_hash};
use crate::image::versions::Version;
use crate::load::library::find_definition;
use crate::replica::Replica;
use crate::sys::dynamic;
use crate::sys::functions::functions;
use crate::system::SYSTEM;
use crate::system::SystemObject;
use crate::visible::publish;

/// `dlsym(handle, name)`.
///
/// # Safety
/// As dlsym(3): `name` is NUL-terminated.
pub(super) unsafe extern "C-unwind" fn dlsym(
    handle: *mut c_void,
    name: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise; without a version `dlvsym` is `dlsym`.
    unsafe { lookup(handle, name, ptr::null(), context, caller) }
}

/// `dlvsym(handle, name, version)`.
///
/// # Safety
/// As dlvsym(3): `name` and `version` are NUL-terminated.
pub(super) unsafe extern "C-unwind" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { lookup(handle, name, version, context, caller) }
}

/// # Safety
/// `name` is NUL-terminated; `version` is null or NUL-terminated.
unsafe fn lookup(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    context: usize,
    caller: usize,
) -> *mut c_void {
    let Some(domain) = domain::by_id(DomainId(context as u32)) else {
        set_error("dlsym: the domain was closed");
        return ptr::null_mut();
    };
    if name.is_null() {
        set_error("dlsym: no name was given");
        return ptr::null_mut();
    }
    clear_error();
    // SAFETY: the caller's promise.
    let (symbol, wanted) =
        unsafe { (CStr::from_ptr(name), (!version.is_null()).then(|| CStr::from_ptr(version))) };
    let query = Query {
        domain: &domain,
        name: Name::new(symbol.to_bytes()),
        wanted: wanted.map(|version| Version {
            name: version.to_bytes(),
            hash: sysv_hash(version.to_bytes()),
        }),
        caller: publish::find(caller).filter(|caller| caller.domain == domain.id()),
        address: caller,
    };
    let own = |found| {
        if let Some(own) = domain.0.interposed.in_the_c_library(found, query.name.text) {
            return domain.hand_out(own);
        }
        let is_other = is_of_the_process(&domain, query.name.text, found);
        if is_other { query.global(&domain) } else { Some(found) }
    };
    let (found, object) = if handle == libc::RTLD_NEXT {
        (query.next().and_then(own), query.calling_object())
    } else if handle == libc::RTLD_DEFAULT {
        (query.default(), query.calling_object())
    } else {
        match handle::resolve(&domain, handle) {
            Handle::Domain(owner) => (query.global(&owner), program_name()),
            Handle::Replica(owner, replica) => {
                let found = find_definition(&owner, &replica, query.name, query.wanted);
                let found = found.and_then(|found| owner.hand_out(found)).and_then(own);
                (found, name_of(&replica))
            }
            Handle::System => {
                // SAFETY: not one of our handles, so glibc's, or as wrong for glibc as for us; the
                // names are the caller's. glibc sets the error text, which `dlerror` passes on.
                let found = unsafe {
                    match wanted {
                        None => (functions().dlsym)(handle, name),
                        Some(version) => dynamic::versioned_symbol(handle, name, version.as_ptr()),
                    }
                };
                return own(found as usize).map_or(found, |address| address as *mut c_void);
            }
        }
    };
    match found {
        Some(address) => address as *mut c_void,
        None => {
            let symbol = symbol.to_string_lossy();
            // SAFETY: the caller's promise.
            let version = unsafe { text(version) }
                .map(|version| format!(", version {version}"))
                .unwrap_or_default();
            set_error(format!("{object}: undefined symbol: {symbol}{version}"));
            ptr::null_mut()
        }
    }
}

struct Query<'a> {
    domain: &'a Domain,
    name: Name<'a>,
    wanted: Option<Version<'a>>,
    /// The replica that asks, and the address that it asks from.
    caller: Option<Arc<Replica>>,
    address: usize,
}

impl Query<'_> {
    /// RTLD_DEFAULT: the definition to which a reference of the caller would bind.
    fn default(&self) -> Option<usize> {
        if let Some(interposed) = self.interposed() {
            return self.domain.hand_out(interposed);
        }
        let caller = self.caller.as_ref();
        let scopes = caller.map(|caller| self.domain.scopes_of(caller)).unwrap_or_default();
        // DT_SYMBOLIC and RTLD_DEEPBIND put objects before the global scope.
        let deep = scopes.first().filter(|scope| scope.is_deep());
        let own = caller.filter(|caller| caller.image.dynamic.symbolic && deep.is_none());
        let found = own.and_then(|caller| {
            let (_, symbol) = caller.image.symbols.lookup(self.name, self.wanted, true)?;
            let found = Binding::Image { image: caller.image.id, symbol };
            Some(self.domain.one_for_all(caller, self.name, &symbol, found))
        });
        let found = found
            .or_else(|| self.find_in(deep?))
            .or_else(|| self.find_in(&self.domain.default_scope()))
            .or_else(|| scopes.iter().find_map(|scope| self.find_in(scope)));
        if let (Some(Binding::Image { image, .. }), None) = (found, &self.caller) {
            // If an object that is never unloaded finds a symbol in its scope, the definer stays too
            // (glibc, elf/dl-lookup.c, add_dependency).
            self.domain.0.state.lock().uses.keep(image);
        }
        self.address_of(found).or_else(|| self.of_current(self.domain))
    }

    /// A symbol of the whole program, as the handle of `dlopen(NULL)` in `owner` gives it.
    fn global(&self, owner: &Domain) -> Option<usize> {
        // Not kept for the caller either.
        let found = || {
            let found = owner.default_scope().find(self.name, self.wanted, true)?;
            Some(owner.or_its_own(found, self.name))
        };
        let found = owner.interposed(self.name.text).or_else(found);
        found.and_then(|found| owner.hand_out(found)).or_else(|| self.of_current(owner))
    }

    /// For a library that is loaded once for all domains, the program is the domain whose code the thread runs.
    fn of_current(&self, asked: &Domain) -> Option<usize> {
        let current = asked.is_commons().then(current::domain).flatten()?;
        let current = domain::by_id(current).filter(|current| !current.is_commons())?;
        self.global(&current)
    }

    /// RTLD_NEXT: the definition that follows the caller's object in its scope.
    fn next(&self) -> Option<usize> {
        let Some(caller) = &self.caller else {
            return self.address_of(self.next_after_system_object());
        };
        let scope = self.domain.scopes_of(caller).into_iter().next()?;
        let position = scope.local.iter().position(|image| image.id == caller.image.id);
        let rest = &scope.local[position.map_or(0, |position| position + 1)..];
        let found = rest.iter().find_map(|image| {
            let (_, symbol) = image.symbols.lookup(self.name, self.wanted, true)?;
            let found = Binding::Image { image: image.id, symbol };
            Some(self.domain.one_for_all(caller, self.name, &symbol, found))
        });
        // The executable comes before everything that is loaded later. An object found here is not kept
        // for the caller (glibc, elf/dl-sym.c: without DL_LOOKUP_ADD_DEPENDENCY).
        let found = found.or_else(|| self.in_objects(scope.system.get(1..)?))?;
        self.domain.hand_out(found)
    }

    fn next_after_system_object(&self) -> Option<Binding> {
        let caller = SYSTEM.by_address(self.address)?;
        let global = SYSTEM.global();
        let list = if global.iter().any(|object| object.id == caller.id) {
            global
        } else {
            SYSTEM.closure(&caller)
        };
        let position = list.iter().position(|object| object.id == caller.id)?;
        self.in_objects(&list[position + 1..])
    }

    fn in_objects(&self, objects: &[Arc<SystemObject>]) -> Option<Binding> {
        objects.iter().find_map(|object| {
            let (_, symbol) = object.symbols.lookup(self.name, self.wanted, true)?;
            Some(object.binding(&symbol))
        })
    }

    fn find_in(&self, scope: &Scope) -> Option<Binding> {
        let found = scope.find(self.name, self.wanted, true)?;
        Some(self.domain.or_its_own(found, self.name))
    }

    fn interposed(&self) -> Option<Binding> {
        self.domain.interposed(self.name.text)
    }

    /// The address of the found definition. The caller now refers to it, so it stays as long as the caller
    /// does.
    fn address_of(&self, found: Option<Binding>) -> Option<usize> {
        let found = found?;
        if let (Binding::Image { image, .. }, Some(caller)) = (found, &self.caller) {
            needs::note_reference(&mut self.domain.0.state.lock(), caller, image);
        }
        self.domain.hand_out(found)
    }

    /// The object that an error names.
    fn calling_object(&self) -> String {
        match &self.caller {
            Some(caller) => name_of(caller),
            None => match SYSTEM.by_address(self.address) {
                Some(object) if object.id != SYSTEM.global()[0].id => {
                    object.path.display().to_string()
                }
                _ => program_name(),
            },
        }
    }
}

/// A replica's library, as the program has found it.
fn name_of(replica: &Replica) -> String {
    let path = &replica.image.path;
    IMAGES.found_as(path).as_ref().unwrap_or(path).display().to_string()
}

/// The program, as glibc names it in errors.
fn program_name() -> String {
    std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned()
}
