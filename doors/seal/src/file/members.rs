//! The members as they are written: in order of their places, which are examined first.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use super::base::Base;
use super::digest;
use super::error::Error;
use super::layout::alignment;
use super::manifest::ManifestEntry;
use super::output::Output;
use super::path;
use crate::member::{Bytes, Member};

/// A member with its place.
pub(crate) struct Placed {
    pub member: Member,
    /// In the sealed file, from [`Layout::place`](super::Layout::place).
    pub offset: u64,
    pub length: u64,
}

/// The members in order of their places.
pub(super) fn in_order<'m>(base: &Base, members: &'m [Placed]) -> Result<Vec<&'m Placed>, Error> {
    let mut ordered: Vec<&Placed> = members.iter().collect();
    ordered.sort_by_key(|placed| (placed.offset, placed.length));
    let mut names = BTreeSet::new();
    let mut end = base.length;
    for placed in &ordered {
        let Member { path, kind, .. } = &placed.member;
        path::check(path).map_err(|reason| Error::Path { path: path.clone(), reason })?;
        if !names.insert((path, kind)) {
            return Err(Error::Twice { path: path.clone() });
        }
        let misplaced = || Error::Misplaced { path: path.clone() };
        if placed.offset < end || !placed.offset.is_multiple_of(alignment(*kind, base.page())) {
            return Err(misplaced());
        }
        end = placed.offset.checked_add(placed.length).ok_or_else(misplaced)?;
    }
    Ok(ordered)
}

/// Writes a member's bytes.
pub(super) fn write(output: &Output, placed: &Placed) -> Result<ManifestEntry, Error> {
    let Placed { member, offset, length } = placed;
    let sha256 = match &member.bytes {
        Bytes::File(path) => {
            let file = File::open(path).map_err(Error::io(path, "open it"))?;
            output.copy(file, path, *offset, *length)?
        }
        Bytes::Memory(bytes) => {
            output.copy(bytes.as_slice(), Path::new(&member.path), *offset, *length)?
        }
    };
    Ok(ManifestEntry {
        path: member.path.clone(),
        kind: member.kind,
        offset: *offset,
        length: *length,
        sha256: digest::hex(&sha256),
    })
}
