//! Memory that interpreters share: the storages of tensors.
//!
//! A [`SharedRange`] is one range with an owner that keeps it alive: an archive's mapping, a buffer of our
//! own, or an object of the interpreter that allocated it. Every storage that an interpreter builds over
//! the range holds one reference, through DLPack's deleter. The last reference frees the range, in
//! whatever interpreter and on whatever thread. No GIL is needed: an interpreter's object is released
//! through that interpreter's queue.

use super::owned_object::OwnedObject;
use crate::Result;
use crate::convert::tensor::{DataType, Tensor};
use crate::device::{Device, DeviceStorage};
use crate::interpreter::Interpreter;
use crate::object::Object;
use crate::package::mapping::Mapping;
use crate::session::Session;
use crate::settled_pages::Shared;
use hydrozoa_loader::LeafLock;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// A range of memory, kept alive until the last reference is dropped.
#[derive(Debug)]
pub(crate) struct SharedRange {
    data: NonNull<u8>,
    len: usize,
    device: Device,
    read_only: bool,
    owner: Owner,
}

// SAFETY: the range is plain memory that is only handed to Python, whose programs treat it as
// memory shared between threads; the owners are `Send` and `Sync`, or memory of this type's own.
unsafe impl Send for SharedRange {}
// SAFETY: as above.
unsafe impl Sync for SharedRange {}

#[derive(Debug)]
enum Owner {
    Mapping(#[expect(dead_code, reason = "held for its drop")] Arc<Mapping>),
    /// Memory of our own: `Memory::data` is the first block.
    Blocks(usize),
    /// An object of an interpreter: a torch storage, or a memoryview. The memory stays where it is when the interpreter is settled.
    Python(OwnedObject, #[expect(dead_code, reason = "held for its drop")] Option<Shared>),
    /// A storage on a device, and the interpreter that allocated it, which this keeps alive; no
    /// interpreter for that interpreter's own tensors.
    Device(
        Arc<DeviceStorage>,
        #[expect(dead_code, reason = "held for its drop")] Option<Interpreter>,
    ),
}

/// torch's alignment of storages (`gAlignment` in c10/core/alignment.h).
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Block([u8; 64]);

/// The identity of a range: address and length in bytes, device, and whether it is read-only.
type Range = (usize, usize, [i32; 2], bool);

/// All live ranges. An interpreter that has only borrowed a storage may move it on; the table then finds
/// the true owner.
static LIVE: LeafLock<BTreeMap<Range, Weak<SharedRange>>> = LeafLock::new(BTreeMap::new());

/// The memory that interpreters share at this moment and that this crate keeps alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// Number of ranges: storages of movables and packages in use. A storage on a device counts if other
    /// interpreters than the uploading one use it.
    pub ranges: usize,
    /// The sum of their sizes, in bytes.
    pub bytes: usize,
}

/// Counts the memory that movables and packages keep alive in this process.
pub fn shared_memory() -> SharedMemory {
    // If all others have dropped a range meanwhile, it is dropped here, and dropping takes the lock.
    let ranges: Vec<_> = LIVE.with(|live| live.values().filter_map(Weak::upgrade).collect());
    SharedMemory { ranges: ranges.len(), bytes: ranges.iter().map(|memory| memory.len).sum() }
}

impl SharedRange {
    /// A part of a mapping.
    ///
    /// # Safety
    ///
    /// The range must lie in `mapping`.
    pub(crate) unsafe fn of_mapping(
        data: NonNull<u8>,
        len: usize,
        mapping: Arc<Mapping>,
    ) -> Arc<Self> {
        let (device, owner) = (Device::CPU, Owner::Mapping(mapping));
        Self { data, len, device, read_only: false, owner }.registered()
    }

    /// A copy with torch's alignment of storages.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Arc<Self> {
        let count = bytes.len().div_ceil(size_of::<Block>());
        let blocks = Box::into_raw(vec![Block([0; 64]); count].into_boxed_slice());
        let data = NonNull::new(blocks.cast::<u8>()).expect("a box is not null");
        // SAFETY: the blocks have at least as many bytes, and are nobody else's yet.
        unsafe { data.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        let (device, owner) = (Device::CPU, Owner::Blocks(count));
        Self { data, len: bytes.len(), device, read_only: false, owner }.registered()
    }

    /// Memory that `keeper`, an object of an interpreter, owns; or the range that `keeper` has borrowed.
    ///
    /// # Safety
    ///
    /// `keeper` must keep `len` bytes at `address`, in the memory of `device`, alive and in place.
    pub(crate) unsafe fn of_python(
        address: usize,
        len: usize,
        device: Device,
        read_only: bool,
        keeper: OwnedObject,
    ) -> Arc<Self> {
        let is_ours = device == Device::CPU && !read_only;
        let shared = if is_ours { keeper.shares(address..address + len) } else { None };
        let (data, owner) = (Self::pointer(address), Owner::Python(keeper, shared));
        Self { data, len, device, read_only, owner }.registered()
    }

    /// A storage on a device, for the session's interpreter. `None` if it belongs to another interpreter
    /// that is ending.
    pub(crate) fn of_resident(
        resident: Arc<DeviceStorage>,
        session: &Session,
    ) -> Option<Arc<Self>> {
        let (address, len, device) = (resident.address, resident.len, resident.device);
        if resident.belongs_to(session) {
            // Not in the table, where others would find it and not keep the interpreter alive.
            let data = Self::pointer(address);
            let owner = Owner::Device(resident, None);
            return Some(Arc::new(Self { data, len, device, read_only: false, owner }));
        }
        let interpreter = resident.interpreter()?;
        Some(Self::of_device(resident, interpreter))
    }

    /// A storage on a device that any holder of the range may use, in any interpreter.
    pub(crate) fn of_device(resident: Arc<DeviceStorage>, interpreter: Interpreter) -> Arc<Self> {
        let (address, len, device) = (resident.address, resident.len, resident.device);
        let (data, owner) = (Self::pointer(address), Owner::Device(resident, Some(interpreter)));
        Self { data, len, device, read_only: false, owner }.registered()
    }

    fn pointer(address: usize) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
    }

    /// The object that owns the memory, if it belongs to the session's interpreter. That interpreter
    /// uses the object instead of a loan: by a loan, its own objects would keep it alive.
    pub(crate) fn local_owner<'s>(&self, session: &'s Session) -> Option<Object<'s>> {
        match &self.owner {
            Owner::Python(keeper, _) if keeper.belongs_to(session) => Some(keeper.object(session)),
            Owner::Device(resident, _) => resident.object(session),
            _ => None,
        }
    }

    /// The range, among those that others find; or the one that is there already. In one step: of
    /// two threads that have the same range, both get that of the first.
    fn registered(self) -> Arc<Self> {
        let memory = Arc::new(self);
        if memory.len == 0 {
            return memory;
        }
        let known = LIVE.with(|live| {
            let entry = live.entry(memory.range()).or_default();
            let known = entry.upgrade();
            if known.is_none() {
                *entry = Arc::downgrade(&memory);
            }
            known
        });
        // The one that is not needed is dropped after the lock, which its drop takes.
        known.unwrap_or(memory)
    }

    fn range(&self) -> Range {
        let device = [self.device.kind, self.device.index];
        (self.data.addr().get(), self.len, device, self.read_only)
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// An object with `__dlpack__`: the range as a one-dimensional tensor of uint8.
    pub(crate) fn lend_tensor<'s>(self: &Arc<Self>, session: &'s Session) -> Result<Object<'s>> {
        // SAFETY: the owner keeps the range alive, nothing in Rust refers to it, and dropping it
        // is for any thread.
        let tensor = unsafe {
            Tensor::from_raw_parts(
                self.data.as_ptr().cast(),
                DataType::U8,
                self.device,
                &[i64::try_from(self.len).unwrap_or(i64::MAX)],
                &[1],
                self.read_only,
                Arc::clone(self),
            )
        };
        session.lend_tensor(&tensor)
    }

    /// A `memoryview` over the range, which is main memory.
    pub(crate) fn lend<'s>(self: &Arc<Self>, session: &'s Session) -> Result<Object<'s>> {
        debug_assert_eq!(self.device.kind, Device::CPU.kind);
        // SAFETY: as in `lend_tensor`.
        unsafe { session.lend_raw(self.data.as_ptr(), self.len, self.read_only, Arc::clone(self)) }
    }
}

impl Drop for SharedRange {
    fn drop(&mut self) {
        let range = self.range();
        LIVE.with(|live| {
            // The entry may be another's: the same storage, moved again while this one goes.
            if live.get(&range).is_some_and(|entry| std::ptr::eq(entry.as_ptr(), self)) {
                live.remove(&range);
            }
        });
        if let Owner::Blocks(count) = self.owner {
            let blocks = self.data.cast::<Block>().as_ptr();
            // SAFETY: `of_bytes` took the blocks out of a box of this length, and this is the last
            // reference.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(blocks, count)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LIVE, SharedRange};

    #[test]
    fn copies_are_aligned_and_forgotten_when_dropped() {
        let memory = SharedRange::of_bytes(&[7; 100]);
        let address = memory.data.addr().get();
        assert_eq!(address % 64, 0);
        assert_eq!(memory.len(), 100);
        let range = memory.range();
        assert!(LIVE.with(|live| live.contains_key(&range)));
        drop(memory);
        assert!(!LIVE.with(|live| live.contains_key(&range)));
    }

    #[test]
    fn an_empty_copy_is_no_range() {
        let memory = SharedRange::of_bytes(&[]);
        assert!(!LIVE.with(|live| live.contains_key(&memory.range())));
    }
}
