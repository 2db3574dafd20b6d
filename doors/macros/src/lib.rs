//! The attribute macros of the crate `hydrozoa`, which re-exports them.
//!
//! They generate only code that a program can write by hand with `hydrozoa::Function` and `hydrozoa::Class`. Their examples are
//! in that crate, where they are tests.

mod callable;
mod class;
mod function;
mod markers;
mod signature;

use proc_macro::TokenStream;

/// Makes a Rust function callable from Python, with its parameters' names.
///
/// The function stays as it is. Beside it there is `NAME::to_python`, which makes the Python callable in an interpreter.
///
/// - Parameters are values with `FromPython`. The first one may be a `&Session`: Python does not see it.
/// - The result is a value with `ToPython`, or a `Result` of one whose error becomes a `hydrozoa::Error`.
/// - The documentation becomes the docstring.
/// - `#[signature = "(x, /, by=2.0, *, flag=None)"]` declares the parameters as in a `def`, with the same names in the same
///   order. Without it all are required, by position or by name. `*args` is a tuple, and `**kwargs` a dict.
/// - `#[hydrozoa::function(name = "…", module = "…")]` sets `__name__` and `__module__`.
#[proc_macro_attribute]
pub fn function(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(function::expand(options.into(), item.into()))
}

/// Makes a Rust type a Python class, of one `impl` block: the block implements `hydrozoa::Class`.
///
/// The documentation of the block is the class's. Each function in it is a part of the class. Functions in other blocks are not.
///
/// - `fn name(&self, …)`: a method. Special methods keep their Python names: `__repr__`, `__len__`, `__add__`.
/// - `fn name(this: Object<'_>, …)` or `fn name(this: Instance<Self>, …)`: a method that gets the object.
/// - `#[new] fn new(…) -> Self`, or a `Result` of it, or an `Arc<Self>`: the constructor.
/// - `#[getter] fn value(&self)`, `#[setter] fn set_value(&self, value: …)`: an attribute `value` of instances.
/// - `#[staticmethod] fn name(…)`: a function in the class.
/// - `#[classmethod] fn name(class: Object<'_>, …)`: a method of the class.
/// - `#[classattr] const NAME: …` or `#[classattr] fn name() -> …`: an attribute of the class.
/// - `#[signature = "…"]`, parameters, results and documentation: as for [`macro@function`]. A `&Session` comes behind `self`.
/// - `#[name = "…"]`: the name in Python.
///
/// `Self` as a result becomes a new instance, also in a `Result` or an `Option`. `__next__` returns an `Option`: `None` ends the
/// iteration. An operator such as `__add__` or `__eq__` whose operand cannot be converted returns `NotImplemented`.
///
/// `#[hydrozoa::class(name = "…", module = "…")]` sets the class's name, by default the type's, and its `__module__`.
#[proc_macro_attribute]
pub fn class(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(class::expand(options.into(), item.into()))
}

fn expanded(outcome: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    outcome.unwrap_or_else(syn::Error::into_compile_error).into()
}
