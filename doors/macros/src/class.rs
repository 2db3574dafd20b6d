//! `#[hydrozoa::class]`.

use crate::callable::{Callable, last, local, of_self, wrapped, wrapped_type};
use crate::markers::{Kind, Markers, Options};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Error, FnArg, ImplItem, ImplItemConst, ImplItemFn, Item, ItemImpl, Result};

pub fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options)?;
    let mut item = match syn::parse2(item)? {
        Item::Impl(item) if item.trait_.is_none() => item,
        other => {
            let text =
                "#[hydrozoa::class] stands before the impl block that has the class's methods";
            return Err(Error::new_spanned(other, text));
        }
    };
    let markers = Markers::take(&mut item.attrs)?;
    let kind = &item.self_ty;
    let (Some(ident), true) = (last(kind).cloned(), item.generics.params.is_empty()) else {
        return Err(Error::new_spanned(
            kind,
            "a class is a type with a name and without parameters",
        ));
    };
    let parts = parts(&mut item, &ident)?;
    let name = options.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let module = options.module.map_or_else(|| "builtins".to_owned(), |module| module.value());
    let (kind, doc, class) = (&item.self_ty, markers.doc, local("class"));
    Ok(quote! {
        #item

        impl ::hydrozoa::Class for #kind {
            const NAME: &'static str = #name;
            const MODULE: &'static str = #module;
            const DOC: &'static str = #doc;

            fn define(#class: &mut ::hydrozoa::ClassBuilder<'_, Self>) {
                let _ = &#class;
                #(#class #parts;)*
            }
        }
    })
}

/// A call of the builder for each item. The attributes of the macro are taken away.
fn parts(item: &mut ItemImpl, class: &Ident) -> Result<Vec<TokenStream>> {
    let mut parts = Vec::new();
    let mut properties = Vec::new();
    for item in &mut item.items {
        match item {
            ImplItem::Fn(function) => {
                let markers = Markers::take(&mut function.attrs)?;
                match markers.kind {
                    Kind::Getter | Kind::Setter => {
                        properties.push(Accessor::read(function, &markers)?);
                    }
                    _ => parts.push(part(function, &markers, class)?),
                }
            }
            ImplItem::Const(constant) => parts.extend(constant_part(constant, class)?),
            _ => {}
        }
    }
    for getter in properties.iter().filter(|one| !one.sets) {
        let setter = properties.iter().find(|one| one.sets && one.name == getter.name);
        parts.push(getter.part(setter, class));
    }
    let is_read =
        |setter: &Accessor| properties.iter().any(|one| !one.sets && one.name == setter.name);
    match properties.iter().find(|one| one.sets && !is_read(one)) {
        Some(alone) => {
            let text = format!("there is no #[getter] for '{}'", alone.name);
            Err(Error::new_spanned(&alone.ident, text))
        }
        None => Ok(parts),
    }
}

/// The call of the builder for a function other than an accessor.
fn part(function: &ImplItemFn, markers: &Markers, class: &Ident) -> Result<TokenStream> {
    let head = &function.sig;
    let path = of_self(&head.ident);
    let (object, session, arguments) = (local("object"), local("session"), local("arguments"));
    let body = |callable: &Callable, receiver: Option<TokenStream>| {
        let (call, returned) = (callable.call(&path, receiver), callable.returned(Some(class)));
        quote!({ let _ = (&#session, &#arguments); #call #returned })
    };
    let received = quote!(::hydrozoa::Object::extract(#object)?);
    match markers.kind {
        Kind::Constructor => {
            let callable = Callable::read(head, markers, 0)?;
            let (signature, call) = (&callable.signature, callable.call(&path, None));
            let made = callable.fallible();
            Ok(quote! {
                .constructor(#signature, |#session, #arguments| {
                    let _ = (&#session, &#arguments);
                    #call
                    #made
                })
            })
        }
        Kind::Attribute => {
            if !head.inputs.is_empty() {
                let text = "the value of an attribute of the class has no parameters";
                return Err(Error::new_spanned(&head.inputs, text));
            }
            let callable = Callable::read(head, markers, 0)?;
            let (name, value) = (&callable.name, quote!(#path()));
            let value = wrapped(&head.output, class, value.clone()).unwrap_or(value);
            Ok(quote!(.constant(#name, #value)))
        }
        Kind::Static => {
            let callable = Callable::read(head, markers, 0)?;
            let (head, doc, body) = (callable.head(), &callable.doc, body(&callable, None));
            Ok(quote!(.static_method(#head, #doc, |#session, #arguments| #body)))
        }
        Kind::OfClass => {
            receiver(function, "a method of the class gets the class: class: Object<'_>")?;
            let callable = Callable::read(head, markers, 1)?;
            let (head, doc) = (callable.head(), &callable.doc);
            let body = body(&callable, Some(received));
            Ok(quote!(.class_method(#head, #doc, |#object, #session, #arguments| #body)))
        }
        _ if is_reference(function)? => {
            let callable = Callable::read(head, markers, 1)?;
            let (head, doc) = (callable.head(), &callable.doc);
            let body = body(&callable, Some(quote!(#object)));
            Ok(quote!(.method(#head, #doc, |#object, #session, #arguments| #body)))
        }
        _ => {
            let text = "a method takes &self, Object<'_> or Instance<Self> first; a function without is a \
                        #[staticmethod], or belongs into another impl block";
            receiver(function, text)?;
            let callable = Callable::read(head, markers, 1)?;
            let (head, doc) = (callable.head(), &callable.doc);
            let body = body(&callable, Some(received));
            Ok(quote!(.object_method(#head, #doc, |#object, #session, #arguments| #body)))
        }
    }
}

/// An attribute of the class of a constant with the marker.
fn constant_part(constant: &mut ImplItemConst, class: &Ident) -> Result<Option<TokenStream>> {
    let markers = Markers::take(&mut constant.attrs)?;
    if markers.kind != Kind::Attribute {
        return Ok(None);
    }
    let name = markers.name.map_or_else(|| constant.ident.to_string(), |name| name.value());
    let value = of_self(&constant.ident);
    let value = wrapped_type(&constant.ty, class, value.clone()).unwrap_or(value);
    Ok(Some(quote!(.constant(#name, #value))))
}

/// Whether the function takes `&self`.
fn is_reference(function: &ImplItemFn) -> Result<bool> {
    let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() else { return Ok(false) };
    let tokens = quote!(#receiver).to_string().replace(' ', "");
    match tokens == "&self" {
        true => Ok(true),
        false => {
            let text = "Python has the value, and other interpreters may have it too: take &self, and keep what changes \
                        behind a lock or atomic";
            Err(Error::new_spanned(receiver, text))
        }
    }
}

/// Checks that the first parameter is an object.
fn receiver(function: &ImplItemFn, otherwise: &str) -> Result<()> {
    let kind = match function.sig.inputs.first() {
        Some(FnArg::Typed(first)) => last(&first.ty),
        _ => None,
    };
    match kind.is_some_and(|kind| *kind == "Object" || *kind == "Instance") {
        true => Ok(()),
        false => Err(Error::new_spanned(&function.sig, otherwise)),
    }
}

/// A getter or a setter.
struct Accessor {
    ident: Ident,
    name: String,
    sets: bool,
    callable: Callable,
}

impl Accessor {
    fn read(function: &ImplItemFn, markers: &Markers) -> Result<Self> {
        let sets = markers.kind == Kind::Setter;
        if !is_reference(function)? {
            return Err(Error::new_spanned(&function.sig, "a getter or setter takes &self"));
        }
        let callable = Callable::read(&function.sig, markers, 1)?;
        if callable.len() != usize::from(sets) {
            let text = match sets {
                true => "a setter takes the value, and nothing else",
                false => "a getter takes no value",
            };
            return Err(Error::new_spanned(&function.sig.inputs, text));
        }
        let prefix = if sets { "set_" } else { "get_" };
        let name = match markers.name {
            Some(_) => &*callable.name,
            None => callable.name.strip_prefix(prefix).unwrap_or(&callable.name),
        };
        Ok(Self { ident: function.sig.ident.clone(), name: name.to_owned(), sets, callable })
    }

    /// The call of the builder for an attribute that this one reads.
    fn part(&self, setter: Option<&Self>, class: &Ident) -> TokenStream {
        let (object, session, arguments) = (local("object"), local("session"), local("arguments"));
        let (name, doc) = (&self.name, &self.callable.doc);
        let call = self.callable.call(&of_self(&self.ident), Some(quote!(#object)));
        let returned = self.callable.returned(Some(class));
        let get = quote!(|#object, #session| { #call #returned });
        let Some(setter) = setter else { return quote!(.getter(#name, #doc, #get)) };
        let call = setter.callable.call(&of_self(&setter.ident), Some(quote!(#object)));
        let done = setter.callable.fallible();
        let set = quote!(|#object, #session, #arguments| { let _ = &#session; #call #done });
        quote!(.property_with(#name, #doc, #get, #set))
    }
}
