//! The registered fat binaries of all interpreters, and which of them are shared.
//!
//! A library's constructors register each fat binary, then its kernels and variables, and then say that this was all. Only then
//! is it known whether the binary is shareable ([`super::binary`]), so until then nothing is passed on. The first replica's
//! pointers are passed on for all: a replica's constant pages stay mapped when its domain has ended. The runtime reads the data
//! behind them later, so it gets a copy of the wrapper, which is data. Later replicas register nothing.

use super::binary::{DeviceSymbol, Wrapper, is_shareable};
use super::runtime::{Function, Runtime, Word, call, call_with_ten};
use hydrozoa_loader::{ImageId, LeafLock, Located};
use std::collections::{HashMap, HashSet};
use std::ptr;

pub(super) static BINARY: Function = Function::new("__cudaRegisterFatBinary");
pub(super) static END: Function = Function::new("__cudaRegisterFatBinaryEnd");
pub(super) static KERNEL: Function = Function::new("__cudaRegisterFunction");
pub(super) static VARIABLE: Function = Function::new("__cudaRegisterVar");

/// The device code of one image, for one runtime.
#[derive(Debug, Default)]
struct Code {
    /// The start of the replica whose pointers the runtime holds.
    home: usize,
    /// Its fat binaries by the offsets of their wrappers, and whether each is shared.
    binaries: HashMap<usize, bool>,
    /// The offsets by which the host's program names shared kernels and variables.
    shared: HashSet<u32>,
}

/// A fat binary whose registration is incomplete.
#[derive(Debug)]
struct Pending {
    runtime: Runtime,
    image: ImageId,
    wrapper: usize,
    /// Where its replica begins.
    base: usize,
    entries: Vec<DeviceSymbol>,
    functions: Functions,
}

/// The runtime's functions for it.
#[derive(Clone, Copy, Debug)]
struct Functions {
    binary: usize,
    end: Option<usize>,
    kernel: usize,
    variable: Option<usize>,
}

/// The meaning of a handle that a library holds.
#[derive(Debug)]
enum Handle {
    Pending(Pending),
    Shared,
    /// The runtime's handle.
    Private(usize),
}

#[derive(Default)]
struct Registry {
    code: Option<HashMap<(usize, ImageId), Code>>,
    /// By their addresses, which are those of the boxes.
    handles: Option<HashMap<usize, (Box<u64>, Handle)>>,
}

/// The runtime is called while this is held. It takes its own locks for that, and never calls code that takes this one.
static REGISTRY: LeafLock<Registry> = LeafLock::new(Registry { code: None, handles: None });

/// The handle of a binary that an earlier replica has registered.
static SHARED: u64 = 0;

fn is_shared_handle(handle: Word) -> bool {
    handle == (&raw const SHARED).addr()
}

impl Registry {
    fn code(&mut self) -> &mut HashMap<(usize, ImageId), Code> {
        self.code.get_or_insert_default()
    }

    fn handles(&mut self) -> &mut HashMap<usize, (Box<u64>, Handle)> {
        self.handles.get_or_insert_default()
    }
}

/// A handle for the binary at `wrapper`; none to leave it to the runtime.
pub(super) fn begin(wrapper: Word) -> Option<Word> {
    let replica = Located::at(ptr::without_provenance(wrapper))?;
    let definition = |name: &str| replica.definition(name);
    let runtime = Runtime::of(definition)?;
    if !runtime.is_shared || replica.is_shared() {
        return None;
    }
    let (image, base, offset) = (replica.image(), replica.base(), replica.offset());
    let functions = Functions {
        binary: BINARY.address(runtime, definition)?,
        end: END.address(runtime, definition),
        kernel: KERNEL.address(runtime, definition)?,
        variable: VARIABLE.address(runtime, definition),
    };
    drop(replica);
    REGISTRY.with(|registry| {
        let known = registry.code().get(&(runtime.number, image));
        match known.and_then(|code| code.binaries.get(&offset)) {
            Some(true) => return Some((&raw const SHARED).addr()),
            Some(false) => return None,
            None => {}
        }
        let pending = Pending { runtime, image, wrapper, base, entries: Vec::new(), functions };
        let token = Box::new(0);
        let handle = (&raw const *token).addr();
        registry.handles().insert(handle, (token, Handle::Pending(pending)));
        Some(handle)
    })
}

/// Registers the known parts of a fat binary, shared or private. The result is the runtime's handle, or none if not needed.
///
/// # Safety
/// The library that has registered it is there, and registers no more of it.
pub(super) unsafe fn settle(handle: Word) -> Option<Word> {
    if is_shared_handle(handle) {
        return None;
    }
    let taken = REGISTRY.with(|registry| match registry.handles().get_mut(&handle) {
        None => Err(Some(handle)),
        Some((_, Handle::Private(of_runtime))) => Err(Some(*of_runtime)),
        Some((_, Handle::Shared)) => Err(None),
        // No other thread has the handle.
        Some((_, Handle::Pending(pending))) => Ok(pending.take()),
    });
    let pending = match taken {
        Ok(pending) => pending,
        Err(of_runtime) => return of_runtime,
    };
    let wrapper: *const Wrapper = ptr::with_exposed_provenance(pending.wrapper);
    let replica = Located::at(wrapper.cast());
    // SAFETY: the caller's library has registered it.
    let shareable = |replica: &Located| unsafe { is_shareable(replica, wrapper, &pending.entries) };
    let shareable = replica.as_ref().is_some_and(shareable);
    drop(replica);
    REGISTRY.with(|registry| {
        let code = registry.code().entry((pending.runtime.number, pending.image)).or_default();
        let known = code.binaries.insert(pending.wrapper - pending.base, shareable);
        if shareable {
            if code.shared.is_empty() {
                code.home = pending.base;
            }
            // Another interpreter may have been faster.
            if known != Some(true) {
                let distance = code.home.wrapping_sub(pending.base);
                // SAFETY: what lies `distance` further is the same in another replica of the image, and stays.
                unsafe { pending.register_for_all(distance) };
                let hosts = pending.entries.iter().map(DeviceSymbol::host);
                code.shared.extend(hosts.map(|host| (host - pending.base) as u32));
            }
        }
        // SAFETY: what the library has asked for.
        let of_runtime = (!shareable).then(|| unsafe {
            pending.functions.pass_on(pending.wrapper, pending.entries.iter().copied())
        });
        if let Some((_, state)) = registry.handles().get_mut(&handle) {
            *state = of_runtime.map_or(Handle::Shared, Handle::Private);
        }
        of_runtime
    })
}

impl Pending {
    /// Takes everything known so far, and leaves nothing.
    fn take(&mut self) -> Pending {
        Pending { entries: std::mem::take(&mut self.entries), ..*self }
    }

    /// Registers it for the life of the process, with pointers that lie `distance` further.
    ///
    /// # Safety
    /// Behind those is the same, and it stays.
    unsafe fn register_for_all(&self, distance: usize) {
        let wrapper: *const Wrapper = ptr::with_exposed_provenance(self.wrapper);
        // SAFETY: by contract.
        let copy: &'static Wrapper = Box::leak(Box::new(unsafe { *wrapper }.moved(distance)));
        let entries = self.entries.iter().map(|entry| entry.moved(distance));
        // SAFETY: by contract.
        unsafe { self.functions.pass_on(ptr::from_ref(copy).expose_provenance(), entries) };
    }
}

impl Functions {
    /// Registers a fat binary with the runtime, whose handle is the result.
    ///
    /// # Safety
    /// The pointers are valid as long as the runtime holds them.
    unsafe fn pass_on(&self, wrapper: Word, entries: impl Iterator<Item = DeviceSymbol>) -> Word {
        // SAFETY: by contract; the functions are the runtime's.
        unsafe {
            let handle = call(self.binary, [wrapper, 0, 0, 0, 0, 0, 0, 0, 0]);
            entries.for_each(|entry| self.register(handle, entry));
            if let Some(end) = self.end {
                call(end, [handle, 0, 0, 0, 0, 0, 0, 0, 0]);
            }
            handle
        }
    }

    /// # Safety
    /// As the runtime's functions.
    unsafe fn register(&self, handle: Word, entry: DeviceSymbol) {
        let (function, [a, b, c, d, e, f, g, h]) = match entry {
            DeviceSymbol::Kernel(words) => {
                // SAFETY: by contract.
                return unsafe { call_with_ten(self.kernel, handle, words) };
            }
            DeviceSymbol::Variable([a, b, c, d, e, f, g]) => {
                (self.variable, [a, b, c, d, e, f, g, 0])
            }
            DeviceSymbol::State(function, words) => (Some(function), words),
        };
        if let Some(function) = function {
            // SAFETY: by contract.
            unsafe { call(function, [handle, a, b, c, d, e, f, g, h]) };
        }
    }
}

/// Forgets a handle that nobody holds any more. The result is the runtime's handle, or none if the runtime does not know it.
pub(super) fn forget(handle: Word) -> Option<Word> {
    if is_shared_handle(handle) {
        return None;
    }
    match REGISTRY.with(|registry| registry.handles().remove(&handle)) {
        None => Some(handle),
        Some((_, Handle::Private(of_runtime))) => Some(of_runtime),
        Some((_, Handle::Shared | Handle::Pending(_))) => None,
    }
}

/// Takes a part of a fat binary. If it is not taken, register it with the runtime's handle, which is the result.
pub(super) fn take(handle: Word, entry: DeviceSymbol) -> Option<Word> {
    if is_shared_handle(handle) {
        return None;
    }
    REGISTRY.with(|registry| match registry.handles().get_mut(&handle) {
        Some((_, Handle::Pending(pending))) => {
            pending.entries.push(entry);
            None
        }
        Some((_, Handle::Shared)) => None,
        Some((_, Handle::Private(of_runtime))) => Some(*of_runtime),
        None => Some(handle),
    })
}

/// The runtime's name for the kernel or variable that a replica's program names by `pointer`, and that runtime; none if it is
/// not shared.
pub(super) fn shared(pointer: usize) -> Option<(usize, Runtime)> {
    let replica = Located::at(ptr::without_provenance(pointer))?;
    let (image, base) = (replica.image(), replica.base());
    drop(replica);
    let offset = u32::try_from(pointer - base).ok()?;
    // Libraries of old compilers do not say when all is registered.
    let is_of = |state: &Handle| matches!(state, Handle::Pending(pending) if pending.base == base);
    let unsettled: Vec<Word> = REGISTRY.with(|registry| {
        let all = registry.handles().iter();
        all.filter(|(_, (_, state))| is_of(state)).map(|(handle, _)| *handle).collect()
    });
    for handle in unsettled {
        // SAFETY: the library runs, so its constructors have run.
        unsafe { settle(handle) };
    }
    REGISTRY.with(|registry| {
        let found = registry
            .code()
            .iter()
            .find(|((_, of), code)| *of == image && code.shared.contains(&offset));
        let ((number, _), code) = found?;
        Some((code.home + offset as usize, Runtime { number: *number, is_shared: true }))
    })
}
