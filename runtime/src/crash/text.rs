//! A text of limited length, for code that may not allocate.

use std::fmt;

/// Bytes of a report. One of a hundred native frames and a hundred Python frames takes some 20 KiB.
const REPORT: usize = 64 << 10;

/// The text so far. The rest is left out where there is no room.
pub(super) struct Text<const ROOM: usize = REPORT> {
    bytes: [u8; ROOM],
    length: usize,
}

/// One line.
pub(super) type Line = Text<256>;

impl<const ROOM: usize> Text<ROOM> {
    pub(super) const fn empty() -> Self {
        Self { bytes: [0; ROOM], length: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn as_str(&self) -> &str {
        self.bytes().utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    /// Adds a text of unknown origin: `?` is in the place of what is not UTF-8.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            self.put(chunk.valid());
            if !chunk.invalid().is_empty() {
                self.put("?");
            }
        }
    }

    fn put(&mut self, text: &str) {
        let room = ROOM - self.length;
        let text = &text[..text.floor_char_boundary(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text.as_bytes());
        self.length += text.len();
    }
}

impl<const ROOM: usize> fmt::Write for Text<ROOM> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{REPORT, Text};
    use std::fmt::Write;

    #[test]
    fn a_text_keeps_what_has_room() {
        let mut text = Box::new(Text::<REPORT>::empty());
        text.add(b"a\xffb");
        let _ = write!(text, " {:#x}", 16);
        assert_eq!(text.as_str(), "a?b 0x10");
        (0..10_000).for_each(|_| text.add("twenty characters é ".as_bytes()));
        assert_eq!(text.as_str().len(), text.bytes().len());
        assert!(text.bytes().len() > REPORT - 2);
    }
}
