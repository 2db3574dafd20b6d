//! Rules for libraries that Python's modules and wheels bring, for the loader.
//!
//! The loader decides by a library's symbols. These rules are for libraries whose state does not show in
//! their symbols.

use hydrozoa_loader::{Class, Policy};

/// Libraries with process-wide state and no lock of their own. They are correct only while one program at
/// a time uses them; in plain python the GIL, or a lock of the one extension module, sees to that.
///
/// | library | state |
/// |---|---|
/// | readline, history, edit | the terminal and the history |
/// | ncurses, tinfo, panel, menu, form | the screen |
/// | gdbm | the error state |
/// | Tcl, Tk | the table of interpreters |
/// | HDF5 as wheels build it, netCDF on it | the identifiers; h5py has one lock for each interpreter |
/// | MuPDF as PyMuPDF uses it | the contexts |
/// | FFTW | the planner (its manual, "Thread safety") |
const PRIVATE: [&str; 14] = [
    "*/libreadline*.so*",
    "*/libhistory*.so*",
    "*/libedit*.so*",
    "*/libncurses*.so*",
    "*/libtinfo*.so*",
    "*/libpanel*.so*",
    "*/libmenu*.so*",
    "*/libform*.so*",
    "*/libgdbm*.so*",
    "*/libtcl*.so*",
    "*/libhdf5*.so*",
    "*/libnetcdf*.so*",
    "*/libmupdf*.so*",
    "*/libfftw3*.so*",
];

/// The policy of every interpreter's domain. The rules stand behind the loader's own: a name that those
/// give to the system is still decided without a look at directories.
pub(crate) fn policy() -> Policy {
    PRIVATE.into_iter().fold(Policy::default(), |policy, pattern| {
        let reason = "its state is not protected by a lock of its own";
        policy.with_last(pattern, Class::Replicate, reason)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_only_one_interpreter_may_use_is_private() {
        for name in [
            "libhdf5-9e18f0c6.so.320.0.0",
            "libhdf5_hl.so.310",
            "libmupdfcpp.so.28.5",
            "libreadline.so.8",
            "libtcl8.6.so",
            "libfftw3f.so.3",
        ] {
            let path = Path::new("/opt/x.libs").join(name);
            assert_eq!(policy().rule(&path).unwrap().0, Class::Replicate, "{name}");
        }
        let c_library = Path::new("/usr/lib/libm.so.6");
        assert_eq!(policy().rule(c_library).unwrap().0, Class::System);
    }
}
