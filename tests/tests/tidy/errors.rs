//! Every error of the public interface has a test that provokes it and asserts its text.

use syn::visit::{self, Visit};

use crate::sources::{Source, assert_none, sources};
use crate::syntax;

/// The crates with errors that users see.
const CRATES: [&str; 2] = ["loader", "runtime"];

/// An error: `Enum::Variant`, or the name of a struct.
struct Errors(Vec<String>);

impl<'ast> Visit<'ast> for Errors {
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public_error(&item.vis, &item.attrs) {
            let variant = |variant: &syn::Variant| format!("{}::{}", item.ident, variant.ident);
            self.0.extend(item.variants.iter().map(variant));
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_public_error(&item.vis, &item.attrs) {
            self.0.push(item.ident.to_string());
        }
    }
}

fn is_public_error(visibility: &syn::Visibility, attributes: &[syn::Attribute]) -> bool {
    let derives = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("derive") => {
            let derived = list.tokens.to_string();
            derived.split([',', ' ', ':']).any(|name| name == "Error")
        }
        _ => false,
    };
    matches!(visibility, syn::Visibility::Public(_)) && attributes.iter().any(derives)
}

/// The texts of test functions that assert the text of an error.
struct Tests<'a> {
    lines: Vec<&'a str>,
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Tests<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        use syn::spanned::Spanned;
        let span = item.block.span();
        let text = self.lines[span.start().line - 1..span.end().line].join("\n");
        let is_test = item.attrs.iter().any(|attribute| attribute.path().is_ident("test"));
        if is_test && (text.contains("says(") || text.contains(".to_string()")) {
            self.found.push(text);
        }
        visit::visit_item_fn(self, item);
    }
}

/// Whether a file of the crate holds tests of errors: `tests/errors*`, or a module's own tests.
fn has_tests_of_errors(source: &Source, name: &str) -> bool {
    let path = source.path.strip_prefix(name).unwrap_or_default();
    path.ends_with(".rs") && (path.starts_with("/tests/errors") || path.starts_with("/src/"))
}

/// Whether the text names the error: behind it the name ends.
fn names(text: &str, error: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let begins = |before: &str| !before.ends_with(|last: char| last.is_alphanumeric());
    text.match_indices(error).any(|(at, _)| begins(&text[..at]) && ends(&text[at + error.len()..]))
}

#[test]
fn every_error_has_a_test_that_asserts_its_text() {
    let sources = sources();
    let mut without = Vec::new();
    let mut count = 0;
    for name in CRATES {
        let (mut errors, mut tests) = (Errors(Vec::new()), Vec::new());
        for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
            let in_product = source.path.starts_with(&format!("{name}/src/"));
            if !in_product && !has_tests_of_errors(source, name) {
                continue;
            }
            let file = syntax::parse(source);
            if in_product {
                errors.visit_file(&file);
            }
            let mut found = Tests { lines: source.text.lines().collect(), found: Vec::new() };
            found.visit_file(&file);
            tests.append(&mut found.found);
        }
        count += errors.0.len();
        for error in errors.0 {
            if !tests.iter().any(|text| names(text, &error)) {
                without.push(format!("{name}: {error}"));
            }
        }
    }
    assert!(count > 50, "only {count} errors were found");
    assert_none(
        "add a test to tests/errors.rs of the crate that provokes the error and asserts its text",
        without,
    );
}
