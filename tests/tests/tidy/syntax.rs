//! Rust files as syntax trees: the product's part, the paths that are used in it, its functions.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::sources::Source;

pub fn parse(source: &Source) -> syn::File {
    syn::parse_file(&source.text)
        .unwrap_or_else(|error| panic!("{}:{}: {error}", source.path, error.span().start().line))
}

/// Whether an item with these attributes is compiled for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

/// The names of the modules that a file declares for tests only: `#[cfg(test)] mod name;`.
pub fn test_modules(file: &syn::File) -> Vec<String> {
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    modules.collect()
}

/// A path as code uses it. If a `use` declaration of the file names its beginning, that is resolved.
pub struct Use {
    pub path: Vec<String>,
    pub line: usize,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A `use` declaration; a glob ends with `*`.
    Declaration,
    /// A value: a function, a constant.
    Value,
    /// A type, a trait, a macro's name or a pattern.
    Other,
    /// A method, by its name alone.
    Method,
    /// A function that an `extern` block declares.
    Foreign,
}

/// All paths of a file's product part. Code that only tests compile is left out, wherever it stands.
pub fn uses(file: &syn::File) -> Vec<Use> {
    let mut declared = Declared::default();
    declared.visit_file(file);
    let mut uses = Uses { names: &declared.names, found: Vec::new() };
    for (path, line) in &declared.all {
        uses.found.push(Use { path: path.clone(), line: *line, kind: Kind::Declaration });
    }
    uses.visit_file(file);
    uses.found
}

/// The `use` declarations of a file.
#[derive(Default)]
struct Declared {
    names: HashMap<String, Vec<String>>,
    all: Vec<(Vec<String>, usize)>,
}

impl Declared {
    fn add(&mut self, tree: &syn::UseTree, before: &[String]) {
        let line = tree.span().start().line;
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || before.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.add(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                if let Some(last) = path.last() {
                    self.names.insert(last.clone(), path.clone());
                }
                self.all.push((path, line));
            }
            syn::UseTree::Rename(rename) => {
                let path = with(&rename.ident);
                self.names.insert(rename.rename.to_string(), path.clone());
                self.all.push((path, line));
            }
            syn::UseTree::Glob(_) => {
                let mut path = before.to_vec();
                path.push("*".into());
                self.all.push((path, line));
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add(item, before));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add(&item.tree, &[]);
    }
}

struct Uses<'a> {
    names: &'a HashMap<String, Vec<String>>,
    found: Vec<Use>,
}

impl Uses<'_> {
    fn push(&mut self, names: Vec<String>, line: usize, kind: Kind) {
        let mut path = match names.first().and_then(|first| self.names.get(first)) {
            Some(beginning) => [beginning, &names[1..]].concat(),
            None => names,
        };
        // `std` and `core` have many functions by both names.
        if path.first().is_some_and(|first| first == "core") {
            path[0] = "std".into();
        }
        self.found.push(Use { path, line, kind });
    }

    fn path(&mut self, path: &syn::Path, kind: Kind) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.push(names, path.span().start().line, kind);
    }

    /// A macro's input is tokens. Tokens that look like a path count as a value, and a name after a dot
    /// counts as a method.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        let mut dot = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.flush(&mut path, line, dot);
                    }
                    if path.is_empty() {
                        line = name.span().start().line;
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Punct(mark) => {
                    self.flush(&mut path, line, dot);
                    (colons, dot) = (0, mark.as_char() == '.');
                }
                TokenTree::Group(group) => {
                    self.flush(&mut path, line, dot);
                    (colons, dot) = (0, false);
                    self.tokens(group.stream());
                }
                TokenTree::Literal(_) => self.flush(&mut path, line, dot),
            }
        }
        self.flush(&mut path, line, dot);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize, dot: bool) {
        let path = std::mem::take(path);
        match (path.len(), dot) {
            (0, _) => {}
            (1, true) => self.found.push(Use { path, line, kind: Kind::Method }),
            _ => self.push(path, line, Kind::Value),
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let test = matches!(item, syn::ImplItem::Fn(function) if is_test(&function.attrs));
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        self.path(&expression.path, Kind::Value);
        if let Some(own) = &expression.qself {
            self.visit_qself(own);
        }
        // Types among its arguments.
        for segment in &expression.path.segments {
            self.visit_path_arguments(&segment.arguments);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path, Kind::Other);
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        self.found.push(Use { path: vec![call.method.to_string()], line, kind: Kind::Method });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_foreign_item_fn(&mut self, function: &'ast syn::ForeignItemFn) {
        let line = function.sig.ident.span().start().line;
        let path = vec![function.sig.ident.to_string()];
        self.found.push(Use { path, line, kind: Kind::Foreign });
        visit::visit_foreign_item_fn(self, function);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.path(&invocation.path, Kind::Other);
        self.tokens(invocation.tokens.clone());
    }
}

pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item::*;
    match item {
        Const(item) => &item.attrs,
        Enum(item) => &item.attrs,
        ExternCrate(item) => &item.attrs,
        Fn(item) => &item.attrs,
        ForeignMod(item) => &item.attrs,
        Impl(item) => &item.attrs,
        Macro(item) => &item.attrs,
        Mod(item) => &item.attrs,
        Static(item) => &item.attrs,
        Struct(item) => &item.attrs,
        Trait(item) => &item.attrs,
        TraitAlias(item) => &item.attrs,
        Type(item) => &item.attrs,
        Union(item) => &item.attrs,
        Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A function and its number of lines, from its signature to its last brace.
pub struct Function {
    pub name: String,
    pub lines: usize,
    pub line: usize,
}

/// Every function of a file, including those of tests, of `impl` and of `trait`, and every `macro_rules!`.
pub fn functions(file: &syn::File) -> Vec<Function> {
    struct Functions(Vec<Function>);
    impl Functions {
        fn push(&mut self, name: &syn::Ident, from: Span, to: Span) {
            let (line, end) = (from.start().line, to.end().line);
            self.0.push(Function { name: name.to_string(), lines: end + 1 - line, line });
        }
    }
    impl<'ast> Visit<'ast> for Functions {
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            self.push(&item.sig.ident, item.sig.span(), item.block.span());
            visit::visit_item_fn(self, item);
        }

        fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
            self.push(&item.sig.ident, item.sig.span(), item.block.span());
            visit::visit_impl_item_fn(self, item);
        }

        fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
            if let Some(block) = &item.default {
                self.push(&item.sig.ident, item.sig.span(), block.span());
            }
            visit::visit_trait_item_fn(self, item);
        }

        fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
            if let Some(name) = &item.ident {
                self.push(name, item.mac.path.span(), item.span());
            }
            visit::visit_item_macro(self, item);
        }
    }
    let mut found = Functions(Vec::new());
    found.visit_file(file);
    found.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, Kind)> {
        let file = syn::parse_str(text).expect("Rust");
        uses(&file).into_iter().map(|used| (used.path.join("::"), used.kind)).collect()
    }

    #[test]
    fn a_path_is_found_by_whatever_name_and_wherever_it_stands() {
        let found = of("use std::fs::{self as files, File as F};
             fn one() { files::read(\"x\"); F::open(\"y\"); let open: fn() = libc::open; }
             #[cfg(test)] use a::hidden;
             #[cfg(test)] mod tests { fn f() { libc::hidden() } }
             fn two() { assert!(libc::mmap() == 0 && file.metadata()); path.exists(); }
             unsafe extern \"C\" { fn clone(); }");
        for expected in [
            ("std::fs::read", Kind::Value),
            ("std::fs::File::open", Kind::Value),
            ("libc::open", Kind::Value),
            ("libc::mmap", Kind::Value),
            ("metadata", Kind::Method),
            ("exists", Kind::Method),
            ("clone", Kind::Foreign),
        ] {
            let expected = (expected.0.to_owned(), expected.1);
            assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
        }
        assert!(!found.iter().any(|(path, _)| path.contains("hidden")), "{found:?}");
    }

    #[test]
    fn a_function_is_as_long_as_its_text() {
        let file = syn::parse_str("impl A {\n fn a() {\n  \"}\";\n }\n}\n#[x]\nfn b(\n) {}\n");
        let lengths: Vec<(String, usize)> = functions(&file.expect("Rust"))
            .into_iter()
            .map(|function| (function.name, function.lines))
            .collect();
        assert_eq!(lengths, [("a".into(), 3), ("b".into(), 2)]);
    }
}
