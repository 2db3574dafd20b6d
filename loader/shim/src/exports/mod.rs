//! The exported functions. They make no frame of their own, so that their targets see the address
//! that the program called from: by it `dlopen` and `dlsym` know the caller.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::function;
#[cfg(target_arch = "x86_64")]
use x86_64::function;

use crate::{ANSWERS, begin};

macro_rules! export {
    ($($name:ident = $index:literal;)*) => { $(
        /// Answered by the function of this name in `ANSWERS`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            function!($index)
        }
    )* };
}

export! {
    dlopen = 0;
    dlsym = 1;
    dlvsym = 2;
    dlclose = 3;
    dlerror = 4;
    dladdr = 5;
    dladdr1 = 6;
    dlinfo = 7;
    dl_iterate_phdr = 8;
    _dl_find_object = 9;
}
