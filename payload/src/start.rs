//! The interpreter's life: configuration, start, the command line, the end.
//!
//! PEP 587 specifies the two configurations used here. CPython's Doc/c-api/init_config.rst describes
//! each field.

use crate::allocators::memory_limit;
use crate::allocators::raw;
use crate::api::fault::{Fault, Outcome};
use crate::api::own_modules;
use crate::api::reference::{Ref, done};
use crate::exceptions::report::{Raised, guarded};
use crate::garbage::frozen_objects;
use crate::sealed;
use crate::table::{Sealed, Start, Status, Text};
use crate::threads::ending;
use crate::threads::recursion;
use crate::threads::{self, FINALIZED, MAIN, NEW, RUNNING, STAGE};
use pyo3_ffi::{
    _PyStatus_TYPE, Py_DecodeLocale, Py_FinalizeEx, Py_InitializeFromConfig, Py_PreInitialize,
    Py_PreInitializeFromBytesArgs, Py_RunMain, PyConfig, PyConfig_Clear,
    PyConfig_InitIsolatedConfig, PyConfig_InitPythonConfig, PyConfig_SetBytesArgv,
    PyConfig_SetBytesString, PyErr_Occurred, PyEval_RestoreThread, PyEval_SaveThread,
    PyGILState_Ensure, PyList_Insert, PyMem_RawFree, PyPreConfig, PyPreConfig_InitIsolatedConfig,
    PyPreConfig_InitPythonConfig, PyStatus, PySys_GetObject, PyWideStringList,
    PyWideStringList_Append, compat::PyThreadState_GetUnchecked,
};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The exit status of a command line that runs no program, such as `--version`.
static EXIT: AtomicI32 = AtomicI32::new(0);

/// See [`crate::table::PayloadTable::start`].
pub(crate) unsafe extern "C" fn start(start: *const Start, sink: *mut c_void) -> Status {
    // SAFETY: the host passes a valid description, and its own sink.
    unsafe {
        let start = &*start;
        guarded(sink, || {
            if STAGE.load(Ordering::Acquire) != NEW {
                return Err(fault(start, "it was started before"));
            }
            initialize(start)?;
            if STAGE.load(Ordering::Acquire) == FINALIZED {
                return Ok(());
            }
            // The exception is read while this thread is attached, then the GIL is let go.
            let prepared = prepare(start).map_err(|cause| match cause {
                Fault::Raised => raised(start, ""),
                other => other,
            });
            MAIN.store(PyEval_SaveThread(), Ordering::Release);
            prepared.and_then(|()| match start.memory {
                0 => Ok(()),
                memory => memory_limit::limit().set(memory).map_err(|taken| {
                    let text =
                        format!("it has taken {taken} bytes of memory, and its limit is {memory}");
                    fault(start, &text)
                }),
            })
        })
    }
}

/// See [`crate::table::PayloadTable::run_main`].
pub(crate) unsafe extern "C" fn run_main(exit_status: *mut c_int, sink: *mut c_void) -> Status {
    // SAFETY: the host calls this once, after `start`, on the same thread.
    unsafe {
        guarded(sink, || {
            if STAGE.load(Ordering::Acquire) == FINALIZED {
                *exit_status = EXIT.load(Ordering::Acquire);
                return Ok(());
            }
            PyEval_RestoreThread(MAIN.load(Ordering::Acquire));
            let status = Py_RunMain();
            memory_limit::free_chunk();
            STAGE.store(FINALIZED, Ordering::Release);
            *exit_status = status;
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::finalize`].
pub(crate) unsafe extern "C" fn finalize(sink: *mut c_void) -> Status {
    // SAFETY: no thread is attached or will be, as the host vouches.
    unsafe {
        guarded(sink, || {
            if STAGE.load(Ordering::Acquire) != RUNNING {
                return Ok(());
            }
            PyGILState_Ensure();
            threads::drain();
            ending::begin();
            frozen_objects::unfreeze();
            own_modules::call_at_the_end(c"_hydrozoa.devices", c"torch.cuda");
            // An error means only that buffered output could not be flushed. The streams have
            // printed that themselves.
            Py_FinalizeEx();
            memory_limit::free_chunk();
            STAGE.store(FINALIZED, Ordering::Release);
            Ok(())
        })
    }
}

/// # Safety
///
/// `start` is valid; the interpreter has not been started.
unsafe fn initialize(start: &Start) -> Outcome<()> {
    // SAFETY: the views are valid for the call; configurations are initialized before use and
    // cleared after it.
    unsafe {
        let arguments = Arguments::new(std::slice::from_raw_parts(
            if start.argument_count == 0 {
                ptr::NonNull::dangling().as_ptr()
            } else {
                start.arguments
            },
            start.argument_count,
        ));
        raw::watch();
        memory_limit::count(start.limit);
        let sealed = start.sealed.as_ref();
        if let Some(sealed) = sealed {
            sealed::freeze(sealed);
        }
        let mut before = MaybeUninit::<PyPreConfig>::uninit();
        let status = if start.command_line != 0 {
            PyPreConfig_InitPythonConfig(before.as_mut_ptr());
            if let Some(sealed) = sealed {
                sealed::isolate_preparation(sealed, &mut *before.as_mut_ptr());
            }
            Py_PreInitializeFromBytesArgs(
                before.as_ptr(),
                arguments.count(),
                arguments.as_ptr().cast_mut().cast(),
            )
        } else {
            PyPreConfig_InitIsolatedConfig(before.as_mut_ptr());
            let before = &mut *before.as_mut_ptr();
            // The locale is the host's. Text is UTF-8 under every locale.
            before.utf8_mode = 1;
            if start.own_environment != 0 {
                (before.isolated, before.use_environment, before.dev_mode) = (0, 1, -1);
            }
            if start.flags.dev != 0 {
                before.dev_mode = 1;
            }
            Py_PreInitialize(before)
        };
        if checked(start, status)?.is_exit() {
            return Ok(());
        }
        let mut config = MaybeUninit::<PyConfig>::uninit();
        if start.command_line != 0 || start.own_environment != 0 {
            PyConfig_InitPythonConfig(config.as_mut_ptr());
        } else {
            PyConfig_InitIsolatedConfig(config.as_mut_ptr());
        }
        let config = &mut *config.as_mut_ptr();
        if start.command_line == 0 {
            // Also where the environment counts: the C streams are the host's, and the user's packages its user's.
            (config.configure_c_stdio, config.user_site_directory) = (0, 0);
        }
        let outcome = configure(start, config, &arguments)
            .and_then(|()| match sealed {
                Some(sealed) => configure_sealed(start, sealed, config),
                None => Ok(()),
            })
            .and_then(|()| checked(start, Py_InitializeFromConfig(config)));
        PyConfig_Clear(config);
        if outcome?.is_exit() {
            return Ok(());
        }
        recursion::find(PyThreadState_GetUnchecked());
        threads::other_threads::find(PyThreadState_GetUnchecked());
    }
    STAGE.store(RUNNING, Ordering::Release);
    Ok(())
}

/// # Safety
///
/// `start` is valid, and `config` initialized.
unsafe fn configure(start: &Start, config: &mut PyConfig, arguments: &Arguments) -> Outcome<()> {
    config.install_signal_handlers = start.signal_handlers;
    let set = |config: *mut PyConfig, field: *mut *mut libc::wchar_t, value: Text| {
        // SAFETY: the view is valid for the call.
        let value = c_string(unsafe { value.bytes() });
        if value.is_empty() {
            return Ok(());
        }
        // SAFETY: the field belongs to the configuration, which copies the string.
        checked(start, unsafe { PyConfig_SetBytesString(config, field, value.as_ptr()) })
            .map(|_| ())
    };
    let pointer: *mut PyConfig = config;
    // SAFETY: by contract.
    unsafe {
        if start.command_line != 0 {
            config.parse_argv = 1;
        } else {
            config.parse_argv = 0;
            set(pointer, &raw mut (*pointer).executable, start.executable)?;
            flag(start, pointer)?;
        }
        // getpath finds pyvenv.cfg from the program's name, and from that prefix and site-packages
        // (Modules/getpath.py).
        set(pointer, &raw mut (*pointer).program_name, start.executable)?;
        set(pointer, &raw mut (*pointer).home, start.home)?;
        let status =
            PyConfig_SetBytesArgv(pointer, arguments.count(), arguments.as_ptr().cast_mut());
        checked(start, status).map(|_| ())
    }
}

/// Lets the interpreter start from a sealed application's file.
///
/// # Safety
///
/// `start` is valid, and `config` initialized and configured.
unsafe fn configure_sealed(start: &Start, sealed: &Sealed, config: &mut PyConfig) -> Outcome<()> {
    let pointer: *mut PyConfig = config;
    // SAFETY: by contract; the views are valid for the call, and each field belongs to the configuration, which copies the string.
    unsafe {
        sealed::isolate(sealed, config);
        for (field, value) in sealed::strings(sealed, pointer) {
            let value = c_string(&value);
            checked(start, PyConfig_SetBytesString(pointer, field, value.as_ptr()))?;
        }
        for index in 0..sealed.path_count {
            append(start, &raw mut (*pointer).module_search_paths, *sealed.paths.add(index))?;
        }
    }
    Ok(())
}

/// Sets the values that flags of a command line would set. Values set before the configuration is read take precedence over
/// `PYTHON*` variables.
///
/// # Safety
///
/// `start` is valid, and `config` initialized.
unsafe fn flag(start: &Start, config: *mut PyConfig) -> Outcome<()> {
    let flags = &start.flags;
    // SAFETY: by contract; the views are valid for the call.
    unsafe {
        if flags.optimize > 0 {
            (*config).optimization_level = flags.optimize;
        }
        if let Ok(seed) = flags.hash_seed.try_into() {
            ((*config).use_hash_seed, (*config).hash_seed) = (1, seed);
        }
        if flags.unbuffered != 0 {
            (*config).buffered_stdio = 0;
        }
        if flags.no_bytecode != 0 {
            (*config).write_bytecode = 0;
        }
        if flags.dev != 0 {
            (*config).dev_mode = 1;
        }
        // The isolated configuration says no, and then no option is looked at.
        for index in 0..flags.x_option_count {
            match (*flags.x_options.add(index)).bytes() {
                b"faulthandler" => (*config).faulthandler = -1,
                option if option.starts_with(b"tracemalloc") => (*config).tracemalloc = -1,
                _ => {}
            }
        }
        let lists = [
            (&raw mut (*config).warnoptions, flags.warnings, flags.warning_count),
            (&raw mut (*config).xoptions, flags.x_options, flags.x_option_count),
        ];
        for (list, words, count) in lists {
            for index in 0..count {
                append(start, list, *words.add(index))?;
            }
        }
    }
    Ok(())
}

/// Adds a word to a list of a configuration.
///
/// # Safety
///
/// Python is preinitialized; the list is valid, and so is the word.
unsafe fn append(start: &Start, list: *mut PyWideStringList, word: Text) -> Outcome<()> {
    // SAFETY: by contract. The list copies the word, which is freed after that.
    unsafe {
        let word = c_string(word.bytes());
        let wide = Py_DecodeLocale(word.as_ptr(), ptr::null_mut());
        if wide.is_null() {
            return Err(fault(start, &format!("the flag {word:?} cannot be decoded")));
        }
        let status = PyWideStringList_Append(list, wide);
        PyMem_RawFree(wide.cast());
        checked(start, status).map(|_| ())
    }
}

/// Prepares the interpreter before other threads enter it.
///
/// # Safety
///
/// Attached, right after the start.
unsafe fn prepare(start: &Start) -> Outcome<()> {
    // SAFETY: the views are valid for the call, and this thread is attached.
    unsafe {
        if let Some(sealed) = start.sealed.as_ref() {
            sealed::install(sealed)?;
        }
        if start.command_line == 0 {
            // A command's `sys.meta_path` is plain python's. The host uses the modules in sessions only.
            own_modules::install()?;
            ending::register()?;
            own_modules::run(own_modules::AT_START, c"_hydrozoa/at_start.py", &[])?;
        }
        let variables = start.environment;
        for index in 0..start.environment_count {
            let [name, value] = *variables.add(index);
            own_modules::set_variable(name.bytes(), value.bytes())?;
        }
        let path = Ref::borrowed(PySys_GetObject(c"path".as_ptr()))?;
        for index in 0..start.path_count {
            let directory = Ref::path((*start.paths.add(index)).bytes())?;
            done(PyList_Insert(path.as_ptr(), index as isize, directory.as_ptr()))?;
        }
        if start.import_mode.len != 0 {
            if start.command_line != 0 {
                own_modules::install()?;
            }
            let texts = [start.import_mode, start.import_profile, start.import_folder];
            own_modules::install_imports(texts)?;
        }
    }
    Ok(())
}

/// Whether the program goes on.
enum Progress {
    Go,
    Exit,
}

impl Progress {
    fn is_exit(&self) -> bool {
        matches!(self, Self::Exit)
    }
}

fn checked(start: &Start, status: PyStatus) -> Outcome<Progress> {
    match status._type {
        _PyStatus_TYPE::_PyStatus_TYPE_OK => Ok(Progress::Go),
        _PyStatus_TYPE::_PyStatus_TYPE_EXIT => {
            EXIT.store(status.exitcode, Ordering::Release);
            STAGE.store(FINALIZED, Ordering::Release);
            Ok(Progress::Exit)
        }
        _PyStatus_TYPE::_PyStatus_TYPE_ERROR => {
            let part = |text: *const c_char| match text.is_null() {
                true => String::new(),
                // SAFETY: CPython points at static, NUL-terminated texts.
                false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            };
            let message = format!("{}: {}", part(status.func), part(status.err_msg));
            // Of some failures CPython leaves the exception set, for `Py_ExitStatusException` to print.
            // SAFETY: before there is a state nothing is asked of it; if there is one it is this
            // thread's, which starts the interpreter and is the only one in it.
            unsafe {
                if !PyThreadState_GetUnchecked().is_null() && !PyErr_Occurred().is_null() {
                    return Err(raised(start, &message));
                }
            }
            Err(fault(start, &message))
        }
    }
}

/// The failure that the exception set in this thread describes; `context` is what CPython was about.
///
/// # Safety
///
/// The thread is attached.
unsafe fn raised(start: &Start, context: &str) -> Fault {
    // SAFETY: as the caller vouches.
    let raised = unsafe { Raised::take() };
    let separator = if context.is_empty() { "" } else { ": " };
    match fault(start, &format!("{context}{separator}{}", raised.line())) {
        Fault::Start { name, message, .. } => {
            Fault::Start { name, message, traceback: raised.traceback }
        }
        other => other,
    }
}

fn fault(start: &Start, message: &str) -> Fault {
    // SAFETY: the view is valid for the call.
    let name = String::from_utf8_lossy(unsafe { start.name.bytes() }).into_owned();
    Fault::Start { name, message: message.to_owned(), traceback: String::new() }
}

/// `argv` as C has it: at least one word.
struct Arguments {
    #[expect(dead_code, reason = "owns what the pointers point to")]
    words: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Arguments {
    /// # Safety
    ///
    /// The views are valid.
    unsafe fn new(texts: &[Text]) -> Self {
        let mut words: Vec<CString> = texts
            .iter()
            // SAFETY: by contract.
            .map(|text| c_string(unsafe { text.bytes() }))
            .collect();
        if words.is_empty() {
            words.push(CString::default());
        }
        let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(ptr::null());
        Self { words, pointers }
    }

    fn count(&self) -> isize {
        self.pointers.len() as isize - 1
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// The bytes up to the first NUL. The host passes none.
fn c_string(bytes: &[u8]) -> CString {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(bytes).unwrap_or_default()
}
