//! The class of each node of a closure.
//!
//! A node is *replicated*
//!
//! 1. if a rule or the caller demands it,
//! 2. if it refers to a symbol that one of the domain's global replicas defines,
//! 3. by the rule of place ([`Policy::replicate_outside_system`]), unless a library that is shared by a
//!    rule needs it,
//! 4. if it refers to a symbol that only a replicated object defines.
//!
//! The other nodes go to the system loader, with two exceptions. A node that names a replicated object in
//! DT_NEEDED without using it, directly or through its needs, goes to the commons, where such an entry is
//! dropped: the system loader would load the replicated object again. A node whose path only this loader
//! knows goes to the commons too.

use std::path::Path;
use std::sync::Arc;

use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::image::provided;
use crate::image::symbols::Name;
use crate::load::closure::{Closure, Edge, Surroundings};
use crate::load::within;
use crate::policy::{Class, Decision, Policy};
use crate::replica::Replica;
use crate::sys::file::{FileId, is_refusal};
use crate::system::search;
use crate::system::{SYSTEM, System, SystemObject};

/// What rules say of a file, before its symbols are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling<'a> {
    /// A rule gives it a class.
    Class(Class, &'a str),
    /// A rule leaves it to its symbols.
    Symbols(&'a str),
    /// It is replicated for the place where it lies.
    Place(&'a str),
    /// Nothing.
    None,
}

impl<'a> Ruling<'a> {
    /// The ruling on the file at `path`, in a domain of this policy. The rule of place does not count where
    /// the domain extends the `program`.
    pub(crate) fn of(
        policy: &'a Policy,
        program: bool,
        system: &System,
        path: &Path,
    ) -> Result<Ruling<'a>> {
        match policy.decision(path) {
            Some((Decision::Class(class), reason)) => return Ok(Ruling::Class(class, reason)),
            Some((Decision::Symbols, reason)) => return Ok(Ruling::Symbols(reason)),
            Some((Decision::Refused, reason)) => {
                let (object, reason) = (path.to_owned(), reason.to_owned());
                return Err(Error::Refused { object, reason });
            }
            None => {}
        }
        let Some(reason) = policy.outside().filter(|_| !program) else { return Ok(Ruling::None) };
        let failed = |action, source| Error::Io { object: path.to_owned(), action, source };
        if search::is_of_system(path)
            .map_err(|source| failed("look for the directory of", source))?
        {
            return Ok(Ruling::None);
        }
        match FileId::of_path(path) {
            Ok(id) if system.began_with(id) => Ok(Ruling::None),
            Err(source) if is_refusal(&source) => Err(failed("stat", source)),
            _ => Ok(Ruling::Place(reason)),
        }
    }

    /// Whether a rule shares it, as far as its symbols do not object.
    fn shares(self) -> bool {
        matches!(self, Ruling::Class(Class::Commons | Class::System, _) | Ruling::Symbols(_))
    }

    /// Whether it is to be replicated, as far as its symbols and its users do not object.
    pub(crate) fn replicates(self) -> bool {
        matches!(self, Ruling::Class(Class::Replicate, _) | Ruling::Place(_))
    }
}

/// The object of `image` that the system loader has, if code of `domain` that opens the file means that object: no
/// rule gives the file to the domain, and neither do its symbols.
pub(crate) fn object_for(domain: &Domain, image: &Image) -> Result<Option<Arc<SystemObject>>> {
    let Some(object) = SYSTEM.by_file(image.file_id) else { return Ok(None) };
    if domain.0.program {
        return Ok(Some(object));
    }
    let is_shared = within(domain, false, |around| -> Result<bool> {
        let ruling = around.ruling(&image.path)?;
        let elsewhere = ruling.replicates() || matches!(ruling, Ruling::Class(Class::Commons, _));
        Ok(!elsewhere && !around.belongs_to_domain(&object, ruling)?)
    })?;
    Ok(is_shared.then_some(object))
}

impl Surroundings<'_> {
    /// Whether a rule shares `image`, and no symbol of the domain speaks against that.
    pub(super) fn is_shared_by_rule(&self, image: &Image) -> Result<bool> {
        let ruling = self.ruling(&image.path)?;
        let by_symbols = matches!(ruling, Ruling::Symbols(_));
        Ok(ruling.shares() && !(by_symbols && self.symbol_of_domain(image).is_some()))
    }

    /// Whether the rule of place speaks of `image`.
    pub(super) fn is_private_by_place(&self, image: &Image) -> Result<bool> {
        Ok(matches!(self.ruling(&image.path)?, Ruling::Place(_)))
    }

    /// Whether the domain must have a copy of its own of `object`, which the system loader has: the object, or one
    /// that it needs, refers to a symbol of the domain. It is bound to the program's definition of that symbol,
    /// which is that of another world: the program may have a copy of its own of what the domain replicates.
    ///
    /// `ruling` is that of its file. A file that a rule gives to the system stays there, and what cannot be read any
    /// more cannot be replicated.
    pub(super) fn belongs_to_domain(
        &self,
        object: &Arc<SystemObject>,
        ruling: Ruling<'_>,
    ) -> Result<bool> {
        if self.program || matches!(ruling, Ruling::Class(..)) {
            return Ok(false);
        }
        for needed in self.system.closure(object) {
            let class = self.policy.class_of_name(&needed.soname);
            if class.is_some_and(|class| class != Class::Replicate) {
                continue;
            }
            if let Ok(image) = self.images.open(&needed.path)
                && needed.comes_from(image.file_id)
                && !matches!(self.ruling(&image.path)?, Ruling::Class(..))
                && self.symbol_of_domain(&image).is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A symbol that `image` refers to and that a global replica of the domain defines.
    fn symbol_of_domain(&self, image: &Image) -> Option<String> {
        refers_to(image, |name| self.globals.iter().any(|global| defines(&global.image, name)))
    }
}

impl Closure {
    /// Gives each node its class. `forced` is that of the root.
    pub(super) fn classify(
        &mut self,
        forced: Option<Class>,
        around: &Surroundings<'_>,
    ) -> Result<()> {
        let rulings = self.nodes.iter().map(|node| around.ruling(&node.image.path));
        let rulings = rulings.collect::<Result<Vec<_>>>()?;
        let mut settled = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if let Some(class) = forced.filter(|_| index == 0) {
                (node.class, node.reason) = (class, "the caller asked for it".into());
            } else if let Ruling::Class(class, reason) = rulings[index] {
                (node.class, node.reason) = (class, format!("a rule: {reason}"));
            } else if let Some(symbol) = around.symbol_of_domain(&node.image) {
                (node.class, node.reason) =
                    (Class::Replicate, format!("it needs {symbol} of its domain"));
            } else {
                continue;
            }
            settled[index] = true;
        }
        let loaded = self.needs_of_loaded(&rulings, around)?;
        loop {
            self.settle_by_place(&mut settled, &rulings, &loaded);
            if !self.settle_by_exclusive_symbols(&mut settled, around) {
                break;
            }
        }
        for node in &mut self.nodes {
            if node.class == Class::System && provided::is_provided(&node.image.path) {
                let other = "the system's loader does not know its path";
                node.reason = match node.reason.is_empty() {
                    true => other.into(),
                    false => format!("{}; {other}", node.reason),
                };
                node.class = Class::Commons;
            }
        }
        for index in (0..self.nodes.len()).filter(|&index| !settled[index]) {
            if self.reaches_replica(index, &mut vec![false; self.nodes.len()]) {
                let node = &mut self.nodes[index];
                (node.class, node.reason) = (
                    Class::Commons,
                    "it names a replicated object in DT_NEEDED but uses none of its symbols".into(),
                );
            }
        }
        for node in self.nodes.iter_mut().filter(|node| node.reason.is_empty()) {
            node.reason = "nothing in it belongs to one domain".into();
        }
        self.use_what_is_loaded(around);
        Ok(())
    }

    /// Leads edges to what is loaded where a node turned out to be of the class in which its image is loaded
    /// already. Only a file that is private by its place can exist in both classes.
    fn use_what_is_loaded(&mut self, around: &Surroundings<'_>) {
        for index in 1..self.nodes.len() {
            let node = &self.nodes[index];
            let same = |replica: &&Arc<Replica>| replica.image.id == node.image.id;
            let loaded = match node.class {
                Class::Replicate => around.replicas.iter().find(same).cloned().map(Edge::Replica),
                Class::Commons => around.commons.iter().find(same).cloned().map(Edge::Commons),
                Class::System => None,
            };
            let Some(loaded) = loaded else { continue };
            let edges = self.nodes.iter_mut().flat_map(|node| &mut node.edges);
            for edge in edges.filter(|edge| matches!(edge, Edge::Node(to) if *to == index)) {
                *edge = loaded.clone();
            }
            // Nothing needs the node any more, so the system loader does not get it.
            self.nodes[index].class = Class::System;
        }
    }

    /// Replicates the nodes that are to be for their place, unless a node needs them that a rule shares, and
    /// gives the reason for which the others are shared.
    fn settle_by_place(
        &mut self,
        settled: &mut [bool],
        rulings: &[Ruling<'_>],
        loaded: &[Option<String>],
    ) {
        let mut shared = loaded.to_vec();
        for index in 0..self.nodes.len() {
            let reason = match rulings[index] {
                _ if settled[index] && self.nodes[index].class == Class::Replicate => continue,
                Ruling::Class(..) => self.nodes[index].reason.clone(),
                Ruling::Symbols(reason) => format!("a rule: {reason}"),
                Ruling::Place(_) | Ruling::None => continue,
            };
            let user = needed_by(self.nodes[index].image.soname());
            for node in self.reachable(index).into_iter().skip(1) {
                shared[node].get_or_insert_with(|| user.clone());
            }
            shared[index] = Some(reason);
        }
        for index in (0..self.nodes.len()).filter(|&index| !settled[index]).collect::<Vec<_>>() {
            let node = &mut self.nodes[index];
            match (shared[index].take(), rulings[index]) {
                (Some(reason), _) => node.reason = reason,
                (None, Ruling::Place(reason)) => {
                    (node.class, node.reason) = (Class::Replicate, reason.to_owned());
                    settled[index] = true;
                }
                (None, _) => node.reason.clear(),
            }
        }
    }

    /// For each node that is to be private by its place the reason against it, if a library needs its file that the
    /// system loader has loaded and that a rule shares.
    fn needs_of_loaded(
        &self,
        rulings: &[Ruling<'_>],
        around: &Surroundings<'_>,
    ) -> Result<Vec<Option<String>>> {
        let mut reasons = vec![None; self.nodes.len()];
        if !rulings.iter().any(|ruling| matches!(ruling, Ruling::Place(_))) {
            return Ok(reasons);
        }
        for edge in self.nodes.iter().flat_map(|node| &node.edges) {
            let Edge::System(object) = edge else { continue };
            if !around.ruling(&object.path)?.shares() {
                continue;
            }
            for needed in around.system.closure(object) {
                let same = |index: &usize| needed.comes_from(self.nodes[*index].image.file_id);
                let place = |index: &usize| matches!(rulings[*index], Ruling::Place(_));
                for index in (0..self.nodes.len()).filter(place).filter(same) {
                    reasons[index] = Some(needed_by(&object.soname));
                }
            }
        }
        Ok(reasons)
    }

    /// Replicates the nodes that refer to a symbol which only a replicated object defines. True if there
    /// was one.
    fn settle_by_exclusive_symbols(
        &mut self,
        settled: &mut [bool],
        around: &Surroundings<'_>,
    ) -> bool {
        for index in (0..self.nodes.len()).filter(|&index| !settled[index]).collect::<Vec<_>>() {
            let reachable = self.reachable(index);
            let mut private: Vec<&Image> =
                around.globals.iter().map(|replica| &*replica.image).collect();
            let mut shared: Vec<&Image> = Vec::new();
            let mut system: Vec<Arc<SystemObject>> = around.system.global();
            for &node in &reachable {
                let into = if self.nodes[node].class == Class::Replicate {
                    &mut private
                } else {
                    &mut shared
                };
                into.push(&self.nodes[node].image);
                for edge in &self.nodes[node].edges {
                    match edge {
                        Edge::Replica(replica) => private.push(&replica.image),
                        Edge::Commons(replica) => shared.push(&replica.image),
                        Edge::System(object) => system.extend(around.system.closure(object)),
                        Edge::Node(_) | Edge::SystemName(_) | Edge::Missing { .. } => {}
                    }
                }
            }
            let exclusive = |name: Name<'_>| {
                private.iter().any(|image| defines(image, name))
                    && !shared.iter().any(|image| defines(image, name))
                    && !system
                        .iter()
                        .any(|object| object.symbols.lookup(name, None, true).is_some())
            };
            if let Some(symbol) = refers_to(&self.nodes[index].image, exclusive) {
                let node = &mut self.nodes[index];
                (node.class, node.reason) = (
                    Class::Replicate,
                    format!("it needs {symbol}, which only a replicated object defines"),
                );
                settled[index] = true;
                return true;
            }
        }
        false
    }

    fn reaches_replica(&self, index: usize, seen: &mut Vec<bool>) -> bool {
        if std::mem::replace(&mut seen[index], true) {
            return false;
        }
        self.nodes[index].edges.iter().any(|edge| match *edge {
            Edge::Node(to) => {
                self.nodes[to].class != Class::System || self.reaches_replica(to, seen)
            }
            Edge::Replica(_) | Edge::Commons(_) => true,
            Edge::System(_) | Edge::SystemName(_) | Edge::Missing { .. } => false,
        })
    }
}

/// The reason for which a node is shared although it is to be private by its place.
fn needed_by(user: &str) -> String {
    format!("{user}, which is shared, needs it")
}

fn defines(image: &Image, name: Name<'_>) -> bool {
    image.symbols.lookup(name, None, true).is_some()
}

/// The first undefined symbol that a relocation of `image` names and that satisfies `condition`.
fn refers_to(image: &Image, condition: impl Fn(Name<'_>) -> bool) -> Option<String> {
    let found = image.undefined().iter().find(|name| condition(**name))?;
    Some(String::from_utf8_lossy(found.text).into_owned())
}
