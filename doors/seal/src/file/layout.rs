//! The places of members in a sealed file.

use std::path::Path;

use super::base::Base;
use super::error::Error;
use crate::member::Kind;

/// Hands out places behind an executable, one after the other. The same questions have the same answers.
pub(crate) struct Layout {
    page: u64,
    end: u64,
}

impl Layout {
    /// Fails for an executable that cannot be sealed.
    pub(crate) fn new(base: &Path) -> Result<Layout, Error> {
        Base::open(base).map(|base| Layout { page: base.page(), end: base.length })
    }

    /// The offset of a member of `length` bytes in the file. Libraries first, then archives: what begins at a page leaves a
    /// gap behind anything else.
    pub(crate) fn place(&mut self, kind: Kind, length: u64) -> u64 {
        let offset = self.end.next_multiple_of(alignment(kind, self.page));
        self.end = offset.saturating_add(length);
        offset
    }
}

/// Other members and tables begin at a multiple of this.
pub(super) const ALIGNMENT: u64 = 16;

/// The number that a member's offset is a multiple of.
pub(super) fn alignment(kind: Kind, page: u64) -> u64 {
    match kind {
        Kind::Library | Kind::Package => page,
        Kind::Code | Kind::Source | Kind::Data | Kind::Record => ALIGNMENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn libraries_begin_at_pages_and_others_at_sixteen_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        let length = std::fs::metadata(&base).unwrap().len();
        let mut layout = Layout::new(&base).unwrap();
        let first = layout.place(Kind::Library, 5000);
        assert!(first >= length && first.is_multiple_of(4096));
        assert_eq!(layout.place(Kind::Library, 1), first + 8192);
        assert_eq!(layout.place(Kind::Code, 0), first + 8192 + 16);
        assert_eq!(layout.place(Kind::Source, 17), first + 8192 + 16);
        assert_eq!(layout.place(Kind::Data, 1), first + 8192 + 48);
        assert_eq!(layout.place(Kind::Package, 1), first + 12288);
        assert_eq!(Layout::new(&base).unwrap().place(Kind::Library, 1), first);
    }
}
