//! Underlinked libraries: they refer to symbols that nothing in their own closure defines, and count on
//! the scope of the libraries that need them. The system loader cannot open them alone. Only our loader
//! has that scope.

use std::path::Path;

use crate::image::Image;
use crate::image::relocations::Rela;
use crate::image::symbols::{Name, SymbolTable};
use crate::load::closure::{Closure, Edge};
use crate::system::SYSTEM;

/// A symbol that node `index`, or one of its needs, refers to and that the system loader would not find
/// when it opens the node. None also if some need is missing: the system loader reports that better.
///
/// This is called after the system loader has failed. Its message cannot be used: it is in the user's
/// language, and its words differ between versions.
pub(crate) fn undefined_on_its_own(closure: &Closure, index: usize) -> Option<String> {
    let nodes = closure.reachable(index);
    let own: Vec<&Image> = nodes.iter().map(|&node| &*closure.nodes[node].image).collect();
    let mut system = SYSTEM.global();
    for edge in nodes.iter().flat_map(|&node| &closure.nodes[node].edges) {
        match edge {
            Edge::System(object) => system.extend(SYSTEM.closure(object)),
            // Opened with the node, and closed with it when that failed.
            Edge::SystemName(path) => {
                let object = SYSTEM.open(Path::new(path), libc::RTLD_LAZY).ok()?;
                system.extend(SYSTEM.closure(&object));
            }
            Edge::Missing { .. } => return None,
            // The latter two are not the system loader's.
            Edge::Node(_) | Edge::Replica(_) | Edge::Commons(_) => {}
        }
    }
    let tables: Vec<&SymbolTable<'_>> = own
        .iter()
        .map(|image| &image.symbols)
        .chain(system.iter().map(|object| &object.symbols))
        .collect();
    own.iter().find_map(|image| undefined(image, &tables))
}

/// A symbol that the system loader needs to open `image`, and that none of `tables` defines.
fn undefined(image: &Image, tables: &[&SymbolTable<'_>]) -> Option<String> {
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
