//! The memory of which pages may be exchanged.

use hydrozoa_loader::ReplicaData;
use hydrozoa_payload::pages::page_size;
use std::ops::Range;

/// Data of libraries with fewer bytes than this stays where it is: each part that is exchanged is a mapping more.
const LEAST: usize = 64 << 10;

/// Addresses of whole pages.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// All of them, sorted.
    all: Vec<Range<usize>>,
    /// Those that are read-only.
    constants: Vec<Range<usize>>,
}

impl Spans {
    /// Memory that is readable and writable.
    pub(crate) fn add(&mut self, span: Range<usize>) {
        if !span.is_empty() {
            let place = self.all.partition_point(|other| other.start < span.start);
            self.all.insert(place, span);
        }
    }

    /// Takes the pages of a range out.
    pub(crate) fn leave_out(&mut self, range: &Range<usize>) {
        let (start, end) =
            (range.start & !(page_size() - 1), range.end.next_multiple_of(page_size()));
        for span in std::mem::take(&mut self.all) {
            self.add(span.start..span.end.min(start.max(span.start)));
            self.add(span.start.max(end.min(span.end))..span.end);
        }
    }

    /// Data of a library that is worth it. Its variables only if nobody can change them.
    pub(crate) fn add_data(&mut self, data: ReplicaData, with_variables: bool) {
        let is_worth_it = |span: &Range<usize>| span.len() >= LEAST;
        for constants in data.constants.into_iter().filter(is_worth_it) {
            self.constants.push(constants.clone());
            self.add(constants);
        }
        if with_variables {
            data.variables.into_iter().filter(is_worth_it).for_each(|span| self.add(span));
        }
    }

    pub(crate) fn all(&self) -> &[Range<usize>] {
        &self.all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a run of pages within one span is read-only.
    pub(crate) fn is_constant(&self, run: &Range<usize>) -> bool {
        self.constants.iter().any(|span| span.contains(&run.start))
    }
}
