//! The error about a device.

/// An object needs a device that the interpreter's torch cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be on {device}: {reason}; {remedy}")]
#[non_exhaustive]
pub struct DeviceError {
    /// The object: a package's storage, a movable's storage, a tensor.
    pub what: String,
    /// The device as torch writes it, such as `cuda:0`.
    pub device: String,
    /// Why it cannot be used.
    pub reason: String,
    /// The remedy, as advice to the user.
    pub remedy: &'static str,
}
