//! Collects the members of a sealed file: Python, packages, the application, and the native libraries that they need.
//!
//! The modules stand in rows; each uses its own row and those above it:
//!
//! | row | modules |
//! |---|---|
//! | 1 | `error`, `patterns` |
//! | 2 | `walk`, `wishes`, `native`, `distributions`, `path_files`, `sites`, `install`, `listings`, `file_table` |
//! | 3 | `tree`, `standard_library`, `packages`, `application`, `workshop` |
//! | 4 | `frozen`, `start`, and the collection itself |

mod application;
mod distributions;
mod error;
mod file_table;
mod frozen;
mod install;
mod listings;
mod native;
mod packages;
mod path_files;
mod patterns;
mod sites;
mod standard_library;
mod start;
mod tree;
mod walk;
mod wishes;
mod workshop;

pub(crate) use application::Program;
pub use error::CollectError;
pub(crate) use frozen::{Frozen, RESOURCES};
pub(crate) use listings::Seat;
pub(crate) use patterns::LEFT_OUT;
pub(crate) use start::{BOOT, FILES, boot, file_table, files, listings, others};
pub(crate) use wishes::Wishes;

use crate::member::{Bytes, Kind, Member};
use distributions::Installed;
use hydrozoa::python::Installation;
use install::Scratch;
use native::Closure;
use packages::Packages;
use std::fs;
use std::path::{Path, PathBuf};
use tree::Tree;
use workshop::{Compiled, Workshop};

/// All members of a sealed file that are known before their places are, and what describes them.
pub(crate) struct Collected {
    /// Sorted by kind, then by path. The records for the start stand last.
    pub(crate) members: Vec<Member>,
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) program: Program,
    /// Paths of members.
    pub(crate) libpython: String,
    pub(crate) payload: String,
    /// Needed names of libraries that stay out.
    pub(crate) absent: Vec<String>,
    /// `sys.path` below the root, in order.
    pub(crate) paths: Vec<String>,
    /// Lines of `.pth` files that begin with `import`, each with its file's name.
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) minor: u8,
    /// The Python's version, such as `3.12.8`.
    pub(crate) version: String,
    /// Name, version and licence of Python and of each distribution.
    pub(crate) distributions: Vec<[String; 3]>,
    /// Libraries of this machine that are carried: names, and the names of their files here.
    pub(crate) system: Vec<(String, String)>,
    /// Paths of the files and directories that stay out.
    pub(crate) left_out: Vec<String>,
    /// Findings that the caller should know: modules that do not compile, libraries that are missing.
    pub(crate) notes: Vec<String>,
    /// The oldest glibc that all libraries work with: the numbers of its version.
    pub(crate) glibc: Option<(u32, u32)>,
    workshop: Workshop,
    /// Holds the files of installed packages.
    _scratch: Option<Scratch>,
}

/// A piece of work on the way to a sealed file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The requirements are installed.
    Installs(Vec<String>),
    /// So many modules are compiled.
    Compiles(usize),
    /// The needs of so many shared libraries are looked for.
    Resolves(usize),
    /// The file with so many members is written.
    Writes(usize),
}

/// Collects what `wishes` asks for.
pub(crate) fn collect(
    installation: &Installation,
    wishes: &Wishes,
    report: &dyn Fn(&Step),
) -> Result<Collected, CollectError> {
    let minor = installation.minor();
    let mut tree = Tree::default();
    let program = application::add(&mut tree, wishes)?;
    let libpython = standard_library::add_library(&mut tree, installation)?;
    standard_library::add(&mut tree, installation, wishes)?;
    let (packages, scratch) = add_packages(&mut tree, installation, wishes, report)?;
    let mut notes = packages.notes;

    report(&Step::Resolves(tree.libraries().count()));
    let closure = close(&tree, &libpython.file, wishes)?;
    let glibc = closure.glibc;
    let absent = closure.left_out.keys().cloned().collect();
    let system = carry(&mut tree, closure, &mut notes)?;

    let workshop = Workshop::start(installation)?;
    let modules = tree.modules();
    report(&Step::Compiles(modules.len()));
    let Compiled { codes, refused } = workshop.compile(&modules)?;
    notes.extend(refused.into_iter().map(|(path, reason)| {
        format!("{path} does not compile, and is in the file as data: {reason}")
    }));
    let (frozen, records): (Vec<_>, Vec<_>) =
        frozen::compile(&workshop, &tree, minor)?.into_iter().unzip();

    let library = standard_library::directory(minor);
    let mut left_out: Vec<String> = tree.left_out().map(|(path, _)| path.to_owned()).collect();
    left_out.retain(|path| !standard_library::is_of_packages(path, minor));
    let mut paths = vec![library.clone(), format!("{library}/lib-dynload")];
    if tree.paths().any(|path| path.starts_with("app/")) {
        paths.insert(0, application::DIRECTORY.to_owned());
    }
    paths.extend(packages.paths);
    let mut members = tree.into_members(codes, !wishes.omits_sources);
    let payload = format!("lib/hydrozoa-payload-3.{minor}.so");
    members.push(Member {
        path: payload.clone(),
        kind: Kind::Library,
        bytes: Bytes::Memory(hydrozoa::sealed::payload(minor)?.to_vec()),
    });
    members.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
    check_program(&program, &members, &paths, &workshop)?;
    members.extend(records);
    Ok(Collected {
        members,
        frozen,
        program,
        libpython: libpython.path,
        payload,
        absent,
        paths,
        lines: packages.lines,
        minor,
        version: workshop.version().to_owned(),
        distributions: described(&workshop, packages.distributions),
        system,
        left_out,
        notes,
        glibc,
        workshop,
        _scratch: scratch,
    })
}

/// Takes the packages along, if the caller wants some.
fn add_packages(
    tree: &mut Tree,
    installation: &Installation,
    wishes: &Wishes,
    report: &dyn Fn(&Step),
) -> Result<(Packages, Option<Scratch>), CollectError> {
    let prefix = format!("{}/site-packages", standard_library::directory(installation.minor()));
    match (&wishes.venv, wishes.packages.as_slice()) {
        (None, []) => Ok((Packages::default(), None)),
        (Some(venv), []) => {
            let mut all = Packages::default();
            for (site, suffix) in sites::of_venv(installation, venv)? {
                let prefix = format!("{prefix}{suffix}");
                all.extend(packages::add(tree, &site, &prefix, false, wishes)?);
            }
            Ok((all, None))
        }
        (None, requirements) => {
            report(&Step::Installs(requirements.to_vec()));
            let scratch = install::install(installation, requirements)?;
            let packages = packages::add(tree, scratch.path(), &prefix, true, wishes)?;
            Ok((packages, Some(scratch)))
        }
        (Some(venv), _) => Err(CollectError::Wish(format!(
            "packages are taken from {} or installed for the file, not both; install them into the virtual environment, or \
             name all with --with",
            venv.display()
        ))),
    }
}

/// Finds the libraries of this machine that the collected ones need. Those that stay out do so here too.
fn close(tree: &Tree, python: &Path, wishes: &Wishes) -> Result<Closure, CollectError> {
    let real = |(_, file)| fs::canonicalize(file).ok();
    let left_out: Vec<PathBuf> = tree.left_out().filter_map(real).collect();
    let is_left_out = |name: &str, file: &Path| {
        let is_below = left_out.iter().any(|directory| file.starts_with(directory));
        is_below || wishes.leave_out("lib", name)
    };
    let mut closure = native::close(python, tree.libraries(), wishes.carries_cxx, &is_left_out)?;
    // A package that loads another one's library first does not say where it is.
    for (path, _) in tree.left_out() {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(labels) = closure.missing.remove(name) {
            closure.left_out.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    Ok(closure)
}

/// Takes the libraries of this machine along. Returns their names, and the names of their files.
fn carry(
    tree: &mut Tree,
    closure: Closure,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, String)>, CollectError> {
    for (needed, labels) in closure.missing {
        notes.push(format!(
            "{needed} is neither in the file nor on this machine, so {} cannot be loaded here either",
            listed(&labels)
        ));
    }
    for (needed, labels) in closure.left_out {
        notes.push(format!("{needed} is left out: {} cannot call it", listed(&labels)));
    }
    for (name, [first, other]) in closure.ambiguous {
        notes.push(format!(
            "{name} is {} in the file, also for what uses {} on this machine",
            first.display(),
            other.display()
        ));
    }
    let mut system = Vec::new();
    for (name, found) in closure.carried {
        let file = fs::canonicalize(&found).map_err(CollectError::read(&found))?;
        let last = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tree.add_as(Kind::Library, format!("lib/{name}"), file)?;
        system.push((name, last));
    }
    Ok(system)
}

fn listed(labels: &[String]) -> String {
    match labels {
        [] => String::new(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// Looks for the module of the entry among the members.
fn check_program(
    program: &Program,
    members: &[Member],
    paths: &[String],
    workshop: &Workshop,
) -> Result<(), CollectError> {
    let Some(module) = program.module() else { return Ok(()) };
    let all = listings::of(members.iter().map(nowhere), workshop.suffixes());
    listings::look_for(&all, paths, module).map_err(|missing| CollectError::Entry {
        entry: program.words()[1].to_owned(),
        module: missing.to_owned(),
        places: paths.join(", "),
    })
}

/// A member that has no place yet.
fn nowhere(member: &Member) -> Seat<'_> {
    Seat { path: &member.path, kind: member.kind, offset: 0, length: 0 }
}

fn described(workshop: &Workshop, installed: Vec<Installed>) -> Vec<[String; 3]> {
    let python = ["Python", workshop.version(), "PSF-2.0"].map(str::to_owned);
    let packages = installed.into_iter().map(|one| [one.name, one.version, one.license]);
    [python].into_iter().chain(packages).collect()
}
