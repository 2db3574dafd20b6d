//! Names of types say what the type is: a bare `State` or `Entry` sends its reader to the definition.

use syn::visit::{self, Visit};

use crate::sources::{Source, assert_none, rust};
use crate::syntax;

/// Words that name no particular thing. A word before or behind makes a name of them: `QueueState`.
const BARE: [&str; 5] = ["Place", "State", "Entry", "Memory", "Leaf"];

/// The types, traits and aliases of a file that have such a name, each with its line.
#[derive(Default)]
struct Names(Vec<(usize, String)>);

impl Names {
    fn look(&mut self, name: &syn::Ident) {
        if BARE.iter().any(|bare| name == bare) {
            self.0.push((name.span().start().line, name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(item) => self.look(&item.ident),
            syn::Item::Enum(item) => self.look(&item.ident),
            syn::Item::Union(item) => self.look(&item.ident),
            syn::Item::Trait(item) => self.look(&item.ident),
            syn::Item::TraitAlias(item) => self.look(&item.ident),
            syn::Item::Type(item) => self.look(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_use_rename(&mut self, item: &'ast syn::UseRename) {
        self.look(&item.rename);
    }
}

fn bare_names(source: &Source) -> Vec<String> {
    let mut names = Names::default();
    names.visit_file(&syntax::parse(source));
    names.0.into_iter().map(|(line, name)| format!("{}:{line}: {name}", source.path)).collect()
}

#[test]
fn names_of_types_say_what_they_are() {
    let found = rust(&[""]).iter().flat_map(bare_names).collect();
    assert_none("a type's name says what it is: not `State`, but `QueueState`", found);
}

#[test]
fn a_bare_name_is_found_wherever_it_stands() {
    let source = |text: &str| Source { path: "a.rs".into(), text: text.into() };
    let bare = [
        "struct Place;",
        "pub(crate) enum State { On }",
        "mod inner { union Leaf { a: u8 } }",
        "fn f() { trait Entry {} }",
        "type Memory = u8;",
        "use other::Held as State;",
    ];
    for text in bare {
        assert_eq!(bare_names(&source(text)).len(), 1, "{text}");
    }
    // Foreign traits name their associated types, and foreign crates theirs.
    let others = "struct QueueState; use axum::extract::State; enum Kind { Place } impl Service for QueueState { type State = u8; }";
    assert!(bare_names(&source(others)).is_empty());
}
