//! A Python that is named by its version.

use super::{Candidate, Installation, Origin, Refusal, discover, on_path, query, resolve};
use crate::embedded_payloads::SUPPORTED;
use std::collections::BTreeSet;
use std::path::Path;

/// `3.12` or `3.12.4`; of Python 2 too, whose users are told that it is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    major: u8,
    minor: u8,
    patch: Option<u32>,
}

impl Version {
    /// The version that `name` is, if it is one.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.split('.');
        let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        let patch = numbers.next().map(|number| number.parse().ok());
        match (numbers.next(), patch) {
            (None, None) => Some(Self { major, minor, patch: None }),
            (None, Some(Some(patch))) => Some(Self { major, minor, patch: Some(patch) }),
            _ => None,
        }
    }

    /// The Pythons of this version, best first: an active virtual environment, executables on PATH with the version in
    /// their name, then the others. If none is found, all candidates of the machine, after a refusal of `name`.
    pub(super) fn candidates(self, name: &Path) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = discover();
        if self.major != 3 || !SUPPORTED.contains(&self.minor) {
            let (version, there) = (name.display().to_string(), versions(&candidates));
            return vec![refused(name, Refusal::NotServed { version, there })];
        }
        let executable = format!("python3.{}", self.minor);
        let active = candidates.iter().take_while(|one| one.origin == Origin::ActiveVenv).count();
        let on_path = on_path(Path::new(&executable)).map(|path| Candidate {
            origin: Origin::SearchPath,
            verdict: resolve(&path),
            path,
        });
        candidates.splice(active..active, on_path.collect::<Vec<_>>());
        let fits = |one: &&Candidate| one.verdict.as_ref().is_ok_and(|found| self.is_of(found));
        match candidates.iter().find(fits) {
            Some(found) => vec![found.clone()],
            None => self.refused(name, &candidates),
        }
    }

    /// The refusal of `name`, and those of what may be this version by its place.
    fn refused(self, name: &Path, candidates: &[Candidate]) -> Vec<Candidate> {
        let refused = refused(name, Refusal::NotInstalled(versions(candidates)));
        let own = format!("3.{}", self.minor);
        let named_so = |one: &&Candidate| {
            let name = one.path.file_name().unwrap_or_default().to_string_lossy();
            one.verdict.is_err() && name.contains(&own)
        };
        let others = candidates.iter().filter(named_so).cloned();
        [refused].into_iter().chain(others).collect()
    }

    fn is_of(self, installation: &Installation) -> bool {
        let patch = || installation.executable().and_then(query::patch);
        installation.minor() == self.minor && (self.patch.is_none() || self.patch == patch())
    }
}

/// The versions of those that are usable.
fn versions(candidates: &[Candidate]) -> String {
    let usable = candidates.iter().filter_map(|one| one.verdict.as_ref().ok());
    let versions: BTreeSet<u8> = usable.map(Installation::minor).collect();
    let versions: Vec<String> = versions.iter().map(|minor| format!("3.{minor}")).collect();
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}

fn refused(name: &Path, refusal: Refusal) -> Candidate {
    Candidate { origin: Origin::Explicit, path: name.to_owned(), verdict: Err(refusal) }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn a_name_is_a_version_or_not() {
        let version = |major, minor, patch| Some(Version { major, minor, patch });
        assert_eq!(Version::parse("3.12"), version(3, 12, None));
        assert_eq!(Version::parse("3.12.4"), version(3, 12, Some(4)));
        assert_eq!(Version::parse("2.7"), version(2, 7, None));
        for other in ["3", "3.", "3.x", "3.12.", "3.12.4.1", "python3.12", "3.13t"] {
            assert_eq!(Version::parse(other), None, "{other}");
        }
    }
}
