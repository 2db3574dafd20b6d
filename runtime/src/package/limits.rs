//! How much a package may ask for.

/// Limits that are checked when an archive is opened, before anything is inflated.
///
/// torch stores all records uncompressed, and an uncompressed record cannot be larger than the file.
/// Only the number of records and compressed records need a limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Number of records. Default: 1,000,000.
    pub records: u64,
    /// Size in bytes of one compressed record after inflating. Default: 4 GiB.
    pub inflated_record: u64,
    /// Size in bytes of all compressed records together after inflating. Default: 16 GiB.
    pub inflated_total: u64,
    /// How many times larger than its compressed form a record may be, if it is larger than
    /// 1 MiB. Source text compresses by 3 to 10. Default: 200.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { records: 1_000_000, inflated_record: 4 << 30, inflated_total: 16 << 30, ratio: 200 }
    }
}
