//! Special treatment of single, known libraries. A build without the feature `adapters` leaves it out.

#[cfg(feature = "adapters")]
pub(crate) use hydrozoa_adapters::{Adapters, Interpreter, OF_THE_MACHINE, RULES};

#[cfg(not(feature = "adapters"))]
pub(crate) use without::{Adapters, Interpreter, OF_THE_MACHINE, RULES};

#[cfg(not(feature = "adapters"))]
mod without {
    use hydrozoa_loader::{Decision, Domain, Interposition, Loader};
    use std::ffi::{OsString, c_int, c_ulong};
    use std::num::NonZeroUsize;

    pub(crate) const RULES: [LibraryRule; 0] = [];

    pub(crate) const OF_THE_MACHINE: [&str; 0] = [];

    pub(crate) struct LibraryRule {
        pub(crate) patterns: &'static [&'static str],
        pub(crate) decision: Decision,
        pub(crate) reason: &'static str,
    }

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
