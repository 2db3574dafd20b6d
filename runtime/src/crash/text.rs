//! A text of limited length, for code that may not allocate.

use std::fmt;

/// The text so far. The rest is left out where there is no room.
pub(super) struct Text {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Text {
    /// Bytes of a report. One of a hundred native frames and a hundred Python frames takes some 20 KiB.
    const ROOM: usize = 64 << 10;

    pub(super) const fn empty() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
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
        let room = Self::ROOM - self.length;
        let text = &text[..text.floor_char_boundary(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text.as_bytes());
        self.length += text.len();
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Text;
    use std::fmt::Write;

    #[test]
    fn a_text_keeps_what_has_room() {
        let mut text = Box::new(Text::empty());
        text.add(b"a\xffb");
        let _ = write!(text, " {:#x}", 16);
        assert_eq!(text.as_str(), "a?b 0x10");
        (0..10_000).for_each(|_| text.add("twenty characters é ".as_bytes()));
        assert_eq!(text.as_str().len(), text.bytes().len());
        assert!(text.bytes().len() > Text::ROOM - 2);
    }
}
