//! The C++ types that cross the boundary to libtorch, as libstdc++ and the Itanium C++ ABI lay
//! them out. The layout is libstdc++'s "new" ABI (`std::__cxx11`), unchanged since GCC 5.
//!
//! Every signature in torch/ follows these rules of the psABI. A class with a non-trivial copy
//! constructor or destructor is passed as the address of a temporary, which the *caller* destroys. It
//! is returned through a hidden first pointer, which the function also returns in `rax`. A trivially
//! copyable class of up to 16 bytes travels in registers like an integer:
//! `std::optional<c10::DispatchKey>` is one 32-bit integer.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

/// `operator new` and `operator delete` of the process.
#[derive(Clone, Copy)]
pub(super) struct Allocator {
    pub(super) new: unsafe extern "C-unwind" fn(usize) -> *mut u8,
    pub(super) delete: unsafe extern "C-unwind" fn(*mut u8),
}

impl Allocator {
    pub(super) fn allocate(self, bytes: usize) -> *mut u8 {
        // SAFETY: `operator new` accepts any size and throws rather than return null.
        unsafe { (self.new)(bytes) }
    }

    /// # Safety
    /// `data` came from `operator new` and is not used any more.
    pub(super) unsafe fn free(self, data: *mut u8) {
        // SAFETY: by contract.
        unsafe { (self.delete)(data) };
    }
}

/// `std::string`: pointer, length, and 16 bytes that are the text itself while it fits.
///
/// Invariant: an inline string's `data` points into the object, so it never moves in memory after
/// it was written.
#[repr(C)]
pub(super) struct CxxString {
    data: *mut u8,
    length: usize,
    inline: [u8; 16],
}

impl CxxString {
    /// Writes a new string to `place`.
    ///
    /// # Safety
    /// `place` is valid for writes and holds no live string; the string is freed by C++ or by
    /// [`CxxString::destroy`], once.
    pub(super) unsafe fn write(place: *mut CxxString, text: &str, allocator: Allocator) {
        // SAFETY: `place` is writable; the text fits the buffer that is chosen, with its NUL.
        unsafe {
            let inline = (&raw mut (*place).inline).cast::<u8>();
            let data = if text.len() < 16 {
                inline
            } else {
                (&raw mut (*place).inline).cast::<usize>().write(text.len());
                allocator.allocate(text.len() + 1)
            };
            data.copy_from_nonoverlapping(text.as_ptr(), text.len());
            data.add(text.len()).write(0);
            (&raw mut (*place).data).write(data);
            (&raw mut (*place).length).write(text.len());
        }
    }

    /// Frees what a string at `place` owns.
    ///
    /// # Safety
    /// `place` holds a live string, which is not used any more.
    pub(super) unsafe fn destroy(place: *mut CxxString, allocator: Allocator) {
        // SAFETY: a live string whose data lies outside of it owns that allocation.
        unsafe {
            if (*place).data.cast_const() != (&raw const (*place).inline).cast::<u8>() {
                allocator.free((*place).data);
            }
        }
    }

    /// Moves a string in memory, minding that an inline one points into itself.
    ///
    /// # Safety
    /// `from` holds a live string, `to` is valid for writes; afterwards `from` holds none.
    pub(super) unsafe fn relocate(from: *mut CxxString, to: *mut CxxString) {
        // SAFETY: by contract; an inline string's pointer is set to its new buffer.
        unsafe {
            let inline = (*from).data.cast_const() == (&raw const (*from).inline).cast::<u8>();
            std::ptr::copy(from, to, 1);
            if inline {
                (&raw mut (*to).data).write((&raw mut (*to).inline).cast());
            }
        }
    }

    /// The text. It is a C++ identifier, a schema or a path, which are ASCII in practice.
    pub(super) fn text(&self) -> String {
        // SAFETY: `data` and `length` describe the string's bytes.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(self.data, self.length) })
            .into_owned()
    }
}

/// A string of ours that C++ reads (`const std::string&`) or moves from (`std::string` by value).
pub(super) struct OwnedString {
    string: Box<MaybeUninit<CxxString>>,
    allocator: Allocator,
}

impl OwnedString {
    pub(super) fn new(text: &str, allocator: Allocator) -> OwnedString {
        let mut string = Box::new(MaybeUninit::uninit());
        // SAFETY: the box is fresh memory, and the string never leaves it.
        unsafe { CxxString::write(string.as_mut_ptr(), text, allocator) };
        OwnedString { string, allocator }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut CxxString {
        self.string.as_mut_ptr()
    }
}

impl Drop for OwnedString {
    fn drop(&mut self) {
        // SAFETY: the box holds a live string: ours, or the valid empty one that a move leaves.
        unsafe { CxxString::destroy(self.string.as_mut_ptr(), self.allocator) };
    }
}

/// `std::vector<T>`: begin, end, end of storage.
#[repr(C)]
pub(super) struct CxxVector {
    begin: *mut u8,
    end: *mut u8,
    capacity: *mut u8,
}

impl CxxVector {
    /// An empty vector of any element type; it owns nothing.
    pub(super) const EMPTY: CxxVector = CxxVector {
        begin: std::ptr::null_mut(),
        end: std::ptr::null_mut(),
        capacity: std::ptr::null_mut(),
    };

    /// Appends `element` by copying its bytes.
    ///
    /// # Safety
    /// `self` is a live vector whose elements have `T`'s layout and may be relocated by copying
    /// their bytes (which libstdc++'s `std::function` and `std::shared_ptr` allow).
    pub(super) unsafe fn push<T>(&mut self, element: T, allocator: Allocator) {
        let size = size_of::<T>();
        if self.end == self.capacity {
            let used = self.end as usize - self.begin as usize;
            let capacity = (2 * used).max(4 * size);
            // SAFETY: the old elements move, bytes and all, to larger storage from the allocator
            // that C++ will free it with.
            unsafe {
                let storage = allocator.allocate(capacity);
                if used > 0 {
                    storage.copy_from_nonoverlapping(self.begin, used);
                    allocator.free(self.begin);
                }
                self.begin = storage;
                self.end = storage.add(used);
                self.capacity = storage.add(capacity);
            }
        }
        // SAFETY: there is room for one more element at `end`.
        unsafe {
            self.end.cast::<T>().write(element);
            self.end = self.end.add(size);
        }
    }
}

impl CxxVector {
    /// Keeps the elements that `keep` wants; `relocate` moves one in memory, `destroy` ends one.
    ///
    /// # Safety
    /// It is a live vector of `T`, and the two functions do what C++ would.
    pub(super) unsafe fn retain<T>(
        &mut self,
        mut keep: impl FnMut(&T) -> bool,
        relocate: unsafe fn(*mut T, *mut T),
        destroy: unsafe fn(*mut T),
    ) {
        let mut element = self.begin.cast::<T>();
        let mut kept = element;
        // SAFETY: elements between begin and end are live; those before `kept` are in place.
        unsafe {
            while element.cast() != self.end {
                if keep(&*element) {
                    if kept != element {
                        relocate(element, kept);
                    }
                    kept = kept.add(1);
                } else {
                    destroy(element);
                }
                element = element.add(1);
            }
        }
        self.end = kept.cast();
    }

    /// A `std::vector<std::string>`.
    pub(super) fn of_strings(texts: &[&str], allocator: Allocator) -> CxxVector {
        let size = texts.len() * size_of::<CxxString>();
        let begin = allocator.allocate(size);
        // SAFETY: storage for that many strings, each written where it stays.
        let end = unsafe {
            for (place, text) in texts.iter().enumerate() {
                CxxString::write(begin.cast::<CxxString>().add(place), text, allocator);
            }
            begin.add(size)
        };
        CxxVector { begin, end, capacity: end }
    }

    /// Destroys a `std::vector<std::string>`, also one that was moved from.
    ///
    /// # Safety
    /// It is live and is not used any more.
    pub(super) unsafe fn destroy_strings(&mut self, allocator: Allocator) {
        let mut string = self.begin.cast::<CxxString>();
        // SAFETY: the strings between begin and end are live.
        unsafe {
            while string.cast() != self.end {
                CxxString::destroy(string, allocator);
                string = string.add(1);
            }
            self.free(allocator);
        }
    }

    /// Frees the storage of a vector whose elements are gone.
    ///
    /// # Safety
    /// The vector is empty and is not used any more.
    pub(super) unsafe fn free(&mut self, allocator: Allocator) {
        if !self.begin.is_null() {
            // SAFETY: by contract; the storage came from `operator new`.
            unsafe { allocator.free(self.begin) };
        }
    }
}

/// `std::function<R(Args...)>`: 16 bytes for the target, then its manager and its invoker.
///
/// The invoker receives the address of the target's 16 bytes before the arguments (after the
/// hidden result pointer, if there is one).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxFunction {
    pub(super) target: [*mut c_void; 2],
    manager: Option<Manager>,
    pub(super) invoker: *const c_void,
}

/// `bool manager(_Any_data& destination, const _Any_data& source, _Manager_operation)`. To copy a target may throw.
type Manager =
    unsafe extern "C-unwind" fn(*mut [*mut c_void; 2], *const [*mut c_void; 2], u32) -> bool;

/// `_Manager_operation`: the two of the four that are used without RTTI.
const CLONE: u32 = 2;
const DESTROY: u32 = 3;

impl CxxFunction {
    /// `std::function` without a target.
    pub(super) const EMPTY: CxxFunction =
        CxxFunction { target: [std::ptr::null_mut(); 2], manager: None, invoker: std::ptr::null() };

    /// A function that calls `invoker` with `target`, which outlives the process's use of it.
    pub(super) fn borrowed(target: *const c_void, invoker: *const c_void) -> CxxFunction {
        CxxFunction {
            target: [target.cast_mut(), std::ptr::null_mut()],
            manager: Some(manage_borrowed),
            invoker,
        }
    }

    /// A function that owns `target` and drops it when it is destroyed.
    ///
    /// It can be moved but not copied, as `c10::RegistrationHandleRAII`'s never is.
    pub(super) fn owned<T>(target: Box<T>, invoker: *const c_void) -> CxxFunction {
        CxxFunction {
            target: [Box::into_raw(target).cast(), std::ptr::null_mut()],
            manager: Some(manage_owned::<T>),
            invoker,
        }
    }

    /// Moves the function out of `place`, leaving one without a target, as `std::move` does.
    ///
    /// # Safety
    /// `place` holds a live function.
    pub(super) unsafe fn take(place: *mut CxxFunction) -> CxxFunction {
        // SAFETY: libstdc++ moves a function by copying these words.
        unsafe { std::ptr::replace(place, CxxFunction::EMPTY) }
    }

    /// Another function with a copy of the target.
    ///
    /// # Safety
    /// The target can be copied, and what it belongs to is alive.
    pub(super) unsafe fn copy(&self) -> CxxFunction {
        let Some(manager) = self.manager else { return CxxFunction::EMPTY };
        let mut copy = CxxFunction { ..CxxFunction::EMPTY };
        // SAFETY: libstdc++ copies a function so (std_function.h, the copy constructor).
        unsafe { manager(&mut copy.target, &self.target, CLONE) };
        CxxFunction { manager: self.manager, invoker: self.invoker, ..copy }
    }

    /// Whether it can be called.
    pub(super) fn is_callable(&self) -> bool {
        self.manager.is_some()
    }
}

unsafe extern "C-unwind" fn manage_borrowed(
    destination: *mut [*mut c_void; 2],
    source: *const [*mut c_void; 2],
    operation: u32,
) -> bool {
    if operation == CLONE {
        // SAFETY: libstdc++ passes both for this operation.
        unsafe { *destination = *source };
    }
    false
}

unsafe extern "C-unwind" fn manage_owned<T>(
    destination: *mut [*mut c_void; 2],
    _source: *const [*mut c_void; 2],
    operation: u32,
) -> bool {
    if operation == DESTROY {
        // SAFETY: the target is the box that `owned` took, destroyed once with its function.
        drop(unsafe { Box::from_raw((*destination)[0].cast::<T>()) });
    }
    false
}

/// `std::pair` of two pointers. Its copies are trivial, so it travels in two registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxPair {
    first: *const c_void,
    second: *const c_void,
}

/// `std::shared_ptr<T>`: the object and its control block.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxShared {
    pub(super) object: *mut c_void,
    control: *mut ControlBlock,
}

/// The head of libstdc++'s `_Sp_counted_base`: virtual table, owners, observers.
#[repr(C)]
struct ControlBlock {
    vtable: *const c_void,
    owners: AtomicI32,
    observers: AtomicI32,
}

// SAFETY: the count is atomic, and what these pointers own (types of the TorchScript type system)
// is shared between threads by C++ in the same way.
unsafe impl Send for CxxShared {}
// SAFETY: as above.
unsafe impl Sync for CxxShared {}

impl CxxShared {
    /// The null pointer.
    pub(super) const NULL: CxxShared =
        CxxShared { object: std::ptr::null_mut(), control: std::ptr::null_mut() };

    /// Removes one owner of an object that has others (libtorch's table of operators).
    pub(super) fn release(&self) {
        if !self.control.is_null() {
            // SAFETY: as in `retain`; the object outlives this, since the count stays above zero.
            unsafe { (*self.control).owners.fetch_sub(1, Ordering::Release) };
        }
    }

    /// The owner of an object that was just made.
    ///
    /// # Safety
    /// `control` is an `_Sp_counted_base` that counts one owner of `object`.
    pub(super) unsafe fn of(object: *mut c_void, control: *mut c_void) -> CxxShared {
        CxxShared { object, control: control.cast() }
    }

    /// Removes one owner, and destroys the object with the last one (libstdc++, `_Sp_counted_base::_M_release`).
    ///
    /// # Safety
    /// The owner is this value, which is not used any more.
    pub(super) unsafe fn drop_owner(self) {
        type Method = unsafe extern "C-unwind" fn(*mut ControlBlock);
        let control = self.control;
        if control.is_null() {
            return;
        }
        // SAFETY: the block lives until its last observer is gone; all owners together are one. The third and
        // fourth functions of its virtual table are `_M_dispose` and `_M_destroy`, behind two destructors.
        unsafe {
            let method = |place: usize| *(*control).vtable.cast::<Method>().add(place);
            if (*control).owners.fetch_sub(1, Ordering::AcqRel) == 1 {
                method(2)(control);
                if (*control).observers.fetch_sub(1, Ordering::AcqRel) == 1 {
                    method(3)(control);
                }
            }
        }
    }

    /// A pointer to an object without owners.
    pub(super) fn unowned(object: *mut c_void) -> CxxShared {
        CxxShared { object, control: std::ptr::null_mut() }
    }

    /// Adds one owner of the object, which is never removed: the adapter keeps it for good.
    pub(super) fn retain(&self) -> CxxShared {
        if !self.control.is_null() {
            // SAFETY: a non-null control block lives as long as an owner, which `self` is.
            unsafe { (*self.control).owners.fetch_add(1, Ordering::Relaxed) };
        }
        *self
    }
}

/// The name in a `std::type_info`, without the mark of a type that is compared by address.
///
/// # Safety
/// `info` is a `std::type_info` (vtable pointer, name pointer).
pub(super) unsafe fn type_name(info: *const c_void) -> String {
    // SAFETY: the Itanium ABI places the NUL-terminated name second.
    let name = unsafe { std::ffi::CStr::from_ptr(*info.cast::<*const std::ffi::c_char>().add(1)) };
    name.to_string_lossy().trim_start_matches('*').to_owned()
}
