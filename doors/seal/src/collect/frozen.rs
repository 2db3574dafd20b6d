//! Modules that the interpreter has before it has a finder: what CPython's start imports, and the finder itself.

use super::error::CollectError;
use super::standard_library::directory;
use super::start::DIRECTORY;
use super::tree::Tree;
use super::workshop::{ROOT, Workshop};
use crate::member::{Bytes, Kind, Member};

/// Modules of the standard library that CPython 3.10 to 3.14 imports before it runs any code: UTF-8, which is the codec of files'
/// names and standard streams, and what that imports (Python/pylifecycle.c, `init_interp_main`); and what the finder imports. Later
/// versions carry some in libpython.
const OF_START: [&str; 7] =
    ["_sitebuiltins", "abc", "codecs", "encodings", "encodings.aliases", "encodings.utf_8", "io"];

/// The level of optimization that leaves no docstrings: nobody reads those of the finder.
const BARE: u8 = 2;

/// The code of the finder's second module, which the finder itself loads when it needs it.
pub(crate) const RESOURCES: &str = ".sealed/frozen/_hydrozoa_sealed_resources";

/// A frozen module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub(crate) name: String,
    pub(crate) is_package: bool,
    /// The member with its code.
    pub(crate) path: String,
}

/// Compiles the modules. Returns them with their members, in the same order.
pub(super) fn compile(
    workshop: &Workshop,
    tree: &Tree,
    minor: u8,
) -> Result<Vec<(Frozen, Member)>, CollectError> {
    let mut modules = Vec::new();
    for name in OF_START {
        if workshop.with(|_, sealing| sealing.call_method("is_frozen", (name,))?.extract())? {
            continue;
        }
        let path = |file: &str| format!("{}/{}{file}", directory(minor), name.replace('.', "/"));
        let package = path("/__init__.py");
        let is_package = tree.has(&package);
        let source = if is_package { package } else { path(".py") };
        let Some(file) = tree.file(&source) else {
            return Err(CollectError::Wish(format!(
                "{source} is left out, but Python cannot start without it; take it along"
            )));
        };
        let content = std::fs::read(file).map_err(CollectError::read(file))?;
        modules.push((
            name,
            is_package,
            compiled(workshop, &content, &format!("{ROOT}/{source}"))?,
        ));
    }
    for (name, source) in hydrozoa::sealed::finder_sources() {
        let name_in_code = format!("<frozen {name}>");
        let arguments = (source.as_bytes(), &*name_in_code, BARE);
        let code =
            workshop.with(|_, sealing| sealing.call_method("compiled", arguments)?.extract())?;
        modules.push((name, false, code));
    }
    let member = |(name, is_package, code): (&str, bool, Vec<u8>)| {
        let path = format!("{DIRECTORY}/frozen/{name}");
        let member = Member { path: path.clone(), kind: Kind::Record, bytes: Bytes::Memory(code) };
        (Frozen { name: name.to_owned(), is_package, path }, member)
    };
    Ok(modules.into_iter().map(member).collect())
}

fn compiled(workshop: &Workshop, source: &[u8], name: &str) -> Result<Vec<u8>, CollectError> {
    workshop.with(|_, sealing| sealing.call_method("compiled", (source, name))?.extract())
}
