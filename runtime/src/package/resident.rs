//! Storages of an archive on devices: uploaded by the first interpreter that needs one, and used by
//! all from there.

use super::Archive;
use crate::convert::tensor::Device;
use crate::device::{DeviceError, Failure, MAP_PACKAGE, Uploads};
use crate::movable::kept::Kept;
use crate::movable::memory::Memory;
use crate::object::Object;
use crate::{Error, Result};
use std::sync::Arc;

/// An archive's records on devices, by record and location (`cuda:0`). Nothing is kept alive here:
/// a record that no tensor uses any more is given back, and uploaded again for the next.
pub(super) type Residents = Uploads<(String, String), Memory, Arc<Error>>;

/// What `upload` returns: owner, address, size in bytes, DLPack device type and number.
type Uploaded<'s> = (Object<'s>, usize, usize, i32, i32);

impl Archive {
    /// A record's copy on a device. `upload` is called, in the session's interpreter, if there is
    /// none; another thread that is at it is waited for without the GIL.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the interpreter has an obstacle to use the device; what `upload` raises,
    /// to all who wait for it.
    pub(super) fn resident(
        &self,
        record: &str,
        location: &str,
        obstacle: Option<String>,
        upload: &Object<'_>,
    ) -> Result<Arc<Memory>> {
        self.size(record)?;
        if let Some(reason) = obstacle {
            let what = format!("the storage {record} of the package {}", self.label());
            let device = location.to_owned();
            return Err(DeviceError { what, device, reason, mend: MAP_PACKAGE }.into());
        }
        let session = upload.session();
        let make = || -> Result<Arc<Memory>> {
            let uploaded: Uploaded<'_> = upload.call(())?.extract()?;
            let (owner, address, len, kind, index) = uploaded;
            let device = Device { kind, index };
            tracing::debug!(
                package = self.label(),
                record,
                location,
                len,
                interpreter = session.interpreter().name(),
                "a storage was uploaded"
            );
            // SAFETY: the owner is a torch storage of this size at this address, which does not
            // move while it is referred to; what was queued to fill it is done.
            Ok(unsafe { Memory::of_device(address, len, device, location, Kept::new(owner)) })
        };
        self.residents()
            .get(
                &(record.to_owned(), location.to_owned()),
                |attempt| session.inner().without_gil(|| attempt.wait()),
                || make().map_err(Arc::new),
            )
            .map_err(|failure| match failure {
                Failure::Error(error) => error.again(),
                Failure::Abandoned => {
                    raised("RuntimeError", "the upload of a storage was abandoned")
                }
                Failure::Recursive => {
                    raised("RecursionError", "a storage is needed to upload itself")
                }
            })
    }
}

fn raised(type_name: &str, message: &str) -> Error {
    Error::Python {
        type_name: type_name.to_owned(),
        message: message.to_owned(),
        traceback: String::new(),
    }
}
