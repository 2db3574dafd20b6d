//! Kernels as the dispatcher holds them (ATen/core/boxing/KernelFunction.h, torch/library.h).
//!
//! These layouts hold from torch 2.9 (which added `tokens`) to 2.15.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cxx::{Allocator, CxxString, CxxVector};
use super::exported::InRegister;

/// `void(OperatorKernel*, const OperatorHandle&, DispatchKeySet, Stack*)`.
pub(super) type BoxedFn =
    unsafe extern "C-unwind" fn(*mut c_void, *const OperatorHandle, u64, *mut c_void);

/// `c10::KernelFunction`: the functor that owns the kernel's state, the entry for arguments on a
/// stack, and the entries for arguments in registers (with concrete and with symbolic integers).
#[repr(C)]
#[derive(Debug)]
pub(super) struct KernelFunction {
    /// `c10::intrusive_ptr<OperatorKernel>`, null for a plain boxed function.
    pub(super) functor: *mut c_void,
    pub(super) boxed: Option<BoxedFn>,
    pub(super) unboxed: *const c_void,
    pub(super) sym_unboxed: *const c_void,
    /// `std::unique_ptr<std::vector<std::weak_ptr<KernelToken>>>`.
    tokens: *mut c_void,
}

impl KernelFunction {
    /// `KernelFunction()`: no kernel.
    pub(in super::super) const NONE: KernelFunction = KernelFunction {
        functor: std::ptr::null_mut(),
        boxed: None,
        unboxed: std::ptr::null(),
        sym_unboxed: std::ptr::null(),
        tokens: std::ptr::null_mut(),
    };

    pub(super) fn new(
        functor: *mut c_void,
        boxed: BoxedFn,
        unboxed: *const c_void,
        sym_unboxed: *const c_void,
    ) -> KernelFunction {
        KernelFunction {
            functor,
            boxed: Some(boxed),
            unboxed,
            sym_unboxed,
            tokens: std::ptr::null_mut(),
        }
    }

    /// Moves the kernel out of `place`.
    ///
    /// # Safety
    /// `place` holds a live kernel function.
    pub(super) unsafe fn take(place: *mut KernelFunction) -> KernelFunction {
        // SAFETY: its members are moved by copying their words and leaving null.
        unsafe { std::ptr::replace(place, KernelFunction::NONE) }
    }

    /// Another reference to the same kernel, which keeps its functor alive for good. It is for tables
    /// and not for calls, since nobody releases it.
    pub(super) fn retained(&self) -> KernelFunction {
        if !self.functor.is_null() {
            // SAFETY: an `intrusive_ptr_target` is a vtable pointer and an atomic count whose low
            // half counts owners (c10/util/intrusive_ptr.h); this functor has an owner.
            unsafe { (*self.functor.cast::<AtomicU64>().add(1)).fetch_add(1, Ordering::Relaxed) };
        }
        self.borrowed()
    }

    /// The same kernel without a reference: valid while `self`'s functor lives.
    pub(super) fn borrowed(&self) -> KernelFunction {
        KernelFunction {
            functor: self.functor,
            boxed: self.boxed,
            unboxed: self.unboxed,
            sym_unboxed: self.sym_unboxed,
            tokens: std::ptr::null_mut(),
        }
    }
}

/// `std::optional<c10::DispatchKey>` in a register: the key, and the flag in the third byte.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct OptionalKey(u32);

impl OptionalKey {
    pub(super) fn key(self) -> Option<u16> {
        (self.0 >> 16 & 0xff != 0).then_some(self.0 as u16)
    }
}

impl InRegister for OptionalKey {}

/// `torch::CppFunction`: a kernel on its way into a `torch::Library`.
#[repr(C)]
pub(super) struct CppFunction {
    pub(super) dispatch_key: OptionalKey,
    _padding: u32,
    pub(super) kernel: KernelFunction,
    /// `std::optional<impl::CppSignature>`.
    cpp_signature: [usize; 2],
    /// `std::unique_ptr<FunctionSchema>`: the schema inferred from the C++ function's type.
    pub(super) inferred_schema: *mut c_void,
    debug: CxxString,
}

impl CppFunction {
    /// Moves what libtorch will own to memory of the process. The code that made it takes memory of its interpreter, and
    /// the registration of a kernel may outlive that: it ends with the last interpreter that has a kernel.
    ///
    /// # Safety
    /// `schema_size` is that of a `c10::FunctionSchema`. The objects were made by `operator new`.
    pub(super) unsafe fn leave_interpreter(&mut self, schema_size: usize, allocator: Allocator) {
        let schema = self.inferred_schema;
        if !schema.is_null() {
            let own = allocator.allocate(schema_size);
            // SAFETY: by contract. A schema begins with its name, whose strings hold addresses of themselves; the rest
            // may be moved by copying its bytes.
            unsafe {
                ptr::copy_nonoverlapping(schema.cast(), own, schema_size);
                OperatorName::relocate(schema.cast(), own.cast());
                allocator.free(schema.cast());
            }
            self.inferred_schema = own.cast();
        }
        let debug = self.debug.text();
        // SAFETY: a live string, which is written anew.
        unsafe {
            CxxString::destroy(&raw mut self.debug, allocator);
            CxxString::write(&raw mut self.debug, &debug, allocator);
        }
    }
}

/// `torch::Library`.
#[repr(C)]
pub(super) struct LibraryLayout {
    pub(super) kind: u32,
    /// `std::optional<std::string>`.
    pub(super) namespace: CxxString,
    pub(super) has_namespace: bool,
    _padding: [u8; 7],
    pub(super) dispatch_key: OptionalKey,
    /// `std::optional<std::pair<const char*, const char*>>`.
    pub(super) python_module: [usize; 3],
    pub(super) file: *const c_char,
    pub(super) line: u32,
    /// `std::vector<RegistrationHandleRAII>`, each a `std::function<void()>` to call when it goes.
    pub(super) registrars: CxxVector,
}

/// `torch::Library::Kind`.
pub(super) mod kind {
    pub(in super::super) const DEF: u32 = 0;
    pub(in super::super) const IMPL: u32 = 1;
    pub(in super::super) const FRAGMENT: u32 = 2;
}

/// `c10::OperatorHandle`: the operator's definition, whose first member is its `OperatorEntry`,
/// whose first member is its name.
#[repr(C)]
#[derive(Debug)]
pub(super) struct OperatorHandle {
    pub(super) entry: *const c_void,
    iterator: *const c_void,
}

/// `std::optional<c10::OperatorHandle>`.
#[repr(C)]
pub(super) struct OptionalHandle {
    pub(super) handle: OperatorHandle,
    pub(super) engaged: bool,
}

/// `c10::OperatorName`.
#[repr(C)]
pub(super) struct OperatorName {
    name: CxxString,
    overload: CxxString,
}

impl OperatorName {
    /// Writes a name to `place`, to be destroyed by [`OperatorName::destroy`].
    ///
    /// # Safety
    /// `place` is valid for writes; the name does not move afterwards.
    pub(super) unsafe fn write(
        place: *mut OperatorName,
        name: &str,
        overload: &str,
        allocator: Allocator,
    ) {
        // SAFETY: by contract.
        unsafe {
            CxxString::write(&raw mut (*place).name, name, allocator);
            CxxString::write(&raw mut (*place).overload, overload, allocator);
        }
    }

    /// # Safety
    /// The name is live and is not used any more.
    pub(super) unsafe fn destroy(name: *mut OperatorName, allocator: Allocator) {
        // SAFETY: by contract.
        unsafe {
            CxxString::destroy(&raw mut (*name).name, allocator);
            CxxString::destroy(&raw mut (*name).overload, allocator);
        }
    }

    /// # Safety
    /// As [`CxxString::relocate`].
    pub(super) unsafe fn relocate(from: *mut OperatorName, to: *mut OperatorName) {
        // SAFETY: by contract.
        unsafe {
            CxxString::relocate(&raw mut (*from).name, &raw mut (*to).name);
            CxxString::relocate(&raw mut (*from).overload, &raw mut (*to).overload);
        }
    }

    /// The name as one string, `namespace::name.overload`.
    pub(super) fn full(&self) -> String {
        let (mut name, overload) = (self.name.text(), self.overload.text());
        if !overload.is_empty() {
            name.push('.');
            name.push_str(&overload);
        }
        name
    }
}

// The offsets that a program compiled against torch 2.11's headers prints.
const _: () = {
    assert!(size_of::<KernelFunction>() == 40);
    assert!(size_of::<CppFunction>() == 104 && std::mem::offset_of!(CppFunction, kernel) == 8);
    assert!(std::mem::offset_of!(CppFunction, inferred_schema) == 64);
    assert!(std::mem::offset_of!(LibraryLayout, namespace) == 8);
    assert!(std::mem::offset_of!(LibraryLayout, dispatch_key) == 48);
    assert!(std::mem::offset_of!(LibraryLayout, python_module) == 56);
    assert!(std::mem::offset_of!(LibraryLayout, line) == 88);
    assert!(std::mem::offset_of!(LibraryLayout, registrars) == 96);
    assert!(size_of::<OperatorName>() == 64);
};
