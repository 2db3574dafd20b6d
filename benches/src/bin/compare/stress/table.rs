//! The operations. Each checks its own answers.

use anyhow::Result;

use super::world::World;
use super::{Turn, calls, errands, futures, limits, objects, pools, python};

/// One operation of the public interface.
pub struct Operation {
    pub name: &'static str,
    /// How often it is chosen, beside the others.
    pub weight: usize,
    pub run: fn(&World, &mut Turn) -> Result<()>,
}

const fn operation(
    name: &'static str,
    weight: usize,
    run: fn(&World, &mut Turn) -> Result<()>,
) -> Operation {
    Operation { name, weight, run }
}

pub const OPERATIONS: [Operation; 36] = [
    operation("calls", 600, calls::work),
    operation("exceptions", 150, calls::exceptions),
    operation("values", 100, calls::values),
    operation("nested", 120, calls::nested),
    operation("callbacks", 60, calls::callbacks),
    operation("native-callbacks", 60, calls::native_callbacks),
    operation("lent", 100, objects::lent),
    operation("buffers", 100, objects::buffers),
    operation("tensors", 100, objects::tensors),
    operation("classes", 100, objects::classes),
    operation("handles", 150, objects::handles),
    operation("movables", 200, objects::movables),
    operation("errands", 300, errands::run_one),
    operation("coroutines", 60, futures::coroutines),
    operation("cancelled", 60, futures::cancelled),
    operation("awaitables", 60, futures::awaitables),
    operation("interrupts", 80, limits::interrupts),
    operation("interrupts-anywhere", 150, limits::interrupts_anywhere),
    operation("deadlines", 60, limits::deadlines),
    operation("deadlines-anywhere", 150, limits::deadlines_anywhere),
    operation("deadlines-of-nothing", 60, limits::deadlines_of_nothing),
    operation("deadlines-at-thread-ends", 20, limits::deadlines_at_thread_ends),
    operation("stuck", 12, limits::stuck),
    operation("threads", 60, python::threads),
    operation("queues", 60, python::queues),
    operation("daemons", 20, python::daemons),
    operation("children", 40, python::children),
    operation("forks", 40, python::forks),
    operation("signals", 60, python::signals),
    operation("imports", 80, python::imports),
    operation("finalizers", 60, python::finalizers),
    operation("pools", 16, pools::pools),
    operation("printing-daemons", 6, pools::printing_daemons),
    operation("ceilings", 6, pools::ceilings),
    operation("replacements", 16, pools::replacements),
    operation("sizes", 8, pools::sizes),
];
