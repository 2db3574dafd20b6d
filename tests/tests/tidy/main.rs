//! The layer rules of docs/architecture.md and the style of CONTRIBUTING.md, enforced over the sources.
//!
//! A rule that reads Rust reads its syntax tree ([`syntax`]), so that a rename, a `use` or a line break hides
//! nothing. A rule that reads words reads the text ([`sources`]).

mod decisions;
mod deploy;
mod documents;
mod errors;
mod layers;
mod lengths;
mod lints;
mod loader_floors;
mod locks;
mod promises;
mod prose;
mod rows;
mod runtime_floors;
mod sources;
mod syntax;
mod system_calls;
mod third_parties;
mod type_names;
mod words;
