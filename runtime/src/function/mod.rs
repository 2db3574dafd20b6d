//! Rust functions that Python code can call.

mod arguments;
mod call;
mod returned;

pub use arguments::Arguments;
pub(crate) use call::dropped_by_python;
pub use returned::Returned;

use crate::Result;
use crate::object::Object;
use crate::payload::table::{Definition, Text};
use crate::session::Session;
use std::fmt;

/// A Rust function for Python code, with its name, signature and docstring.
///
/// ```no_run
/// use hydrozoa::Function;
///
/// # fn f(session: &hydrozoa::Session) -> hydrozoa::Result<()> {
/// let scale = Function::new("scale", |session, arguments| {
///     let x: f64 = arguments.parameter(0, "x")?;
///     let by: f64 = arguments.parameter(1, "by")?;
///     session.object_from(&(x * by))
/// })
/// .signature("(x, /, by=2.0)")
/// .doc("Multiplies a number.")
/// .make(session)?;
/// # Ok(()) }
/// ```
///
/// [`Session::function`] makes one of a name and a function alone. The attribute macro
/// [`function`](macro@crate::function) makes one of a Rust function with typed parameters.
#[must_use = "`make` makes the callable"]
pub struct Function<F> {
    pub(crate) name: String,
    pub(crate) qualified_name: Option<String>,
    pub(crate) module: String,
    pub(crate) doc: String,
    pub(crate) signature: String,
    pub(crate) binds: bool,
    function: F,
}

impl<F> Function<F>
where
    F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
{
    /// A function with a name, as [`Session::function`] has it.
    pub fn new(name: impl Into<String>, function: F) -> Self {
        Self {
            name: name.into(),
            qualified_name: None,
            module: String::new(),
            doc: String::new(),
            signature: String::new(),
            binds: false,
            function,
        }
    }

    /// Its parameters in parentheses, as a `def` has them: `"(x, /, by=2.0, *rest, flag=None, **names)"`.
    ///
    /// Python code then calls it like such a `def`, with the same errors. Defaults are literals. `inspect.signature` and
    /// `help` show the signature. Without one the function gets the arguments of the call as they are.
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = signature.into();
        self
    }

    /// Its `__doc__`, which `help` shows.
    pub fn doc(mut self, doc: impl Into<String>) -> Self {
        self.doc = doc.into();
        self
    }

    /// Its `__module__`. `help` of a module shows the functions that have the module's name here.
    pub fn module(mut self, module: impl Into<String>) -> Self {
        self.module = module.into();
        self
    }

    /// Makes the Python callable. It behaves as [`Session::function`] says.
    ///
    /// # Errors
    ///
    /// `SyntaxError` as [`Error::Python`](crate::Error::Python) for an invalid signature, `NameError` if a default is not a
    /// literal, and `MemoryError`.
    pub fn make(self, session: &Session) -> Result<Object<'_>> {
        let qualified_name = self.qualified_name.as_deref().unwrap_or(&self.name);
        let definition = Definition {
            callback: call::callback(session.inner(), qualified_name, self.function),
            name: Text::new(&self.name),
            qualified_name: Text::new(qualified_name),
            module: Text::new(&self.module),
            doc: Text::new(&self.doc),
            signature: Text::new(&self.signature),
            binds: self.binds.into(),
        };
        session.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the payload drops the callback once, also on failure.
            unsafe { (inner.table().function)(&definition, out, sink) }
        })
    }
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("Function");
        described.field("name", &self.name).field("signature", &self.signature);
        described.finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a Python callable that runs `function`.
    ///
    /// The function runs under the interpreter's GIL, on its caller's thread. If it enters another
    /// interpreter, this one's GIL is released meanwhile. While the interpreter ends (in `atexit` functions, in the last
    /// destructors) the function is no longer called, and Python gets a `SystemError`.
    ///
    /// An error of the function is raised in Python. An exception of this interpreter, as calls return it, is raised as the
    /// same object. [`Error::raise`](crate::Error::raise) is raised as the built-in exception of that name,
    /// [`Object::into_error`] as that object. An exception of another interpreter is raised by its name, with a cause that
    /// has its traceback. An interrupt is raised as that interrupt. Any other error, an error of the
    /// application ([`Error::host`](crate::Error::host)) and a panic ([`Error::Panic`](crate::Error::Panic)) are raised as a
    /// `RuntimeError`. If that leaves Python, Rust gets its own error again, except for
    /// [`Error::Convert`](crate::Error::Convert).
    ///
    /// Python owns `function`. If that owns a [`Pool`](crate::Pool) or an [`Interpreter`](crate::Interpreter) of its own pool,
    /// the two keep each other alive, and the interpreter does not end. The session that the function gets leads to both:
    /// `session.interpreter().pool()`. A [`WeakPool`](crate::WeakPool), a
    /// [`WeakInterpreter`](crate::WeakInterpreter) and a [`Handle`](crate::Handle) keep no interpreter alive, so `function` may
    /// own them. A panic in the drop of values that `function` owns is reported by `tracing`.
    ///
    /// [`Function`] is the same with a signature and a docstring.
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`](crate::Error::Python).
    pub fn function<F>(&self, name: &str, function: F) -> Result<Object<'_>>
    where
        F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        Function::new(name, function).make(self)
    }
}
