//! Plans: the bindings of all symbols that an image's relocations name.
//!
//! A plan holds no address that differs between domains: a definition in an image of the domain is
//! kept as (image, symbol). So the second domain that loads the same images in the same order applies
//! the first one's plan and looks up nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bind::binding::{Binding, Missing};
use crate::bind::prepared::Prepared;
use crate::bind::scope::{Scope, ScopeKey};
use crate::error::{Error, Result};
use crate::image::enclosure;
use crate::image::relocations::Rela;
use crate::image::symbols::{Name, Symbol};
use crate::image::{Image, ImageId};
use crate::sys::lock::{Mutex, Rank};
use crate::system::{SYSTEM, SystemObject};

/// The bindings of one image in one kind of scope, by symbol index.
#[derive(Debug)]
pub(crate) struct Plan {
    /// None for symbols that no relocation names.
    bindings: Vec<Option<Binding>>,
    /// The images that hold definitions, in the order in which relocations refer to them.
    pub images: Vec<Provider>,
    /// Functions without a definition.
    pub missing: Vec<Missing>,
    /// The part of the image's relocations that is known without a replica.
    pub prepared: Prepared,
    /// The system objects that define functions or variables for it.
    pub definers: Vec<Arc<SystemObject>>,
    /// Whether its code can learn the ids of modules. Such code may pass words to `__tls_get_addr` that no
    /// relocation wrote (D's runtime does).
    pub learns_module_ids: bool,
}

/// An image that holds definitions of a plan.
#[derive(Debug)]
pub(crate) struct Provider {
    pub image: ImageId,
    /// Whether the definition that relocations refer to first is unique (STB_GNU_UNIQUE).
    pub first_is_unique: bool,
    /// Whether any of its definitions is unique.
    pub has_unique: bool,
}

/// The names that a domain interposes: the same in all domains of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interposed {
    /// Names whose references are interposed, whatever defines them, sorted. They have the first entries of the domain's
    /// table.
    pub names: Box<[String]>,
    /// Names and sonames of images, sorted: references of these images are interposed, whatever defines the name. They have
    /// the entries after those.
    pub references: Box<[(String, String)]>,
    /// Names of the C library: references that would bind to its definition are interposed, and so are `dlsym`'s finds
    /// there. They have the entries after those.
    pub c_library: CLibraryNames,
}

/// Names that the C library defines. All domains that have some have the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CLibraryNames {
    /// Sorted.
    pub names: &'static [&'static str],
    /// The system objects that make up the C library.
    pub sonames: &'static [&'static str],
}

impl PartialEq for CLibraryNames {
    fn eq(&self, other: &CLibraryNames) -> bool {
        std::ptr::eq(self.names, other.names)
    }
}

impl Eq for CLibraryNames {}

impl Interposed {
    /// The binding of references to `name`, if it is interposed whatever defines it.
    pub(crate) fn by_name(&self, name: &[u8]) -> Option<Binding> {
        let entry = self.names.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
        Some(Binding::Interposed(entry as u32))
    }

    /// The binding of references of `image` to `name`, if they are interposed whatever defines it.
    fn by_reference(&self, image: &Image, name: &[u8]) -> Option<Binding> {
        let is_it = |(known, soname): &(String, String)| {
            known.as_bytes() == name && soname == image.soname()
        };
        let place = self.references.iter().position(is_it)?;
        Some(Binding::Interposed((self.names.len() + place) as u32))
    }

    /// The binding of references to `name` that was found, or the interposition in its place.
    fn in_place_of(&self, found: Binding, name: &[u8]) -> Binding {
        match found {
            Binding::Fixed { address, .. } => self.in_the_c_library(address, name),
            _ => None,
        }
        .unwrap_or(found)
    }

    /// The binding of references to `name` that has been found at `address`, if that is in the C library and interposed there.
    pub(crate) fn in_the_c_library(&self, address: usize, name: &[u8]) -> Option<Binding> {
        let own = self.of_the_c_library(name)?;
        let is_of = |soname: &&str| {
            SYSTEM.by_name(soname).is_some_and(|object| object.span.contains(&address))
        };
        self.c_library.sonames.iter().any(is_of).then_some(own)
    }

    /// The binding of references to the C library's definition of `name`, if it is interposed there.
    pub(crate) fn of_the_c_library(&self, name: &[u8]) -> Option<Binding> {
        let names = self.c_library.names;
        let place = names.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
        let before = self.names.len() + self.references.len();
        Some(Binding::Interposed((before + place) as u32))
    }

    /// The name that an entry of the domain's table is for.
    fn name(&self, entry: u32) -> &str {
        let entry = entry as usize;
        let others = self.references.iter().map(|(name, _)| &**name);
        let mut others = others.chain(self.c_library.names.iter().copied());
        let of_others = || others.nth(entry - self.names.len()).expect("an entry has a name");
        self.names.get(entry).map_or_else(of_others, String::as_str)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct PlanKey {
    scope: ScopeKey,
    interposed: Arc<Interposed>,
    /// Whether missing functions are errors.
    now: bool,
}

/// The plans of one image.
type Plans = Vec<(Arc<PlanKey>, Arc<Plan>)>;

/// The plans of all images, which live as long as the process.
static PLANS: Mutex<BTreeMap<ImageId, Plans>> = Mutex::new(Rank::Plans, BTreeMap::new());

/// The scope and rules by which the references of one load are bound.
pub(crate) struct Binder<'a> {
    scope: &'a Scope,
    key: Arc<PlanKey>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(scope: &'a Scope, interposed: Arc<Interposed>, now: bool) -> Binder<'a> {
        Binder { scope, key: Arc::new(PlanKey { scope: scope.key(), interposed, now }) }
    }

    /// The plan of `image` in this scope. It is made now unless an equal load was planned before.
    pub(crate) fn plan(&self, image: &Image) -> Result<Arc<Plan>> {
        let find = |plans: &BTreeMap<ImageId, Plans>| {
            let mut plans = plans.get(&image.id)?.iter();
            plans.find(|(key, _)| **key == *self.key).map(|(_, plan)| plan.clone())
        };
        if let Some(plan) = find(&PLANS.lock()) {
            return Ok(plan);
        }
        // Resolved without the lock: resolvers of indirect functions and dlsym may load objects.
        let plan = Arc::new(self.resolve(image)?);
        let mut plans = PLANS.lock();
        if let Some(other) = find(&plans) {
            return Ok(other);
        }
        plans.entry(image.id).or_default().push((self.key.clone(), plan.clone()));
        Ok(plan)
    }

    /// The plan of `image`, made anew and kept nowhere.
    pub(crate) fn resolve(&self, image: &Image) -> Result<Plan> {
        let mut bindings = Vec::new();
        let mut images = Vec::new();
        let mut missing = Vec::new();
        for rela in image.dynamic.rela() {
            let index = rela.symbol as usize;
            if index == 0 || matches!(bindings.get(index), Some(Some(_))) {
                continue;
            }
            // Bound first: that checks whether the symbol table reaches that far.
            let binding = self.bind(image, rela.symbol, &mut missing)?;
            if bindings.len() <= index {
                bindings.resize(index + 1, None);
            }
            if let Binding::Image { image, symbol } = binding {
                note_provider(&mut images, image, &symbol);
            }
            bindings[index] = Some(binding);
        }
        let prepared = Prepared::of(image, &bindings);
        let definers = definers(&bindings);
        let learns = |binding: &Binding| match binding {
            Binding::Interposed(entry) => {
                ["dl_iterate_phdr", "dlinfo"].contains(&self.key.interposed.name(*entry))
            }
            _ => false,
        };
        let learns_module_ids = bindings.iter().flatten().any(learns);
        Ok(Plan { bindings, images, missing, prepared, definers, learns_module_ids })
    }

    fn bind(&self, image: &Image, index: u32, missing: &mut Vec<Missing>) -> Result<Binding> {
        let in_itself = |symbol| Binding::Image { image: image.id, symbol };
        let malformed =
            |reason: &str| Error::Malformed { object: image.path.clone(), reason: reason.into() };
        let symbol = image
            .symbols
            .symbol(index)
            .ok_or_else(|| malformed("a relocation names a symbol beyond the table"))?;
        let text = image
            .symbols
            .name(&symbol)
            .ok_or_else(|| malformed("a symbol's name lies outside the string table"))?;
        // All share a unique symbol, also objects that search themselves first.
        let symbolic = image.dynamic.symbolic && !self.scope.is_deep() && !symbol.is_unique();
        if !symbol.is_undefined() && (symbol.binds_locally() || symbolic) {
            return Ok(in_itself(symbol));
        }
        let interposed = &self.key.interposed;
        if let Some(binding) =
            interposed.by_reference(image, text).or_else(|| interposed.by_name(text))
        {
            return Ok(binding);
        }
        let wanted = image.symbols.versions.wanted(index);
        // It looks into itself first for what it names without defining that very symbol too: another
        // version of it (glibc, elf/dl-load.c, l_symbolic_searchlist).
        if symbolic
            && let Some((_, own)) = image.symbols.lookup(Name::new(text), wanted, false)
            && !own.is_unique()
        {
            return Ok(in_itself(own));
        }
        match self.scope.find(Name::new(text), wanted, false) {
            Some(found) => Ok(self.key.interposed.in_place_of(found, text)),
            // A definition missing from the image's own hash table (a stripped table) still counts.
            None if !symbol.is_undefined() => Ok(in_itself(symbol)),
            // Code that tests for its presence uses other relocations than calls.
            None if symbol.is_weak() && !self.is_only_called(image, index) => Ok(Binding::Absent),
            None => self.missing(image, &symbol, Missing { name: text, version: wanted }, missing),
        }
    }

    /// A reference without a definition. The system loader binds functions lazily unless told
    /// otherwise, so a library may load before the functions that it calls (see [`crate::load::late_calls`]).
    fn missing(
        &self,
        image: &Image,
        symbol: &Symbol,
        reference: Missing,
        missing: &mut Vec<Missing>,
    ) -> Result<Binding> {
        let is_incomplete = enclosure::is_incomplete(image);
        let binds_now = self.key.now || image.dynamic.bind_now;
        if (!binds_now || is_incomplete) && only_called(image, symbol, reference.name) {
            missing.push(reference);
            return Ok(Binding::Missing(missing.len() as u32 - 1));
        }
        if symbol.is_weak() || is_incomplete {
            return Ok(Binding::Absent);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(Error::UndefinedSymbol {
            object: image.path.clone(),
            symbol: text(reference.name),
            version: reference.version.map(|version| text(version.name)),
        })
    }
}

impl Binder<'_> {
    /// Whether only calls that may be bound late refer to symbol `index`.
    fn is_only_called(&self, image: &Image, index: u32) -> bool {
        let [data, calls] = image.dynamic.relocations;
        let named_in = |table| Rela::all(table).any(|rela| rela.symbol == index);
        named_in(calls) && !named_in(data)
    }
}

/// The system objects that hold definitions for an image.
fn definers(bindings: &[Option<Binding>]) -> Vec<Arc<SystemObject>> {
    let mut definers: Vec<Arc<SystemObject>> = Vec::new();
    for binding in bindings {
        let Some(Binding::Fixed { address, .. }) = binding else { continue };
        if !definers.iter().any(|definer| definer.span.contains(address)) {
            definers.extend(SYSTEM.by_address(*address));
        }
    }
    definers
}

/// Notes that a relocation refers to `symbol` of `image`.
fn note_provider(providers: &mut Vec<Provider>, image: ImageId, symbol: &Symbol) {
    let is_unique = symbol.is_unique();
    match providers.iter_mut().find(|known| known.image == image) {
        Some(known) => known.has_unique |= is_unique,
        None => {
            providers.push(Provider { image, first_is_unique: is_unique, has_unique: is_unique })
        }
    }
}

/// Whether the symbol is known as a function, or every relocation that names it is a PLT slot.
fn only_called(image: &Image, symbol: &Symbol, name: &[u8]) -> bool {
    if symbol.is_function() {
        return true;
    }
    let names_it = |index: u32| {
        image.symbols.symbol(index).and_then(|other| image.symbols.name(&other)) == Some(name)
    };
    let [data, calls] = image.dynamic.relocations;
    let named_in = |table| Rela::all(table).any(|rela| rela.symbol != 0 && names_it(rela.symbol));
    !named_in(data) && named_in(calls)
}

impl Plan {
    /// The images whose thread-local data initial-exec code of `image` reaches.
    pub(crate) fn static_tls(&self, image: &Image) -> impl Iterator<Item = ImageId> {
        let own = image.needs_static_tls().then_some(image.id);
        own.into_iter().chain(image.thread_pointer_offsets().filter_map(|rela| {
            match self.binding(rela.symbol) {
                Binding::Image { image, .. } => Some(image),
                _ => None,
            }
        }))
    }

    /// The bindings of the symbols that relocations name, with their indices.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (u32, &Binding)> {
        (0..).zip(&self.bindings).filter_map(|(index, binding)| Some((index, binding.as_ref()?)))
    }

    /// The binding of symbol `index`. Index 0 stands for no symbol, whose value is zero (gABI, STN_UNDEF).
    pub(crate) fn binding(&self, index: u32) -> Binding {
        self.bindings.get(index as usize).copied().flatten().unwrap_or(Binding::Absent)
    }
}
