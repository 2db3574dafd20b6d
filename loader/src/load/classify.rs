//! The class of each node of a closure.
//!
//! A node is *replicated*
//!
//! 1. if a rule or the caller demands it,
//! 2. if it refers to a symbol that one of the domain's global replicas defines,
//! 3. if the domain brings it ([`Policy`]), unless a library that is shared by a rule needs it,
//! 4. if it refers to a symbol that only a replicated object defines.
//!
//! The other nodes go to the system loader, with two exceptions. A node that names a replicated object in
//! DT_NEEDED without using it, directly or through its needs, goes to the commons, where such an entry is
//! dropped: the system loader would load the replicated object again. A node whose path only this loader
//! knows goes to the commons too.
//!
//! A file that domains have apart ([`Decision::Apart`]) is replicated for the replicated nodes, and the others use the
//! system's. So its symbols tie nobody to the domain.

use std::path::Path;
use std::sync::Arc;

use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::image::provided;
use crate::image::symbols::Name;
use crate::load::closure::{Closure, Edge, Surroundings};
use crate::load::within;
use crate::policy::{BROUGHT, Class, Decision, Policy};
use crate::replica::Replica;
use crate::sys::file::{FileId, is_refusal};
use crate::system::{SYSTEM, System, SystemObject};

/// The rules' verdict on a file, before its symbols are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling<'a> {
    /// A rule gives it a class.
    Class(Class, &'a str),
    /// A rule leaves it to its symbols.
    Symbols(&'a str),
    /// A rule gives each domain its own, and the system's to shared libraries.
    Apart(&'a str),
    /// The domain brings it.
    Brought,
    /// It is the program's.
    None,
}

impl<'a> Ruling<'a> {
    /// The ruling on the file at `path`, in a domain of this policy. A domain that extends the `program` brings nothing.
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
            _ if program => return Ok(Ruling::None),
            Some((Decision::Apart, reason)) => return Ok(Ruling::Apart(reason)),
            None => {}
        }
        let began_with = match FileId::of_path(path) {
            Ok(id) => system.began_with(id),
            Err(source) if is_refusal(&source) => {
                return Err(Error::Io { object: path.to_owned(), action: "stat", source });
            }
            Err(_) => None,
        };
        let is_apart = |needed: &Arc<SystemObject>| policy.is_apart(&needed.path);
        match began_with {
            Some(object) if !system.closure(&object).iter().any(is_apart) => Ok(Ruling::None),
            _ => Ok(Ruling::Brought),
        }
    }

    /// Whether a rule shares it, unless its symbols object.
    fn shares(self) -> bool {
        matches!(self, Ruling::Class(Class::Commons | Class::System, _) | Ruling::Symbols(_))
    }

    /// Whether it is to be replicated, unless its symbols or its users object.
    pub(crate) fn replicates(self) -> bool {
        matches!(self, Ruling::Class(Class::Replicate, _)) || self.is_own()
    }

    /// Whether it is the domain's, unless its users object.
    fn is_own(self) -> bool {
        matches!(self, Ruling::Apart(_) | Ruling::Brought)
    }
}

/// The system loader's object of `image`, if code of `domain` that opens the file means that object: no rule gives the
/// file to the domain, and neither do its symbols.
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
    /// Whether a rule shares `image`, and its symbols do not object.
    pub(super) fn is_shared_by_rule(&self, image: &Image) -> Result<bool> {
        let ruling = self.ruling(&image.path)?;
        let by_symbols = matches!(ruling, Ruling::Symbols(_));
        Ok(ruling.shares() && !(by_symbols && self.symbol_of_domain(image).is_some()))
    }

    /// Whether domains have `image` apart.
    fn is_apart(&self, image: &Image) -> bool {
        !self.program && self.policy.is_apart(&image.path)
    }

    /// Whether `image` is the domain's, unless its users object.
    pub(super) fn is_own(&self, image: &Image) -> Result<bool> {
        Ok(self.ruling(&image.path)?.is_own())
    }

    /// Whether the domain needs its own copy of `object`, which the system loader has loaded: the object, or one
    /// that it needs, refers to a symbol of the domain. It is bound to the program's definition of that symbol,
    /// which belongs to another world: the program may have its own copy of a library that the domain replicates.
    ///
    /// `ruling` is that of its file. A file that a rule gives to the system stays there, and a file that cannot be
    /// read any more cannot be replicated.
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
                && !matches!(self.ruling(&image.path)?, Ruling::Class(..) | Ruling::Apart(_))
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
            self.settle_brought(&mut settled, &rulings, &loaded);
            if !self.settle_by_exclusive_symbols(&mut settled, &rulings, around) {
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
            if self.reaches_replica(index, &rulings, &mut vec![false; self.nodes.len()]) {
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
        self.lead_to_the_system(&rulings, around);
        self.use_what_is_loaded(around);
        Ok(())
    }

    /// Leads edges of unreplicated nodes to the system's copies of libraries that domains have apart.
    fn lead_to_the_system(&mut self, rulings: &[Ruling<'_>], around: &Surroundings<'_>) {
        let is_apart = |index: usize| matches!(rulings[index], Ruling::Apart(_));
        for index in 0..self.nodes.len() {
            if self.is_replicated(index) {
                continue;
            }
            for edge in 0..self.nodes[index].edges.len() {
                let image = match &self.nodes[index].edges[edge] {
                    Edge::Node(to) if is_apart(*to) => self.nodes[*to].image.clone(),
                    Edge::Replica(replica) if around.is_apart(&replica.image) => {
                        replica.image.clone()
                    }
                    _ => continue,
                };
                let object = around.system.by_name(image.soname());
                self.nodes[index].edges[edge] = match object.filter(|object| around.has(object)) {
                    Some(object) => Edge::System(object),
                    // The system's loader does not know its path.
                    None if provided::is_provided(&image.path) => {
                        Edge::SystemName(image.soname().to_owned())
                    }
                    None => Edge::SystemName(image.path.to_string_lossy().into_owned()),
                };
            }
        }
        for apart in (1..self.nodes.len()).filter(|&index| is_apart(index)) {
            let needs = |edge: &Edge| matches!(edge, Edge::Node(to) if *to == apart);
            if !self.nodes.iter().any(|node| node.edges.iter().any(needs)) {
                // Nothing needs the node any more, so the system loader does not get it.
                self.nodes[apart].class = Class::System;
            }
        }
    }

    fn is_replicated(&self, index: usize) -> bool {
        self.nodes[index].class == Class::Replicate
    }

    /// Leads edges to the loaded copy where a node turned out to be of the class in which its image is loaded
    /// already. Only a file that a domain brings can exist in both classes.
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

    /// Replicates the nodes that the domain brings, unless a node needs them that a rule shares, and gives the reason for
    /// which the others are shared.
    fn settle_brought(
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
                Ruling::Apart(_) | Ruling::Brought | Ruling::None => continue,
            };
            let user = needed_by(self.nodes[index].image.soname());
            for node in self.reachable(index).into_iter().skip(1) {
                shared[node].get_or_insert_with(|| user.clone());
            }
            shared[index] = Some(reason);
        }
        for index in (0..self.nodes.len()).filter(|&index| !settled[index]).collect::<Vec<_>>() {
            let node = &mut self.nodes[index];
            let own = match (shared[index].take(), rulings[index]) {
                (_, Ruling::Apart(reason)) => reason,
                (None, Ruling::Brought) => BROUGHT,
                (Some(reason), _) => {
                    node.reason = reason;
                    continue;
                }
                (None, _) => {
                    node.reason.clear();
                    continue;
                }
            };
            (node.class, node.reason) = (Class::Replicate, own.to_owned());
            settled[index] = true;
        }
    }

    /// For each node that the domain brings the reason to share it, if a library needs its file that the system loader has
    /// loaded and that a rule shares.
    fn needs_of_loaded(
        &self,
        rulings: &[Ruling<'_>],
        around: &Surroundings<'_>,
    ) -> Result<Vec<Option<String>>> {
        let mut reasons = vec![None; self.nodes.len()];
        if !rulings.contains(&Ruling::Brought) {
            return Ok(reasons);
        }
        for edge in self.nodes.iter().flat_map(|node| &node.edges) {
            let Edge::System(object) = edge else { continue };
            if !around.ruling(&object.path)?.shares() {
                continue;
            }
            for needed in around.system.closure(object) {
                let same = |index: &usize| needed.comes_from(self.nodes[*index].image.file_id);
                let is_brought = |index: &usize| rulings[*index] == Ruling::Brought;
                for index in (0..self.nodes.len()).filter(is_brought).filter(same) {
                    reasons[index] = Some(needed_by(&object.soname));
                }
            }
        }
        Ok(reasons)
    }

    /// Replicates the nodes that refer to a symbol which only a replicated object defines. True if it
    /// found one.
    fn settle_by_exclusive_symbols(
        &mut self,
        settled: &mut [bool],
        rulings: &[Ruling<'_>],
        around: &Surroundings<'_>,
    ) -> bool {
        for index in (0..self.nodes.len()).filter(|&index| !settled[index]).collect::<Vec<_>>() {
            let reachable = self.reachable(index);
            let mut private: Vec<&Image> =
                around.globals.iter().map(|replica| &*replica.image).collect();
            let mut shared: Vec<&Image> = Vec::new();
            let mut system: Vec<Arc<SystemObject>> = around.system.global();
            for &node in &reachable {
                match (rulings[node], self.is_replicated(node)) {
                    (Ruling::Apart(_), _) => {}
                    (_, true) => private.push(&self.nodes[node].image),
                    (_, false) => shared.push(&self.nodes[node].image),
                }
                for edge in &self.nodes[node].edges {
                    match edge {
                        Edge::Replica(replica) if around.is_apart(&replica.image) => {}
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

    fn reaches_replica(&self, index: usize, rulings: &[Ruling<'_>], seen: &mut Vec<bool>) -> bool {
        if std::mem::replace(&mut seen[index], true) {
            return false;
        }
        self.nodes[index].edges.iter().any(|edge| match *edge {
            Edge::Node(to) if matches!(rulings[to], Ruling::Apart(_)) => false,
            Edge::Node(to) => {
                self.nodes[to].class != Class::System || self.reaches_replica(to, rulings, seen)
            }
            Edge::Replica(_) | Edge::Commons(_) => true,
            Edge::System(_) | Edge::SystemName(_) | Edge::Missing { .. } => false,
        })
    }
}

/// The reason for which a node is shared although the domain brings it.
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
