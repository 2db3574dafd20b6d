//! The members as files, for debuggers and audits.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use super::digest;
use super::error::Error;
use super::manifest::ManifestEntry;
use super::open::Sealed;
use super::path;
use crate::member::Kind;

impl Sealed {
    /// Writes libraries, sources, archives and data below a folder, which must be new or empty, at their paths below the
    /// root: there `solib-search-path` of gdb finds the libraries, byte for byte. Code and records are not files of a
    /// Python, and stay inside.
    ///
    /// # Errors
    /// [`Error::NotEmpty`]; [`Error::Differs`] for a member that is damaged; [`Error::Io`].
    pub fn extract(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(Error::io(folder, "create it"))?;
        let mut entries = fs::read_dir(folder).map_err(Error::io(folder, "list it"))?;
        if entries.next().is_some() {
            return Err(Error::NotEmpty { path: folder.to_owned() });
        }
        let files = self.manifest.members.iter().filter(|member| is_file(member.kind));
        files.into_iter().try_for_each(|member| self.extract_one(member, folder))
    }

    fn extract_one(&self, member: &ManifestEntry, folder: &Path) -> Result<(), Error> {
        // A path that leaves the folder was refused when the manifest was read. The folder was empty, so that no link in
        // it leads elsewhere.
        debug_assert!(path::check(&member.path).is_ok(), "{}", member.path);
        if !self.is_whole(member).map_err(Error::io(&self.path, "read it"))? {
            let parts = vec![member.path.clone()];
            return Err(Error::Differs { path: self.path.clone(), parts });
        }
        let target = folder.join(&member.path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent, "create it"))?;
        }
        self.write_one(member, &target).map_err(Error::io(&target, "write it"))
    }

    fn write_one(&self, member: &ManifestEntry, target: &Path) -> io::Result<()> {
        let mut file = File::create_new(target)?;
        let end = member.offset + member.length;
        let mut start = member.offset;
        let mut piece = vec![0; digest::piece_of(member.length)];
        while start < end {
            let length = digest::piece_of(end - start);
            self.file.read_exact_at(&mut piece[..length], start)?;
            file.write_all(&piece[..length])?;
            start += length as u64;
        }
        match member.kind {
            Kind::Library => file.set_permissions(Permissions::from_mode(0o755)),
            _ => Ok(()),
        }
    }
}

/// Whether a member is a file of its own in an unsealed Python.
fn is_file(kind: Kind) -> bool {
    match kind {
        Kind::Library | Kind::Package | Kind::Source | Kind::Data => true,
        Kind::Code | Kind::Record => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn files_are_extracted_byte_for_byte() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = Sealed::open(&trial::sealed(directory.path())).unwrap();
        let folder = directory.path().join("new/folder");
        sealed.extract(&folder).unwrap();
        let library = fs::read(directory.path().join("libtrial.so")).unwrap();
        assert_eq!(fs::read(folder.join("lib/libtrial.so")).unwrap(), library);
        let source = folder.join("lib/python/site-packages/numpy/core.py");
        assert_eq!(fs::read_to_string(source).unwrap(), "import this\n");
        assert_eq!(fs::read(folder.join("lib/python/empty")).unwrap(), b"");
        assert!(!folder.join("boot").exists());
        let again = sealed.extract(&folder).unwrap_err().to_string();
        assert!(again.contains("folder: is not empty"), "{again}");
    }

    #[test]
    fn a_damaged_member_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = trial::sealed(directory.path());
        let sealed = Sealed::open(&path).unwrap();
        let library = &sealed.manifest.members[0];
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"damage", library.offset + 100).unwrap();
        let error = sealed.extract(&directory.path().join("folder")).unwrap_err().to_string();
        assert!(error.contains("bytes differ in lib/libtrial.so"), "{error}");
    }
}
