//! A storage on a device, and how it is freed.

use super::Device;
use crate::interpreter::{Inner, Interpreter};
use crate::object::Object;
use crate::payload::Sink;
use crate::payload::table::{CallArguments, Handle, Kind, PayloadTable, Status, TaggedValue, Text};
use crate::session::Session;
use std::ffi::c_void;
use std::sync::{Arc, Weak};
use std::{fmt, ptr};

/// A torch storage on a device, in the interpreter that allocated it.
///
/// This holds a reference to the storage. When it is dropped, the interpreter first waits for the work
/// that is queued on the device, since others may still read the memory, and then frees the storage. A
/// drop never waits: the interpreter waits at its next entry.
///
/// This does not keep the interpreter alive. The interpreter's own tensors may refer to this, and then
/// it would never end. Users in other interpreters hold the interpreter as well.
pub(crate) struct DeviceStorage {
    interpreter: Weak<Inner>,
    /// The interpreter's table of functions. Its code stays mapped after the interpreter has ended.
    table: PayloadTable,
    storage: Handle,
    pub(crate) address: usize,
    /// In bytes.
    pub(crate) len: usize,
    pub(crate) device: Device,
    /// In torch's notation: `cuda:0`.
    location: String,
}

// SAFETY: the handle is an address that is only used under the interpreter's GIL, or given to its
// queue, which any thread may do.
unsafe impl Send for DeviceStorage {}
// SAFETY: as above.
unsafe impl Sync for DeviceStorage {}

impl DeviceStorage {
    /// # Safety
    ///
    /// `storage` must be a torch storage of `len` bytes at `address`, in the memory of `device`, that
    /// stays in place. All queued work that fills it must have finished on the device.
    pub(crate) unsafe fn new(
        storage: Object<'_>,
        address: usize,
        len: usize,
        device: Device,
        location: String,
    ) -> Arc<Self> {
        let (session, storage) = storage.into_parts();
        let inner = session.inner();
        Arc::new(Self {
            interpreter: Arc::downgrade(inner),
            table: *inner.table(),
            storage,
            address,
            len,
            device,
            location,
        })
    }

    /// The interpreter that allocated it, unless that is ending.
    pub(crate) fn interpreter(&self) -> Option<Interpreter> {
        self.interpreter.upgrade().map(Interpreter)
    }

    /// Whether its interpreter has not begun to end. May be called with locks held: it ends nothing.
    pub(crate) fn is_usable(&self) -> bool {
        self.interpreter.strong_count() > 0
    }

    /// Whether the session's interpreter allocated it.
    pub(crate) fn belongs_to(&self, session: &Session) -> bool {
        ptr::eq(self.interpreter.as_ptr(), Arc::as_ptr(session.inner()))
    }

    /// The storage, if the session's interpreter allocated it.
    pub(crate) fn object<'s>(&self, session: &'s Session) -> Option<Object<'s>> {
        // SAFETY: this refers to the storage, which is of the session's interpreter.
        self.belongs_to(session).then(|| unsafe { Object::from_borrowed(session, self.storage) })
    }
}

impl Drop for DeviceStorage {
    fn drop(&mut self) {
        let location = std::mem::take(&mut self.location);
        let waiting = Box::into_raw(Box::new(Waiting { table: self.table, location }));
        // SAFETY: any thread may call both. `wait` is called once at most, with the box that it takes
        // over; the reference is given up behind it, for the queue keeps the order.
        unsafe {
            (self.table.defer)(wait, waiting.cast());
            (self.table.release)(self.storage);
        }
    }
}

impl fmt::Debug for DeviceStorage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<{} bytes on {} at {:#x}>", self.len, self.location, self.address)
    }
}

struct Waiting {
    table: PayloadTable,
    location: String,
}

/// Calls `_hydrozoa.devices.release(location)` through the table: an interpreter also empties its queue
/// when it ends, and no session exists then.
///
/// # Safety
///
/// `waiting` must come from `Box::into_raw` of a [`Waiting`], and is freed. This thread must hold
/// the GIL of its interpreter.
unsafe extern "C" fn wait(waiting: *mut c_void) {
    // SAFETY: as the caller vouches.
    let Waiting { table, location } = *unsafe { Box::from_raw(waiting.cast::<Waiting>()) };
    let mut sink = Sink::default();
    let leaf = TaggedValue::view(Kind::STR, location.as_bytes());
    let [mut module, mut result] = [ptr::null_mut(); 2];
    // SAFETY: attached, as the caller vouches; every place is valid, every object is referred to
    // during the calls, and what they yield is given up afterwards.
    let status = unsafe {
        let mut status =
            (table.import)(Text::new("_hydrozoa.devices"), &mut module, sink.pointer());
        if status == Status::DONE {
            let names = ptr::NonNull::dangling().as_ptr();
            let arguments = CallArguments { values: &leaf, positional: 1, names, named: 0 };
            let method = Text::new("release");
            status = (table.call)(module, method, &arguments, &mut result, sink.pointer());
        }
        for object in [module, result] {
            if !object.is_null() {
                (table.release)(object);
            }
        }
        status
    };
    if let Err(error) = sink.check(status) {
        // The device does not answer any more, or the interpreter has no modules any more.
        tracing::warn!(
            device = location,
            %error,
            "memory is given back without having waited for the device"
        );
    }
}
