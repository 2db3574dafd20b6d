//! Damage to a heap: a block that is freed twice, or an overflow. It ends the program, or the interpreter if that contains its crashes,
//! as plain Python's malloc ends the program then.

use super::Heap;
use crate::crash;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// The kinds of damage that the heap finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    FreedTwice,
    Head,
    AfterFree,
    NoBlock,
}

impl Damage {
    /// The rest of the sentence that begins with the block.
    fn words(self) -> &'static str {
        match self {
            Self::FreedTwice => "is freed a second time",
            Self::Head => "was freed before, or something wrote over its head or the next one's",
            Self::AfterFree => "was written to after it was freed",
            Self::NoBlock => "is none",
        }
    }
}

impl Heap {
    /// Calls abort(3), as glibc's malloc does (`malloc_printerr`, malloc/malloc.c): a block is damaged.
    #[cold]
    pub(super) fn has_damage(&self, block: *mut c_void, damage: Damage) -> ! {
        let domain = self.domain.load(Ordering::Relaxed);
        crash::abort(crash::Damage { domain, block: block.addr(), words: damage.words() })
    }
}
