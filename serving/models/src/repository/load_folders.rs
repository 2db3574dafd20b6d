//! LoadFolders for the files that loads bring: one for a server, and in it one for a load.
//!
//! A server that is killed cannot remove its folder, so the next one does. A folder's owner has it locked (flock(2)) for as long as he
//! lives: the kernel gives the lock back, however he ends. A child that he has forked keeps it, and so the folder, as long as it lives.

use parking_lot::Mutex;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::{env, io};
use tempfile::TempDir;

/// The prefix of servers' folder names.
const PREFIX: &str = "hydrozoa-serve-";

/// How often a folder is made anew after another server took it for a leftover: for a moment it exists without its lock.
const TRIES: usize = 10;

/// A server's folder, made by the first load that needs one.
#[derive(Default)]
pub(crate) struct LoadFolders(Mutex<Option<ServerFolder>>);

struct ServerFolder {
    folder: Arc<TempDir>,
    _lock: File,
}

impl LoadFolders {
    /// A new folder in the server's. It goes when it is dropped.
    pub(crate) fn make(&self) -> io::Result<TempDir> {
        let mut own = self.0.lock();
        let folder = match &*own {
            Some(own) => own.folder.clone(),
            None => own.insert(ServerFolder::new(&env::temp_dir())?).folder.clone(),
        };
        tempfile::Builder::new().prefix("load-").tempdir_in(folder.path())
    }

    /// Removes all of them, although models may run from there. A later load makes another one.
    pub(crate) fn remove(&self) {
        drop(self.0.lock().take());
    }
}

impl ServerFolder {
    fn new(place: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
            if let Some(lock) = lock(folder.path())? {
                return Ok(Self { folder: Arc::new(folder), _lock: lock });
            }
        }
        Err(io::Error::other(format!("others remove each folder {PREFIX}* of {}", place.display())))
    }
}

/// Locks a folder. `None` if somebody else has it, or has removed it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    // Another folder may have the name by now, or none.
    let (own, named) = (file.metadata()?, fs::symlink_metadata(folder).ok());
    Ok(named.filter(|named| (named.ino(), named.dev()) == (own.ino(), own.dev())).map(|_| file))
}

/// Removes the folders of files for models that servers of this user have left because they were killed, and returns how many. A
/// server that lives keeps its folder.
pub fn remove_left_folders() -> usize {
    remove_left(&env::temp_dir())
}

fn remove_left(place: &Path) -> usize {
    // SAFETY: no precondition.
    let user = unsafe { libc::geteuid() };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let is_left = |entry: &fs::DirEntry| {
        let is_named = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        // A link's own kind: nobody leads the removal elsewhere.
        is_named && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
    };
    let remove = |entry: &fs::DirEntry| {
        let Ok(Some(_lock)) = lock(&entry.path()) else { return false };
        fs::remove_dir_all(entry.path()).is_ok()
    };
    entries.filter(is_left).filter(remove).count()
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, ServerFolder, remove_left};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_killed_server_has_left_is_removed_and_what_a_living_one_has_stays() {
        let place = tempfile::tempdir().unwrap();
        let living = ServerFolder::new(place.path()).unwrap();
        let killed = place.path().join(format!("{PREFIX}killed"));
        fs::create_dir_all(killed.join("load-1/m/1")).unwrap();
        fs::write(killed.join("load-1/m/1/model.py"), "secret").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), place.path().join(format!("{PREFIX}link"))).unwrap();
        fs::create_dir(place.path().join("others")).unwrap();
        assert_eq!(remove_left(place.path()), 1);
        assert!(!killed.exists());
        assert!(living.folder.path().exists() && elsewhere.path().exists());
        assert!(place.path().join("others").exists());
        let path = living.folder.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
