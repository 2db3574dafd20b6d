//! Objects that a session makes: modules, values, and the results of code.

use super::Object;
use crate::Result;
use crate::convert::{self, ToPython};
use crate::interpreter::Inner;
use crate::interrupt;
use crate::payload::{Sink, table::Handle, table::Status, table::Text};
use crate::session::Session;
use crate::thread::stack;
use std::ffi::c_void;
use std::ptr;

impl Session {
    /// Imports a module by its full name, as `importlib.import_module` does.
    ///
    /// # Errors
    ///
    /// [`Error::Python`](crate::Error::Python) with a `ModuleNotFoundError`, or with the exception that the
    /// module raised.
    pub fn import(&self, name: &str) -> Result<Object<'_>> {
        self.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the name outlives the call.
            unsafe { (inner.table().import)(Text::new(name), out, sink) }
        })
    }

    /// Makes a Python object of a Rust value.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`](crate::Error::Foreign) for an object of another interpreter, or
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    pub fn object_from<T: ToPython + ?Sized>(&self, value: &T) -> Result<Object<'_>> {
        let _attached = self.attach();
        if let Some(plain) = value.as_plain() {
            return convert::build_plain(self, plain);
        }
        let object = value.to_python(self)?;
        object.handle_in(self)?;
        Ok(object)
    }

    /// `None`.
    ///
    /// # Errors
    ///
    /// None in practice. The signature is that of every conversion.
    pub fn none(&self) -> Result<Object<'_>> {
        self.object_from(&())
    }

    /// `NotImplemented`, for special methods such as `__add__` that do not know the other operand.
    ///
    /// # Errors
    ///
    /// As [`Session::none`].
    pub fn not_implemented(&self) -> Result<Object<'_>> {
        self.import("builtins")?.getattr("NotImplemented")
    }

    /// Runs the code of a module, and returns the module.
    ///
    /// ```no_run
    /// # fn f(session: &hydrozoa::Session) -> hydrozoa::Result<()> {
    /// let module = session.run("def double(n): return 2 * n", "double.py")?;
    /// let four: i64 = module.call_method("double", (2,))?.extract()?;
    /// # Ok(()) }
    /// ```
    ///
    /// `file_name` is the module's `__file__`, and tracebacks show it. The file need not exist: tracebacks and `inspect` take
    /// the lines from `code`. The module's name is `__hydrozoa__.double` for `double.py`: the file name without `.py`, with `_` for
    /// each further dot. It is in `sys.modules`, as dataclasses, `typing` and `pickle` need it, so objects of classes that the
    /// code defines can be pickled and moved to interpreters that have run the same code under the same name. For a module
    /// that other code imports, use [`Pool::register_module`](crate::Pool::register_module).
    ///
    /// The module lives as long as it, or a function or method that the code has defined, is used. A class without methods does
    /// not keep it. Afterwards it is gone from `sys.modules`. Code that is run under the name of a living module takes its
    /// place there, as a reloaded module does; functions and classes of the former code go on working.
    ///
    /// # Errors
    ///
    /// The exception that the code raises, or the `SyntaxError` of its compilation. Then the new module is removed, and a former
    /// one of the same name is back in its place.
    pub fn run(&self, code: &str, file_name: &str) -> Result<Object<'_>> {
        self.with_gil(|| {
            let builtins = self.import("builtins")?;
            let inherit = (("dont_inherit", true),);
            let source = (code, file_name, "exec");
            let compiled = builtins.call_method_kwargs("compile", source, inherit)?;
            let running = self.import("_hydrozoa.running")?;
            let begun = running.call_method("begin", (code, file_name))?;
            let (module, former): (Object<'_>, Object<'_>) = begun.extract()?;
            // Called from here, so that no frame of ours is in tracebacks.
            match builtins.call_method("exec", (&compiled, module.getattr("__dict__")?)) {
                Ok(_) => Ok(module),
                Err(error) => {
                    running.call_method("undo", (module, former))?;
                    Err(error)
                }
            }
        })
    }

    /// The value of one expression, in an empty namespace.
    ///
    /// # Errors
    ///
    /// The exception that the expression raises.
    pub fn eval(&self, expression: &str) -> Result<Object<'_>> {
        self.with_gil(|| {
            let builtins = self.import("builtins")?;
            let namespace = builtins.call_method("dict", ())?;
            builtins.call_method("eval", (expression, &namespace))
        })
    }

    /// Runs one table function that yields an object.
    #[inline]
    pub(crate) fn object(
        &self,
        call: impl FnOnce(&Inner, *mut Handle, *mut c_void) -> Status,
    ) -> Result<Object<'_>> {
        stack::check()?;
        let _attached = self.attach();
        self.object_attached(call)
    }

    /// As [`Session::object`], on a thread that is attached and has room on its stack.
    #[inline]
    pub(crate) fn object_attached(
        &self,
        call: impl FnOnce(&Inner, *mut Handle, *mut c_void) -> Status,
    ) -> Result<Object<'_>> {
        interrupt::begin(self.inner())?;
        let mut out = ptr::null_mut();
        let mut sink = Sink::of(self.inner());
        let status = call(self.inner(), &mut out, sink.pointer());
        if status != Status::DONE {
            return Err(sink.failure(status));
        }
        // SAFETY: a table function that succeeds has written an owned reference.
        Ok(unsafe { Object::from_owned(self, out) })
    }
}
