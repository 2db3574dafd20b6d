//! The payloads that the build script has built, one per Python minor version.

use crate::{Error, Result};

// `const IMAGES: &[(u8, &[u8])]`: minor version and the image's bytes, in ascending order.
include!(concat!(env!("OUT_DIR"), "/payloads.rs"));

/// The minor versions of Python 3 that this build can host.
pub(crate) const SUPPORTED: std::ops::RangeInclusive<u8> = IMAGES[0].0..=IMAGES[IMAGES.len() - 1].0;

/// The payload for Python 3.`minor`.
pub(crate) fn image(minor: u8) -> Option<&'static [u8]> {
    IMAGES.iter().find(|(version, _)| *version == minor).map(|(_, bytes)| *bytes)
}

/// The payload for Python 3.`minor`.
pub(crate) fn get(minor: u8) -> Result<&'static [u8]> {
    image(minor).ok_or_else(|| Error::Payload {
        minor,
        reason: format!(
            "this build serves Python 3.{} to 3.{}; name one of these",
            SUPPORTED.start(),
            SUPPORTED.end()
        ),
    })
}
