//! Devices with memory of their own. A storage is uploaded once, and all interpreters share it.
//!
//! `payload/python/devices.py` defines when memory of a device may pass from one interpreter to
//! another, and which allocator owns it. This module decides who calls that, and when.

mod storage;
mod uploads;

pub(crate) use storage::DeviceStorage;
pub(crate) use uploads::{Failure, Uploads};

pub use crate::error::DeviceError;
pub use hydrozoa_payload::dlpack::Device;

use crate::Result;
use crate::session::Session;

/// The remedy for a package that was saved with tensors on a device.
pub(crate) const MAP_PACKAGE: &str = "load it into main memory with map_location \"cpu\" \
     (Package::load_pickle_mapped, or load_pickle's argument), or on a machine with the device";
/// The remedy for an object that has tensors on a device.
pub(crate) const MAP_OBJECT: &str =
    "copy it to main memory where it was made (cpu()), or use interpreters that have the device";

/// Checks that the session's interpreter can use a device, as far as its torch knows it.
///
/// # Errors
///
/// [`Error::Device`](crate::Error::Device) about `what`, which is called when it is needed.
pub(crate) fn require(
    session: &Session,
    device: Device,
    what: impl FnOnce() -> String,
) -> Result<()> {
    if device.kind == Device::CPU.kind {
        return Ok(());
    }
    let obstacle: Option<String> = session
        .import("_hydrozoa.devices")?
        .call_method("obstacle", (device.kind, device.index))?
        .extract()?;
    let Some(reason) = obstacle else {
        return Ok(());
    };
    let device = format!("cuda:{}", device.index);
    Err(DeviceError { what: what(), device, reason, remedy: MAP_OBJECT }.into())
}
