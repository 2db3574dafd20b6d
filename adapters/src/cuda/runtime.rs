//! CUDA's runtimes: the functions behind the replacements.
//!
//! A process may have several runtimes, such as the libcudart.so.12 and .13 of two environments. A call goes on to the one that
//! the calling library would have been bound to.

use hydrozoa_loader::{Domain, DomainId, LeafLock, Located};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The answer of a function that nothing defines: `cudaErrorSymbolNotFound`.
pub(super) const NOT_FOUND: usize = 500;

/// The functions whose address identifies a runtime: the first of them that it defines.
const KNOWN_BY: [&str; 2] = ["__cudaRegisterFatBinary", "cudaMalloc"];

/// A runtime, by a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Runtime {
    pub(super) number: usize,
    /// Whether it exists once for all interpreters.
    pub(super) is_shared: bool,
}

/// The known runtimes: each one's identifying address, and whether it exists once.
static RUNTIMES: LeafLock<Vec<(usize, bool)>> = LeafLock::new(Vec::new());

impl Runtime {
    /// The one in which `definition` finds functions.
    pub(super) fn of(definition: impl Fn(&str) -> Option<*const c_void>) -> Option<Self> {
        let found = KNOWN_BY.iter().find_map(|name| definition(name))?;
        let is_shared = Located::at(found).is_none_or(|replica| replica.is_shared());
        RUNTIMES.with(|all| {
            let known = all.iter().position(|(address, _)| *address == found.addr());
            let number = known.unwrap_or_else(|| {
                all.push((found.addr(), is_shared));
                all.len() - 1
            });
            Some(Self { number, is_shared })
        })
    }

    /// The one of the interpreter whose code the calling thread runs.
    fn current() -> Option<Self> {
        thread_local!(static LAST: Cell<Option<(DomainId, Runtime)>> = const { Cell::new(None) });
        let current = hydrozoa_loader::current::domain()?;
        if let Some((_, last)) = LAST.get().filter(|(domain, _)| *domain == current) {
            return Some(last);
        }
        let domain = Domain::current()?;
        let found = Self::of(|name| domain.definition(name))?;
        LAST.set(Some((current, found)));
        Some(found)
    }
}

/// The number of runtimes whose addresses are kept.
const KEPT: usize = 4;

/// A function of each runtime.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Its addresses by the runtime's number; 0 if it has not been looked up.
    found: [AtomicUsize; KEPT],
}

impl Function {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, found: [const { AtomicUsize::new(0) }; KEPT] }
    }

    /// Its address in `runtime`. `definition` finds it if it is not known yet.
    #[inline]
    pub(super) fn address(
        &self,
        runtime: Runtime,
        definition: impl FnOnce(&str) -> Option<*const c_void>,
    ) -> Option<usize> {
        let place = self.found.get(runtime.number);
        match place.map_or(0, |place| place.load(Ordering::Relaxed)) {
            0 => {
                let found = definition(self.name)?.addr();
                if let Some(place) = place {
                    place.store(found, Ordering::Relaxed);
                }
                Some(found)
            }
            known => Some(known),
        }
    }

    /// Its address in the runtime that the library at `place` uses, or else that of the calling thread's interpreter.
    pub(super) fn for_code_at(&self, place: usize) -> Option<usize> {
        if let Some(replica) = Located::at(std::ptr::without_provenance(place)) {
            let definition = |name: &str| replica.definition(name);
            return self.address(Runtime::of(definition)?, definition);
        }
        self.of_current()
    }

    /// Its address in the runtime of the calling thread's interpreter.
    pub(super) fn of_current(&self) -> Option<usize> {
        self.address(Runtime::current()?, |name| Domain::current()?.definition(name))
    }
}

/// An argument or result of a function of the runtime, which are all integers or pointers.
pub(super) type Word = usize;

/// Calls a function with as many arguments of a list as it has. It ignores the others.
///
/// # Safety
/// `function` takes integers and pointers, nine at most, of which those at the beginning of `words` are valid.
pub(super) unsafe fn call(function: usize, words: [Word; 9]) -> Word {
    type Nine = unsafe extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word) -> Word;
    let [a, b, c, d, e, f, g, h, i] = words;
    // SAFETY: by contract. The caller takes arguments off the stack in the calling conventions of the machines that the loader
    // knows.
    unsafe {
        let function =
            std::mem::transmute::<*const c_void, Nine>(std::ptr::with_exposed_provenance(function));
        function(a, b, c, d, e, f, g, h, i)
    }
}

/// As [`call`], for the one function with ten arguments, `__cudaRegisterFunction`.
///
/// # Safety
/// As for [`call`].
pub(super) unsafe fn call_with_ten(
    function: usize,
    first: Word,
    [b, c, d, e, f, g, h, i, j]: [Word; 9],
) {
    type Ten = unsafe extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
    // SAFETY: by contract.
    unsafe {
        let function =
            std::mem::transmute::<*const c_void, Ten>(std::ptr::with_exposed_provenance(function));
        function(first, b, c, d, e, f, g, h, i, j);
    }
}
