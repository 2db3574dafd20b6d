//! The dependency closure of an image: what it needs, found and classified, nothing mapped yet.
//!
//! ```text
//!  root --NEEDED--> node --NEEDED--> node ...      images on disk, not loaded in this domain
//!    \--> replica of the domain                     loaded earlier
//!    \--> object of the commons or the system       loaded earlier, once for all
//! ```
//!
//! A node is *replicated* if a rule demands it, if it refers to a symbol that one of the domain's
//! global replicas defines, or if it refers to a symbol that only a replicated object defines. The
//! other nodes go to the system loader, with one exception. A node that names a replicated object in
//! DT_NEEDED without using it, directly or through its needs, goes to the commons, where such an entry is
//! dropped: the system loader would load the replicated object again.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::image::provided;
use crate::image::symbols::Name;
use crate::image::{Image, ImageCache};
use crate::policy::{Class, Policy};
use crate::replica::Replica;
use crate::system::search::{self, Absence, Level};
use crate::system::{System, SystemObject};

/// An image of the closure that is not loaded in the domain.
pub(crate) struct Node {
    pub image: Arc<Image>,
    pub class: Class,
    pub reason: String,
    pub edges: Vec<Edge>,
    /// The first so many edges lead to the objects that it is a filter of.
    pub filtees: usize,
    /// The object that the system loader has opened of it for this load.
    pub opened: Option<Arc<SystemObject>>,
    /// The node that needed it first.
    parent: Option<usize>,
}

/// One entry of DT_NEEDED, DT_FILTER or DT_AUXILIARY.
pub(crate) enum Edge {
    Node(usize),
    /// Loaded in this domain already.
    Replica(Arc<Replica>),
    /// Loaded in the commons already.
    Commons(Arc<Replica>),
    /// Loaded by the system loader already.
    System(Arc<SystemObject>),
    /// The system loader is to load it. Only that loader knows where it is.
    SystemName(String),
    Missing {
        name: String,
        searched: Vec<String>,
    },
}

/// The closure of one root, node 0, in breadth-first order.
pub(crate) struct Closure {
    pub nodes: Vec<Node>,
}

/// The state against which a closure is computed.
pub(crate) struct Surroundings<'a> {
    pub images: &'a ImageCache,
    pub policy: &'a Policy,
    /// Whether objects of the system loader count as loaded, whatever the rules are.
    pub program: bool,
    pub system: &'a System,
    /// Whether the loader keeps system objects loaded, because a load is about to refer to them.
    pub pins: bool,
    /// The domain's replicas, in load order, and those of them that are global.
    pub replicas: &'a [Arc<Replica>],
    pub globals: &'a [Arc<Replica>],
    pub commons: &'a [Arc<Replica>],
}

impl Surroundings<'_> {
    /// Whether the system loader has `object`. A load pins the object, so that it stays. False if the program
    /// has closed it meanwhile.
    fn has(&self, object: &SystemObject) -> bool {
        !self.pins || self.system.pin(object)
    }
}

impl Closure {
    /// The closure of `root`, as [`Closure::survey`] finds it, if it can be loaded.
    pub(crate) fn of(
        root: Arc<Image>,
        forced: Option<Class>,
        around: &Surroundings<'_>,
    ) -> Result<Closure> {
        check_allowed(&root.path, around)?;
        let closure = Closure::survey(root, forced, around)?;
        closure.check_missing()?;
        closure.check_openable()?;
        Ok(closure)
    }

    /// The needs of `root`, found or not, with the class of each. `forced` overrides the root's class.
    pub(crate) fn survey(
        root: Arc<Image>,
        forced: Option<Class>,
        around: &Surroundings<'_>,
    ) -> Result<Closure> {
        let mut closure = Closure { nodes: vec![Node::new(root, None)] };
        let mut next = 0;
        while next < closure.nodes.len() {
            for (name, required) in closure.nodes[next].image.dynamic.filtees.clone() {
                let edge = closure.edge(next, name, around)?;
                if required || !matches!(edge, Edge::Missing { .. }) {
                    closure.nodes[next].edges.push(edge);
                    closure.nodes[next].filtees += 1;
                }
            }
            let needed = closure.nodes[next].image.dynamic.needed.clone();
            for name in needed {
                let edge = closure.edge(next, name, around)?;
                closure.nodes[next].edges.push(edge);
            }
            next += 1;
        }
        closure.classify(forced, around);
        Ok(closure)
    }

    /// Images of the domain in the order in which a lookup asks them: those that node `index` is a filter of,
    /// then its own.
    pub(crate) fn with_filtees(&self, index: usize) -> Vec<Arc<Image>> {
        let node = &self.nodes[index];
        let mut images = Vec::new();
        for edge in &node.edges[..node.filtees] {
            match edge {
                Edge::Node(to) if self.nodes[*to].class == node.class => {
                    images.push(self.nodes[*to].image.clone());
                }
                Edge::Replica(replica) => images.push(replica.image.clone()),
                _ => {}
            }
        }
        images.push(node.image.clone());
        images
    }

    /// Replicates a node that was left to the system loader.
    pub(crate) fn replicate(&mut self, index: usize, reason: String) -> Result<()> {
        let node = &mut self.nodes[index];
        (node.class, node.reason) = (Class::Replicate, reason);
        self.check_missing()?;
        self.check_openable()
    }

    /// Indices of the nodes of `class`, in breadth-first order.
    pub(crate) fn of_class(&self, class: Class) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(move |&index| self.nodes[index].class == class)
    }

    fn edge(&mut self, from: usize, name: &str, around: &Surroundings<'_>) -> Result<Edge> {
        let by_soname = |image: &Image| image.soname() == name;
        if let Some(index) = self.nodes.iter().position(|node| by_soname(&node.image)) {
            return Ok(Edge::Node(index));
        }
        if let Some(replica) = around.replicas.iter().find(|replica| by_soname(&replica.image)) {
            return Ok(Edge::Replica(replica.clone()));
        }
        // A domain that extends the program takes the loaded object of that name, wherever its file is. So does
        // any domain if the rules share the name in every directory.
        let shared = || around.policy.class_of_name(name).is_some_and(|it| it != Class::Replicate);
        if around.program || shared() {
            let loaded = around.system.by_name(name);
            if let Some(object) = loaded.filter(|object| around.has(object)) {
                return Ok(Edge::System(object));
            }
        }
        let path = match search::find(name, &self.chain(from)) {
            Ok(path) => path,
            Err(Absence::Unknown(error)) => return Err(error),
            Err(Absence::Nowhere(searched)) => {
                return Ok(match around.system.by_name(name).filter(|object| around.has(object)) {
                    Some(object) => Edge::System(object),
                    None => Edge::Missing { name: name.to_owned(), searched },
                });
            }
        };
        check_allowed(&path, around)?;
        let rule = around.policy.rule(&path).map(|rule| rule.0);
        if rule != Some(Class::Replicate) || around.program {
            let loaded = match around.system.by_name(name) {
                Some(object) => Some(object),
                None => around.system.by_path(&path)?,
            };
            if let Some(object) = loaded.filter(|object| around.has(object)) {
                return Ok(Edge::System(object));
            }
            if rule == Some(Class::System) && !provided::is_provided(&path) {
                return Ok(Edge::SystemName(path.to_string_lossy().into_owned()));
            }
        }
        self.edge_to(from, &path, around)
    }

    /// The edge to the file at `path`. No usable system object is known to be that file.
    fn edge_to(&mut self, from: usize, path: &Path, around: &Surroundings<'_>) -> Result<Edge> {
        let image = around.images.open(path)?;
        let same = |replica: &&Arc<Replica>| replica.image.id == image.id;
        if let Some(index) = self.nodes.iter().position(|node| node.image.id == image.id) {
            return Ok(Edge::Node(index));
        }
        if let Some(replica) = around.replicas.iter().find(same) {
            return Ok(Edge::Replica(replica.clone()));
        }
        if let Some(replica) = around.commons.iter().find(same) {
            return Ok(Edge::Commons(replica.clone()));
        }
        self.nodes.push(Node::new(image, Some(from)));
        Ok(Edge::Node(self.nodes.len() - 1))
    }

    /// The images that led to a node, the root's last.
    pub(crate) fn ancestors(&self, index: usize) -> Vec<Arc<Image>> {
        let above = |&index: &usize| self.nodes[index].parent;
        std::iter::successors(self.nodes[index].parent, above)
            .map(|index| self.nodes[index].image.clone())
            .collect()
    }

    /// The search paths for a node's needs: its own, then its ancestors'.
    fn chain(&self, index: usize) -> Vec<Level<'_>> {
        let above = |&index: &usize| self.nodes[index].parent;
        std::iter::successors(Some(index), above)
            .map(|index| Level::of(&self.nodes[index].image))
            .collect()
    }

    fn classify(&mut self, forced: Option<Class>, around: &Surroundings<'_>) {
        let mut settled = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let rule = around.policy.rule(&node.image.path);
            if let Some(class) = forced.filter(|_| index == 0) {
                (node.class, node.reason) = (class, "the caller asked for it".into());
            } else if let Some((class, reason)) = rule {
                (node.class, node.reason) = (class, format!("a rule: {reason}"));
            } else if let Some(symbol) = refers_to(&node.image, |name| {
                around.globals.iter().any(|global| defines(&global.image, name))
            }) {
                (node.class, node.reason) =
                    (Class::Replicate, format!("it needs {symbol} of its domain"));
            } else {
                continue;
            }
            settled[index] = true;
        }
        while self.settle_by_exclusive_symbols(&mut settled, around) {}
        for node in &mut self.nodes {
            if node.class == Class::System && provided::is_provided(&node.image.path) {
                (node.class, node.reason) =
                    (Class::Commons, "the system's loader does not know its path".into());
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

    /// `index` and every node that it needs, directly or not.
    pub(crate) fn reachable(&self, index: usize) -> Vec<usize> {
        let mut found = vec![index];
        let mut next = 0;
        while next < found.len() {
            for edge in &self.nodes[found[next]].edges {
                if let Edge::Node(to) = *edge
                    && !found.contains(&to)
                {
                    found.push(to);
                }
            }
            next += 1;
        }
        found
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

    /// A missing dependency is an error of an object that we load; the system loader finds (or
    /// misses) those of its own.
    fn check_missing(&self) -> Result<()> {
        for node in self.nodes.iter().filter(|node| node.class != Class::System) {
            for edge in &node.edges {
                if let Edge::Missing { name, searched } = edge {
                    return Err(Error::NotFound {
                        object: name.clone(),
                        requester: node.image.path.display().to_string(),
                        searched: searched.join(", "),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Closure {
    /// DF_1_NOOPEN: the object may be loaded only at the start of a program.
    fn check_openable(&self) -> Result<()> {
        for node in self.nodes.iter().filter(|node| node.class != Class::System) {
            if node.image.dynamic.no_open {
                return Err(Error::Refused {
                    object: node.image.path.clone(),
                    reason: "shared object cannot be dlopen()ed (DF_1_NOOPEN)".into(),
                });
            }
        }
        Ok(())
    }
}

impl Node {
    fn new(image: Arc<Image>, parent: Option<usize>) -> Node {
        Node {
            image,
            class: Class::System,
            reason: "nothing in it belongs to one domain".into(),
            edges: Vec::new(),
            filtees: 0,
            opened: None,
            parent,
        }
    }
}

/// An error if the policy refuses the file at `path`.
fn check_allowed(path: &Path, around: &Surroundings<'_>) -> Result<()> {
    match around.policy.refusal(path) {
        Some(reason) => Err(Error::Refused { object: path.to_owned(), reason }),
        None => Ok(()),
    }
}

fn defines(image: &Image, name: Name<'_>) -> bool {
    image.symbols.lookup(name, None, true).is_some()
}

/// The first undefined symbol that a relocation of `image` names and that satisfies `condition`.
fn refers_to(image: &Image, condition: impl Fn(Name<'_>) -> bool) -> Option<String> {
    let mut seen = vec![];
    for rela in image.dynamic.rela() {
        let index = rela.symbol as usize;
        if index == 0 || seen.get(index) == Some(&true) {
            continue;
        }
        if seen.len() <= index {
            seen.resize(index + 1, false);
        }
        seen[index] = true;
        let Some(symbol) = image.symbols.symbol(rela.symbol) else { continue };
        if !symbol.is_undefined() {
            continue;
        }
        if let Some(text) = image.symbols.name(&symbol)
            && condition(Name::new(text))
        {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    None
}
