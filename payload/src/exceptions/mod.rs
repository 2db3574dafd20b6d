//! Exceptions: reported to the host, raised for it, and raised in threads that it interrupts.

pub(crate) mod foreign;
pub(crate) mod interrupts;
pub(crate) mod raising;
pub(crate) mod report;
pub(crate) mod safe_points;
pub(crate) mod switch_interval;
