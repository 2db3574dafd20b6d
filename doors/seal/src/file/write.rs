//! Writes a sealed file.
//!
//! ```text
//! executable, patched | zeroes | libraries, each at a page | other members
//!     | start record | manifest | symbols, section headers
//! ```

use std::path::Path;

use super::base::Base;
use super::build_id;
use super::description::Description;
use super::digest;
use super::error::Error;
use super::layout::ALIGNMENT;
use super::manifest::{self, Manifest};
use super::members::{self, Placed};
use super::output::Output;
use super::place::{HASH, SealPlace, Span};
use super::tail;

/// Writes an executable with its members to `output`, which appears when it is whole. The same inputs make the same bytes.
/// With `symbols` the functions of the libraries get names in its symbol table.
pub(crate) fn write(
    output: &Path,
    base: &Path,
    members: &[Placed],
    start_record: &[u8],
    description: &Description,
    symbols: bool,
) -> Result<(), Error> {
    let base = Base::open(base)?;
    let members = members::in_order(&base, members)?;
    let output = Output::create(output)?;
    let base_sha256 = output.copy(&base.file, &base.path, 0, base.length)?;
    let entries = members.iter().map(|placed| members::write(&output, placed));
    let entries = entries.collect::<Result<Vec<_>, Error>>()?;
    let build_id = build_id::of(&base_sha256, &entries);

    let end = entries.last().map_or(base.length, |last| last.offset + last.length);
    let record =
        Span { offset: end.next_multiple_of(ALIGNMENT), length: start_record.len() as u64 };
    output.write(start_record, record.offset)?;
    let hashed = manifest::Base {
        length: base.length,
        sha256: digest::hex(&base_sha256),
        sealed_sha256: manifest::unknown(),
    };
    let mut manifest = Manifest::new(description, entries, hashed);
    manifest.record = digest::of_bytes(start_record);
    // The length is known before all hashes are, since a hash has as many digits as another.
    let offset = (record.offset + record.length).next_multiple_of(ALIGNMENT);
    let text = manifest_text(&manifest, &output)?;
    let span = Span { offset, length: text.len() as u64 };
    output.write(text.as_bytes(), span.offset)?;
    let behind = span.offset + span.length;

    let length = tail::write(&output, &base, &manifest.members, &build_id, symbols, behind)?;
    let mut place =
        SealPlace { length, record, manifest: span, base_length: base.length, sha256: [0; 32] };
    output.write(&place.bytes(), base.place)?;
    let hash_at = base.place + HASH.start..base.place + HASH.end;
    manifest.base.sealed_sha256 = digest::hex(&output.sha256(0..base.length, hash_at.clone())?);
    manifest.symbols = digest::hex(&output.sha256(behind..length, 0..0)?);
    output.write(manifest_text(&manifest, &output)?.as_bytes(), span.offset)?;
    place.sha256 = output.sha256(0..length, hash_at)?;
    output.write(&place.bytes(), base.place)?;
    output.finish()
}

fn manifest_text(manifest: &Manifest, output: &Output) -> Result<String, Error> {
    manifest.text().map_err(|error| Error::io(output.path(), "write its manifest")(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Sealed, trial};
    use crate::member::Kind;
    use std::fs;
    use std::process::Command;

    #[test]
    fn equal_inputs_make_equal_bytes_wherever_they_lie() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = trial::sealed(one.path());
        let second = two.path().join("elsewhere");
        fs::create_dir(&second).unwrap();
        let second = trial::sealed(&second);
        assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap(), "two seals differ");
        let text = String::from_utf8_lossy(&fs::read(&first).unwrap()).into_owned();
        assert!(!text.contains(one.path().to_str().unwrap()), "a path of the machine is inside");
    }

    #[test]
    fn the_sealed_file_runs_and_has_its_members_in_place() {
        let directory = tempfile::tempdir().unwrap();
        let app = trial::sealed(directory.path());
        assert!(Command::new(&app).status().unwrap().success());
        let bytes = fs::read(&app).unwrap();
        let sealed = Sealed::open(&app).unwrap();
        for (entry, member) in sealed.manifest.members.iter().zip(trial::members(directory.path()))
        {
            let start = entry.offset as usize;
            let expected = trial::bytes(&member);
            assert_eq!(bytes[start..start + entry.length as usize], expected, "{}", entry.path);
        }
        let library = &sealed.manifest.members[0];
        assert!(library.kind == Kind::Library && library.offset.is_multiple_of(4096));
        sealed.verify().unwrap();
    }

    #[test]
    fn an_application_without_members_is_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let (base, app) = (trial::base(directory.path()), directory.path().join("app"));
        write(&app, &base, &[], trial::RECORD.as_bytes(), &trial::description(), true).unwrap();
        Sealed::open(&app).unwrap().verify().unwrap();
    }

    #[test]
    fn members_that_cannot_be_sealed_are_named_and_leave_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        let refusal = |change: &dyn Fn(&mut Vec<Placed>)| {
            let mut members = trial::placed(&base, trial::members(directory.path()));
            change(&mut members);
            let app = directory.path().join("app");
            let record = trial::RECORD.as_bytes();
            let error = write(&app, &base, &members, record, &trial::description(), true);
            let left = fs::read_dir(directory.path()).unwrap();
            let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(names.into_iter().all(|name| !name.contains("app")));
            error.unwrap_err().to_string()
        };
        let text = refusal(&|members| members[0].length += 1);
        assert!(text.contains("libtrial.so: was changed while it was sealed"), "{text}");
        let text = refusal(&|members| members[0].offset += 16);
        assert!(text.contains("lib/libtrial.so: was given a place"), "{text}");
        let text = refusal(&|members| members[1].offset = members[2].offset);
        assert!(text.contains("was given a place that others use"), "{text}");
        let text = refusal(&|members| members[2].member.kind = Kind::Code);
        assert!(text.contains("core.py: is put into the sealed application twice"), "{text}");
        let text = refusal(&|members| members[4].member.path = "a\tb".into());
        assert!(text.starts_with(r#""a\tb": cannot be the path"#), "{text}");
    }
}
