//! Switches of TorchScript, of its fuser, of functorch and of autograd's fallback: variables of libtorch behind a
//! function that refers to them, or behind one that reads and one that writes.
//!
//! Each interpreter has a copy, which begins as the process's. The functions answer for the interpreter whose code the
//! thread runs, in replicas and in libtorch itself ([`super::slots`]). Torch flips some of them for a moment, for
//! example while it exports to ONNX. Needed in every release.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::adapter::{Member, current, lock, symbols};
use super::cells::Cells;
use super::exported::Stand;
use super::symbols::{EXPORTS, Symbols};

/// A variable's type in C++: `bool` of one byte, `int` or an enumeration, `size_t`.
trait Variable {
    fn to_bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
}

macro_rules! variables {
    ($($type:ty)*) => {
        $(impl Variable for $type {
            fn to_bits(self) -> u64 {
                u64::from(self)
            }

            #[allow(clippy::cast_possible_truncation, reason = "the low bytes are the variable")]
            fn of_bits(bits: u64) -> $type {
                bits as $type
            }
        })*
    };
}

variables! { u8 u32 u64 }

/// Declares the switches. A `reference` is a function that returns the variable's address, a `pair` are two that read
/// and write, and of an `exchange` the second returns what the variable was.
macro_rules! switches {
    (
        references { $($reference:ident: $type:ty,)* }
        pairs { $($read:ident, $write:ident: $value:ty,)* }
        exchanges { $($look:ident, $exchange:ident: $kind:ty,)* }
    ) => {
        #[allow(non_camel_case_types, reason = "named as the fields of `Symbols`")]
        #[derive(Clone, Copy)]
        enum Switch { $($reference,)* $($read,)* $($look,)* }

        const COUNT: usize =
            <[&str]>::len(&[$(stringify!($reference),)* $(stringify!($read),)* $(stringify!($look),)*]);

        /// What stands for libtorch's functions.
        pub(super) fn stands() -> Vec<Stand> {
            $(
                /// The interpreter's variable.
                unsafe extern "C-unwind" fn $reference() -> *mut $type {
                    match own(Switch::$reference) {
                        Some(place) => place.as_ptr().cast(),
                        // SAFETY: libtorch's own function.
                        None => unsafe { (symbols().$reference)() },
                    }
                }
            )*
            $(
                /// Reads the interpreter's variable.
                unsafe extern "C-unwind" fn $read() -> $value {
                    match own(Switch::$read) {
                        Some(place) => <$value>::of_bits(place.load(Ordering::Relaxed)),
                        // SAFETY: libtorch's own function.
                        None => unsafe { (symbols().$read)() },
                    }
                }

                /// Writes the interpreter's variable.
                unsafe extern "C-unwind" fn $write(value: $value) {
                    match own(Switch::$read) {
                        Some(place) => place.store(value.to_bits(), Ordering::Relaxed),
                        // SAFETY: libtorch's own function and its caller's argument.
                        None => unsafe { (symbols().$write)(value) },
                    }
                }
            )*
            $(
                /// Reads the interpreter's variable.
                unsafe extern "C-unwind" fn $look() -> $kind {
                    match own(Switch::$look) {
                        Some(place) => <$kind>::of_bits(place.load(Ordering::Relaxed)),
                        // SAFETY: libtorch's own function.
                        None => unsafe { (symbols().$look)() },
                    }
                }

                /// Writes the interpreter's variable, and returns what it was.
                unsafe extern "C-unwind" fn $exchange(value: $kind) -> $kind {
                    match own(Switch::$look) {
                        Some(place) => {
                            let before = place.swap(value.to_bits(), Ordering::Relaxed);
                            <$kind>::of_bits(before)
                        }
                        // SAFETY: libtorch's own function and its caller's argument.
                        None => unsafe { (symbols().$exchange)(value) },
                    }
                }
            )*
            // SAFETY: each function does for the calling thread's interpreter what the symbol of its name does for
            // the process.
            unsafe {
                vec![
                    $(EXPORTS.$reference.means($reference),)*
                    $(EXPORTS.$read.means($read), EXPORTS.$write.means($write),)*
                    $(EXPORTS.$look.means($look), EXPORTS.$exchange.means($exchange),)*
                ]
            }
        }

        /// The process's values.
        fn of_process(symbols: &Symbols) -> [u64; COUNT] {
            // SAFETY: libtorch's own functions, which return valid addresses of static variables of these types.
            unsafe {
                [
                    $((symbols.$reference)().read_volatile().to_bits(),)*
                    $((symbols.$read)().to_bits(),)*
                    $((symbols.$look)().to_bits(),)*
                ]
            }
        }
    };
}

switches! {
    references {
        executor_mode: u8,
        profiling_mode: u8,
        profiled_runs: u64,
        fuser_needs_llvm: u8,
        fuser_block_code: u8,
        fuser_conditionals: u8,
        fuser_cat_without_conditionals: u8,
        fuser_loop_levels: u32,
        fuser_block_count: u32,
        fuser_block_size: u32,
    }
    pairs {
        fuser, fuser_set: u8,
        fuser_dynamic_shapes, fuser_dynamic_shapes_set: u8,
        fuser_inlining, fuser_inlining_set: u8,
        autodiff_inlining, autodiff_inlining_set: u8,
        fuses_on_cpu_legacy, fuses_on_cpu_legacy_set: u8,
        vmap_fallback, vmap_fallback_set: u8,
        autograd_fallback, autograd_fallback_set: u32,
    }
    exchanges {
        fuser_fallback, fuser_fallback_set: u8,
        script_autocast, script_autocast_set: u8,
    }
}

/// One interpreter's switches.
struct Own {
    /// Whether the values are this interpreter's.
    ready: AtomicBool,
    values: [AtomicU64; COUNT],
}

impl Default for Own {
    fn default() -> Own {
        Own { ready: AtomicBool::new(false), values: [const { AtomicU64::new(0) }; COUNT] }
    }
}

static OWN: Cells<Own> = Cells::new();

/// The variable of the interpreter that the thread runs. x86-64 and AArch64 are little-endian: a smaller variable is
/// at the word's own address.
fn own(switch: Switch) -> Option<&'static AtomicU64> {
    static PREPARING: Mutex<()> = Mutex::new(());
    let own = OWN.of(current()?);
    if !own.ready.load(Ordering::Acquire) {
        // Under the lock nothing of libtorch is looked up or called.
        let values = of_process(symbols());
        let _one = lock(&PREPARING);
        if !own.ready.load(Ordering::Acquire) {
            for (place, value) in own.values.iter().zip(values) {
                place.store(value, Ordering::Relaxed);
            }
            own.ready.store(true, Ordering::Release);
        }
    }
    Some(&own.values[switch as usize])
}

/// Leaves the place to another interpreter.
pub(super) fn forget(member: &Member) {
    if let Some(own) = OWN.get(member) {
        own.ready.store(false, Ordering::Release);
    }
}
