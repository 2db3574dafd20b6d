//! The dependency closure of an image: its needs, found and classified, nothing mapped yet.
//!
//! ```text
//!  root --NEEDED--> node --NEEDED--> node ...      images on disk, not loaded in this domain
//!    \--> replica of the domain                     loaded earlier
//!    \--> object of the commons or the system       loaded earlier, once for all
//! ```
//!
//! [`super::classify`] gives each node its class.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::image::{Image, ImageCache, enclosure, provided};
use crate::load::classify::Ruling;
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
    /// The object that the system loader has opened for it in this load.
    pub opened: Option<Arc<SystemObject>>,
    /// The node that needed it first.
    parent: Option<usize>,
}

/// One entry of DT_NEEDED, DT_FILTER or DT_AUXILIARY.
#[derive(Clone)]
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

/// The node that needs something.
#[derive(Clone, Copy)]
struct From {
    index: usize,
    /// Whether a rule shares it. Libraries that domains bring then exist once more for it.
    shared: bool,
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
    /// The domain's replicas, in load order.
    pub replicas: &'a [Arc<Replica>],
    /// Those of them that are global, except libraries that domains have apart.
    pub globals: &'a [Arc<Replica>],
    pub commons: &'a [Arc<Replica>],
}

impl Surroundings<'_> {
    /// The rules' verdict on the file at `path`.
    pub(crate) fn ruling(&self, path: &Path) -> Result<Ruling<'_>> {
        Ruling::of(self.policy, self.program, self.system, path)
    }

    /// Whether the system loader has `object`. A load pins the object, so that it stays. False if the program
    /// has closed it meanwhile.
    pub(super) fn has(&self, object: &SystemObject) -> bool {
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
            let shared = forced.filter(|_| next == 0).map_or_else(
                || around.is_shared_by_rule(&closure.nodes[next].image),
                |class| Ok(class != Class::Replicate),
            )?;
            let from = From { index: next, shared };
            for (name, required) in closure.nodes[next].image.dynamic.filtees.clone() {
                let edge = closure.edge(from, name, around)?;
                if required || !matches!(edge, Edge::Missing { .. }) {
                    closure.nodes[next].edges.push(edge);
                    closure.nodes[next].filtees += 1;
                }
            }
            let needed = closure.nodes[next].image.dynamic.needed.clone();
            let enclosure = enclosure::of(closure.nodes[next].image.origin());
            for name in needed {
                let edge = closure.edge(from, name, around)?;
                let is_missing = matches!(edge, Edge::Missing { .. });
                if !(is_missing && enclosure.is_some_and(|enclosure| enclosure.lacks(name))) {
                    closure.nodes[next].edges.push(edge);
                }
            }
            next += 1;
        }
        closure.classify(forced, around)?;
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

    fn edge(&mut self, from: From, name: &str, around: &Surroundings<'_>) -> Result<Edge> {
        let by_soname = |image: &Image| image.soname() == name;
        if let Some(index) = self.nodes.iter().position(|node| by_soname(&node.image)) {
            return Ok(Edge::Node(index));
        }
        if let Some(replica) = around.replicas.iter().find(|replica| by_soname(&replica.image))
            && !(from.shared && around.is_own(&replica.image)?)
        {
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
        let path = match search::find(name, &self.chain(from.index)) {
            Ok(path) => path,
            Err(Absence::Unknown(error)) => return Err(error),
            Err(Absence::Nowhere(searched)) => match around.system.by_name(name) {
                // The program has opened it by a path, which decides as any path does. A file that is gone
                // decides nothing.
                Some(object) if around.has(&object) => match around.images.open(&object.path) {
                    Ok(_) => object.path.clone(),
                    Err(_) => return Ok(Edge::System(object)),
                },
                _ => return Ok(Edge::Missing { name: name.to_owned(), searched }),
            },
        };
        let ruling = around.ruling(&path)?;
        if !ruling.replicates() || around.program {
            let loaded = match around.system.by_name(name) {
                Some(object) => Some(object),
                None => around.system.by_path(&path)?,
            };
            if let Some(object) = loaded
                && !around.belongs_to_domain(&object, ruling)?
                && around.has(&object)
            {
                return Ok(Edge::System(object));
            }
            if matches!(ruling, Ruling::Class(Class::System, _)) && !provided::is_provided(&path) {
                return Ok(Edge::SystemName(path.to_string_lossy().into_owned()));
            }
        }
        self.edge_to(from, &path, around)
    }

    /// The edge to the file at `path`. No usable system object is known to be that file.
    fn edge_to(&mut self, from: From, path: &Path, around: &Surroundings<'_>) -> Result<Edge> {
        let image = around.images.open(path)?;
        let same = |replica: &&Arc<Replica>| replica.image.id == image.id;
        if let Some(index) = self.nodes.iter().position(|node| node.image.id == image.id) {
            return Ok(Edge::Node(index));
        }
        let is_own = around.is_own(&image)?;
        if let Some(replica) = around.replicas.iter().find(same)
            && !(is_own && from.shared)
        {
            return Ok(Edge::Replica(replica.clone()));
        }
        if let Some(replica) = around.commons.iter().find(same)
            && (!is_own || from.shared)
        {
            return Ok(Edge::Commons(replica.clone()));
        }
        self.nodes.push(Node::new(image, Some(from.index)));
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
                    reason: "shared object cannot be dlopen()ed (DF_1_NOOPEN); link it without -z nodlopen".into(),
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
            reason: String::new(),
            edges: Vec::new(),
            filtees: 0,
            opened: None,
            parent,
        }
    }
}
