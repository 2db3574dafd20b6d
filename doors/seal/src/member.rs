//! Members of a sealed file: each has a path below its root, and bytes.

use std::path::PathBuf;

/// One file, or one module's code, in a sealed application.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Below the root, such as `lib/python3.12/os.py`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: Bytes,
}

/// The use of a member's bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A shared library, which is mapped in place.
    Library,
    /// An archive of torch.package.
    Package,
    /// A module's code, as marshal writes it. The path is that of its source.
    Code,
    /// A module's source.
    Source,
    /// Any other file.
    Data,
    /// For the start and the finder.
    Record,
}

/// Where a member's bytes come from.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    File(PathBuf),
    Memory(Vec<u8>),
}
