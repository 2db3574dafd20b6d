//! Which pages are to be exchanged.

use super::Unsettled;
use hydrozoa_payload::pages::page_size;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a page's entry in pagemap.
const ENTRY: usize = 8;

/// Gaps of at most so many pages between pages to be exchanged are exchanged with them. Each gap that remains is a mapping
/// more.
const GAP: usize = 8;

/// The kernel's record of each page of this process.
pub(crate) struct Pagemap(File);

impl Pagemap {
    pub(crate) const PATH: &str = "/proc/self/pagemap";

    pub(crate) fn open() -> io::Result<Self> {
        File::open(Self::PATH).map(Self)
    }

    /// The runs of anonymous pages in `spans`, in memory or swapped out.
    pub(crate) fn anonymous(&self, spans: &[Range<usize>]) -> io::Result<Vec<Range<usize>>> {
        self.runs(spans, is_anonymous)
    }

    /// The runs of pages in `spans` that the process has used since they were mapped.
    pub(crate) fn used(&self, spans: &[Range<usize>]) -> io::Result<Vec<Range<usize>>> {
        self.runs(spans, is_used)
    }

    fn runs(
        &self,
        spans: &[Range<usize>],
        has: impl Fn(u64) -> bool,
    ) -> io::Result<Vec<Range<usize>>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut entries = [0; 4096 * ENTRY];
        for span in spans {
            let (mut page, end) = (span.start / page_size(), span.end / page_size());
            while page < end {
                let length = entries.len().min((end - page) * ENTRY);
                self.0.read_exact_at(&mut entries[..length], (page * ENTRY) as u64)?;
                let (read, _) = entries[..length].as_chunks::<ENTRY>();
                for entry in read {
                    if has(u64::from_ne_bytes(*entry)) {
                        add(&mut runs, page * page_size());
                    }
                    page += 1;
                }
            }
        }
        Ok(runs)
    }
}

impl Unsettled {
    pub(crate) fn pagemap(source: io::Error) -> Self {
        Self::io(Path::new(Pagemap::PATH), source)
    }
}

fn add(runs: &mut Vec<Range<usize>>, page: usize) {
    match runs.last_mut() {
        Some(last) if last.end == page => last.end += page_size(),
        _ => runs.push(page..page + page_size()),
    }
}

/// Whether a page is swapped out (bit 62) or in memory (bit 63): Documentation/admin-guide/mm/pagemap.rst of the kernel.
fn is_used(entry: u64) -> bool {
    entry & (1 << 62 | 1 << 63) != 0
}

/// Whether it is used, and no file's (bit 61).
fn is_anonymous(entry: u64) -> bool {
    is_used(entry) && entry & 1 << 61 == 0
}

/// The bytes of ranges.
pub(crate) fn bytes(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// The runs, with neighbours in one span made one, so that they are about `most` at the most. The largest gaps remain.
/// Runs are sorted and lie in `spans`, which are sorted too.
pub(crate) fn joined(
    runs: &[Range<usize>],
    spans: &[Range<usize>],
    most: usize,
) -> Vec<Range<usize>> {
    let span_of = |run: &Range<usize>| spans.partition_point(|span| span.end <= run.start);
    let is_gap = |pair: &&[Range<usize>]| span_of(&pair[0]) == span_of(&pair[1]);
    let mut gaps: Vec<usize> =
        runs.windows(2).filter(is_gap).map(|pair| pair[1].start - pair[0].end).collect();
    gaps.sort_unstable_by_key(|gap| std::cmp::Reverse(*gap));
    let largest_joined = gaps.get(most).copied().unwrap_or(0).max(GAP * page_size());
    let mut result: Vec<Range<usize>> = Vec::new();
    for run in runs {
        match result.last_mut() {
            Some(last)
                if span_of(last) == span_of(run) && run.start - last.end <= largest_joined =>
            {
                last.end = run.end;
            }
            _ => result.push(run.clone()),
        }
    }
    result
}

/// The union of the sorted lists, sorted.
pub(crate) fn united(one: &[Range<usize>], other: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = one.iter().chain(other).cloned().collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut result: Vec<Range<usize>> = Vec::new();
    for range in all {
        match result.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => result.push(range),
        }
    }
    result
}

/// The parts of the sorted ranges that lie in the sorted spans.
pub(crate) fn within(ranges: &[Range<usize>], spans: &[Range<usize>]) -> Vec<Range<usize>> {
    let common = |range: &Range<usize>, span: &Range<usize>| {
        let common = range.start.max(span.start)..range.end.min(span.end);
        (!common.is_empty()).then_some(common)
    };
    let of = |range| spans.iter().filter_map(move |span| common(range, span));
    ranges.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(ranges: &[(usize, usize)]) -> Vec<Range<usize>> {
        ranges.iter().map(|&(first, end)| first * page_size()..end * page_size()).collect()
    }

    #[test]
    fn runs_are_joined_over_small_gaps_and_never_from_one_span_to_the_next() {
        let spans = pages(&[(0, 1000), (1000, 2000)]);
        let runs = pages(&[(1, 2), (5, 6), (100, 101), (300, 301), (999, 1000), (1000, 1001)]);
        let all = pages(&[(1, 6), (100, 101), (300, 301), (999, 1000), (1000, 1001)]);
        assert_eq!(joined(&runs, &spans, 100), all);
        let few = pages(&[(1, 101), (300, 301), (999, 1000), (1000, 1001)]);
        assert_eq!(joined(&runs, &spans, 2), few);
        assert_eq!(joined(&runs, &spans, 0), pages(&[(1, 1000), (1000, 1001)]));
    }

    #[test]
    fn lists_of_ranges_are_united_and_clipped() {
        let one = pages(&[(1, 4), (8, 9)]);
        let other = pages(&[(3, 5), (9, 10), (20, 30)]);
        let all = united(&one, &other);
        assert_eq!(all, pages(&[(1, 5), (8, 10), (20, 30)]));
        assert_eq!(bytes(&all), 16 * page_size());
        let spans = pages(&[(0, 2), (3, 9), (25, 100)]);
        assert_eq!(within(&all, &spans), pages(&[(1, 2), (3, 5), (8, 9), (25, 30)]));
    }
}
