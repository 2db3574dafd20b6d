//! Which libraries each interpreter has for itself, and which exist once.
//!
//! Bytes are shared, state is not. Text and constants of a library are in memory once however many
//! interpreters load it. Its variables are another matter: plain python has one of them for each interpreter,
//! because it has one interpreter. So an interpreter gets its own replica of every library that it brings with it, wherever
//! the file lies: in its environment, in the system's directories, and what its code loads by ctypes, cffi or `dlopen`.
//!
//! | file | decided by |
//! |---|---|
//! | the C library's family, libgcc_s, libgomp; libstdc++ | the loader's own rules: shared; replicated |
//! | a file that the user has a pattern for | [`LibraryRules`] |
//! | a known library ([`RULES`]) | its adapter: not loaded, or by the symbols of it and of what it needs: shared, unless they need one of the interpreter's |
//! | what the program began with, unless that needs libstdc++ | their symbols, likewise |
//! | any other file | replicated |
//!
//! docs/decisions.md has the reasons, and what the rule costs.

use std::sync::{Mutex, PoisonError};

use hydrozoa_loader::{Class, Decision, Loader, Policy};

use crate::adapters::RULES;
use crate::heap;
use crate::{Error, Result};

/// Rules of a user for libraries: which exist once for all interpreters, and which each interpreter has for
/// itself.
///
/// Patterns are those of the [`glob`](https://docs.rs/glob) crate on the library's path without symbolic links;
/// `*` also matches `/`. A later rule stands before an earlier one. The rules stand before the runtime's own, and
/// behind those for the C library's family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryRules {
    rules: Vec<(String, Decision)>,
}

impl LibraryRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Libraries whose path matches exist once for all interpreters, and so do those that they need. A library that
    /// uses the interpreter's own symbols is replicated all the same: no single interpreter could serve all.
    #[must_use]
    pub fn share(mut self, pattern: impl Into<String>) -> Self {
        self.rules.push((pattern.into(), Decision::Symbols));
        self
    }

    /// Each interpreter has its own replica of the libraries whose path matches.
    #[must_use]
    pub fn replicate(mut self, pattern: impl Into<String>) -> Self {
        self.rules.push((pattern.into(), Class::Replicate.into()));
        self
    }

    /// Adds `rules` behind those that are there.
    pub(crate) fn extend(&mut self, rules: &LibraryRules) {
        self.rules.extend_from_slice(&rules.rules);
    }

    /// The rules of interpreters' domains.
    ///
    /// # Errors
    /// [`Error::Configuration`] for an invalid pattern.
    pub(crate) fn policy(&self) -> Result<Policy> {
        let mut policy = Policy::default();
        // The loader's own rules stay in front: a name that those give to the system is decided without a look at
        // directories.
        for (pattern, decision) in self.rules.iter().rev() {
            Policy::check(pattern).map_err(|problem| {
                Error::Configuration(format!(
                    "the pattern {pattern:?} of a library: {problem}; LibraryRules describes the form"
                ))
            })?;
            let reason = match decision {
                Decision::Class(_) => format!("{pattern:?} is to be replicated"),
                _ => format!("{pattern:?} is to be shared"),
            };
            policy = policy.with_last(pattern, *decision, reason);
        }
        for rule in RULES {
            for pattern in rule.patterns {
                policy = policy.with_last(pattern, rule.decision, rule.reason);
            }
        }
        Ok(policy)
    }
}

/// The loader for `rules`: one for each set of rules in the process, so that all pools with the same rules share what is
/// shared.
pub(crate) fn loader(rules: &LibraryRules) -> Result<Loader> {
    static LOADERS: Mutex<Vec<(LibraryRules, Loader)>> = Mutex::new(Vec::new());
    let mut loaders = LOADERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, loader)) = loaders.iter().find(|(known, _)| known == rules) {
        return Ok(loader.clone());
    }
    let mut builder = Loader::builder().policy(rules.policy()?);
    for (symbol, interposition) in heap::everywhere() {
        builder = builder.interpose_everywhere(symbol, interposition);
    }
    let made = builder.build()?;
    loaders.push((rules.clone(), made.clone()));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn decision(rules: &LibraryRules, path: &str) -> Option<Decision> {
        rules.policy().unwrap().decision(Path::new(path)).map(|decision| decision.0)
    }

    #[test]
    fn what_lies_in_the_system_s_directories_is_no_exception() {
        let of = |name: &str| decision(&LibraryRules::new(), &format!("/usr/lib/{name}"));
        for name in ["libreadline.so.8", "libcrypto.so.3", "libltdl.so.7", "x/libtorch_cpu.so.2.6"]
        {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(of("libstdc++.so.6.0.30"), Some(Decision::Apart));
        assert_eq!(of("libm.so.6"), Some(Class::System.into()));
    }

    #[cfg(feature = "adapters")]
    #[test]
    fn what_belongs_to_the_process_is_shared_and_its_namesakes_are_not() {
        for name in [
            "numpy.libs/libscipy_openblas64_-ab12.so",
            "x/openblas-pthread/libblas.so.3",
            "nvidia/cu13/lib/libcublas.so.13",
            "torch/lib/libcudart-1234.so.12",
            "x.libs/libomp-a1.so.5",
        ] {
            let found = decision(&LibraryRules::new(), &format!("/v/site-packages/{name}"));
            assert_eq!(found, Some(Decision::Symbols), "{name}");
        }
        for other in [
            "/data/nvidia/venv/lib/python3.11/site-packages/x.libs/libx.so",
            "/v/lib/libomptarget.so",
            "/v/site-packages/pyarrow/libparquetry.txt",
            "/v/torchaudio/lib/libtorchaudio.so",
            "/v/libc100.so",
        ] {
            assert_eq!(decision(&LibraryRules::new(), other), None, "{other}");
        }
    }

    #[cfg(feature = "adapters")]
    #[test]
    fn what_takes_over_the_process_is_refused_unless_a_user_wants_it() {
        let memray = "/v/site-packages/memray/_memray.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(decision(&LibraryRules::new(), memray), Some(Decision::Refused));
        assert_eq!(decision(&LibraryRules::new(), "/v/memray/_test_utils.so"), None);
        let wanted = LibraryRules::new().replicate("*/_memray*");
        assert_eq!(decision(&wanted, memray), Some(Class::Replicate.into()));
    }

    #[test]
    fn rules_of_a_user_stand_behind_the_c_library_s_and_before_all_others() {
        let rules = LibraryRules::new()
            .replicate("*")
            .share("*/libhdf5*")
            .share("*/libx.so")
            .replicate("/opt/*/libx.so");
        let class = |path: &str| decision(&rules, path);
        assert_eq!(class("/usr/lib/libc.so.6"), Some(Class::System.into()));
        assert_eq!(class("/usr/lib/libhdf5.so.310"), Some(Decision::Symbols));
        assert_eq!(class("/v/numpy.libs/libscipy_openblas.so"), Some(Class::Replicate.into()));
        assert_eq!(class("/v/libx.so"), Some(Decision::Symbols));
        assert_eq!(class("/opt/v/libx.so"), Some(Class::Replicate.into()));
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let error = LibraryRules::new().share("a/***/b").policy().unwrap_err().to_string();
        assert!(error.contains("a/***/b") && error.contains("wildcards"), "{error}");
    }
}
