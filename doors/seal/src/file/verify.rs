//! Whether a sealed file has the bytes that were sealed.

use std::io;
use std::ops::Range;

use super::digest;
use super::error::Error;
use super::kind;
use super::manifest::ManifestEntry;
use super::open::Sealed;
use super::place::HASH;

impl Sealed {
    /// Compares the hash of the whole file. If it differs, the error names the parts in which bytes differ.
    ///
    /// # Errors
    /// [`Error::Differs`]; [`Error::Io`] if the file cannot be read.
    pub fn verify(&self) -> Result<(), Error> {
        let whole = self.hash(0..self.place.length, self.hash_at());
        if whole.map_err(Error::io(&self.path, "read it"))? == digest::hex(&self.place.sha256) {
            return Ok(());
        }
        let parts = self.damaged_parts().map_err(Error::io(&self.path, "read it"))?;
        Err(Error::Differs { path: self.path.clone(), parts })
    }

    /// Whether a member has the bytes that were sealed.
    pub(super) fn is_whole(&self, member: &ManifestEntry) -> io::Result<bool> {
        let range = member.offset..member.offset + member.length;
        Ok(self.hash(range, 0..0)? == member.sha256)
    }

    fn damaged_parts(&self) -> io::Result<Vec<String>> {
        let mut parts = Vec::new();
        let base = &self.manifest.base;
        if self.hash(0..base.length, self.hash_at())? != base.sealed_sha256 {
            parts.push("the executable itself".to_owned());
        }
        for member in &self.manifest.members {
            if !self.is_whole(member)? {
                parts.push(format!("{} ({})", member.path, kind::name(member.kind)));
            }
        }
        let record = self.place.record;
        if self.hash(record.offset..record.offset + record.length, 0..0)? != self.manifest.record {
            parts.push("the start record".to_owned());
        }
        let manifest = self.place.manifest;
        let symbols = manifest.offset + manifest.length..self.place.length;
        if self.hash(symbols, 0..0)? != self.manifest.symbols {
            parts.push("the symbols".to_owned());
        }
        if parts.is_empty() {
            // The manifest has been compared, or the file had not been opened. That leaves zeroes between parts, and the
            // hash of the whole.
            parts.push(match self.has_clean_gaps()? {
                true => "the hash of the whole file, and nothing else".to_owned(),
                false => "zeroes between parts".to_owned(),
            });
        }
        Ok(parts)
    }

    fn has_clean_gaps(&self) -> io::Result<bool> {
        let mut start = self.manifest.base.length;
        let record = self.place.record;
        let members = self.manifest.members.iter().map(|member| (member.offset, member.length));
        let manifest = (self.place.manifest.offset, self.place.manifest.length);
        for (offset, length) in members.chain([(record.offset, record.length), manifest]) {
            // Zeroes have the hash that they have as zeroes.
            let gap = start..offset;
            if self.hash(gap.clone(), 0..0)? != self.hash(gap.clone(), gap)? {
                return Ok(false);
            }
            start = offset + length;
        }
        Ok(true)
    }

    fn hash_at(&self) -> Range<u64> {
        self.at + HASH.start..self.at + HASH.end
    }

    fn hash(&self, range: Range<u64>, zeroes: Range<u64>) -> io::Result<String> {
        digest::of_range(&self.file, range, zeroes).map(|hash| digest::hex(&hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    /// The error of a file in which a byte was flipped.
    fn flipped(path: &Path, offset: u64) -> String {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
        let error = Sealed::open(path).and_then(|sealed| sealed.verify()).unwrap_err();
        file.write_all_at(&byte, offset).unwrap();
        error.to_string()
    }

    #[test]
    fn a_flipped_byte_is_found_and_its_part_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = trial::sealed(directory.path());
        let sealed = Sealed::open(&path).unwrap();
        sealed.verify().unwrap();
        for member in sealed.manifest.members.iter().filter(|member| member.length > 0) {
            let text = flipped(&path, member.offset + member.length - 1);
            let kind = kind::name(member.kind);
            let told = format!("app: is damaged: bytes differ in {} ({kind}) (copy", member.path);
            assert!(text.contains(&told), "{text}");
        }
        let first = &sealed.manifest.members[0];
        let executable = sealed.manifest.base.length - 1;
        for (offset, part) in [
            (executable, "the executable itself"),
            (sealed.at + HASH.start, "the hash of the whole file, and nothing else"),
            (sealed.place.length - 1, "the symbols"),
            (sealed.place.manifest.offset, "its manifest"),
            (sealed.place.record.offset + 12, "the start record"),
            (first.offset - 1, "zeroes between parts"),
        ] {
            let text = flipped(&path, offset);
            assert!(text.contains(&format!("bytes differ in {part} (")), "{part}: {text}");
        }
        sealed.verify().unwrap();
    }
}
