//! Objects of memory that clients share with the server.

use super::repository::{float_bytes, floats_of};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// An object of shared memory, as `shm_open` makes it.
pub struct SharedObject {
    pub key: String,
    pub file: File,
}

impl SharedObject {
    pub fn new(name: &str, size: u64) -> Self {
        let key = format!("/hydrozoa_{}_{name}", std::process::id());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(Self::path(&key)).unwrap();
        file.set_len(size).unwrap();
        Self { key, file }
    }

    pub fn path(key: &str) -> PathBuf {
        PathBuf::from(format!("/dev/shm{key}"))
    }

    pub fn write(&self, offset: u64, values: &[f32]) {
        self.file.write_all_at(&float_bytes(values), offset).unwrap();
    }

    pub fn read(&self, offset: u64, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; count * 4];
        self.file.read_exact_at(&mut bytes, offset).unwrap();
        floats_of(&bytes)
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        drop(std::fs::remove_file(Self::path(&self.key)));
    }
}
