//! Underlinked libraries: they refer to symbols that nothing in their own closure defines, and count on
//! the scope of the libraries that need them. The system loader cannot open them alone. Only our loader
//! has that scope.

use std::path::Path;
use std::sync::Arc;

use crate::image::Image;
use crate::image::relocations::Rela;
use crate::image::symbols::{Name, SymbolTable};
use crate::load::closure::{Closure, Edge};
use crate::system::{SYSTEM, SystemObject};

/// Opens the libraries that node `index` and its needs name and that only the system loader finds. None if
/// some need is missing, which the system loader reports better.
pub(crate) fn open_named(closure: &Closure, index: usize) -> Option<Vec<Arc<SystemObject>>> {
    let mut opened = Vec::new();
    for edge in closure.reachable(index).iter().flat_map(|&node| &closure.nodes[node].edges) {
        match edge {
            // Opened with the node, and closed with it when that failed.
            Edge::SystemName(path) => {
                opened.push(SYSTEM.open(Path::new(path), libc::RTLD_LAZY).ok()?);
            }
            Edge::Missing { .. } => return None,
            Edge::System(_) | Edge::Node(_) | Edge::Replica(_) | Edge::Commons(_) => {}
        }
    }
    Some(opened)
}

/// A symbol that node `index`, or one of its needs, refers to and that the system loader would not find when
/// it opens the node. `named` is the result of [`open_named`].
///
/// This is called after the system loader has failed. Its message cannot be used: it is in the user's
/// language, and its words differ between versions.
pub(crate) fn undefined(
    closure: &Closure,
    index: usize,
    named: &[Arc<SystemObject>],
) -> Option<String> {
    let nodes = closure.reachable(index);
    let own: Vec<&Image> = nodes.iter().map(|&node| &*closure.nodes[node].image).collect();
    let needed = nodes.iter().flat_map(|&node| &closure.nodes[node].edges);
    // The system loader does not see replicas.
    let loaded = needed.filter_map(|edge| match edge {
        Edge::System(object) => Some(object),
        _ => None,
    });
    let mut system = SYSTEM.global();
    loaded.chain(named).for_each(|object| system.extend(SYSTEM.closure(object)));
    let tables: Vec<&SymbolTable<'_>> = own
        .iter()
        .map(|image| &image.symbols)
        .chain(system.iter().map(|object| &object.symbols))
        .collect();
    own.iter().find_map(|image| undefined_in(image, &tables))
}

/// A symbol that the system loader needs to open `image`, and that none of `tables` defines.
fn undefined_in(image: &Image, tables: &[&SymbolTable<'_>]) -> Option<String> {
    let [data, calls] = image.dynamic.relocations;
    // Calls are bound when they are made, unless the object or the environment (ld.so(8)) says
    // otherwise.
    let eager =
        image.dynamic.bind_now || std::env::var_os("LD_BIND_NOW").is_some_and(|v| !v.is_empty());
    let calls = if eager { calls } else { &[] };
    let mut last = 0;
    for rela in Rela::all(data).chain(Rela::all(calls)) {
        // Records of one symbol often follow one another.
        if std::mem::replace(&mut last, rela.symbol) == rela.symbol || rela.symbol == 0 {
            continue;
        }
        let Some(symbol) = image.symbols.symbol(rela.symbol) else { continue };
        if !symbol.is_undefined() || symbol.is_weak() {
            continue;
        }
        let Some(name) = image.symbols.name(&symbol) else { continue };
        let wanted = image.symbols.versions.wanted(rela.symbol);
        let text = Name::new(name);
        if !tables.iter().any(|table| table.lookup(text, wanted, false).is_some()) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    None
}
