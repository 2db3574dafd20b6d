//! The source from which an interpreter loads its copy of a movable.

use super::memory::SharedRange;
use super::owned_object::OwnedObject;
use crate::Result;
use crate::convert::buffer::Buffer;
use crate::device::{self, Device, DeviceStorage};
use crate::object::Object;
use crate::package::{MapLocation, Package};
use crate::session::Session;
use std::sync::Arc;

/// Everything that an interpreter needs to make its copy.
#[derive(Debug)]
pub(super) enum Source {
    /// A pickle that lies in a package, which also holds the storages.
    Package { package: Package, name: String, resource: String, map: Option<MapLocation> },
    /// A pickle of our own, made by `_hydrozoa.movable.dump`.
    Pickle {
        data: Arc<[u8]>,
        storages: Vec<Arc<SharedRange>>,
        buffers: Vec<Arc<SharedRange>>,
        /// Packages whose modules the pickle names.
        packages: Vec<Package>,
        copied: Vec<String>,
    },
}

/// A storage as `dump` describes it: owner, address, size in bytes, DLPack device type and number,
/// and its location, which is empty for main memory.
type Storage<'s> = (Object<'s>, usize, usize, i32, i32, String);

/// The result of `dump`: the pickle, storages, buffers, packages' numbers, and what was copied.
type Dumped<'s> = (Vec<u8>, Vec<Storage<'s>>, Vec<Object<'s>>, Vec<u64>, Vec<String>);

impl Source {
    pub(super) fn of_package(
        package: Package,
        name: String,
        resource: String,
        map: Option<MapLocation>,
    ) -> Self {
        Self::Package { package, name, resource, map }
    }

    /// Pickles an object.
    pub(super) fn of_object(object: &Object<'_>) -> Result<Self> {
        let session = object.session();
        session.with_gil(|| {
            let dumped = session.import("_hydrozoa.movable")?.call_method("dump", (object,))?;
            let (data, storages, buffers, packages, copied): Dumped<'_> = dumped.extract()?;
            let storages = storages
                .into_iter()
                .map(|(owner, address, len, kind, index, location)| {
                    let device = Device { kind, index };
                    // SAFETY: the owner is a torch storage of this size at this address, which does
                    // not move while it is referred to; `dump` has waited for its device.
                    unsafe {
                        if location.is_empty() {
                            SharedRange::of_python(
                                address,
                                len,
                                device,
                                false,
                                OwnedObject::new(owner),
                            )
                        } else {
                            let resident =
                                DeviceStorage::new(owner, address, len, device, location);
                            SharedRange::of_device(resident, session.interpreter().clone())
                        }
                    }
                })
                .collect();
            let buffers = buffers.into_iter().map(of_view).collect::<Result<Vec<_>>>()?;
            Ok(Self::Pickle {
                data: data.into(),
                storages,
                buffers,
                packages: packages.into_iter().filter_map(Package::of_identity).collect(),
                copied,
            })
        })
    }

    /// Makes a copy in the session's interpreter.
    pub(super) fn load<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        session.collecting_seldom(|| self.load_now(session))
    }

    fn load_now<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        match self {
            Self::Package { package, name, resource, map } => {
                session.inner().leases().note_load();
                package
                    .importer(session)?
                    .call_method("load_pickle", (name.as_str(), resource.as_str(), map.as_ref()))
            }
            Self::Pickle { data, storages, buffers, packages, .. } => {
                for package in packages {
                    package.importer(session)?;
                }
                let storages = storages
                    .iter()
                    .map(|memory| {
                        let lent = match memory.local_owner(session) {
                            Some(owner) => owner,
                            None => {
                                device::require(session, memory.device(), || {
                                    format!("a storage of {} bytes of a movable", memory.len())
                                })?;
                                memory.lend_tensor(session)?
                            }
                        };
                        Ok((lent, memory.len()))
                    })
                    .collect::<Result<Vec<_>>>()?;
                let buffers = buffers
                    .iter()
                    .map(|memory| match memory.local_owner(session) {
                        Some(owner) => Ok(owner),
                        None => memory.lend(session),
                    })
                    .collect::<Result<Vec<_>>>()?;
                let data = session.lend(Arc::clone(data))?;
                session.import("_hydrozoa.movable")?.call_method("load", (data, storages, buffers))
            }
        }
    }

    pub(super) fn copied(&self) -> &[String] {
        match self {
            Self::Package { .. } => &[],
            Self::Pickle { copied, .. } => copied,
        }
    }
}

/// The memory behind a contiguous memoryview.
fn of_view(view: Object<'_>) -> Result<Arc<SharedRange>> {
    let buffer: Buffer = view.extract()?;
    let (address, len) = (buffer.data_ptr().expose_provenance(), buffer.len());
    let read_only = buffer.is_read_only();
    // SAFETY: a memoryview holds its exporter's memory in place as long as it is referred to, as
    // the buffer protocol demands of exporters.
    Ok(unsafe {
        SharedRange::of_python(address, len, Device::CPU, read_only, OwnedObject::new(view))
    })
}
