//! The parts that functions and methods have in common: parameters, a call and a result.

use crate::markers::Markers;
use crate::signature;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, GenericParam, Pat, PathArguments, Result, ReturnType, Type,
};

/// A Rust function that Python calls.
pub struct Callable {
    /// Its name in Python.
    pub name: String,
    pub doc: String,
    /// The parameters that Python sees, in parentheses.
    pub signature: String,
    parameters: Vec<Parameter>,
    takes_session: bool,
    output: ReturnType,
}

struct Parameter {
    name: String,
    kind: Type,
}

/// The name of a parameter in the generated closures. It cannot clash with the program's names.
pub fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

impl Callable {
    /// Reads a function's head. The first `skipped` parameters are the receiver.
    pub fn read(head: &syn::Signature, markers: &Markers, skipped: usize) -> Result<Self> {
        refuse(head)?;
        let name = match &markers.name {
            Some(name) => name.value(),
            None => head.ident.unraw().to_string(),
        };
        let mut parameters = Vec::new();
        let mut takes_session = false;
        for (index, input) in head.inputs.iter().skip(skipped).enumerate() {
            let FnArg::Typed(input) = input else {
                return Err(Error::new_spanned(input, "this function takes no self"));
            };
            if let Type::Reference(reference) = &*input.ty {
                if index == 0 && last(&reference.elem).is_some_and(|name| name == "Session") {
                    takes_session = true;
                    continue;
                }
                let text =
                    "a parameter is a value of its own, as String or Vec<T>; &Session comes first";
                return Err(Error::new_spanned(&input.ty, text));
            }
            let Pat::Ident(pattern) = &*input.pat else {
                return Err(Error::new_spanned(&input.pat, "a parameter needs a name"));
            };
            let name = pattern.ident.unraw().to_string();
            let name = name.strip_prefix('_').unwrap_or(&name).to_owned();
            parameters.push(Parameter { name, kind: (*input.ty).clone() });
        }
        let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
        let signature = match &markers.signature {
            None => format!("({})", names.join(", ")),
            Some(text) => {
                let Some(said) = signature::names(&text.value()) else {
                    return Err(Error::new(text.span(), "a signature has parentheses around it"));
                };
                if said != names {
                    let (said, names) = (said.join(", "), names.join(", "));
                    let text_is = format!(
                        "the signature's parameters are ({said}), and those of the function are ({names})"
                    );
                    return Err(Error::new(text.span(), text_is));
                }
                text.value()
            }
        };
        let (doc, output) = (markers.doc.clone(), head.output.clone());
        Ok(Self { name, doc, signature, parameters, takes_session, output })
    }

    /// Its head for `ClassBuilder`: name and signature.
    pub fn head(&self) -> String {
        format!("{}{}", self.name, self.signature)
    }

    /// The number of parameters that Python sees.
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// Converts the arguments and calls `function` with them behind `receiver`.
    pub fn call(&self, function: &TokenStream, receiver: Option<TokenStream>) -> TokenStream {
        let (session, arguments) = (local("session"), local("arguments"));
        let values: Vec<Ident> =
            (0..self.len()).map(|index| local(&format!("argument_{index}"))).collect();
        let is_operator = is_operator(&self.name);
        let bindings =
            self.parameters.iter().zip(&values).enumerate().map(|(index, (one, value))| {
                let Parameter { name, kind } = one;
                let span = kind.span().resolved_at(Span::mixed_site());
                match is_operator {
                    false => quote_spanned! {span=>
                        let #value = #arguments.parameter(#index, #name)?;
                    },
                    true => quote_spanned! {span=>
                        let #value = match #arguments.extract(#index) {
                            ::core::result::Result::Ok(value) => value,
                            ::core::result::Result::Err(::hydrozoa::Error::Convert { .. }) => {
                                return #session.not_implemented();
                            }
                            ::core::result::Result::Err(error) => {
                                return ::core::result::Result::Err(error);
                            }
                        };
                    },
                }
            });
        let bindings: TokenStream = bindings.collect();
        let session = self.takes_session.then_some(session).into_iter();
        let receiver = receiver.into_iter();
        let all = receiver.chain(session.map(|name| quote!(#name)));
        let all = all.chain(values.iter().map(|value| quote!(#value)));
        quote!(#bindings let result = #function(#(#all),*);)
    }

    /// The object that Python gets of `result`. `Self` becomes an instance.
    pub fn returned(&self, class: Option<&Ident>) -> TokenStream {
        let session = local("session");
        let wrapped = class.and_then(|class| wrapped(&self.output, class, quote!(result)));
        let value = wrapped.unwrap_or_else(|| quote!(result));
        match self.name == "__next__" && class.is_some() {
            true => quote!(::hydrozoa::generated::Next::into_object(#value, #session)),
            false => quote!(::hydrozoa::Returned::into_object(#value, #session)),
        }
    }

    /// `result` as a `hydrozoa::Result`, for constructors.
    pub fn fallible(&self) -> TokenStream {
        match self.returns("Result") {
            true => quote!(result.map_err(::core::convert::Into::into)),
            false => quote!(::core::result::Result::Ok(result)),
        }
    }

    /// Whether the result is written as a type of this name.
    fn returns(&self, name: &str) -> bool {
        match &self.output {
            ReturnType::Default => false,
            ReturnType::Type(_, kind) => last(kind).is_some_and(|last| last == name),
        }
    }
}

/// Whether it is a special method that lets the other operand try.
fn is_operator(name: &str) -> bool {
    const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
    const ARITHMETIC: &str =
        "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or";
    let Some(name) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__")) else {
        return false;
    };
    let is_arithmetic = |name: &str| ARITHMETIC.split(' ').any(|other| other == name);
    // `__radd__` and `__iadd__` too.
    let rest = name.strip_prefix(['r', 'i']);
    COMPARISONS.contains(&name) || is_arithmetic(name) || rest.is_some_and(is_arithmetic)
}

fn refuse(head: &syn::Signature) -> Result<()> {
    if let Some(word) = &head.asyncness {
        return Err(Error::new_spanned(word, "Python cannot call an async function here"));
    }
    let is_lifetime = |one: &GenericParam| matches!(one, GenericParam::Lifetime(_));
    match head.generics.params.iter().find(|one| !is_lifetime(one)) {
        Some(other) => Err(Error::new_spanned(other, "Python cannot call a generic function")),
        None => Ok(()),
    }
}

/// `value` with instances in the place of `Self`, if its type has one.
pub fn wrapped(output: &ReturnType, class: &Ident, value: TokenStream) -> Option<TokenStream> {
    let ReturnType::Type(_, kind) = output else { return None };
    wrapped_type(kind, class, value)
}

/// As [`wrapped`], of a type.
pub fn wrapped_type(kind: &Type, class: &Ident, value: TokenStream) -> Option<TokenStream> {
    let name = last(kind)?;
    if *name == "Self" || name == class {
        return Some(quote!(::hydrozoa::Instance::new(#value)));
    }
    if *name != "Result" && *name != "Option" {
        return None;
    }
    let inner = wrapped_type(first_argument(kind)?, class, quote!(inner))?;
    Some(quote!(#value.map(|inner| #inner)))
}

/// The last name of a type's path.
pub fn last(kind: &Type) -> Option<&Ident> {
    match kind {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

fn first_argument(kind: &Type) -> Option<&Type> {
    let Type::Path(path) = kind else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    })
}

/// A function of a type, as a path.
pub fn of_self(name: &Ident) -> TokenStream {
    let own = format_ident!("Self");
    quote!(#own::#name)
}
