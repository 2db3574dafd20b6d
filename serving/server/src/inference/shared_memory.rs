//! Memory that clients on the same machine share with the server: objects of POSIX shared memory (`shm_open`).
//!
//! No object is mapped. A client may truncate its object at any time, and a process that touches a mapping beyond the end of its
//! object gets SIGBUS. The server reads and writes by the object's descriptor. There a truncated object is an error of one
//! request.

use crate::service::blocking_if_large;
use bytes::{Bytes, BytesMut};
use hydrozoa_models::{Code, Failure, Response};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Where Linux has the objects. glibc's `shm_open` looks there.
const FOLDER: &str = "/dev/shm";

/// Triton keeps names with this prefix for itself.
const RESERVED: &str = "triton_python_backend_shm_region_";

/// Regions at once. Each keeps a descriptor open.
const MOST: usize = 512;

/// The regions that clients have registered.
pub(crate) struct Regions {
    is_allowed: bool,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
}

/// A part of an object, by a name.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) name: String,
    /// The object's name.
    pub(crate) key: String,
    /// Where the region begins in the object.
    pub(crate) offset: u64,
    pub(crate) byte_size: u64,
    object: File,
}

/// A part of a region. The region stays open as long as it lives, also if it is unregistered.
#[derive(Clone, Debug)]
pub(crate) struct RegionPart {
    region: Arc<Region>,
    /// Where it begins in the object.
    start: u64,
    size: usize,
}

/// The outputs that go to regions, by their names.
pub(crate) type SharedOutputs = BTreeMap<String, RegionPart>;

fn invalid(words: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidArgument, words)
}

impl Regions {
    pub(crate) fn new(is_allowed: bool) -> Self {
        Self { is_allowed, regions: RwLock::default() }
    }

    /// Whether clients may share memory.
    ///
    /// # Errors
    ///
    /// [`Code::Unsupported`] if not, in Triton's words.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.is_allowed {
            true => Ok(()),
            false => Err(Failure::new(Code::Unsupported, "Client shared memory is disabled.")),
        }
    }

    /// Gives a part of an object a name.
    ///
    /// # Errors
    ///
    /// In Triton's words, if the object cannot be opened or has no such part, or if the name is taken.
    pub(crate) fn register(
        &self,
        name: &str,
        key: &str,
        offset: u64,
        byte_size: u64,
    ) -> Result<(), Failure> {
        self.check()?;
        if name.is_empty() {
            let words = "'region name' is necessary to register system shared memory region";
            return Err(invalid(words));
        }
        let object = open(name, key)?;
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if regions.contains_key(name) {
            let words = format!("shared memory region '{name}' already in manager");
            return Err(Failure::new(Code::AlreadyExists, words));
        }
        if regions.len() == MOST {
            let words = format!(
                "failed to register shared memory region '{name}': there are {MOST}, as many as there may be"
            );
            return Err(Failure::new(Code::Unavailable, words));
        }
        let end = offset.checked_add(byte_size).filter(|_| byte_size > 0);
        if end.is_none_or(|end| !size(&object).is_ok_and(|size| end <= size)) {
            let words = format!("failed to register shared memory region '{name}': invalid args");
            return Err(invalid(words));
        }
        let (name, key) = (name.to_owned(), key.to_owned());
        let region = Region { name: name.clone(), key, offset, byte_size, object };
        regions.insert(name, Arc::new(region));
        Ok(())
    }

    /// One region, or all.
    ///
    /// # Errors
    ///
    /// [`Code::NotFound`] if no region has this name.
    pub(crate) fn status(&self, name: Option<&str>) -> Result<Vec<Arc<Region>>, Failure> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = name else { return Ok(regions.values().cloned().collect()) };
        let found = regions.get(name).cloned();
        found.map(|region| vec![region]).ok_or_else(|| not_found("system shared memory", name))
    }

    /// Forgets a region, or all. Requests under way keep theirs. An unregistered name is not an error.
    ///
    /// # Errors
    ///
    /// As [`Regions::check`].
    pub(crate) fn unregister(&self, name: Option<&str>) -> Result<(), Failure> {
        self.check()?;
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        match name {
            Some(name) => drop(regions.remove(name)),
            None => regions.clear(),
        }
        Ok(())
    }

    /// A part of a region.
    ///
    /// # Errors
    ///
    /// In Triton's words, if the region does not exist or is smaller.
    pub(crate) fn part(&self, name: &str, offset: u64, size: u64) -> Result<RegionPart, Failure> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let region = regions.get(name).ok_or_else(|| not_found("shared memory", name))?;
        if offset >= region.byte_size {
            return Err(invalid(format!("Invalid offset for shared memory region: '{name}'")));
        }
        let fits = size <= region.byte_size - offset;
        let size = usize::try_from(size).ok().filter(|_| fits).ok_or_else(|| {
            invalid(format!("Invalid offset + byte size for shared memory region: '{name}'"))
        })?;
        Ok(RegionPart { region: region.clone(), start: region.offset + offset, size })
    }
}

/// The error for an unknown region, in Triton's words.
pub(crate) fn not_found(kind: &str, name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("Unable to find {kind} region: '{name}'"))
}

/// Opens the object of a region.
fn open(region: &str, key: &str) -> Result<File, Failure> {
    let name = key.trim_start_matches('/');
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(invalid(format!(
            "cannot register shared memory region '{region}' - invalid shm key '{key}'"
        )));
    }
    if name.starts_with(RESERVED) {
        return Err(invalid(format!(
            "cannot register shared memory region '{region}' with key '{key}' as the key contains the reserved prefix \
             '{RESERVED}'"
        )));
    }
    // As glibc's shm_open: a link is never followed, and nobody is waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(Path::new(FOLDER).join(name));
    let is_memory = |object: &File| object.metadata().is_ok_and(|found| found.is_file());
    opened
        .ok()
        .filter(is_memory)
        .ok_or_else(|| invalid(format!("Unable to open shared memory region: '{key}'")))
}

fn size(object: &File) -> io::Result<u64> {
    object.metadata().map(|found| found.len())
}

impl RegionPart {
    /// The failure of a part whose object has changed.
    fn changed(&self, problem: &str) -> Failure {
        let Region { name, key, .. } = &*self.region;
        invalid(format!(
            "shared memory region '{name}' has changed since it was registered: {problem} '{key}'"
        ))
    }

    fn read(&self) -> Result<BytesMut, Failure> {
        let mut data = BytesMut::zeroed(self.size);
        self.region.object.read_exact_at(&mut data, self.start).map_err(|error| {
            self.changed(&match error.kind() {
                io::ErrorKind::UnexpectedEof => "it is beyond the end of".to_owned(),
                _ => format!("{error}, reading"),
            })
        })?;
        Ok(data)
    }

    /// Writes from the place's beginning.
    ///
    /// A write beyond an object's end would make the object longer. That is looked for before; a client that truncates its object
    /// during the write finds it as long again as the region at most.
    fn write(&self, data: &[u8]) -> Result<(), Failure> {
        let object = &self.region.object;
        let end = self.start + data.len() as u64;
        if !size(object).is_ok_and(|size| end <= size) {
            return Err(self.changed("it is beyond the end of"));
        }
        object
            .write_all_at(data, self.start)
            .map_err(|error| self.changed(&format!("{error}, writing")))
    }
}

/// Bytes that places have in all.
pub(crate) fn size_of(places: &[RegionPart]) -> usize {
    places.iter().fold(0, |sum: usize, place| sum.saturating_add(place.size))
}

/// Copies what places have, in their order.
///
/// # Errors
///
/// [`Code::InvalidArgument`] if they have more than `limit` bytes in all, or if an object has changed.
pub(crate) async fn read(places: Vec<RegionPart>, limit: usize) -> Result<Vec<BytesMut>, Failure> {
    let size = size_of(&places);
    if size > limit {
        return Err(invalid(format!(
            "the request's inputs in shared memory have {size} bytes; the server takes {limit} bytes in a request"
        )));
    }
    blocking_if_large(size, move || places.iter().map(RegionPart::read).collect()).await
}

/// Writes the outputs that belong to places there, and leaves them without data.
///
/// # Errors
///
/// [`Code::InvalidArgument`] if one does not fit, or if an object has changed.
pub(crate) async fn deliver(
    mut response: Response,
    places: &SharedOutputs,
) -> Result<Response, Failure> {
    let mut writes: Vec<(RegionPart, Bytes)> = Vec::new();
    for output in &mut response.outputs {
        let Some(place) = places.get(&output.name) else { continue };
        if output.data.len() > place.size {
            return Err(invalid(format!(
                "shared memory size specified with the request for output '{}' ({} bytes) should be at least {} bytes to \
                 hold the results",
                output.name,
                place.size,
                output.data.len()
            )));
        }
        writes.push((place.clone(), std::mem::take(&mut output.data)));
    }
    let size = writes.iter().map(|(_, data)| data.len()).sum();
    blocking_if_large(size, move || writes.iter().try_for_each(|(place, data)| place.write(data)))
        .await?;
    Ok(response)
}

/// The error for memory of a GPU, in Triton's words.
pub(crate) fn no_cuda(name: &str) -> Failure {
    invalid(format!("failed to register CUDA shared memory region: '{name}', GPUs not supported"))
}
