//! Thunks: the few instructions by which a call from a replica reaches a function of the host in place
//! of the named one, or finds its target at the time of the call.

use std::any::Any;
use std::ffi::c_void;
use std::io;
use std::ops::Deref;

use crate::arch::{STATIC_CHAIN, THUNK_SIZE, write_late_thunk, write_thunk};
use crate::sys::memory::{Protection, Reservation};

/// The definition to which references to an interposed symbol bind, in the replicas of one domain.
#[derive(Clone, Copy, Debug)]
pub struct Interposition {
    target: usize,
    context: Option<Context>,
}

#[derive(Clone, Copy, Debug)]
struct Context {
    argument: usize,
    value: usize,
    caller: bool,
}

// SAFETY: holds addresses and plain numbers; the constructors' contracts bind whoever calls the
// target.
unsafe impl Send for Interposition {}
// SAFETY: as above.
unsafe impl Sync for Interposition {}

impl Interposition {
    /// References bind to `target` itself.
    ///
    /// # Safety
    /// `target` must be a function with the signature and the meaning of each symbol that
    /// [`DomainBuilder::interpose`](crate::DomainBuilder::interpose) is given for this value, or data of
    /// the symbol's type and size. It must stay valid as long as code of the domain can run.
    pub unsafe fn function(target: *const c_void) -> Interposition {
        Interposition { target: target as usize, context: None }
    }

    /// The address that references bind to, if that is not a thunk's.
    pub(crate) fn address(&self) -> Option<usize> {
        self.context.is_none().then_some(self.target)
    }

    /// References bind to a thunk that calls `target` with one more argument, `context`.
    ///
    /// `arguments` is the number of INTEGER argument registers (psABI: `rdi`, `rsi`, `rdx`, `rcx`,
    /// `r8`, `r9`) that the symbol's signature uses, 0 to 5; a hidden pointer for the result and
    /// `this` count. The context becomes the next one, so that `target` can be an
    /// `extern "C-unwind" fn(a, b, context)` for a function of two arguments.
    ///
    /// # Safety
    /// As for [`Interposition::function`]. The symbol's signature must use `arguments` INTEGER argument
    /// registers and must not be variadic. `target` must accept `context` as the argument after them, and take
    /// the signature's stack arguments from the same places.
    ///
    /// # Panics
    /// If `arguments` is greater than 5.
    pub unsafe fn with_context(
        target: *const c_void,
        arguments: usize,
        context: usize,
    ) -> Interposition {
        assert!(arguments <= 5, "no argument register is left for the context");
        let context = Context { argument: arguments, value: context, caller: false };
        Interposition { target: target as usize, context: Some(context) }
    }

    /// As [`Interposition::with_context`], and the return address as the argument after it.
    ///
    /// # Safety
    /// As for [`Interposition::with_context`]; `target` takes the return address as its last argument.
    ///
    /// # Panics
    /// If `arguments` is greater than 4.
    pub unsafe fn with_caller(
        target: *const c_void,
        arguments: usize,
        context: usize,
    ) -> Interposition {
        assert!(arguments <= 4, "no argument register is left for the caller");
        let context = Context { argument: arguments, value: context, caller: true };
        Interposition { target: target as usize, context: Some(context) }
    }
}

impl Interposition {
    /// References bind to a thunk that leaves all arguments as they are, puts `context` where no argument is, and
    /// jumps to `target`.
    ///
    /// # Safety
    /// As for [`Interposition::function`]. `target` is a function of [`crate::arch::gathering`].
    pub(crate) unsafe fn with_hidden_context(
        target: *const c_void,
        context: usize,
    ) -> Interposition {
        let context = Context { argument: STATIC_CHAIN, value: context, caller: false };
        Interposition { target: target as usize, context: Some(context) }
    }
}

/// Functions that jump to one of the caller's, each with a word of its own in the register of the static chain (`r10` on x86-64),
/// which no argument uses. They are there as long as this.
#[derive(Debug)]
pub struct Chained(Thunks);

impl Chained {
    /// Functions with these words, in this order.
    ///
    /// # Errors
    /// The system refuses the memory for their code.
    ///
    /// # Safety
    /// `target` takes the arguments that the functions are called with, and its word in that register.
    pub unsafe fn new(target: *const c_void, words: &[usize]) -> io::Result<Chained> {
        let one = |word: &usize| {
            // SAFETY: the caller's promise.
            unsafe { Interposition::with_hidden_context(target, *word) }
        };
        Thunks::generate(&words.iter().map(one).collect::<Vec<_>>()).map(Chained)
    }

    /// Their addresses.
    pub fn addresses(&self) -> &[usize] {
        &self.0.addresses
    }
}

/// Generated code. Written once, then executable and read-only. As new pages become executable, the kernel makes their bytes what
/// processors fetch, also where that is not by itself so (AArch64: arch/arm64/mm/flush.c, `__sync_icache_dcache`).
#[derive(Debug)]
pub(crate) struct Thunks {
    _code: Option<Reservation>,
    /// The addresses to which references to each interposed symbol, or each late call, bind.
    pub addresses: Vec<usize>,
    /// The records that late thunks point to.
    _calls: Option<Box<dyn Any + Send + Sync>>,
}

/// The record of a late call. Its thunk enters it by its first word (see `write_late_thunk` of
/// [`crate::arch`]).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LateCall<T> {
    target: extern "C-unwind" fn(&LateCall<T>) -> usize,
    call: T,
}

impl<T> LateCall<T> {
    /// A call to the address that `target` returns for it.
    pub(crate) fn new(target: extern "C-unwind" fn(&LateCall<T>) -> usize, call: T) -> LateCall<T> {
        LateCall { target, call }
    }
}

impl<T> Deref for LateCall<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.call
    }
}

impl Thunks {
    pub(crate) fn generate(interpositions: &[Interposition]) -> io::Result<Thunks> {
        let count = interpositions.iter().filter(|entry| entry.context.is_some()).count();
        if count == 0 {
            let addresses = interpositions.iter().map(|entry| entry.target).collect();
            return Ok(Thunks { _code: None, addresses, _calls: None });
        }
        let length = count * THUNK_SIZE;
        let code = Reservation::new(length, 1)?;
        code.map_zeroes(0, code.length(), Protection::ReadWrite)?;
        // SAFETY: just mapped, readable and writable, and referred to by nobody else.
        let bytes = unsafe { std::slice::from_raw_parts_mut(code.base() as *mut u8, length) };
        let mut free = bytes.chunks_exact_mut(THUNK_SIZE).enumerate();
        let addresses = interpositions
            .iter()
            .map(|entry| match entry.context {
                None => entry.target,
                Some(context) => {
                    let (index, chunk) = free.next().expect("one chunk was made for each context");
                    let chunk = chunk.try_into().expect("chunks have this size");
                    write_thunk(
                        chunk,
                        entry.target,
                        context.argument,
                        context.value,
                        context.caller,
                    );
                    code.base() + index * THUNK_SIZE
                }
            })
            .collect();
        code.protect(0, code.length(), Protection::ReadExecute)?;
        Ok(Thunks { _code: Some(code), addresses, _calls: None })
    }
}

impl Thunks {
    /// Thunks that find their target at the time of the call, one for each of `calls`.
    pub(crate) fn late<T: Send + Sync + 'static>(calls: Box<[LateCall<T>]>) -> io::Result<Thunks> {
        let length = calls.len() * THUNK_SIZE;
        let code = Reservation::new(length, 1)?;
        code.map_zeroes(0, code.length(), Protection::ReadWrite)?;
        // SAFETY: just mapped, readable and writable, and referred to by nobody else.
        let bytes = unsafe { std::slice::from_raw_parts_mut(code.base() as *mut u8, length) };
        for (chunk, call) in bytes.chunks_exact_mut(THUNK_SIZE).zip(&calls) {
            let record = std::ptr::from_ref(call).expose_provenance();
            write_late_thunk(chunk.try_into().expect("chunks have this size"), record);
        }
        let addresses = (0..length).step_by(THUNK_SIZE).map(|at| code.base() + at).collect();
        code.protect(0, code.length(), Protection::ReadExecute)?;
        Ok(Thunks { _code: Some(code), addresses, _calls: Some(Box::new(calls)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn sum(a: usize, b: usize, context: usize) -> usize {
        a + 10 * b + 100 * context
    }

    extern "C" fn where_from(context: usize, caller: usize) -> usize {
        assert_eq!(context, 7);
        caller
    }

    #[test]
    fn a_thunk_passes_its_context_after_the_real_arguments() {
        // SAFETY: `sum` takes two arguments and the context.
        let entries = [3, 4].map(|context| unsafe {
            Interposition::with_context(sum as *const c_void, 2, context)
        });
        let thunks = Thunks::generate(&entries).unwrap();
        let call = |index: usize, a, b| {
            // SAFETY: the generated code has the C calling convention of a two-argument function.
            let function: extern "C" fn(usize, usize) -> usize =
                unsafe { std::mem::transmute(thunks.addresses[index]) };
            function(a, b)
        };
        assert_eq!((call(0, 1, 2), call(1, 1, 2)), (321, 421));
    }

    #[test]
    fn a_thunk_with_caller_passes_the_address_that_it_returns_to() {
        // SAFETY: `where_from` takes the context and the caller's address.
        let entry = unsafe { Interposition::with_caller(where_from as *const c_void, 0, 7) };
        let thunks = Thunks::generate(&[entry]).unwrap();
        // SAFETY: the generated code has the C calling convention of a function without arguments.
        let function: extern "C" fn() -> usize =
            unsafe { std::mem::transmute(thunks.addresses[0]) };
        let near = a_thunk_with_caller_passes_the_address_that_it_returns_to as *const () as usize;
        assert!(function().abs_diff(near) < 1 << 24);
    }

    extern "C" fn count(list: *const usize, context: usize) -> usize {
        // SAFETY: the test's list ends with a zero.
        let listed = (0..).take_while(|&index| unsafe { *list.add(index) } != 0);
        listed.map(|index| 100 * context + index).last().unwrap()
    }

    crate::arch::gathering!(counting => count);

    #[test]
    fn arguments_beyond_the_registers_are_gathered_in_one_list() {
        // SAFETY: `counting` is defined by `gathering`.
        let entry = unsafe { Interposition::with_hidden_context(counting as *const c_void, 3) };
        let thunks = Thunks::generate(&[entry]).unwrap();
        // SAFETY: the generated code takes integers, however many.
        let function: unsafe extern "C" fn(usize, ...) -> usize =
            unsafe { std::mem::transmute(thunks.addresses[0]) };
        let (one, none) = (1usize, 0usize);
        // SAFETY: lists that end with a zero.
        unsafe {
            assert_eq!(function(one, none), 300);
            assert_eq!(function(one, one, one, one, one, none), 304);
            assert_eq!(function(one, one, one, one, one, one, none), 305);
            assert_eq!(function(one, one, one, one, one, one, one, one, one, one, none), 309);
        }
    }
}
