//! The frames of a thread that a signal has interrupted: a walk for handlers of crashes.
//!
//! An unwinder of the process (libgcc's) trusts what it reads, which a crash may have damaged, and looks tables up by functions
//! that may wait for a lock. The walk here takes no lock, allocates nothing, and reads all memory by the kernel
//! ([`crate::sys::own_memory`]), so what is damaged ends the walk and not the process. [`step`] applies a frame's unwind
//! table, which [`tables`] finds for replicas and system objects alike. [`CodePlace`] says what an address lies in, and
//! [`function_at`] names its function. [`Discardable`] judges whether frames may be discarded.

mod discard;
mod known;
mod names;
mod place;
mod step;
mod tables;

pub(crate) use discard::note_routine;
pub use discard::{Boundary, Discardable, Kept, Passes};
pub use names::{Function, function_at};
pub use place::CodePlace;

use std::ffi::c_void;

use crate::arch::{
    REGISTER_NAMES, REGISTERS, STACK_POINTER, interrupted_around, registers_of, return_of_call,
};

/// Frames after which a walk gives up. The stack of a recursion without end has a million.
const MOST: usize = 1 << 20;

/// The frames of a thread, the innermost first. It needs some 40 KiB of stack.
#[derive(Debug)]
pub struct Walk {
    registers: [usize; REGISTERS],
    /// Whether the frame's address is that of an instruction that has not run, and not where a call returns to.
    is_exact: bool,
    count: usize,
    end: Option<End>,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The address of the frame's next instruction.
    pub address: usize,
    /// An address in the instruction that it executes: before `address` if that is where a call returns to.
    pub executes: usize,
    /// Its stack pointer there.
    pub stack: usize,
    /// Where its function, or the part of it with a table of its own, begins; 0 if no table covers it.
    pub function: usize,
}

/// Why a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It has seen the thread's outermost frame.
    Outermost,
    /// The last frame's address lies in no object.
    NotCode,
    /// No unwind table covers the last frame's address, or the loader cannot read the table.
    NoTable,
    /// The last frame's table refers to memory that cannot be read.
    Unreadable,
    /// The frame around the last one would lie below it.
    NotAbove,
    /// There are more frames than it visits.
    TooMany,
}

impl End {
    /// The end in words.
    pub fn words(self) -> &'static str {
        match self {
            End::Outermost => "the outermost frame",
            End::NotCode => "the next address is not code",
            End::NoTable => "no unwind table covers the next address",
            End::Unreadable => "the stack cannot be read further",
            End::NotAbove => "the next frame would lie below this one",
            End::TooMany => "there are more frames",
        }
    }
}

impl Walk {
    /// A walk of the calling thread's frames from the place on that a signal has interrupted. `context` is the third argument
    /// of the signal's handler (sigaction(2), SA_SIGINFO).
    ///
    /// # Safety
    ///
    /// The kernel has passed `context` to a handler that has not returned.
    pub unsafe fn of_interrupted(context: *const c_void) -> Walk {
        // SAFETY: the caller's promise.
        let registers = unsafe { registers_of(context) };
        Walk { registers, is_exact: true, count: 0, end: None }
    }

    /// Why it has ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The registers of the next frame with their names. In frames but the first, only those that functions preserve are
    /// right.
    pub fn registers(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        REGISTER_NAMES.into_iter().zip(self.registers)
    }

    /// The stack pointer of the next frame.
    pub fn stack(&self) -> usize {
        self.registers[STACK_POINTER]
    }

    fn address(&self) -> usize {
        self.registers[REGISTERS - 1]
    }

    /// Takes the registers back to the frame around this one. Returns where this one's function begins.
    fn advance(&mut self, executes: usize) -> Result<usize, (usize, End)> {
        let before = self.stack();
        if self.count == 1 && !tables::are_there(executes) {
            // A call to an address without code, as through a null pointer: its caller is the next frame.
            let returns = return_of_call(&mut self.registers) && tables::are_there(self.address());
            self.is_exact = false;
            return if returns { Ok(0) } else { Err((0, End::NotCode)) };
        }
        let stepped = match step::step(&mut self.registers, executes) {
            Ok(stepped) => stepped,
            Err(end) => {
                self.registers = interrupted_around(&self.registers).ok_or((0, end))?;
                step::Step { function: 0, is_outermost: false, is_interrupted: true }
            }
        };
        let function = stepped.function;
        if stepped.is_outermost || self.address() == 0 {
            return Err((function, End::Outermost));
        }
        // A handler may run on a stack of its own, which may lie anywhere.
        if self.stack() <= before && !stepped.is_interrupted && self.count > 1 {
            return Err((function, End::NotAbove));
        }
        self.is_exact = stepped.is_interrupted;
        if self.count >= MOST {
            return Err((function, End::TooMany));
        }
        Ok(function)
    }
}

impl Iterator for Walk {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.end.is_some() {
            return None;
        }
        let (address, stack) = (self.address(), self.stack());
        let executes = if self.is_exact { address } else { address.wrapping_sub(1) };
        self.count += 1;
        let function = match self.advance(executes) {
            Ok(function) => function,
            Err((function, end)) => {
                self.end = Some(end);
                function
            }
        };
        Some(Frame { address, executes, stack, function })
    }
}

#[cfg(test)]
mod tests;
