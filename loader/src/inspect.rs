//! Inspection of a file: its class and cost, without loading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::arch;
use crate::cost::Cost;
use crate::domain::{Domain, DomainInner};
use crate::error::Result;
use crate::image::IMAGES;
use crate::image::Image;
use crate::image::versions::Versions;
use crate::load;
use crate::load::closure::{Closure, Edge};
use crate::policy::Class;

/// The contents of a file, its class in a domain with the reason, and the cost of a replica.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The file, symbolic links resolved.
    pub path: PathBuf,
    /// The name that others need it by (DT_SONAME, else the file's name).
    pub soname: String,
    /// Its PT_LOAD segments, ascending.
    pub segments: Vec<SegmentInfo>,
    /// The number of dynamic relocations of each type, by the psABI's names. Packed relative relocations
    /// are counted as `DT_RELR`.
    pub relocations: BTreeMap<String, usize>,
    /// Its thread-local data, if it has some.
    pub tls: Option<TlsInfo>,
    /// Versions of other objects' symbols that it wants (DT_VERNEED), sorted.
    pub versions_needed: Vec<String>,
    /// Versions that it defines (DT_VERDEF), sorted.
    pub versions_defined: Vec<String>,
    /// Its class when code in the domain opens it.
    pub class: Class,
    /// The rule or the symbol that decided the class.
    pub reason: String,
    /// The memory that a replica of it takes for itself.
    pub cost: Cost,
    /// Whether the file asks for executable stacks (PT_GNU_STACK). None is granted.
    pub executable_stack: bool,
    /// The needs of all objects that a load would add to the domain, breadth first.
    pub dependencies: Vec<DependencyInfo>,
}

/// One PT_LOAD segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Bytes from the image's lowest page.
    pub address: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes of them that the file has; the rest begins as zeros.
    pub file: usize,
    /// Whether code and data in it may be written.
    pub write: bool,
    /// Whether it may be executed.
    pub execute: bool,
}

/// Thread-local data (PT_TLS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsInfo {
    /// Bytes of each thread's block.
    pub size: usize,
    /// Bytes of it that do not begin as zeros.
    pub initialised: usize,
    /// Bytes.
    pub alignment: usize,
    /// Whether its own code reaches it by fixed offsets from the thread pointer (initial-exec).
    pub initial_exec: bool,
}

/// An object that another one needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DependencyInfo {
    /// Its DT_SONAME, or its file's name; the needed name, if it was not found.
    pub name: String,
    /// Its path, if it was found.
    pub path: Option<PathBuf>,
    /// Its class in the domain, if it was found.
    pub class: Option<Class>,
    /// The reason for the class, or the places that were searched.
    pub reason: String,
    /// The memory that a replica of it takes for itself. None if it was not found, or is left to the system's loader.
    pub cost: Option<Cost>,
    /// Whether the domain, its commons or the system's loader has loaded it already.
    pub held: bool,
}

impl Domain {
    /// Inspects the file at `path`: its contents, its class for code of this domain with the reason, and
    /// the cost of a replica. Nothing is loaded. Missing dependencies are listed and are not an error.
    ///
    /// # Errors
    /// The file cannot be read, is not an ELF file, or is one that the loader refuses.
    pub fn inspect(&self, path: &Path) -> Result<Inspection> {
        inspect(self, path)
    }
}

fn inspect(domain: &Domain, path: &Path) -> Result<Inspection> {
    let image = IMAGES.open(path)?;
    let closure = load::survey(domain, image.clone(), None)?;
    let root = &closure.nodes[0];
    let (class, reason) = match held(domain, &image) {
        Some(class) => (class, "the domain holds it already"),
        None => (root.class, root.reason.as_str()),
    };
    Ok(Inspection {
        path: image.path.clone(),
        soname: image.soname().to_owned(),
        segments: image
            .segments
            .iter()
            .map(|segment| SegmentInfo {
                address: segment.address,
                memory: segment.memory_size,
                file: segment.file_size,
                write: segment.write,
                execute: segment.execute,
            })
            .collect(),
        relocations: relocations(&image),
        tls: image.tls.map(|tls| TlsInfo {
            size: tls.memory_size,
            initialised: tls.file_size,
            alignment: tls.alignment,
            initial_exec: image.needs_static_tls(),
        }),
        versions_needed: versions(&image, image.dynamic.version_needs, None),
        versions_defined: versions(&image, None, image.dynamic.version_definitions),
        class,
        reason: reason.to_owned(),
        cost: Cost::of(&image)?,
        executable_stack: image.executable_stack,
        dependencies: dependencies(&closure)?,
    })
}

/// The class of an object that the domain or its commons has loaded.
fn held(domain: &Domain, image: &Image) -> Option<Class> {
    let holds = |inner: &DomainInner| inner.state.lock().entries.get(image.id).is_some();
    if holds(&domain.0) {
        return Some(Class::Replicate);
    }
    domain.0.commons.as_ref().is_some_and(|commons| holds(commons)).then_some(Class::Commons)
}

fn relocations(image: &Image) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for rela in image.dynamic.rela() {
        *counts.entry(arch::relocation_name(rela.kind)).or_default() += 1;
    }
    let packed = crate::image::relocations::relr_addresses(image.dynamic.relative).count();
    if packed > 0 {
        counts.insert("DT_RELR".to_owned(), packed);
    }
    counts
}

type Records = Option<(&'static [u8], usize)>;

/// The names in one of the two version tables, which were valid when the image was parsed.
fn versions(image: &Image, needs: Records, definitions: Records) -> Vec<String> {
    let strings = image.dynamic.strings;
    let Ok(versions) = Versions::parse(None, needs, definitions, strings) else { return vec![] };
    let mut names: Vec<String> =
        versions.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn dependencies(closure: &Closure) -> Result<Vec<DependencyInfo>> {
    let mut found: Vec<DependencyInfo> = Vec::new();
    for edge in closure.nodes.iter().flat_map(|node| &node.edges) {
        let dependency = dependency(edge, closure)?;
        if !found.iter().any(|known| known.name == dependency.name) {
            found.push(dependency);
        }
    }
    Ok(found)
}

fn dependency(edge: &Edge, closure: &Closure) -> Result<DependencyInfo> {
    let of_image = |image: &Image, class, reason: &str, held| {
        Ok(DependencyInfo {
            name: image.soname().to_owned(),
            path: Some(image.path.clone()),
            class: Some(class),
            reason: reason.to_owned(),
            cost: if class == Class::System { None } else { Some(Cost::of(image)?) },
            held,
        })
    };
    let of_system = |name, path, reason: &str, held| DependencyInfo {
        name,
        path: Some(path),
        class: Some(Class::System),
        reason: reason.to_owned(),
        cost: None,
        held,
    };
    Ok(match edge {
        Edge::Node(index) => {
            let node = &closure.nodes[*index];
            of_image(&node.image, node.class, &node.reason, false)?
        }
        Edge::Replica(replica) => {
            of_image(&replica.image, Class::Replicate, "the domain holds it already", true)?
        }
        Edge::Commons(replica) => {
            let reason = "it is loaded once for all domains already";
            of_image(&replica.image, Class::Commons, reason, true)?
        }
        Edge::System(object) => {
            let reason = "the program holds it already";
            of_system(object.soname.clone(), object.path.clone(), reason, true)
        }
        Edge::SystemName(path) => {
            let reason = "a rule leaves it to the system loader";
            of_system(file_name(path), PathBuf::from(path), reason, false)
        }
        Edge::Missing { name, searched } => DependencyInfo {
            name: name.clone(),
            path: None,
            class: None,
            reason: format!("not found; searched: {}", searched.join(", ")),
            cost: None,
            held: false,
        },
    })
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
