//! The attributes that the macros read and take away.

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, MetaNameValue, Result, Token};

/// The kind of a function in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Kind {
    #[default]
    Method,
    Constructor,
    Getter,
    Setter,
    Static,
    OfClass,
    Attribute,
}

const KINDS: [(&str, Kind); 6] = [
    ("new", Kind::Constructor),
    ("getter", Kind::Getter),
    ("setter", Kind::Setter),
    ("staticmethod", Kind::Static),
    ("classmethod", Kind::OfClass),
    ("classattr", Kind::Attribute),
];

/// The attributes of an item, as parsed.
#[derive(Default)]
pub struct Markers {
    pub kind: Kind,
    pub name: Option<LitStr>,
    pub signature: Option<LitStr>,
    /// The documentation.
    pub doc: String,
}

impl Markers {
    /// Reads the attributes, and takes away those that are the macros' own.
    pub fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let mut markers = Self::default();
        let mut lines = Vec::new();
        let mut outcome = Ok(());
        attributes.retain(|attribute| match markers.read(attribute, &mut lines) {
            Ok(is_own) => !is_own,
            Err(error) => {
                outcome = Err(error);
                false
            }
        });
        markers.doc = lines.join("\n").trim().to_owned();
        outcome.map(|()| markers)
    }

    /// Reads one. True if it is the macros' own.
    fn read(&mut self, attribute: &Attribute, lines: &mut Vec<String>) -> Result<bool> {
        let path = attribute.path();
        if path.is_ident("doc") {
            // `#[doc(hidden)]` has no text.
            if let Meta::NameValue(pair) = &attribute.meta
                && let Ok(line) = text(&pair.value)
            {
                let line = line.value();
                lines.push(line.strip_prefix(' ').unwrap_or(&line).to_owned());
            }
            return Ok(false);
        }
        for (name, place) in [("name", &mut self.name), ("signature", &mut self.signature)] {
            if path.is_ident(name) {
                let value = attribute.meta.require_name_value().and_then(|pair| text(&pair.value));
                *place = Some(value.map_err(|error| {
                    Error::new(error.span(), format!("this is written #[{name} = \"…\"]"))
                })?);
                return Ok(true);
            }
        }
        let Some((_, kind)) = KINDS.iter().find(|(name, _)| path.is_ident(name)) else {
            return Ok(false);
        };
        attribute.meta.require_path_only()?;
        if self.kind != Kind::Method {
            return Err(Error::new_spanned(attribute, "a function is one of these at most"));
        }
        self.kind = *kind;
        Ok(true)
    }
}

/// The options in the parentheses of `#[hydrozoa::class(…)]` and `#[hydrozoa::function(…)]`.
#[derive(Default)]
pub struct Options {
    pub name: Option<LitStr>,
    pub module: Option<LitStr>,
}

impl Options {
    pub fn parse(tokens: proc_macro2::TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens)?;
        for pair in pairs {
            let place = match pair.path.get_ident().map(ToString::to_string).as_deref() {
                Some("name") => &mut options.name,
                Some("module") => &mut options.module,
                _ => {
                    let text = "the options are name = \"…\" and module = \"…\"";
                    return Err(Error::new_spanned(pair.path, text));
                }
            };
            *place = Some(text(&pair.value)?);
        }
        Ok(options)
    }
}

fn text(value: &Expr) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, "a string literal is needed")),
    }
}
