//! The manifest: all that a sealed file holds, with the hash of each part, as JSON. Tools read it; a start does not.

use serde::{Deserialize, Serialize};

use super::description::{Description, Distribution, SystemLibrary};
use super::digest;
use super::path;
use super::place::SealPlace;
use crate::member::Kind;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) created_by: String,
    pub(super) python: String,
    pub(super) members: Vec<ManifestEntry>,
    pub(super) base: Base,
    /// The hash of the start record.
    pub(super) record: String,
    /// The hash of symbols and section headers, from behind the manifest to the end of the file.
    pub(super) symbols: String,
    pub(super) distributions: Vec<Distribution>,
    pub(super) system: Vec<SystemLibrary>,
    pub(super) left_out: Vec<String>,
    /// The hash of the manifest's text, with this hash as zeroes. It is the last field.
    sha256: String,
}

/// A member, and where it lies in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) sha256: String,
}

/// The executable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Base {
    pub(super) length: u64,
    /// The hash of the file that was sealed.
    pub(super) sha256: String,
    /// The hash as it is in the sealed file, with the hash of the whole as zeroes.
    pub(super) sealed_sha256: String,
}

/// A hash that is not known yet has as many digits as one that is.
pub(super) fn unknown() -> String {
    "0".repeat(64)
}

/// The last bytes of each manifest, behind its own hash.
const LAST: &str = "\"}";

impl Manifest {
    /// A manifest of which the hashes of what is written later are not known.
    pub(super) fn new(
        description: &Description,
        members: Vec<ManifestEntry>,
        base: Base,
    ) -> Manifest {
        Manifest {
            created_by: description.created_by.clone(),
            python: description.python.clone(),
            members,
            base,
            record: unknown(),
            symbols: unknown(),
            distributions: description.distributions.clone(),
            system: description.system.clone(),
            left_out: description.left_out.clone(),
            sha256: unknown(),
        }
    }

    /// The text, with its own hash.
    pub(super) fn text(&self) -> Result<String, serde_json::Error> {
        let text = serde_json::to_string(&Manifest { sha256: unknown(), ..self.clone() })?;
        let own = digest::of_bytes(text.as_bytes());
        let start = text.len() - LAST.len() - own.len();
        Ok(format!("{}{own}{LAST}", &text[..start]))
    }

    /// The manifest of a text whose own hash is right; otherwise the reason why it is not one.
    pub(super) fn parse(text: &[u8]) -> Result<Manifest, String> {
        let text = str::from_utf8(text).map_err(|_| "its manifest is no text".to_owned())?;
        let (start, own) = text
            .strip_suffix(LAST)
            .and_then(|text| text.split_at_checked(text.len().checked_sub(unknown().len())?))
            .ok_or("its manifest has no hash")?;
        if digest::of_bytes(format!("{start}{}{LAST}", unknown()).as_bytes()) != own {
            return Err("bytes differ in its manifest".to_owned());
        }
        serde_json::from_str(text)
            .map_err(|error| format!("its manifest is of another form: {error}"))
    }

    /// Fails with the rule that the manifest of a file with this header breaks: its hash tells of damage alone, and not
    /// who wrote it.
    pub(super) fn check(&self, place: &SealPlace) -> Result<(), &'static str> {
        if self.base.length != place.base_length {
            return Err("its header and its manifest name executables of different lengths");
        }
        let mut end = self.base.length;
        for member in &self.members {
            path::check(&member.path).map_err(|_| "a member's path leaves the root")?;
            if member.offset < end {
                return Err("its members overlap");
            }
            end = member.offset.checked_add(member.length).ok_or("a member is too long")?;
        }
        if end > place.record.offset { Err("a member lies outside of its place") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let description = Description {
            created_by: "hydrozoa".into(),
            python: "3.12.8".into(),
            distributions: vec![],
            system: vec![SystemLibrary { soname: "a".into(), file: "b".into() }],
            left_out: vec!["lib/x".into()],
        };
        let base = Base { length: 1, sha256: unknown(), sealed_sha256: unknown() };
        Manifest::new(&description, vec![], base)
    }

    #[test]
    fn a_text_is_read_as_it_was_written_and_is_as_long_whatever_the_hashes() {
        let mut first = manifest();
        let text = first.text().unwrap();
        assert_eq!(Manifest::parse(text.as_bytes()).unwrap().left_out, ["lib/x"]);
        assert!(text.contains(r#""system":[{"soname":"a","path":"b"}]"#), "{text}");
        first.symbols = digest::of_bytes(b"symbols");
        assert_eq!(first.text().unwrap().len(), text.len());
    }

    #[test]
    fn members_that_leave_the_root_or_their_place_are_refused() {
        use crate::file::place::Span;
        let span = |offset| Span { offset, length: 1 };
        let (record, manifest_at, sha256) = (span(100), span(110), [0; 32]);
        let place =
            SealPlace { length: 200, record, manifest: manifest_at, base_length: 1, sha256 };
        let check = |path: &str, offset, length| {
            let (path, kind, sha256) = (path.to_owned(), Kind::Data, unknown());
            let members = vec![ManifestEntry { path, kind, offset, length, sha256 }];
            Manifest { members, ..manifest() }.check(&place)
        };
        assert_eq!(check("a", 1, 99), Ok(()));
        assert_eq!(check("../a", 1, 99), Err("a member's path leaves the root"));
        assert_eq!(check("/a", 1, 99), Err("a member's path leaves the root"));
        assert_eq!(check("a", 0, 99), Err("its members overlap"));
        assert_eq!(check("a", 1, 100), Err("a member lies outside of its place"));
        assert_eq!(check("a", 1, u64::MAX), Err("a member is too long"));
    }

    #[test]
    fn each_changed_byte_is_an_error() {
        let text = manifest().text().unwrap().into_bytes();
        for index in 0..text.len() {
            let mut damaged = text.clone();
            damaged[index] ^= 1;
            assert!(Manifest::parse(&damaged).is_err(), "byte {index}");
            assert!(Manifest::parse(&text[..index]).is_err(), "length {index}");
        }
    }
}
