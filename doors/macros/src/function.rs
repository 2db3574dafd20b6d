//! `#[hydrozoa::function]`.

use crate::callable::{Callable, local};
use crate::markers::{Kind, Markers, Options};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result};

pub fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options)?;
    let mut item: ItemFn = syn::parse2(item)?;
    let mut markers = Markers::take(&mut item.attrs)?;
    if markers.kind != Kind::Method {
        return Err(Error::new_spanned(&item.sig, "this marker is for functions of a class"));
    }
    markers.name = options.name.or(markers.name);
    let callable = Callable::read(&item.sig, &markers, 0)?;
    let Callable { name, doc, signature, .. } = &callable;
    let (ident, visibility) = (&item.sig.ident, &item.vis);
    let module = options.module.map_or_else(String::new, |module| module.value());
    let call = callable.call(&quote!(#ident), None);
    let returned = callable.returned(None);
    let (session, arguments) = (local("session"), local("arguments"));
    let about = format!("Makes the Python callable of the function `{ident}`.");
    Ok(quote! {
        #item

        #[doc = #about]
        #[allow(non_camel_case_types, reason = "it has the name of the function")]
        #visibility enum #ident {}

        impl #ident {
            #[doc = "Makes the callable in an interpreter."]
            #[doc = ""]
            #[doc = "# Errors"]
            #[doc = ""]
            #[doc = "As `hydrozoa::Function::make`."]
            #visibility fn to_python(
                #session: &::hydrozoa::Session,
            ) -> ::hydrozoa::Result<::hydrozoa::Object<'_>> {
                ::hydrozoa::Function::new(#name, |#session, #arguments| {
                    let _ = &#arguments;
                    #call
                    #returned
                })
                .signature(#signature)
                .doc(#doc)
                .module(#module)
                .make(#session)
            }
        }
    })
}
