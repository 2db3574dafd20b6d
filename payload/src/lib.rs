//! The part of Hydrozoa that lives inside each interpreter.
//!
//! Our loader loads this cdylib into every domain beside libpython, which defines the Python C API
//! that it calls. No other code calls that API. Every domain has its own replica of the library, so
//! its statics belong to one interpreter and nothing here is state of the process.
//!
//! The library exports one function, [`hydrozoa_payload_v1`]. Everything else goes through the tables
//! of [`table`].
//!
//! | folder or file | holds |
//! |---|---|
//! | `allocators`, `api` | Python's memory; references, names, types and modules by which the rest uses Python's C API |
//! | `threads` | the threads in the interpreter: entry, end, and how those that are not the host's are kept out |
//! | `exceptions` | how calls fail, and how they are stopped |
//! | `garbage`, `host_objects`, `inspection`, `values` | collections; the host's functions, instances and streams; memory and stacks by their owners; values |
//! | `sealed` | the start from a sealed application's file |
//! | `objects`, `start` | the host's operations on objects; an interpreter's start and end |
//!
//! A folder or file uses those above it in this table and in its own row. `tests/tests/tidy/rows.rs` reads it.

mod allocators;
mod api;
mod exceptions;
mod garbage;
mod host_objects;
mod inspection;
mod objects;
mod sealed;
mod start;
mod threads;
mod values;

use allocators::arenas;
use exceptions::{interrupts, raising};
use garbage::{during_imports, frozen_objects};
use host_objects::{functions, instances, streams};
use hydrozoa_payload::{dlpack, table};
use inspection::{package_sizes, stack_of_thread, stacks_without_gil};
use std::ffi::c_int;
use std::sync::OnceLock;
use table::{Header, HostTable, PayloadTable};
use threads::other_threads;
use values::{buffers, plain, tensors};

/// The host's table, as given to [`hydrozoa_payload_v1`].
static HOST: OnceLock<HostTable> = OnceLock::new();

/// This payload's functions.
static TABLE: PayloadTable = PayloadTable {
    header: Header::of::<PayloadTable>(),
    start: start::start,
    run_main: start::run_main,
    finalize: start::finalize,
    enter: threads::enter,
    leave: threads::leave,
    suspend: threads::suspend,
    resume: threads::resume,
    forget_thread: threads::forget_thread,
    attached: threads::attached_flag,
    current: threads::current,
    interrupt: interrupts::interrupt,
    prepare_interrupts: interrupts::prepare,
    prepare_stacks: stacks_without_gil::prepare,
    stacks: stacks_without_gil::write,
    stack: stack_of_thread::lines,
    retain: threads::retain,
    release: threads::release,
    put_aside: threads::put_aside,
    release_attached: threads::release_attached,
    defer: threads::defer,
    import: objects::import,
    attribute: objects::attribute,
    set_attribute: objects::set_attribute,
    call: objects::call,
    text: objects::text,
    item: objects::item,
    set_item: objects::set_item,
    length: objects::length,
    iterate: objects::iterate,
    next: objects::next,
    truth: objects::truth,
    build: plain::build,
    inspect: plain::inspect,
    digits: plain::digits,
    gather: plain::gather,
    tagged_items: plain::tagged_items,
    scatter: plain::scatter,
    buffer: buffers::buffer,
    buffer_release: buffers::buffer_release,
    lend: buffers::lend,
    function: functions::function,
    raise: raising::raise,
    tensor: tensors::tensor,
    lend_tensor: tensors::lend_tensor,
    stream: streams::stream,
    instance_type: instances::instance_type,
    instance: instances::instance,
    held: instances::held,
    throw: raising::throw,
    lend_array: tensors::lend_array,
    arenas: arenas::visit,
    packages: package_sizes::packages,
    owns: other_threads::owns,
    others: other_threads::counted,
    other_threads: other_threads::visit,
    collect: frozen_objects::collect,
    catch_up: threads::catch_up,
    unfreeze: frozen_objects::unfreeze,
    collect_seldom: during_imports::collect_seldom,
    collect_as_before: during_imports::collect_as_before,
};

/// The payload's entry: see [`table::EntryPoint`].
///
/// # Safety
///
/// `host` must point to a header at least, of a table that lives as long as the process; `payload`
/// must have room for the table that the host's header describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hydrozoa_payload_v1(
    host: *const HostTable,
    payload: *mut PayloadTable,
) -> c_int {
    // SAFETY: every version of the host passes a readable header, by contract.
    let differs = unsafe { &*host.cast::<Header>() }.matches::<HostTable>();
    if differs != 0 {
        return differs;
    }
    // SAFETY: magic, version and size agree, so the host has this definition.
    HOST.get_or_init(|| unsafe { *host });
    // SAFETY: the host that has this definition has made room for this table.
    unsafe { payload.write(TABLE) };
    0
}
