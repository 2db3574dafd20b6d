//! The payloads that the build script has built, one per Python minor version.

// `const IMAGES: &[(u8, &[u8])]`: minor version and the image's bytes, in ascending order.
include!(concat!(env!("OUT_DIR"), "/payloads.rs"));

/// The minor versions of Python 3 that this build can host.
pub(crate) const SUPPORTED: std::ops::RangeInclusive<u8> = IMAGES[0].0..=IMAGES[IMAGES.len() - 1].0;

/// The payload for Python 3.`minor`.
pub(crate) fn image(minor: u8) -> Option<&'static [u8]> {
    IMAGES.iter().find(|(version, _)| *version == minor).map(|(_, bytes)| *bytes)
}
