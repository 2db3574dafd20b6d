//! The moments at which an exception may be raised in a thread that runs Python code.
//!
//! CPython looks whether there is something to raise after calls of C functions, at jumps back and where functions begin
//! (`_Py_HandlePending` in Python/ceval_gil.c). At some of these places an exception does harm, or is lost:
//!
//! - Between the call that takes a lock and the `try` that gives it back, the lock stays held. So is the lock of all imports
//!   in `_get_module_lock` of Lib/importlib/_bootstrap.py, which no later import gets.
//! - At the begin of a function that gives a lock back, such as `Condition.__exit__` in Lib/threading.py.
//! - CPython prints what a finalizer or the callback of a weak reference raises, and goes on (`PyErr_WriteUnraisable`).
//!
//! The frames further down behave correctly: a `with` and a `finally` expect exceptions.

use crate::allocators::memory_limit::Lifted;
use crate::api::fault::Outcome;
use crate::api::interned::name_of;
use crate::api::reference::{Ref, done, utf8_of};
use crate::api::under_gil::UnderGil;
use crate::table::Text;
use pyo3_ffi::{
    PyBytes_AsStringAndSize, PyDict_GetItemString, PyErr_Clear, PyFrameObject, PyLong_AsLong,
    PyObject, PyObject_GetAttr, PyThreadState, PyTuple_GetItem,
};
use std::ptr;
use std::slice;

unsafe extern "C" {
    /// The innermost frame as a new reference, or null (Doc/c-api/init.rst, since 3.9).
    fn PyThreadState_GetFrame(state: *mut PyThreadState) -> *mut PyObject;
    /// The frame that has called it, as a new reference, or null (Doc/c-api/frame.rst, since 3.9).
    fn PyFrame_GetBack(frame: *mut PyFrameObject) -> *mut PyObject;
}

/// The safety of an exception in a thread at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// An exception may be raised.
    Right,
    /// Not where the thread is now.
    Wrong(Wrong),
}

/// For how long one waits for a better moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// As long as it takes. This code has no endless loop and waits for nothing but the code of others.
    Forever,
    /// It might take for ever: a finalizer with a loop, a loop that waits for a lock for a while each time.
    Long,
    /// The thread is in an instruction after which CPython does not look. It may get to another frame before it looks.
    Inexact,
}

/// Bits of `_hydrozoa.interrupts.KINDS`.
mod kind {
    /// It calls something.
    pub(super) const CALL: u8 = 1;
    /// CPython looks at its end whether there is something to raise.
    pub(super) const CHECK: u8 = 2;
    /// It loads the attribute whose name has the number of its argument,
    pub(super) const ATTRIBUTE: u8 = 4;
    /// of half of its argument.
    pub(super) const HALF_ATTRIBUTE: u8 = 8;
    /// It loads a special method: `__enter__` or `__aenter__` if the argument is even (`_Py_SpecialMethods` in 3.14).
    pub(super) const SPECIAL: u8 = 16;
    /// The only Python code that it can run is that of objects that it drops.
    pub(super) const DROP: u8 = 32;
    /// It has the upper bits of the next one's argument.
    pub(super) const EXTENDED: u8 = 64;
    /// It is the last one of a call.
    pub(super) const CALLED: u8 = 128;
}

/// The kinds of instructions, by their numbers.
static KINDS: UnderGil<[u8; 256]> = UnderGil::new([0; 256]);

/// Takes over the kinds of instructions from `_hydrozoa.interrupts`.
///
/// # Safety
///
/// Attached.
pub(crate) unsafe fn learn(module: &Ref) -> Outcome<()> {
    // SAFETY: attached; the object lives while its bytes are read, and nobody else uses the place meanwhile.
    unsafe {
        let kinds = attribute(module.as_ptr(), "KINDS")?;
        if let Ok(kinds) = bytes(&kinds)?.try_into() {
            *KINDS.as_ptr() = kinds;
        }
        Ok(())
    }
}

/// Code that CPython or we run under a lock or as part of an import: modules by their names, with their submodules. In their
/// own frames no exception is raised.
const MODULES: [&str; 9] = [
    // Taken with `with`, whose `__enter__` is Python code, and given back at once in the case of RLock. `Thread.start` also
    // keeps lists of all threads.
    "threading",
    "queue",
    // Callbacks that CPython calls, and the sets that they change.
    "weakref",
    "_weakrefset",
    // `__exit__` of a generator's context and of ExitStack.
    "contextlib",
    // Locks with acquire and release.
    "logging",
    "concurrent.futures",
    // A callback that was taken from the loop's list and did not run is lost.
    "asyncio",
    // Ours.
    "_hydrozoa",
];

/// Where importlib's code is from that has the locks of imports (Python/frozen.c).
const IMPORTLIB: &str = "<frozen importlib._bootstrap>";

/// Its functions that neither take a lock other than by `with` nor come between a module that is in `sys.modules` and the
/// attribute of its parent (`_load_unlocked`, `_find_and_load_unlocked`). An import spends its time in these, in modules and
/// in `_bootstrap_external`.
const SAFE_IMPORTLIB: [&str; 11] = [
    "_call_with_frames_removed",
    "_find_and_load",
    "_find_spec",
    "_gcd_import",
    "_handle_fromlist",
    "_init_module_attrs",
    "create_module",
    "exec_module",
    "find_spec",
    "module_from_spec",
    "spec_from_loader",
];

/// Functions that take something, or give it back, in whatever module.
const GUARDS: [&str; 6] =
    ["__enter__", "__exit__", "__aenter__", "__aexit__", "acquire", "release"];

/// Methods whose exceptions CPython prints: `slot_tp_finalize` and `slot_bf_releasebuffer` in Objects/typeobject.c.
const FINALIZERS: [&str; 2] = ["__del__", "__release_buffer__"];

/// So many frames are looked at.
const MOST: usize = 1000;

/// Whether an exception may be raised in a thread.
///
/// # Safety
///
/// Attached. The state is one of this interpreter, and its thread does not run meanwhile, or is this one. No exception is set.
pub(crate) unsafe fn moment(state: *mut PyThreadState) -> Moment {
    let _lifted = Lifted::begin();
    // SAFETY: by contract; a function of the API that fails has set an exception.
    unsafe {
        look(state).unwrap_or_else(|_| {
            PyErr_Clear();
            Moment::Wrong(Wrong::Long)
        })
    }
}

/// # Safety
///
/// As [`moment`].
unsafe fn look(state: *mut PyThreadState) -> Outcome<Moment> {
    // SAFETY: by contract.
    unsafe {
        let mut next = frame(PyThreadState_GetFrame(state));
        let Some(top) = &next else { return Ok(Moment::Wrong(Wrong::Inexact)) };
        let mut moment = Frame::of(top)?.moment()?;
        for _ in 0..MOST {
            let Some(inner) = next.take() else { break };
            let inner = Frame::of(&inner)?;
            next = frame(PyFrame_GetBack(inner.object.as_ptr().cast()));
            let outer = next.as_ref().map(|outer| Frame::of(outer)).transpose()?;
            if moment != Moment::Wrong(Wrong::Forever) && inner.is_swallowed(outer.as_ref())? {
                moment = Moment::Wrong(Wrong::Long);
                break;
            }
        }
        Ok(moment)
    }
}

/// # Safety
///
/// The pointer is an owned reference or null.
unsafe fn frame(object: *mut PyObject) -> Option<Ref> {
    // SAFETY: by contract. Without a frame no exception is set.
    unsafe { Ref::owned(object).ok() }
}

/// A frame of a thread that does not run.
struct Frame<'a> {
    object: &'a Ref,
    code: Ref,
    /// The instruction that it is in, by its place in the code, in bytes. Negative before the first.
    at: i64,
}

/// The value that was loaded last before a call.
enum Loaded {
    Other,
    Attribute(usize),
    Enter,
}

impl<'a> Frame<'a> {
    /// # Safety
    ///
    /// Attached.
    unsafe fn of(object: &'a Ref) -> Outcome<Self> {
        // SAFETY: attached; these attributes of a frame run no Python code.
        unsafe {
            let code = attribute(object.as_ptr(), "f_code")?;
            let at = PyLong_AsLong(attribute(object.as_ptr(), "f_lasti")?.as_ptr());
            Ok(Self { object, code, at })
        }
    }

    /// Whether an exception may be raised here, if the frame is the innermost one.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn moment(&self) -> Outcome<Moment> {
        // SAFETY: attached; the texts live as long as the code and the globals, which the frame keeps.
        unsafe {
            let file = attribute(self.code.as_ptr(), "co_filename")?;
            let name = attribute(self.code.as_ptr(), "co_name")?;
            let (file, name) = (file.utf8().unwrap_or(""), name.utf8().unwrap_or(""));
            if file == IMPORTLIB && !SAFE_IMPORTLIB.contains(&name) {
                return Ok(Moment::Wrong(Wrong::Forever));
            }
            let kind = self.kind()?;
            let calls_acquire = kind & kind::CALL != 0 && self.is_acquire()?;
            let module = self.module()?;
            let module = module.as_ref().and_then(|module| module.utf8()).unwrap_or("");
            let waits = module == "threading" && is_wait(name, calls_acquire);
            let is_one = |known: &&str| {
                let below = module.strip_prefix(known);
                below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
            };
            let guarded = calls_acquire || GUARDS.contains(&name) || MODULES.iter().any(is_one);
            Ok(match guarded || file.starts_with("_hydrozoa/") {
                true if !waits => Moment::Wrong(Wrong::Long),
                _ if kind & kind::CHECK == 0 && self.at >= 0 => Moment::Wrong(Wrong::Inexact),
                _ => Moment::Right,
            })
        }
    }

    /// Whether CPython swallows what the frame raises.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn is_swallowed(&self, outer: Option<&Frame<'_>>) -> Outcome<bool> {
        // SAFETY: attached; as above.
        unsafe {
            let name = attribute(self.code.as_ptr(), "co_name")?;
            let name = name.utf8().unwrap_or("");
            if FINALIZERS.contains(&name) {
                return Ok(true);
            }
            // An instruction that only drops objects has called it: a finalizer of its own name, a callback.
            if let Some(outer) = outer
                && outer.kind()? & kind::DROP != 0
            {
                return Ok(true);
            }
            // Callbacks of weak references in Lib/weakref.py, Lib/_weakrefset.py and Lib/importlib/_bootstrap.py.
            if !matches!(name, "remove" | "_remove" | "cb" | "__call__") {
                return Ok(false);
            }
            let module = self.module()?;
            let module = module.as_ref().and_then(|module| module.utf8()).unwrap_or("");
            Ok(matches!(module, "weakref" | "_weakrefset" | "importlib._bootstrap"))
        }
    }

    /// The kind of the instruction.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn kind(&self) -> Outcome<u8> {
        // SAFETY: attached; the object lives while its bytes are read, and the kinds do not change any more.
        unsafe {
            let code = attribute(self.code.as_ptr(), "co_code")?;
            let at = usize::try_from(self.at).ok().and_then(|at| bytes(&code).ok()?.get(at));
            Ok(at.map_or(0, |&opcode| (*KINDS.as_ptr())[usize::from(opcode)]))
        }
    }

    /// The value that was loaded last before the instruction.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn loaded(&self) -> Outcome<Loaded> {
        // SAFETY: as above.
        unsafe {
            let code = attribute(self.code.as_ptr(), "co_code")?;
            let (code, kinds) = (bytes(&code)?, &*KINDS.as_ptr());
            let before = code.len().min(usize::try_from(self.at).unwrap_or(0));
            let (mut loaded, mut argument) = (Loaded::Other, 0);
            // An instruction is two bytes, and what 3.11 and later keep behind one is zero here.
            for pair in code[..before].chunks_exact(2) {
                let kind = kinds[usize::from(pair[0])];
                argument = argument << 8 | usize::from(pair[1]);
                if kind & kind::EXTENDED != 0 {
                    continue;
                }
                match kind {
                    kind::ATTRIBUTE => loaded = Loaded::Attribute(argument),
                    kind::HALF_ATTRIBUTE => loaded = Loaded::Attribute(argument >> 1),
                    kind::SPECIAL if argument % 2 == 0 => loaded = Loaded::Enter,
                    _ if kind & kind::CALLED != 0 => loaded = Loaded::Other,
                    _ => {}
                }
                argument = 0;
            }
            Ok(loaded)
        }
    }

    /// Whether a call at the instruction takes something.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn is_acquire(&self) -> Outcome<bool> {
        // SAFETY: attached; the tuple keeps the name.
        unsafe {
            let number = match self.loaded()? {
                Loaded::Other => return Ok(false),
                Loaded::Enter => return Ok(true),
                Loaded::Attribute(number) => number,
            };
            let names = attribute(self.code.as_ptr(), "co_names")?;
            let name = PyTuple_GetItem(names.as_ptr(), isize::try_from(number).unwrap_or(-1));
            Ok(!name.is_null() && utf8_of(name).is_some_and(|name| name.contains("acquire")))
        }
    }

    /// The name of the module whose code it runs.
    ///
    /// # Safety
    ///
    /// Attached.
    unsafe fn module(&self) -> Outcome<Option<Ref>> {
        // SAFETY: attached; the globals of a frame are a dictionary.
        unsafe {
            let globals = attribute(self.object.as_ptr(), "f_globals")?;
            Ok(Ref::borrowed(PyDict_GetItemString(globals.as_ptr(), c"__name__".as_ptr())).ok())
        }
    }
}

/// Whether a function of `threading` waits where it expects exceptions: `Condition.wait`, in which `queue`, `Event`,
/// `Semaphore` and `Future` wait, gives the place in its list back, and `Thread.join` has nothing to give back.
fn is_wait(function: &str, calls_acquire: bool) -> bool {
    function == "join" || function == "wait" && calls_acquire
}

/// # Safety
///
/// Attached, and the object is alive.
unsafe fn attribute(object: *mut PyObject, name: &str) -> Outcome<Ref> {
    // SAFETY: attached, and both live.
    unsafe { Ref::owned(PyObject_GetAttr(object, name_of(Text::new(name))?.as_ptr())) }
}

/// The bytes of a `bytes` object.
///
/// # Safety
///
/// Attached.
unsafe fn bytes(object: &Ref) -> Outcome<&[u8]> {
    // SAFETY: attached; an object of another type is refused. The bytes live as long as the object.
    unsafe {
        let (mut data, mut len) = (ptr::null_mut(), 0);
        done(PyBytes_AsStringAndSize(object.as_ptr(), &mut data, &mut len))?;
        Ok(slice::from_raw_parts(data.cast(), len.unsigned_abs()))
    }
}
