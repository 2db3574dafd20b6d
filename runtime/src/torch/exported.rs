//! Functions of other libraries, by name and type: to call them, and to answer in their place.
//!
//! The mangled name of a C++ function fixes its parameters. Each name is written once, with the
//! type that states these parameters in the terms of the psABI (see [`super::cxx`]). The compiler
//! then checks every function that is interposed for it: same parameters, same result, and the
//! context behind them.

use std::ffi::c_void;
use std::marker::PhantomData;

use hydrozoa_loader::Interposition;

/// A symbol that a library exports, of type `F`: a function pointer, or the address of data.
pub(super) struct Exported<F> {
    pub(super) name: &'static str,
    _type: PhantomData<F>,
}

/// A symbol, and what references to it bind to in one domain.
pub(super) type Answer = (&'static str, Interposition);

impl<F: Copy> Exported<F> {
    /// # Safety
    /// `F` is the type of the symbol `name` in every library that exports it.
    pub(super) const unsafe fn new(name: &'static str) -> Exported<F> {
        Exported { name, _type: PhantomData }
    }

    /// The symbol, and a function that stands for it everywhere: in replicas and in libtorch itself. It finds out
    /// for which interpreter it is called.
    ///
    /// # Safety
    /// `function` does for its caller what the symbol promises.
    pub(super) const unsafe fn means(&self, function: F) -> Stand {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        Stand { name: self.name, function: Pointer { of: function }.address() }
    }

    /// The symbol at `address`.
    ///
    /// # Safety
    /// The symbol is defined at `address`, which stays mapped.
    pub(super) unsafe fn at(&self, address: *const c_void) -> F {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        // SAFETY: `F` is the symbol's pointer type, by the contract of `new`.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// A function that stands for a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    pub(super) name: &'static str,
    pub(super) function: *const c_void,
}

impl Stand {
    /// What references of a domain bind to.
    pub(super) fn answer(self) -> Answer {
        // SAFETY: `Exported::means` was given a function of the symbol's type and meaning.
        (self.name, unsafe { Interposition::function(self.function) })
    }
}

/// A pointer to a function or to data, as an address.
union Pointer<F: Copy> {
    of: F,
    address: *const c_void,
}

impl<F: Copy> Pointer<F> {
    const fn address(self) -> *const c_void {
        // SAFETY: the caller has compared the sizes; a pointer has the bytes of its address.
        unsafe { self.address }
    }
}

/// A type whose values travel in one INTEGER register of the psABI.
pub(super) trait InRegister {}

impl<T> InRegister for *const T {}
impl<T> InRegister for *mut T {}
impl InRegister for bool {}
impl InRegister for i32 {}
impl InRegister for u16 {}
impl InRegister for u32 {}
impl InRegister for u64 {}

/// Implements `answered_by` for functions with these parameters.
macro_rules! answered {
    ($($parameter:ident)*) => {
        impl<$($parameter: InRegister,)* R>
            Exported<unsafe extern "C-unwind" fn($($parameter),*) -> R>
        {
            /// References of the domain call `function`, which learns from `context` for whom.
            ///
            /// # Safety
            /// `function` does for the domain what the symbol promises to its callers.
            pub(super) unsafe fn answered_by<C>(
                &self,
                function: unsafe extern "C-unwind" fn($($parameter,)* &'static C) -> R,
                context: &'static C,
            ) -> Answer {
                const PARAMETERS: usize = <[&str]>::len(&[$(stringify!($parameter)),*]);
                let (target, context) =
                    (function as *const c_void, std::ptr::from_ref(context) as usize);
                // SAFETY: `self` states the symbol's parameters; each takes one INTEGER register, and
                // `function` has the same and one for the context, which lives for ever. By contract
                // it means the same.
                (self.name, unsafe { Interposition::with_context(target, PARAMETERS, context) })
            }
        }
    };
}

answered!();
answered!(A);
answered!(A B);
answered!(A B D);
answered!(A B D E);
answered!(A B D E F);

impl<A, B, D, E, F, G, R> Exported<unsafe extern "C-unwind" fn(A, B, D, E, F, G) -> R> {
    /// References of the domain call `function`. Six parameters leave no register for a context.
    ///
    /// # Safety
    /// `function` does for the domain what the symbol promises to its callers.
    pub(super) unsafe fn answered_without_context(
        &self,
        function: unsafe extern "C-unwind" fn(A, B, D, E, F, G) -> R,
    ) -> Answer {
        // SAFETY: `function` has the symbol's type, and by contract its meaning.
        (self.name, unsafe { Interposition::function(function as *const c_void) })
    }
}

/// Declares a table of symbols of one library: field, name, type.
///
/// `struct $functions` holds their addresses, `const $exports` their names and types.
macro_rules! exports {
    (
        $(#[$doc:meta])* struct $functions:ident, $Exports:ident, const $exports:ident;
        $($(#[$field_doc:meta])* $field:ident: $symbol:literal => $type:ty,)*
    ) => {
        $(#[$doc])*
        pub(super) struct $functions {
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }

        /// Names and types of the symbols in the table.
        pub(super) struct $Exports {
            $(pub(super) $field: $crate::torch::exported::Exported<$type>,)*
        }

        pub(super) const $exports: $Exports = $Exports {
            // SAFETY: the type is written beside the name it belongs to: a mangled name states the
            // parameters itself, CPython's documentation those of its functions.
            $($field: unsafe { $crate::torch::exported::Exported::new($symbol) },)*
        };

        impl $functions {
            /// Looks every symbol up by `address_of`, which finds what the library defines.
            ///
            /// # Errors
            /// The names of the symbols that it does not find.
            pub(super) fn resolve(
                mut address_of: impl FnMut(&'static str) -> Option<*const std::ffi::c_void>,
            ) -> Result<$functions, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(let $field = address_of($symbol);
                if $field.is_none() {
                    missing.push($symbol);
                })*
                let ($(Some($field),)*) = ($($field,)*) else { return Err(missing) };
                Ok($functions {
                    $($field: {
                        // SAFETY: the library defines the symbol there, and is never unloaded.
                        unsafe { $exports.$field.at($field) }
                    },)*
                })
            }
        }

        // SAFETY: addresses of functions and of constant data of loaded libraries.
        unsafe impl Send for $functions {}
        // SAFETY: as above.
        unsafe impl Sync for $functions {}

        impl std::fmt::Debug for $functions {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.debug_struct(stringify!($functions)).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use exports;
