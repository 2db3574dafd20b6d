//! Scopes: the order in which the objects of a process are searched for a reference's definition.
//!
//! First to last:
//!
//! 1. the domain's interposition table;
//! 2. the domain's global replicas;
//! 3. the opened library and its needs, breadth first;
//! 4. the commons that these need;
//! 5. the executable and its dependencies;
//! 6. the system objects that these need;
//! 7. the objects that the global replicas need (a plugin may use libm without naming it);
//! 8. whatever else the system loader offers to all objects.
//!
//! Three rules change that order:
//!
//! - A weak or unique definition in a replica gives way to a system object of the scope that defines the
//!   same name. Such a definition stands for one entity of the whole program (type information, an
//!   inline function's static), and the system object's users are already bound to theirs.
//! - A name that the C library defines means the program's definition. The program's `free` frees memory
//!   that `strdup` has allocated, whatever allocator a library brings.
//! - A unique definition (STB_GNU_UNIQUE) is the same one in the whole domain.
//!
//! The first rule has two exceptions. If the program has its own copy of a library that the domain
//! replicates, that copy, and all objects bound to it, are another world. Their definitions serve only
//! names that the domain does not define itself, and those of the C library: a preloaded allocator in C++ is the program's.
//! For a library that domains have apart (libstdc++), no shared object defines its symbols for them.
//!
//! A domain that extends the program (see [`crate::DomainBuilder::extend_program`]) has glibc's order
//! instead: the executable and its dependencies, the domain's global replicas, the opened library and its
//! needs. With RTLD_DEEPBIND the last group comes first.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bind::binding::Binding;
use crate::image::symbols::{Name, Symbol};
use crate::image::versions::Version;
use crate::image::{Image, ImageId};
use crate::replica::Replica;
use crate::sys::dynamic;
use crate::system::SYSTEM;
use crate::system::{SystemId, SystemObject};

/// The order of a scope's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// The domain's own definitions, global ones first; then shared ones.
    #[default]
    Domain,
    /// As `Domain`, but the library's come before the global ones.
    LibraryInDomain,
    /// The program's, then the library's.
    Program,
    /// The library's, then the program's.
    Library,
}

/// The providers of one load, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub globals: Vec<Arc<Image>>,
    pub local: Vec<Arc<Image>>,
    /// Images of the domain that define unique symbols, in load order.
    pub uniques: Vec<Arc<Image>>,
    pub commons: Vec<Arc<Replica>>,
    pub system: Vec<Arc<SystemObject>>,
    /// Those of `system` that are, or need, a file that the domain replicates.
    pub shadowed: Vec<SystemId>,
    /// Images of the domain that domains have apart.
    pub apart: Vec<Arc<Image>>,
    pub order: Order,
    /// The number of leading objects of `system` that are the executable and its dependencies.
    pub program: usize,
}

/// The key of a scope: scopes with equal keys bind every reference in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeKey {
    images: [Vec<ImageId>; 5],
    system: Vec<SystemId>,
    shadowed: Vec<SystemId>,
    order: Order,
}

impl Scope {
    pub(crate) fn key(&self) -> ScopeKey {
        let ids = |images: &[Arc<Image>]| images.iter().map(|image| image.id).collect();
        ScopeKey {
            images: [
                ids(&self.globals),
                ids(&self.local),
                ids(&self.uniques),
                ids(&self.apart),
                self.commons.iter().map(|replica| replica.image.id).collect(),
            ],
            system: self.system.iter().map(|object| object.id).collect(),
            shadowed: self.shadowed.clone(),
            order: self.order,
        }
    }

    /// Whether the library's own definitions come before the global ones (RTLD_DEEPBIND). DT_SYMBOLIC is
    /// ignored then (glibc, elf/dl-load.c, _dl_map_object_from_fd).
    pub(crate) fn is_deep(&self) -> bool {
        matches!(self.order, Order::Library | Order::LibraryInDomain)
    }

    /// This scope for another library, whose needs are `local`.
    pub(crate) fn of_other(&self, local: Vec<Arc<Image>>) -> Scope {
        Scope { local, ..self.clone() }
    }

    /// The definition of `name`. `newest`: `dlsym`'s choice among versions.
    pub(crate) fn find(
        &self,
        name: Name<'_>,
        wanted: Option<Version<'_>>,
        newest: bool,
    ) -> Option<Binding> {
        let find_in = |images: &[Arc<Image>]| {
            images.iter().find_map(|image| {
                let (_, symbol) = image.symbols.lookup(name, wanted, newest)?;
                Some((image.id, symbol))
            })
        };
        let own = match self.order {
            Order::Domain => find_in(&self.globals).or_else(|| find_in(&self.local)),
            Order::LibraryInDomain => find_in(&self.local).or_else(|| find_in(&self.globals)),
            Order::Program | Order::Library => return self.find_as_program(name, wanted, newest),
        };
        let is_of_c_library =
            self.order == Order::Domain && self.is_of_c_library(name, wanted, newest);
        let yields = own.is_none_or(|(_, symbol)| {
            (symbol.is_weak() || symbol.is_unique()) && !self.is_apart(name)
        });
        let all = own.is_none() || is_of_c_library;
        if (yields || is_of_c_library)
            && let Some(shared) = self.find_shared(name, wanted, newest, all)
        {
            return Some(shared);
        }
        if let Some((image, symbol)) = own {
            return Some(self.unique_instead(name, image, symbol));
        }
        find_anywhere(name, wanted)
    }

    /// [`Scope::find`] in the order of a program's domain.
    fn find_as_program(
        &self,
        name: Name<'_>,
        wanted: Option<Version<'_>>,
        newest: bool,
    ) -> Option<Binding> {
        let in_images = |images: &[Arc<Image>]| {
            images.iter().find_map(|image| {
                let (_, symbol) = image.symbols.lookup(name, wanted, newest)?;
                Some(self.unique_instead(name, image.id, symbol))
            })
        };
        let in_system = |objects: &[Arc<SystemObject>]| {
            objects.iter().find_map(|object| {
                let (_, symbol) = object.symbols.lookup(name, wanted, newest)?;
                Some(object.binding(&symbol))
            })
        };
        let (program, needed) = self.system.split_at(self.program);
        let global = || in_system(program).or_else(|| in_images(&self.globals));
        let local = || in_images(&self.local).or_else(|| in_system(needed));
        let found = match self.order {
            Order::Library => local().or_else(global),
            _ => global().or_else(local),
        };
        found.or_else(|| find_anywhere(name, wanted))
    }

    /// The definition to use for the found `symbol` of `image`: if it is unique, the one that all
    /// share.
    fn unique_instead(&self, name: Name<'_>, image: ImageId, symbol: Symbol) -> Binding {
        let found = Binding::Image { image, symbol };
        if symbol.is_unique() { self.unique(name).unwrap_or(found) } else { found }
    }

    /// The definition of `name` that stands for all unique ones (STB_GNU_UNIQUE), whichever object asks (glibc,
    /// elf/dl-lookup.c, do_lookup_unique). An object that exists once in the process comes first, then the image of
    /// the domain that was loaded first.
    pub(crate) fn unique(&self, name: Name<'_>) -> Option<Binding> {
        let shared = || match self.order {
            Order::Domain | Order::LibraryInDomain if self.is_apart(name) => None,
            Order::Domain | Order::LibraryInDomain => self.unique_shared(name),
            Order::Program | Order::Library => None,
        };
        let own = || {
            let mut uniques = self.uniques.iter();
            let found = uniques.find_map(|image| Some((image.id, image.unique(name)?)));
            found.map(|(image, symbol)| Binding::Image { image, symbol })
        };
        shared().or_else(own)
    }

    /// The unique definition among the objects that exist once in the process.
    fn unique_shared(&self, name: Name<'_>) -> Option<Binding> {
        let in_commons =
            |replica: &Arc<Replica>| Some(replica.binding(&replica.image.unique(name)?));
        let in_object = |object: &Arc<SystemObject>| {
            let (_, symbol) = object.symbols.lookup(name, None, true)?;
            symbol.is_unique().then(|| object.binding(&symbol))
        };
        let mut shared = self.system.iter().filter(|object| !self.shadowed.contains(&object.id));
        self.commons.iter().find_map(in_commons).or_else(|| shared.find_map(in_object))
    }

    /// Whether a library that domains have apart defines `name`.
    fn is_apart(&self, name: Name<'_>) -> bool {
        self.apart.iter().any(|image| image.symbols.lookup(name, None, true).is_some())
    }

    pub(crate) fn add_local(&mut self, image: &Arc<Image>) {
        if !self.local.iter().any(|known| known.id == image.id) {
            self.local.push(image.clone());
        }
    }

    pub(crate) fn add_commons(&mut self, replica: Option<Arc<Replica>>) {
        if let Some(replica) = replica
            && !self.commons.iter().any(|known| known.image.id == replica.image.id)
        {
            self.commons.push(replica);
        }
    }

    pub(crate) fn add_system(&mut self, object: Arc<SystemObject>) {
        if !self.system.iter().any(|known| known.id == object.id) {
            self.system.push(object);
        }
    }

    /// The definition among the objects that exist once in the process; `all`: also among those
    /// that are shadowed.
    fn find_shared(
        &self,
        name: Name<'_>,
        wanted: Option<Version<'_>>,
        newest: bool,
        all: bool,
    ) -> Option<Binding> {
        for replica in &self.commons {
            if let Some((_, symbol)) = replica.image.symbols.lookup(name, wanted, newest) {
                return Some(replica.binding(&symbol));
            }
        }
        self.system.iter().filter(|object| all || !self.shadowed.contains(&object.id)).find_map(
            |object| {
                let (_, symbol) = object.symbols.lookup(name, wanted, newest)?;
                Some(object.binding(&symbol))
            },
        )
    }

    fn is_of_c_library(&self, name: Name<'_>, wanted: Option<Version<'_>>, newest: bool) -> bool {
        self.system.iter().any(|object| {
            object.is_c_library()
                && !self.shadowed.contains(&object.id)
                && object.symbols.lookup(name, wanted, newest).is_some()
        })
    }

    /// Sets [`Scope::shadowed`] for a domain that replicates `images`.
    pub(crate) fn find_shadowed<'a>(&mut self, images: impl Iterator<Item = &'a Arc<Image>>) {
        let files: HashSet<_> = images.map(|image| image.file_id.object()).collect();
        let replicated = |object: &SystemObject| {
            object.file_id().is_some_and(|file| files.contains(&file.object()))
        };
        let mut shadowed: Vec<&Arc<SystemObject>> =
            self.system.iter().filter(|object| replicated(object)).collect();
        let mut next = 0;
        while let Some(&inner) = shadowed.get(next) {
            next += 1;
            let needs = |object: &&Arc<SystemObject>| object.needs(inner);
            let outer: Vec<_> = self.system.iter().filter(needs).collect();
            for object in outer {
                if !shadowed.iter().any(|known| known.id == object.id) {
                    shadowed.push(object);
                }
            }
        }
        self.shadowed = shadowed.into_iter().map(|object| object.id).collect();
    }
}

/// Searches as `dlvsym(RTLD_DEFAULT)` does: in objects that others opened with RTLD_GLOBAL.
fn find_anywhere(name: Name<'_>, wanted: Option<Version<'_>>) -> Option<Binding> {
    // Nobody defines most of the names that come here (`__gmon_start__`). glibc would write an error for
    // each, and cannot cope with an allocator that loads libraries meanwhile.
    let defines = |object: &Arc<SystemObject>| object.symbols.lookup(name, wanted, true).is_some();
    if !SYSTEM.objects().iter().any(defines) {
        return None;
    }
    let text = std::ffi::CString::new(name.text).ok()?;
    let version = wanted.and_then(|version| std::ffi::CString::new(version.name).ok());
    let address = dynamic::global_symbol(&text, version.as_deref())?;
    Some(Binding::Fixed { address, size: 0 })
}
