//! Names of kinds, for texts.

use crate::member::Kind;

/// All kinds, in the order of texts.
pub(super) const ALL: [Kind; 6] =
    [Kind::Library, Kind::Package, Kind::Code, Kind::Source, Kind::Data, Kind::Record];

/// A kind in one word.
pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Library => "library",
        Kind::Package => "package",
        Kind::Code => "code",
        Kind::Source => "source",
        Kind::Data => "data",
        Kind::Record => "record",
    }
}
