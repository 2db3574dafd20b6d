//! The file that is written: under another name in its directory until it is whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::digest;
use super::error::Error;

pub(super) struct Output {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Output, Error> {
        let nameless = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
        let name = path.file_name().ok_or_else(nameless).map_err(Error::io(path, "create it"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".sealing-{}", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = File::options().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(Error::io(&temporary, "create it"))?;
        Ok(Output { file, temporary, path: path.to_owned() })
    }

    /// The file, to read what was written.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The path that the file will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.file.write_all_at(bytes, offset).map_err(Error::io(&self.path, "write it"))
    }

    /// Writes all that a source has, which must be `length` bytes. The result is their SHA-256.
    pub(super) fn copy(
        &self,
        mut source: impl Read,
        name: &Path,
        offset: u64,
        length: u64,
    ) -> Result<[u8; 32], Error> {
        let changed = || Error::Changed { path: name.to_owned(), expected: length };
        let mut hasher = Sha256::new();
        // One byte more tells that a source is longer.
        let mut piece = vec![0; digest::piece_of(length.saturating_add(1))];
        let mut done = 0;
        loop {
            let count = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io(name, "read it")(error)),
            };
            if count as u64 > length - done {
                return Err(changed());
            }
            hasher.update(&piece[..count]);
            self.write(&piece[..count], offset + done)?;
            done += count as u64;
        }
        if done < length { Err(changed()) } else { Ok(hasher.finalize().into()) }
    }

    /// SHA-256 of what was written.
    pub(super) fn sha256(&self, range: Range<u64>, zeroes: Range<u64>) -> Result<[u8; 32], Error> {
        digest::of_range(&self.file, range, zeroes).map_err(Error::io(&self.path, "read it"))
    }

    /// Makes the file executable, and gives it its name.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.file
            .set_permissions(Permissions::from_mode(0o755))
            .map_err(Error::io(&self.path, "make it executable"))?;
        fs::rename(&self.temporary, &self.path).map_err(Error::io(&self.path, "rename it"))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After a success the name is gone.
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole_and_leaves_nothing_if_it_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app");
        let files = || fs::read_dir(directory.path()).unwrap().count();
        let output = Output::create(&path).unwrap();
        output.write(b"whole", 0).unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(files(), 0);
        let output = Output::create(&path).unwrap();
        output.write(b"whole", 0).unwrap();
        output.finish().unwrap();
        assert_eq!(files(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_source_of_another_length_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let output = Output::create(&directory.path().join("app")).unwrap();
        let copied = |length| output.copy(&b"bytes"[..], Path::new("source"), 3, length);
        assert_eq!(digest::hex(&copied(5).unwrap()), digest::of_bytes(b"bytes"));
        assert!(matches!(copied(4), Err(Error::Changed { expected: 4, .. })));
        assert!(matches!(copied(6), Err(Error::Changed { expected: 6, .. })));
    }

    #[test]
    fn a_path_without_a_directory_or_a_name_is_an_error() {
        assert!(matches!(Output::create(Path::new("/")), Err(Error::Io { .. })));
        assert!(matches!(Output::create(Path::new("/nowhere/app")), Err(Error::Io { .. })));
    }
}
