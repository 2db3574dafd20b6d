//! The part of Hydrozoa that lives inside each interpreter.
//!
//! Our loader loads this cdylib into every domain beside libpython, which defines the Python C API
//! that it calls. No other code calls that API. Every domain has its own replica of the library, so
//! its statics belong to one interpreter and nothing here is state of the process.
//!
//! The library exports one function, [`hydrozoa_payload_v1`]. Everything else goes through the tables
//! of [`table`].

mod arenas;
mod arrays;
mod barrier;
mod built;
mod ceiling;
mod chunks;
mod classes;
mod collections;
mod ended;
mod ending;
mod exceptions;
mod fault;
mod frames;
mod frozen;
mod functions;
mod generated;
mod heap;
mod interrupts;
mod interval;
mod memory;
mod methods;
mod module_files;
mod modules;
mod moments;
mod names;
mod objects;
mod packages;
mod quiet;
mod recursion;
mod reference;
mod report;
mod signature;
mod stack;
mod stacks;
mod start;
mod streams;
mod tensors;
mod threads;
mod types;
mod values;

use hydrozoa_payload::{dlpack, table};
use std::ffi::c_int;
use std::sync::OnceLock;
use table::{Header, HostTable, PayloadTable};

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
    prepare_stacks: stacks::prepare,
    stacks: stacks::write,
    stack: frames::lines,
    retain: threads::retain,
    release: threads::release,
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
    build: values::build,
    inspect: values::inspect,
    digits: values::digits,
    gather: values::gather,
    leaves: values::leaves,
    scatter: values::scatter,
    buffer: memory::buffer,
    buffer_release: memory::buffer_release,
    lend: memory::lend,
    function: functions::function,
    raise: exceptions::raise,
    tensor: tensors::tensor,
    lend_tensor: tensors::lend_tensor,
    stream: streams::stream,
    instance_type: classes::instance_type,
    instance: classes::instance,
    held: classes::held,
    throw: exceptions::throw,
    lend_array: tensors::lend_array,
    regions: heap::regions,
    packages: packages::packages,
    owns: quiet::owns,
    quiet: quiet::quiet,
    collect: frozen::collect,
    unfreeze: frozen::unfreeze,
    collect_seldom: collections::collect_seldom,
    collect_as_before: collections::collect_as_before,
};

/// The payload's entry: see [`table::Entry`].
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
