//! Storages of an archive on devices. The first interpreter that needs a storage uploads it; all use
//! that copy.

use super::Archive;
use crate::device::{Device, DeviceError, DeviceStorage, Failure, MAP_PACKAGE, Uploads};
use crate::interpreter::without_gil;
use crate::movable::memory::SharedRange;
use crate::object::Object;
use crate::{Error, Result};
use std::sync::Arc;

/// An archive's records on devices, by record and location (`cuda:0`). The table keeps nothing alive:
/// a record that no tensor uses any more is freed, and uploaded again for its next user.
pub(super) type Residents = Uploads<(String, String), DeviceStorage, Arc<Error>>;

/// The result of `upload`: owner, address, size in bytes, DLPack device type and number.
type Uploaded<'s> = (Object<'s>, usize, usize, i32, i32);

impl Archive {
    /// A record's copy on a device. If it does not exist yet, `upload` is called in the session's interpreter.
    /// If another thread is uploading it, this one waits without the GIL.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the interpreter cannot use the device; the exception of `upload`, for all
    /// threads that wait for it.
    pub(super) fn resident(
        &self,
        record: &str,
        location: &str,
        obstacle: Option<String>,
        upload: &Object<'_>,
    ) -> Result<Arc<SharedRange>> {
        self.size(record)?;
        if let Some(reason) = obstacle {
            let what = format!("the storage {record} of the package {}", self.label());
            let device = location.to_owned();
            return Err(DeviceError { what, device, reason, remedy: MAP_PACKAGE }.into());
        }
        let session = upload.session();
        let key = (record.to_owned(), location.to_owned());
        loop {
            let resident = self
                .residents()
                .get(
                    &key,
                    DeviceStorage::is_usable,
                    |attempt| without_gil(|| attempt.wait()),
                    || self.upload(record, location, upload).map_err(Arc::new),
                )
                .map_err(error)?;
            // None if the interpreter that uploaded it has ended meanwhile.
            if let Some(memory) = SharedRange::of_resident(resident, session) {
                return Ok(memory);
            }
        }
    }

    fn upload(
        &self,
        record: &str,
        location: &str,
        upload: &Object<'_>,
    ) -> Result<Arc<DeviceStorage>> {
        let uploaded: Uploaded<'_> = upload.call(())?.extract()?;
        let (owner, address, len, kind, index) = uploaded;
        let interpreter = owner.session().interpreter();
        tracing::debug!(
            package = self.label(),
            record,
            location,
            len,
            interpreter = interpreter.name(),
            "a storage was uploaded"
        );
        let device = Device { kind, index };
        // SAFETY: the owner is a torch storage of this size at this address, which does not move
        // while it is referred to; the upload has waited for the device.
        Ok(unsafe { DeviceStorage::new(owner, address, len, device, location.to_owned()) })
    }
}

fn error(failure: Failure<Arc<Error>>) -> Error {
    match failure {
        Failure::Error(error) => error.again(),
        Failure::Abandoned => Error::raise("RuntimeError", "the upload of a storage was abandoned"),
        Failure::Recursive => {
            Error::raise("RecursionError", "a storage is needed to upload itself")
        }
    }
}
