//! No third-party library is named below `adapters/`: what is known about one is an adapter, which somebody can delete.

use std::ops::RangeInclusive;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::sources::{Source, assert_none, rust};
use crate::syntax::{attributes, is_test, parse};

/// The folders that name none.
const BELOW: [&str; 3] = ["loader/src/", "payload/src/", "runtime/src/"];

/// Libraries, by the words of their names. `lib` in front of a word is left out.
const LIBRARIES: [&str; 22] = [
    "torch",
    "torchvision",
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "pyarrow",
    "pybind11",
    "jax",
    "tensorflow",
    "triton",
    "cuda",
    "cudart",
    "cudnn",
    "cublas",
    "nvidia",
    "mkl",
    "openblas",
    "iomp5",
    "memray",
    "setproctitle",
    "tch",
];

/// Files that may name libraries all the same: the beginning of a path and behind `**` its end, the
/// words, and the reason.
const EXCEPTIONS: [(&str, &[&str], &str); 8] = [
    (
        "payload/src/**arrays.rs",
        &["numpy", "torch"],
        "the standard library has no array of several dimensions, and numpy's is the one that all others take: its C API \
         spares DLPack's microseconds. Where torch is loaded, tensors are made instead",
    ),
    (
        "payload/src/**start.rs",
        &["torch", "cuda"],
        "what is on a device is in tensors of torch; its end is asked for if the module was imported",
    ),
    (
        "runtime/src/convert/tch.rs",
        &["torch", "tch", "cuda"],
        "the feature `tch` is a type of the application's, which knows torch itself",
    ),
    ("runtime/src/convert/mod.rs", &["tch"], "the declaration of that feature's module"),
    (
        "runtime/src/convert/tensor.rs",
        &["torch"],
        "a tensor on a device becomes one of torch, if there is one",
    ),
    ("runtime/src/device/mod.rs", &["cuda"], "the name of DLPack's kind of device"),
    (
        "runtime/src/package/",
        &["torch"],
        "torch.package's format is the product's own format of packages",
    ),
    ("runtime/src/error/package.rs", &["torch"], "texts about that format"),
];

/// The lines of items that only tests compile.
#[derive(Default)]
struct Tests(Vec<RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match is_test(attributes(item)) {
            true => self.0.push(item.span().start().line..=item.span().end().line),
            false => visit::visit_item(self, item),
        }
    }
}

/// The words of a name or a text, in small letters.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in text.chars() {
        // `NumpyArray` has two words.
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        if letter.is_alphanumeric() {
            words.last_mut().expect("one word at least").extend(letter.to_lowercase());
        }
    }
    words
}

/// The libraries that tokens name, with the lines. Comments are none, and documentation is left out.
fn named(tokens: TokenStream, tests: &[RangeInclusive<usize>], found: &mut Vec<(String, usize)>) {
    for token in tokens {
        let line = token.span().start().line;
        let text = match token {
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next().map(|token| token.to_string());
                if first.is_none_or(|first| first != "doc") {
                    named(group.stream(), tests, found);
                }
                continue;
            }
            TokenTree::Ident(name) => name.to_string(),
            TokenTree::Literal(literal) => literal.to_string(),
            TokenTree::Punct(_) => continue,
        };
        if tests.iter().any(|lines| lines.contains(&line)) {
            continue;
        }
        for word in words(&text) {
            let word = word.strip_prefix("lib").unwrap_or(&word);
            if LIBRARIES.contains(&word) {
                found.push((word.to_owned(), line));
            }
        }
    }
}

/// The libraries that a file's code names.
fn libraries(source: &Source) -> Vec<(String, usize)> {
    let mut tests = Tests::default();
    tests.visit_file(&parse(source));
    let mut found = Vec::new();
    named(source.text.parse().expect("Rust"), &tests.0, &mut found);
    found
}

/// The exception that allows a file to name a library, by its number.
fn exception(path: &str, word: &str) -> Option<usize> {
    EXCEPTIONS.iter().position(|(paths, words, _)| {
        let (begin, end) = paths.split_once("**").unwrap_or((paths, ""));
        path.starts_with(begin) && path.ends_with(end) && words.contains(&word)
    })
}

#[test]
fn no_library_is_named_below_the_adapters() {
    let planted = |text: &str| {
        let source = Source { path: "runtime/src/new.rs".to_owned(), text: text.to_owned() };
        libraries(&source).into_iter().map(|(word, _)| word).collect::<Vec<_>>()
    };
    assert_eq!(planted("const A: &str = \"*/libopenblas*.so*\";"), ["openblas"]);
    assert_eq!(planted("fn f() { g!(has_torch(), NumpyArray::new()) }"), ["torch", "numpy"]);
    let allowed = "//! torch\n/// numpy\nfn f() {} // cuda\n#[cfg(test)]\nmod tests { const A: &str = \"torch\"; }";
    assert!(planted(allowed).is_empty());

    let mut used = [false; EXCEPTIONS.len()];
    let mut found = Vec::new();
    for source in rust(&BELOW).iter().filter(|source| !source.path.ends_with("/tests.rs")) {
        for (word, line) in libraries(source) {
            match exception(&source.path, &word) {
                Some(number) => used[number] = true,
                None => found.push(format!("{}:{line}: {word}", source.path)),
            }
        }
    }
    assert_none("make it an adapter or a general rule, or add an exception with its reason", found);
    let unused = EXCEPTIONS.iter().zip(used).filter(|(_, used)| !used);
    assert_none(
        "exceptions that are not needed",
        unused.map(|((path, ..), _)| (*path).to_owned()).collect(),
    );
}
