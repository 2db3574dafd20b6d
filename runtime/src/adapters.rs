//! What is done for single libraries of which something is known. A build without the feature `adapters` does nothing for them.

#[cfg(feature = "adapters")]
pub(crate) use hydrozoa_adapters::{Adapters, BLOCKS, Interpreter};

#[cfg(not(feature = "adapters"))]
pub(crate) use without::{Adapters, BLOCKS, Interpreter};

#[cfg(not(feature = "adapters"))]
mod without {
    use hydrozoa_loader::{Domain, Interposition, Loader};
    use std::ffi::{OsString, c_int, c_ulong};
    use std::num::NonZeroUsize;

    pub(crate) const BLOCKS: [(&str, &str); 0] = [];

    #[allow(dead_code, reason = "nobody asks")]
    pub(crate) struct Interpreter<'a> {
        pub(crate) loader: &'a Loader,
        pub(crate) minor: u8,
        pub(crate) command: Option<&'a [OsString]>,
        pub(crate) prctl: unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int,
        pub(crate) device_memory: Option<NonZeroUsize>,
    }

    pub(crate) struct Answer {
        pub(crate) library: Option<String>,
        pub(crate) symbol: &'static str,
        pub(crate) interposition: Interposition,
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Adapters;

    impl Adapters {
        pub(crate) fn new(_: &Interpreter<'_>) -> (Self, Vec<Answer>) {
            (Self, Vec::new())
        }

        pub(crate) fn attach(&self, _: &Domain) {}

        pub(crate) fn leave(&self) {}

        /// # Safety
        /// Never unsafe: there is nothing to give back.
        pub(crate) unsafe fn give_back(self) {}
    }
}
