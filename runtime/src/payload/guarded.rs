//! The table of an interpreter that contains its crashes: each of its functions calls the payload's through a guard.

use super::table::{Others, PayloadTable, Status};
use crate::Result;
use crate::crash::contain::{CRASHED, Contained, Guarded};
use std::ffi::{c_int, c_long, c_void};
use std::sync::Arc;

/// A function of the table.
trait Guardable: Copy {
    /// The result of a call that is refused, or has crashed, in the registers of results.
    const REFUSED: usize;

    fn address(self) -> usize;

    /// # Safety
    ///
    /// A function of this type is at the address.
    unsafe fn at(address: usize) -> Self;
}

/// The result of a refused call.
trait Answer {
    const REFUSED: usize;
}

macro_rules! answers {
    ($($type:ty = $refused:expr),* $(,)?) => {
        $(impl Answer for $type {
            const REFUSED: usize = $refused;
        })*
    };
}

answers! {
    () = 0,
    c_int = 0,
    c_long = 0,
    *mut c_void = 0,
    Status = CRASHED as u32 as usize,
    // Somebody could change the memory. The second word is 0.
    Others = 1,
}

/// The registers that an argument lies in. A structure of more than two words lies on the stack (System V psABI).
const fn words<T>() -> usize {
    assert!(size_of::<T>() <= 16, "an argument on the stack");
    size_of::<T>().div_ceil(8)
}

macro_rules! guardable {
    ($($($argument:ident)*;)*) => {
        $(impl<$($argument,)* R: Answer> Guardable for unsafe extern "C" fn($($argument),*) -> R {
            // The guard passes on what lies in the six registers of arguments.
            const REFUSED: usize = {
                assert!(0 $(+ words::<$argument>())* <= 6, "a function of the table with arguments on the stack");
                R::REFUSED
            };

            fn address(self) -> usize {
                self as *const () as usize
            }

            unsafe fn at(address: usize) -> Self {
                let address = std::ptr::with_exposed_provenance::<c_void>(address);
                // SAFETY: by contract.
                unsafe { std::mem::transmute::<*const c_void, Self>(address) }
            }
        })*
    };
}

guardable! { ; A; A B; A B C; A B C D; A B C D E; A B C D E F; }

/// Calls `$each` with the names of all functions of the table but five, which use variables of the payload alone and may be called whatever
/// has happened: `attached`, `current`, `owns`, `stacks`, `put_aside`. The compiler says if one is missing.
macro_rules! with_functions {
    ($each:ident, $table:expr) => {{
        let PayloadTable { header: _, attached: _, current: _, owns: _, stacks: _, put_aside: _, start, run_main, finalize, enter, leave, suspend, resume, forget_thread, interrupt, prepare_interrupts, prepare_stacks, stack, retain, release, release_attached, defer, import, attribute, set_attribute, call, text, item, set_item, length, iterate, next, truth, build, inspect, digits, gather, tagged_items, scatter, buffer, buffer_release, lend, function, raise, tensor, lend_tensor, throw, stream, lend_array, instance_type, instance, held, arenas, packages, others, other_threads, collect, catch_up, unfreeze, collect_seldom, collect_as_before } =
            $table;
        $each!(start run_main finalize enter leave suspend resume forget_thread interrupt prepare_interrupts prepare_stacks stack retain release release_attached defer import attribute set_attribute call text item set_item length iterate next truth build inspect digits gather tagged_items scatter buffer buffer_release lend function raise tensor lend_tensor throw stream lend_array instance_type instance held arenas packages others other_threads collect catch_up unfreeze collect_seldom collect_as_before)
    }};
}

fn target<F: Guardable>(function: F) -> (usize, usize) {
    (function.address(), F::REFUSED)
}

/// The table, with guards in the place of functions. They are there as long as the second result.
pub(crate) fn guarded(
    table: &PayloadTable,
    contained: &Arc<Contained>,
) -> Result<(PayloadTable, Guarded)> {
    macro_rules! targets {
        ($($name:ident)*) => { [$(target(*$name)),*] };
    }
    let functions = Guarded::new(contained, &with_functions!(targets, table))?;
    let mut addresses = functions.addresses().iter();
    let mut guarded = *table;
    macro_rules! replace {
        ($($name:ident)*) => {
            [$(addresses.next().map(|address| {
                // SAFETY: a guard calls its target, of this type, with the arguments that it gets.
                *$name = unsafe { Guardable::at(*address) };
            })),*]
        };
    }
    let replaced = with_functions!(replace, &mut guarded);
    debug_assert!(replaced.iter().all(Option::is_some));
    Ok((guarded, functions))
}
