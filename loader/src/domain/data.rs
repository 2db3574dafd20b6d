//! The pages of a domain's data, for hosts that keep them elsewhere.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::domain::Domain;
use crate::replica::Replica;
use crate::sys::{page_down, page_up};

/// The location of a replica's data: whole pages, private to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaData {
    /// The image's file, symbolic links resolved.
    pub path: PathBuf,
    /// Its variables, which are readable and writable (`.data`, `.bss`).
    pub variables: Vec<Range<usize>>,
    /// The part that is read-only after relocation (PT_GNU_RELRO).
    pub constants: Option<Range<usize>>,
}

impl Domain {
    /// The data of its replicas, in load order.
    pub fn data(&self) -> Vec<ReplicaData> {
        self.0.state.lock().entries.replicas().map(|replica| ReplicaData::of(replica)).collect()
    }

    /// Notes that pages of [`Domain::data`] are going to be replaced by other pages with the same bytes and rights. When the
    /// domain ends, these are unmapped.
    pub fn replaces_data(&self) {
        self.0.data_was_replaced.store(true, Ordering::Relaxed);
    }
}

impl ReplicaData {
    fn of(replica: &Replica) -> Self {
        let image = &replica.image;
        let pages = |start, end| {
            let end = page_up(end).expect("the span was validated");
            replica.base + page_down(start)..replica.base + end
        };
        let constants = image.relro.map(|(start, end)| pages(start, end));
        let mut variables = Vec::new();
        for segment in image.segments.iter().filter(|segment| segment.write) {
            let all = pages(segment.address, segment.address + segment.memory_size);
            let held =
                constants.clone().filter(|held| held.start < all.end && all.start < held.end);
            let parts = match held {
                Some(held) => [all.start..held.start, held.end..all.end],
                None => [all, 0..0],
            };
            variables.extend(parts.into_iter().filter(|part| !part.is_empty()));
        }
        Self { path: image.path.clone(), variables, constants }
    }
}
