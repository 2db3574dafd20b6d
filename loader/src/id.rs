//! The identity of a domain, for floors that refer to a domain and do not know domains.

/// Identifies a domain for as long as the process runs; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub(crate) u32);

impl DomainId {
    /// The number itself: 0 for the first loader's commons, counting up.
    pub fn index(self) -> u32 {
        self.0
    }
}
