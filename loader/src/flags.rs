//! How a library is opened.

/// How a library is opened; the bits of `dlopen(3)`'s second argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(i32);

impl OpenFlags {
    /// Missing functions are errors when they are called (RTLD_LAZY).
    pub const LAZY: OpenFlags = OpenFlags(libc::RTLD_LAZY);
    /// Missing functions are errors of the load (RTLD_NOW).
    pub const NOW: OpenFlags = OpenFlags(libc::RTLD_NOW);
    /// The library's symbols serve all later loads of the domain (RTLD_GLOBAL).
    pub const GLOBAL: OpenFlags = OpenFlags(libc::RTLD_GLOBAL);
    /// The library's symbols serve itself and its dependents only (RTLD_LOCAL, the default).
    pub const LOCAL: OpenFlags = OpenFlags(libc::RTLD_LOCAL);
    /// Only a library that is loaded already is opened (RTLD_NOLOAD).
    pub const NOLOAD: OpenFlags = OpenFlags(libc::RTLD_NOLOAD);
    /// The library stays loaded whatever is closed (RTLD_NODELETE).
    pub const NODELETE: OpenFlags = OpenFlags(libc::RTLD_NODELETE);
    /// In a domain that extends the program, the library's own symbols and those of its needs come
    /// before the program's (RTLD_DEEPBIND). In other domains they come before what is global in the
    /// domain.
    pub const DEEPBIND: OpenFlags = OpenFlags(libc::RTLD_DEEPBIND);

    pub(crate) fn from_bits(bits: i32) -> OpenFlags {
        OpenFlags(bits)
    }

    pub(crate) fn bits(self) -> i32 {
        self.0
    }

    pub(crate) fn has(self, other: OpenFlags) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for OpenFlags {
    type Output = OpenFlags;

    fn bitor(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }
}
