//! The boundary between the host and the payload: two `repr(C)` tables of functions.
//!
//! Both sides depend on this crate, so there is one definition. They are built by two runs of cargo,
//! so each side checks at run time that the other has the same definition ([`Header::matches`]): a
//! magic number, a version, and the size of the table, which changes whenever a function is added.
//!
//! Rules for every function of [`PayloadTable`]:
//!
//! - None unwinds: a panic is caught inside and reported as [`Status::PANIC`].
//! - Those marked *attached* need the interpreter's GIL, taken by `enter`.
//! - A [`Handle`] that a function returns is an owned reference; one that it is passed is borrowed, unless the function says otherwise.
//! - A function that fails returns something other than [`Status::DONE`], has written nothing to its
//!   out-parameters, and has called [`HostTable::fail`] once with the `sink` it was given.
//! - Pointers in a view ([`Text`], [`TaggedValue`], [`BufferView`]) stay valid as long as the object that they came from is referenced.

use crate::dlpack::DLTensor;
pub use crate::failure::{Failure, Raising};
pub use crate::interrupt::{Interrupt, Progress};
pub use crate::limit::MemoryLimit;
pub use crate::memory::{Others, PackageSize, Region};
pub use crate::sealed::{FrozenModule, Sealed};
pub use crate::stream::Stream;
pub use crate::tagged_value::{Kind, TaggedValue};

use std::ffi::{c_char, c_int, c_long, c_void};

/// The first word of both tables.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hydrozoa");

/// Changed when the meaning of a function changes without the table's size changing.
pub const VERSION: u32 = 15;

/// The payload's only exported symbol, of type [`EntryPoint`].
pub const ENTRY: &str = "hydrozoa_payload_v1";

/// Gives the host's table to the payload and fills in the payload's. Returns 0, or the field that
/// does not match: 1 for the magic number, 2 for the version, 3 for the size.
pub type EntryPoint =
    unsafe extern "C" fn(host: *const HostTable, payload: *mut PayloadTable) -> c_int;

/// A strong reference to a Python object. Nobody outside the payload touches its fields.
pub type Handle = *mut c_void;

/// The header of both tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Size of the whole table in bytes.
    pub size: u32,
}

impl Header {
    /// The header of a table of type `T` built from this file.
    pub const fn of<T>() -> Self {
        Self { magic: MAGIC, version: VERSION, size: size_of::<T>() as u32 }
    }

    /// 0, or the code of the first field that differs (see [`EntryPoint`]).
    pub const fn matches<T>(&self) -> c_int {
        if self.magic != MAGIC {
            1
        } else if self.version != VERSION {
            2
        } else if self.size as usize != size_of::<T>() {
            3
        } else {
            0
        }
    }
}

/// How a call across the boundary ended.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub c_int);

impl Status {
    /// It has done its work.
    pub const DONE: Self = Self(0);
    /// A Python exception was raised; it has been taken off the interpreter and reported.
    pub const EXCEPTION: Self = Self(1);
    /// The payload panicked, which is a defect of it.
    pub const PANIC: Self = Self(2);
    /// The interpreter could not be configured or started.
    pub const START: Self = Self(3);
    /// A value does not have the form that was asked for.
    pub const CONVERSION: Self = Self(4);
}

/// UTF-8 text, or bytes, that the other side owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// First byte; may be dangling when `len` is 0.
    pub data: *const u8,
    /// Length in bytes.
    pub len: usize,
}

impl Text {
    /// A view of `text`.
    pub const fn new(text: &str) -> Self {
        Self { data: text.as_ptr(), len: text.len() }
    }

    /// The viewed bytes.
    ///
    /// # Safety
    ///
    /// The owner must keep the bytes alive and unchanged for `'a`.
    pub const unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: a view covers `len` readable bytes, which the caller keeps alive.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// A `Py_buffer` that is held on behalf of the host (PEP 3118), with the exporter's own values: the
/// host checks them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BufferView {
    /// The payload's record of it, for `buffer_release`.
    pub record: *mut c_void,
    /// First byte of the exporter's memory.
    pub data: *mut u8,
    /// Length in bytes of the elements, taken together.
    pub len: isize,
    /// Size in bytes of one element.
    pub item_size: isize,
    /// Format of one element in the `struct` module's syntax, NUL-terminated; null means `B`.
    pub format: *const c_char,
    /// Number of dimensions.
    pub dimensions: c_int,
    /// `dimensions` extents, in elements. May be null.
    pub shape: *const isize,
    /// `dimensions` distances, in bytes. May be null: the elements lie row by row.
    pub strides: *const isize,
    /// `dimensions` offsets behind pointers, or null. Not asked for.
    pub suboffsets: *const isize,
    /// 1 if the memory must not be written.
    pub read_only: c_int,
}

/// The arguments of a call: a value for each positional one, then one for each name. A value is what `build` takes, or a
/// reference.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CallArguments {
    /// The values.
    pub values: *const TaggedValue,
    /// How many of them are positional.
    pub positional: usize,
    /// The names of the others.
    pub names: *const Text,
    /// How many there are.
    pub named: usize,
}

/// Host memory that is lent to Python.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Loan {
    /// First byte.
    pub data: *mut u8,
    /// Length in bytes.
    pub len: usize,
    /// 1 if Python must not write it.
    pub read_only: c_int,
    /// Passed to `drop`.
    pub context: *mut c_void,
    /// Called once, when no Python object refers to the memory any more.
    pub drop: unsafe extern "C" fn(context: *mut c_void),
}

/// A host function that Python may call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Callback {
    /// Passed to `call` and `drop`.
    pub context: *mut c_void,
    /// Called attached. `arguments` are `count` positional ones, then one for each name in the tuple `names`, which may be
    /// null. All are borrowed for the call. Returns an owned handle, or null after it has called [`PayloadTable::raise`].
    pub call: unsafe extern "C" fn(
        context: *mut c_void,
        arguments: *const Handle,
        count: usize,
        names: Handle,
    ) -> Handle,
    /// Called once, when Python lets go of the function.
    pub drop: unsafe extern "C" fn(context: *mut c_void),
}

/// A callable of the host, with its name and documentation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The function to call.
    pub callback: Callback,
    /// `__name__`.
    pub name: Text,
    /// `__qualname__`.
    pub qualified_name: Text,
    /// `__module__`. Empty: `None`.
    pub module: Text,
    /// `__doc__`. Empty: `None`.
    pub doc: Text,
    /// `__text_signature__`: parameters in parentheses, as a `def` has them. The callback gets an argument for each of them,
    /// in their order, and no names. Empty: the callback gets the arguments of the call as they are.
    pub signature: Text,
    /// 1: an attribute of a class with this value is a method.
    pub binds: c_int,
}

/// A tensor of the host that Python may import through `__dlpack__`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorLoan {
    /// Passed to `export` and `drop`.
    pub context: *mut c_void,
    /// A new `DLManagedTensor`, or a `DLManagedTensorVersioned` when `versioned` is 1; null if the
    /// tensor cannot be expressed. The receiver calls its deleter.
    pub export: unsafe extern "C" fn(context: *mut c_void, versioned: c_int) -> *mut c_void,
    /// Called once, when Python lets go of the object (not of what it has imported from it).
    pub drop: unsafe extern "C" fn(context: *mut c_void),
    /// `DLDeviceType`.
    pub device_type: c_int,
    /// Number of the device among its type.
    pub device_id: c_int,
}

/// The settings of python's flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// The number of `-O`.
    pub optimize: c_int,
    /// The seed of hashes; negative: a random one.
    pub hash_seed: i64,
    /// 1: `-u`.
    pub unbuffered: c_int,
    /// 1: `-B`.
    pub no_bytecode: c_int,
    /// 1: `-X dev`.
    pub dev: c_int,
    /// The values of `-W`.
    pub warnings: *const Text,
    /// Number of `warnings`.
    pub warning_count: usize,
    /// The values of `-X`.
    pub x_options: *const Text,
    /// Number of `x_options`.
    pub x_option_count: usize,
}

/// How an interpreter starts. Texts are paths or words as the operating system has them (bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The interpreter's name, for messages.
    pub name: Text,
    /// The future `sys.executable`: the python of an installation or a virtual environment,
    /// from which CPython derives prefix and site-packages. Empty: unknown.
    pub executable: Text,
    /// `PYTHONHOME`: the prefix of the installation. Empty: derived from `executable`.
    pub home: Text,
    /// `sys.argv`; with `command_line`, all of python's own arguments from `argv[0]` on.
    pub arguments: *const Text,
    /// Number of `arguments`.
    pub argument_count: usize,
    /// Directories put in front of `sys.path`.
    pub paths: *const Text,
    /// Number of `paths`.
    pub path_count: usize,
    /// Pairs of name and value that are set in this interpreter's `os.environ`, and not in the
    /// process's environment.
    pub environment: *const [Text; 2],
    /// Number of `environment`.
    pub environment_count: usize,
    /// 1: be `python ARGUMENTS`: read the environment and the command line. 0: isolated.
    pub command_line: c_int,
    /// 1: read `PYTHON*` variables even without a command line. They are in an environment of this
    /// interpreter's own.
    pub own_environment: c_int,
    /// Bytes of memory that the interpreter may take; 0: as many as there are.
    pub memory: usize,
    /// Counts that memory. Null if the host counts none: the interpreter has no heap of its own.
    pub limit: *const MemoryLimit,
    /// 1: install Python's signal handlers, which is for one interpreter of a process only.
    pub signal_handlers: c_int,
    /// The mode of the payload's module `imports`. Empty: it does nothing.
    pub import_mode: Text,
    /// The text of a profile of imports.
    pub import_profile: Text,
    /// Where compiled code of modules is kept. Empty: nowhere.
    pub import_folder: Text,
    /// The flags of a python command line. Not read with `command_line`.
    pub flags: Flags,
    /// The sealed application that it belongs to. Null: an installation on disk.
    pub sealed: *const Sealed,
}

/// The host's functions for the payload.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostTable {
    /// Checked by the payload.
    pub header: Header,
    /// Receives the description of a failure. `sink` is what the failing call was given.
    pub fail: unsafe extern "C" fn(sink: *mut c_void, failure: *const Failure),
    /// The number of the calling process, which differs from those of the processes that it descends from.
    pub process: unsafe extern "C" fn() -> u32,
    /// Waits until each other thread of the interpreter's code has run since, or sleeps.
    pub let_threads_pass: unsafe extern "C" fn(),
}

/// The payload's functions for the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PayloadTable {
    /// Checked by the host.
    pub header: Header,

    // The interpreter's life.
    /// Starts the interpreter on this thread and lets go of the GIL again. The thread must live
    /// until `run_main` or `finalize`, which it calls.
    pub start: unsafe extern "C" fn(start: *const Start, sink: *mut c_void) -> Status,
    /// After a `start` with `command_line`: runs what the command line says and finalizes.
    pub run_main: unsafe extern "C" fn(exit_status: *mut c_int, sink: *mut c_void) -> Status,
    /// Finalizes the interpreter, on the thread that has started it, once it gets the GIL. No other
    /// thread enters any more.
    pub finalize: unsafe extern "C" fn(sink: *mut c_void) -> Status,

    // Threads and the GIL. They nest; each returns to its caller only when it has been done.
    /// Attaches this thread: takes the GIL and, from outside, drains the queue of `release`. If bit 8 of the result is
    /// set, the thread has got a state, and the host calls `forget_thread` when it ends. `room` is the number of bytes
    /// that the thread's stack has left, or `usize::MAX` if that is not known: recursion is limited to it until `leave`.
    pub enter: unsafe extern "C" fn(room: usize) -> c_int,
    /// Undoes the `enter` that returned `token`.
    pub leave: unsafe extern "C" fn(token: c_int),
    /// Lets go of the GIL that this attached thread holds, for `resume`.
    pub suspend: unsafe extern "C" fn() -> *mut c_void,
    /// Takes the GIL back.
    pub resume: unsafe extern "C" fn(state: *mut c_void),
    /// Leaves this thread's state to be freed by whichever thread enters once this one is gone. For
    /// threads that end, which are not attached. Never waits.
    pub forget_thread: unsafe extern "C" fn(),
    /// 1 if this thread holds the GIL of this interpreter.
    pub attached: unsafe extern "C" fn() -> c_int,
    /// The state of the thread that holds this interpreter's GIL; from 3.12 on null unless that is the calling thread. It is
    /// only compared.
    pub current: unsafe extern "C" fn() -> *mut c_void,
    /// Raises an exception in another thread, when that runs bytecode in which an exception does no harm. As long as
    /// `*progress`, at first [`Progress::NEW`], does not become [`Progress::DONE`], the host calls it again with that, after
    /// a while without the GIL. Attached.
    pub interrupt: unsafe extern "C" fn(
        thread: u64,
        reason: Interrupt,
        progress: *mut Progress,
        sink: *mut c_void,
    ) -> Status,
    /// Imports what a report of an interrupt needs. Attached.
    pub prepare_interrupts: unsafe extern "C" fn(sink: *mut c_void) -> Status,
    /// Prepares `stacks`. Attached.
    pub prepare_stacks: unsafe extern "C" fn(sink: *mut c_void) -> Status,
    /// Writes the Python stacks of all threads to descriptor 2, as `faulthandler` does: without the GIL, and without any
    /// lock. It reads what other threads may change meanwhile, and may fault: for a process that shares this one's memory
    /// and nothing else. Writes nothing before `prepare_stacks`.
    pub stacks: unsafe extern "C" fn(),
    /// Calls `line` for each Python frame of a thread, the innermost first, with a line as `faulthandler` writes it. Never,
    /// if the thread runs no Python code. Attached.
    pub stack: unsafe extern "C" fn(
        thread: u64,
        line: unsafe extern "C" fn(context: *mut c_void, text: Text),
        context: *mut c_void,
        sink: *mut c_void,
    ) -> Status,

    // References.
    /// One more reference. Attached.
    pub retain: unsafe extern "C" fn(object: Handle),
    /// One reference less: at once if this thread is attached, else queued until some thread
    /// enters. Never waits.
    pub release: unsafe extern "C" fn(object: Handle),
    /// Takes over a reference, which the next thread that enters gives up, and returns 1. Returns 0 if this thread is attached, or
    /// too many are waiting: then it is for `release`. Takes no memory and no lock, and never waits.
    pub put_aside: unsafe extern "C" fn(object: Handle) -> c_int,
    /// One reference less, at once. Attached.
    pub release_attached: unsafe extern "C" fn(object: Handle),
    /// Calls `action(argument)` under the GIL: at once if this thread is attached, with an exception
    /// that is set put aside; else queued as `release` does.
    pub defer:
        unsafe extern "C" fn(action: unsafe extern "C" fn(*mut c_void), argument: *mut c_void),

    // Objects. All attached.
    /// `importlib.import_module(name)`.
    pub import: unsafe extern "C" fn(name: Text, out: *mut Handle, sink: *mut c_void) -> Status,
    /// `getattr(object, name)`.
    pub attribute: unsafe extern "C" fn(
        object: Handle,
        name: Text,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `setattr(object, name, value)`, or `delattr` when `value` is null.
    pub set_attribute: unsafe extern "C" fn(
        object: Handle,
        name: Text,
        value: Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `callable(*positional, **named)`; if `method` is not empty, `getattr(callable, method)` is what is called.
    pub call: unsafe extern "C" fn(
        callable: Handle,
        method: Text,
        arguments: *const CallArguments,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `str(object)`, or `repr(object)` when `representation` is 1.
    pub text: unsafe extern "C" fn(
        object: Handle,
        representation: c_int,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `object[key]`.
    pub item: unsafe extern "C" fn(
        object: Handle,
        key: Handle,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `object[key] = value`, or `del object[key]` when `value` is null.
    pub set_item: unsafe extern "C" fn(
        object: Handle,
        key: Handle,
        value: Handle,
        sink: *mut c_void,
    ) -> Status,
    /// `len(object)`.
    pub length: unsafe extern "C" fn(object: Handle, out: *mut usize, sink: *mut c_void) -> Status,
    /// `iter(object)`.
    pub iterate:
        unsafe extern "C" fn(object: Handle, out: *mut Handle, sink: *mut c_void) -> Status,
    /// `next(iterator)`; null at the end.
    pub next: unsafe extern "C" fn(iterator: Handle, out: *mut Handle, sink: *mut c_void) -> Status,
    /// `bool(object)`.
    pub truth: unsafe extern "C" fn(object: Handle, out: *mut c_int, sink: *mut c_void) -> Status,

    // Values. All attached.
    /// A new object from a value that is neither a container nor [`Kind::OTHER`].
    pub build: unsafe extern "C" fn(
        value: *const TaggedValue,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// The type of an object, with its value.
    pub inspect:
        unsafe extern "C" fn(object: Handle, out: *mut TaggedValue, sink: *mut c_void) -> Status,
    /// The two's complement of an `int`, little-endian, as a `bytes` object.
    pub digits: unsafe extern "C" fn(object: Handle, out: *mut Handle, sink: *mut c_void) -> Status,
    /// A new list, tuple or dict; of a dict, `items` are `len` pairs of key and value. An item is a value for `build`, or a
    /// reference.
    pub gather: unsafe extern "C" fn(
        kind: Kind,
        items: *const TaggedValue,
        len: usize,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// The types and values of the items of a list or tuple of exactly `len` items; fails if its length has changed meanwhile.
    /// The views are valid while the GIL is held and no Python code runs.
    pub tagged_items: unsafe extern "C" fn(
        container: Handle,
        items: *mut TaggedValue,
        len: usize,
        sink: *mut c_void,
    ) -> Status,
    /// Owned references to the items of a list or tuple, or keys and values of a dict, of exactly
    /// `len` items or pairs; a failure if the container has changed its length meanwhile.
    pub scatter: unsafe extern "C" fn(
        container: Handle,
        items: *mut Handle,
        len: usize,
        sink: *mut c_void,
    ) -> Status,

    // Memory and functions across the boundary. Attached, except where said.
    /// Holds the buffer that `object` exports; `writable` asks for one that may be written.
    pub buffer: unsafe extern "C" fn(
        object: Handle,
        writable: c_int,
        out: *mut BufferView,
        sink: *mut c_void,
    ) -> Status,
    /// Lets go of a buffer; queued as `release` does when this thread is not attached.
    pub buffer_release: unsafe extern "C" fn(record: *mut c_void),
    /// A `memoryview` over lent memory. On failure the loan is dropped.
    pub lend:
        unsafe extern "C" fn(loan: *const Loan, out: *mut Handle, sink: *mut c_void) -> Status,
    /// A callable. On failure the callback is dropped.
    pub function: unsafe extern "C" fn(
        definition: *const Definition,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// Raises an exception. Only for a [`Callback`] that is about to return null.
    pub raise: unsafe extern "C" fn(raising: *const Raising),
    /// Takes the tensor of `object.__dlpack__()` over: `*versioned` says whether `*out` is a
    /// `DLManagedTensorVersioned`. The host calls its deleter.
    pub tensor: unsafe extern "C" fn(
        object: Handle,
        out: *mut *mut c_void,
        versioned: *mut c_int,
        sink: *mut c_void,
    ) -> Status,
    /// An object with `__dlpack__` and `__dlpack_device__`. On failure the loan is dropped.
    pub lend_tensor: unsafe extern "C" fn(
        loan: *const TensorLoan,
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// Fails with `object`, an exception or a class of exceptions, as `raise object` does.
    pub throw: unsafe extern "C" fn(object: Handle, sink: *mut c_void) -> Status,
    /// An object with the methods `write` and `readinto`. On failure the stream is dropped.
    pub stream:
        unsafe extern "C" fn(stream: *const Stream, out: *mut Handle, sink: *mut c_void) -> Status,
    /// An array of numpy over a tensor in main memory, where the program has imported numpy and not torch. Elsewhere the same
    /// as `lend_tensor`, and `array` is 0. The loan's `export` would give the same tensor. On failure the loan is dropped.
    pub lend_array: unsafe extern "C" fn(
        loan: *const TensorLoan,
        tensor: *const DLTensor,
        read_only: c_int,
        out: *mut Handle,
        array: *mut c_int,
        sink: *mut c_void,
    ) -> Status,
    /// The base of all classes whose instances hold a value of the host's.
    pub instance_type: unsafe extern "C" fn(out: *mut Handle, sink: *mut c_void) -> Status,
    /// A new instance of `class`, which must be derived from that base. It holds `context`. `drop(context)` is called once:
    /// when the instance is freed, or on failure.
    pub instance: unsafe extern "C" fn(
        class: Handle,
        context: *mut c_void,
        drop: unsafe extern "C" fn(*mut c_void),
        out: *mut Handle,
        sink: *mut c_void,
    ) -> Status,
    /// The context that an instance of such a class holds. Null for any other `object`.
    pub held: unsafe extern "C" fn(object: Handle) -> *mut c_void,

    // Users of memory.
    /// Calls `visit` with `context` for each range of addresses at which arenas of Python's objects are. Any thread may ask,
    /// attached or not; attached, and without sub-interpreters, none comes or goes meanwhile. `visit` calls no function of this table.
    pub arenas: unsafe extern "C" fn(
        visit: unsafe extern "C" fn(context: *mut c_void, region: Region),
        context: *mut c_void,
    ),
    /// Calls `visit` with `context` for each package that has objects, in no order. The text is valid during the call.
    /// Attached; lets other threads have the GIL now and then.
    pub packages: unsafe extern "C" fn(
        visit: unsafe extern "C" fn(context: *mut c_void, package: *const PackageSize),
        context: *mut c_void,
        sink: *mut c_void,
    ) -> Status,

    // The interpreter's memory.
    /// 1 if the address lies in the window of its arenas. Any thread may ask.
    pub owns: unsafe extern "C" fn(address: *const c_void) -> c_int,
    /// Counts those that could change Python's memory although the calling thread holds the GIL. It takes and frees no memory.
    /// Attached. The host's own threads between `enter` and `leave` are not counted: the host keeps them out.
    pub others: unsafe extern "C" fn() -> Others,
    /// Calls `visit` with `context` for each thread that `others` counts, with its identifier (`threading.get_ident`, which is that of
    /// pthread_self(3)); 0 if this build of Python does not show where a thread's state has that. Attached.
    pub other_threads: unsafe extern "C" fn(
        visit: unsafe extern "C" fn(context: *mut c_void, identifier: usize),
        context: *mut c_void,
    ),

    // Garbage, of an interpreter that is settled, or has left its pool.
    /// `gc.collect()`. With `freezes`, it includes objects frozen here before, and freezes the remaining objects. Attached.
    pub collect: unsafe extern "C" fn(freezes: bool, sink: *mut c_void) -> Status,
    /// Frees what threads outside have given up, as `enter` does, for a thread that stays inside. Attached, where destructors of any kind may run.
    pub catch_up: unsafe extern "C" fn(),
    /// Undoes what `collect` has frozen. `finalize` does so, too. Attached.
    pub unfreeze: unsafe extern "C" fn(),

    // Imports.
    /// Makes Python rarely collect garbage, until `collect_as_before` gets the result. Attached.
    pub collect_seldom: unsafe extern "C" fn() -> c_long,
    /// Undoes the `collect_seldom` that returned `before`, unless a program has set other thresholds meanwhile. Attached.
    pub collect_as_before: unsafe extern "C" fn(before: c_long),
}
