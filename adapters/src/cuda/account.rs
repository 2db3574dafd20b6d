//! The device memory, streams and handles that an interpreter owns. Its memory has a limit; its end releases everything.
//!
//! One interpreter's code may free memory that another one allocated, so the process keeps one list. Allocations by libraries
//! that exist once, such as cuBLAS, are not listed, since these call the runtime without us.

use super::capture;
use super::memory::Calls;
use super::runtime::{Function, Runtime, Word, call};
use hydrozoa_loader::{Domain, LeafLock, Located, Process, current};
use std::collections::HashMap;
use std::ffi::c_int;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The kinds of things on a device, in release order: those that may refer to others come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The handle of one of CUDA's libraries, numbered by library.
    Handle(u8),
    GraphExec,
    Graph,
    Memory,
    HostMemory,
    RegisteredMemory,
    Pool,
    Event,
    Stream,
}

impl Kind {
    /// Calls a function that gives or takes such a thing. Those of CUDA's libraries wait for the device.
    pub(super) fn between_captures<R>(self, call: impl FnOnce() -> R) -> R {
        match self {
            Self::Handle(_) => capture::between_captures(current::domain(), call),
            _ => call(),
        }
    }
}

/// One thing that an interpreter owns.
#[derive(Clone, Copy, Debug)]
struct Owned {
    account: &'static Account,
    /// Bytes of device memory.
    size: usize,
    device: c_int,
    /// The function that gives it back.
    end: usize,
}

/// All things, by kind and by address or handle.
static OWNED: LeafLock<Option<HashMap<(Kind, Word), Owned>>> = LeafLock::new(None);

/// Accounts of ended interpreters, for the next ones: answers hold their addresses.
static SPARE: LeafLock<Vec<&'static Account>> = LeafLock::new(Vec::new());

/// The account of one interpreter.
#[derive(Debug, Default)]
pub struct Account {
    domain: LeafLock<Option<Domain>>,
    /// The limit on device memory, in bytes; 0 means unlimited.
    limit: AtomicUsize,
    used: AtomicUsize,
    runtime: LeafLock<Option<Runtime>>,
    process: LeafLock<Option<Process>>,
    /// The contexts that its answers receive. The next interpreter uses the same ones.
    pub(super) calls: OnceLock<Calls>,
}

impl Account {
    /// An empty account.
    pub(super) fn open(limit: Option<NonZeroUsize>) -> &'static Self {
        let account = SPARE.with(Vec::pop).unwrap_or_else(|| Box::leak(Box::new(Self::default())));
        account.limit.store(limit.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
        account
    }

    /// Notes the interpreter's domain.
    pub(crate) fn attach(&self, domain: &Domain) {
        let mut other = Some(domain.clone());
        self.domain.with(|own| std::mem::swap(own, &mut other));
        let process = Process::current();
        self.process.with(|own| *own = Some(process));
    }

    /// The limit, and how many bytes of it are taken.
    pub(super) fn limit(&self) -> Option<(usize, usize)> {
        let limit = NonZeroUsize::new(self.limit.load(Ordering::Relaxed))?.get();
        Some((limit, self.used.load(Ordering::Relaxed).min(limit)))
    }

    /// Takes `size` bytes of the limit. False if fewer are left.
    pub(super) fn take(&self, size: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |used: usize| {
            used.checked_add(size).filter(|sum| limit == 0 || size == 0 || *sum <= limit)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Returns bytes to the limit.
    pub(super) fn release(&self, size: usize) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }

    /// A function of the libraries that the interpreter uses.
    pub(super) fn address(&self, function: &Function) -> Option<usize> {
        let definition = |name: &str| self.domain()?.definition(name);
        match self.runtime() {
            Some(runtime) => function.address(runtime, definition),
            // The library has a runtime in itself.
            None => definition(function.name).map(|found| found.addr()),
        }
    }

    fn domain(&self) -> Option<Domain> {
        self.domain.with(|domain| domain.clone())
    }

    fn runtime(&self) -> Option<Runtime> {
        if let Some(known) = self.runtime.with(|runtime| *runtime) {
            return Some(known);
        }
        let domain = self.domain()?;
        let found = Runtime::of(|name| domain.definition(name))?;
        self.runtime.with(|runtime| *runtime = Some(found));
        Some(found)
    }

    /// Notes what the interpreter has got, which `end` gives back. `size` bytes have been taken for it. A thing of a library that
    /// only this interpreter has ends with the library.
    pub(super) fn note(&'static self, kind: Kind, thing: Word, size: usize, end: &Function) {
        let end = self.address(end).filter(|end| {
            Located::at(ptr::without_provenance(*end)).is_none_or(|replica| replica.is_shared())
        });
        let (Some(end), true) = (end, thing != 0) else { return self.release(size) };
        // Found now, for the end: the domain has no libraries then.
        for function in FOR_THE_END {
            self.address(function);
        }
        let owned = Owned { account: self, size, device: self.device(), end };
        OWNED.with(|all| {
            let before = all.get_or_insert_default().insert((kind, thing), owned);
            // Somebody has given it back unseen.
            if let Some(before) = before {
                before.account.release(before.size);
            }
        });
    }

    fn device(&self) -> c_int {
        let mut device: c_int = 0;
        if let Some(get) = self.address(&GET_DEVICE) {
            // SAFETY: the function writes an `int`.
            unsafe { call(get, with((&raw mut device).expose_provenance())) };
        }
        device
    }

    /// Gives back what the interpreter has.
    ///
    /// # Safety
    /// Its domain has ended, and nobody uses what it had.
    pub(crate) unsafe fn give_back(&'static self) {
        let mut all = OWNED.with(|all| {
            let is_own = |_: &_, owned: &mut Owned| ptr::eq(owned.account, self);
            all.get_or_insert_default().extract_if(is_own).collect::<Vec<_>>()
        });
        all.sort_unstable_by_key(|((kind, thing), owned)| (owned.device, *kind, *thing));
        // A forked child has no device.
        let is_here = self.process.with(Option::take).is_some_and(|process| process.is_current());
        if is_here && !all.is_empty() {
            // SAFETY: by contract.
            unsafe { self.end(&all) };
        }
        self.used.store(0, Ordering::Relaxed);
        self.runtime.with(|runtime| *runtime = None);
        let ended = self.domain.with(Option::take);
        capture::forget_all(ended.map(|domain| domain.id()));
        SPARE.with(|spare| spare.push(self));
    }

    /// # Safety
    /// Nobody uses these things, which are sorted.
    unsafe fn end(&self, all: &[((Kind, Word), Owned)]) {
        /// `cudaStreamCaptureModeRelaxed`: a capture of another thread goes on whatever this one does.
        const RELAXED: c_int = 2;
        let call_with = |function: &Function, argument: Word| {
            if let Some(function) = self.address(function) {
                // SAFETY: a function with one argument, which is what it takes.
                unsafe { call(function, with(argument)) };
            }
        };
        let domain = self.domain().map(|domain| domain.id());
        let mut mode = RELAXED;
        let before = self.device();
        call_with(&EXCHANGE_MODE, (&raw mut mode).expose_provenance());
        for one in all.chunk_by(|(_, a), (_, b)| a.device == b.device) {
            call_with(&SET_DEVICE, one[0].1.device as Word);
            capture::between_captures(domain, || {
                call_with(&SYNCHRONIZE, 0);
                for ((_, thing), owned) in one {
                    // SAFETY: the function is the one for it. The library that has it exists once, and stays.
                    unsafe { call(owned.end, with(*thing)) };
                }
            });
        }
        call_with(&SET_DEVICE, before as Word);
        call_with(&EXCHANGE_MODE, (&raw mut mode).expose_provenance());
    }
}

/// Forgets what an interpreter gives back itself.
pub(super) fn forget(kind: Kind, thing: Word) {
    if kind == Kind::Stream {
        capture::forget(thing);
    }
    // Under the lock: an account that has ended may be another interpreter's in a moment.
    OWNED.with(|all| {
        if let Some(before) = all.as_mut().and_then(|all| all.remove(&(kind, thing))) {
            before.account.release(before.size);
        }
    });
}

fn with(argument: Word) -> [Word; 9] {
    [argument, 0, 0, 0, 0, 0, 0, 0, 0]
}

static GET_DEVICE: Function = Function::new("cudaGetDevice");
static SET_DEVICE: Function = Function::new("cudaSetDevice");
static SYNCHRONIZE: Function = Function::new("cudaDeviceSynchronize");
static EXCHANGE_MODE: Function = Function::new("cudaThreadExchangeStreamCaptureMode");

/// Further functions that an interpreter's end calls.
static FOR_THE_END: [&Function; 3] = [&SET_DEVICE, &SYNCHRONIZE, &EXCHANGE_MODE];
