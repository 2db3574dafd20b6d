//! A table of strings at the end of a file. Each string is written once.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::digest::PIECE;
use super::error::Error;
use super::output::Output;

pub(super) struct Strings<'o> {
    output: &'o Output,
    start: u64,
    /// Of what is written, and of what is yet to be written.
    length: u64,
    pending: Vec<u8>,
    /// Where strings lie, by their hashes: the names of a torch have a hundred megabytes.
    known: HashMap<[u8; 16], u32>,
}

impl<'o> Strings<'o> {
    pub(super) fn new(output: &'o Output, start: u64) -> Strings<'o> {
        Strings { output, start, length: 0, pending: Vec::new(), known: HashMap::new() }
    }

    /// Appends bytes as they are.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.pending.extend(bytes);
        self.length += bytes.len() as u64;
        if self.pending.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    /// Where a string begins in the table. `None` if the table has more bytes than ELF can name.
    pub(super) fn place(&mut self, name: &[u8]) -> Result<Option<u32>, Error> {
        let mut key = [0; 16];
        key.copy_from_slice(&Sha256::digest(name)[..16]);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(*known));
        }
        let Ok(at) = u32::try_from(self.length) else { return Ok(None) };
        self.append(name)?;
        self.append(&[0])?;
        self.known.insert(key, at);
        Ok(Some(at))
    }

    /// Writes the rest. The result is the table's length.
    pub(super) fn finish(mut self) -> Result<u64, Error> {
        self.flush()?;
        Ok(self.length)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let written = self.length - self.pending.len() as u64;
        self.output.write(&self.pending, self.start + written)?;
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let output = Output::create(&directory.path().join("strings")).unwrap();
        let mut strings = Strings::new(&output, 3);
        strings.append(&[0]).unwrap();
        assert_eq!(strings.place(b"one").unwrap(), Some(1));
        assert_eq!(strings.place(b"two").unwrap(), Some(5));
        assert_eq!(strings.place(b"one").unwrap(), Some(1));
        assert_eq!(strings.finish().unwrap(), 9);
        output.finish().unwrap();
        let bytes = std::fs::read(directory.path().join("strings")).unwrap();
        assert_eq!(&bytes[3..], b"\0one\0two\0");
    }
}
