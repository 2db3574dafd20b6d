//! Classes from their parts.

use super::{Class, instance};
use crate::convert::ToPython;
use crate::error::Error;
use crate::function::{Arguments, Function};
use crate::interpreter::ObjectReference;
use crate::object::Object;
use crate::session::Session;
use crate::{Result, payload::table::Handle};
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Makes a class: see [`Class::define`].
///
/// Methods have a head as a `def` has it, without `self`: `"add(n=1)"`. [`Function::signature`] says what may be in the
/// parentheses. A method without parentheses gets the arguments of a call as they are. Special methods have their Python
/// names: `"__repr__()"`, `"__len__()"`, `"__add__(other)"`. Python's rules for them hold: a class with `__eq__` and without
/// `__hash__` has no hash; an operation that another operand may know returns
/// [`Session::not_implemented`](crate::Session::not_implemented); `__next__` ends with a `StopIteration`
/// ([`Error::raise`](crate::Error::raise)).
///
/// Functions may fail as host functions do ([`Session::function`](crate::Session::function)). If a part cannot be made
/// (an invalid head), [`Session::class`](crate::Session::class) returns an error.
pub struct ClassBuilder<'session, T> {
    session: &'session Session,
    /// The class's `__dict__`.
    namespace: Object<'session>,
    builtins: Object<'session>,
    /// The class's attributes whose values may need the class.
    constants: Vec<Constant>,
    outcome: Result<()>,
    _of: PhantomData<fn() -> T>,
}

/// Sets an attribute of a class.
type Constant = Box<dyn FnOnce(&Object<'_>) -> Result<()>>;

impl<'session, T: Class> ClassBuilder<'session, T> {
    /// Makes the class in an interpreter that lacks it. The thread holds the GIL.
    pub(super) fn make(session: &'session Session) -> Result<Object<'session>> {
        let builtins = session.import("builtins")?;
        let namespace = builtins.call_method("dict", ())?;
        for (name, value) in [("__module__", T::MODULE), ("__qualname__", T::NAME)] {
            namespace.set_item(name, value)?;
        }
        namespace.set_item("__doc__", Some(T::DOC).filter(|doc| !doc.is_empty()))?;
        let (constants, outcome) = (Vec::new(), Ok(()));
        let mut class = Self { session, namespace, builtins, constants, outcome, _of: PhantomData };
        T::define(&mut class);
        class.finish()
    }

    fn finish(self) -> Result<Object<'session>> {
        let Self { session, namespace, builtins, constants, outcome, .. } = self;
        outcome?;
        namespace.set_item("__slots__", builtins.call_method("tuple", ())?)?;
        let base = session.object(|inner, out, sink| {
            // SAFETY: `object` attaches.
            unsafe { (inner.table().instance_type)(out, sink) }
        })?;
        let class = builtins.call_method("type", (T::NAME, (base,), &namespace))?;
        if !register::<T>(&class) {
            // Another thread has made it meanwhile.
            return registered::<T>(session).ok_or_else(|| Error::defect("a class has gone"));
        }
        for constant in constants {
            constant(&class)?;
        }
        Ok(class)
    }

    /// The constructor for Python: the parameters of a call of the class, and a function that makes the value: a `T`, or an
    /// `Arc` of one. Only Rust can make instances of a class without a constructor.
    pub fn constructor<F, V>(&mut self, signature: &str, function: F) -> &mut Self
    where
        F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<V> + Send + Sync + 'static,
        V: Into<Arc<T>>,
    {
        let head = format!("__new__{signature}");
        let made = self.function(&head, "", Some("cls"), move |class, session, arguments| {
            let value = function(session, arguments)?.into();
            instance::make(session, class, value)
        });
        self.wrapped("staticmethod", "__new__", made)
    }

    /// A method: `instance.name(…)`.
    pub fn method<F>(&mut self, head: &str, doc: &str, function: F) -> &mut Self
    where
        F: for<'s> Fn(&T, &'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        let name = name_of(head).to_owned();
        self.object_method(head, doc, move |object, session, arguments| {
            function(receiver::<T>(object, &name)?, session, arguments)
        })
    }

    /// A method that gets the instance as an object, for `__iter__` and `__enter__`, which return it.
    pub fn object_method<F>(&mut self, head: &str, doc: &str, function: F) -> &mut Self
    where
        F: for<'s> Fn(&Object<'s>, &'s Session, Arguments<'s>) -> Result<Object<'s>>
            + Send
            + Sync
            + 'static,
    {
        let made = self.function(head, doc, Some("self"), function);
        self.set(name_of(head), made)
    }

    /// A method of the class: `Class.name(…)`. The function gets the class, which may be a derived one.
    pub fn class_method<F>(&mut self, head: &str, doc: &str, function: F) -> &mut Self
    where
        F: for<'s> Fn(&Object<'s>, &'s Session, Arguments<'s>) -> Result<Object<'s>>
            + Send
            + Sync
            + 'static,
    {
        let made = self.function(head, doc, Some("cls"), function);
        self.wrapped("classmethod", name_of(head), made)
    }

    /// A function in the class: `Class.name(…)`.
    pub fn static_method<F>(&mut self, head: &str, doc: &str, function: F) -> &mut Self
    where
        F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        let mut described = Function::new(name_of(head), function).doc(doc);
        described.signature = signature_of(head).to_owned();
        let made = self.described(described);
        self.wrapped("staticmethod", name_of(head), made)
    }

    /// An attribute of instances that Python reads: `instance.name`.
    pub fn getter<F>(&mut self, name: &str, doc: &str, get: F) -> &mut Self
    where
        F: for<'s> Fn(&T, &'s Session) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        let made = self.accessor(name, doc, "()", move |value, session, _| get(value, session));
        let property = made.and_then(|get| self.property(doc, get, None));
        self.set(name, property)
    }

    /// An attribute of instances that Python reads and sets: `instance.name = value`.
    pub fn property_with<G, S>(&mut self, name: &str, doc: &str, get: G, set: S) -> &mut Self
    where
        G: for<'s> Fn(&T, &'s Session) -> Result<Object<'s>> + Send + Sync + 'static,
        S: for<'s> Fn(&T, &'s Session, Arguments<'s>) -> Result<()> + Send + Sync + 'static,
    {
        let get = self.accessor(name, doc, "()", move |value, session, _| get(value, session));
        let set = self.accessor(name, doc, "(value)", move |value, session, arguments| {
            set(value, session, arguments)?;
            session.none()
        });
        let property = get.and_then(|get| self.property(doc, get, Some(set?)));
        self.set(name, property)
    }

    /// An attribute of the class. `value` may be an [`Instance`](crate::Instance) of the class.
    pub fn constant(&mut self, name: &str, value: impl ToPython + 'static) -> &mut Self {
        let name = name.to_owned();
        self.constants.push(Box::new(move |class| class.setattr(&name, value)));
        self
    }

    /// A method that is part of a property.
    fn accessor<F>(
        &self,
        name: &str,
        doc: &str,
        signature: &str,
        function: F,
    ) -> Result<Object<'session>>
    where
        F: for<'s> Fn(&T, &'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        let attribute = name.to_owned();
        let head = format!("{name}{signature}");
        self.function(&head, doc, Some("self"), move |object, session, arguments| {
            function(receiver::<T>(object, &attribute)?, session, arguments)
        })
    }

    fn property(
        &self,
        doc: &str,
        get: Object<'session>,
        set: Option<Object<'session>>,
    ) -> Result<Object<'session>> {
        let doc = Some(doc).filter(|doc| !doc.is_empty());
        self.builtins.call_method("property", (get, set, (), doc))
    }

    /// A callable that binds to the object that it is called on, its first argument.
    fn function<F>(
        &self,
        head: &str,
        doc: &str,
        first: Option<&str>,
        function: F,
    ) -> Result<Object<'session>>
    where
        F: for<'s> Fn(&Object<'s>, &'s Session, Arguments<'s>) -> Result<Object<'s>>
            + Send
            + Sync
            + 'static,
    {
        let name = name_of(head).to_owned();
        let mut described = Function::new(name.clone(), move |session, arguments| {
            let (first, others) = split(arguments, &name)?;
            function(&first, session, others)
        })
        .doc(doc);
        let signature = signature_of(head);
        described.signature = match (first, signature.strip_prefix('(')) {
            (Some(first), Some(rest)) if rest.trim_start().starts_with(')') => {
                format!("({first}{rest}")
            }
            (Some(first), Some(rest)) => format!("({first}, {rest}"),
            _ => signature.to_owned(),
        };
        described.binds = true;
        self.described(described)
    }

    fn described<F>(&self, mut function: Function<F>) -> Result<Object<'session>>
    where
        F: for<'s> Fn(&'s Session, Arguments<'s>) -> Result<Object<'s>> + Send + Sync + 'static,
    {
        function.qualified_name = Some(format!("{}.{}", T::NAME, function.name));
        function.module(T::MODULE).make(self.session)
    }

    /// Wraps a function in one of Python's own types, and sets an attribute to it.
    fn wrapped(
        &mut self,
        wrapper: &str,
        name: &str,
        function: Result<Object<'session>>,
    ) -> &mut Self {
        let wrapped = function.and_then(|function| self.builtins.call_method(wrapper, (function,)));
        self.set(name, wrapped)
    }

    fn set(&mut self, name: &str, value: Result<Object<'session>>) -> &mut Self {
        if self.outcome.is_ok() {
            self.outcome = value.and_then(|value| self.namespace.set_item(name, value));
        }
        self
    }
}

impl<T> fmt::Debug for ClassBuilder<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClassBuilder").field("namespace", &self.namespace).finish()
    }
}

/// The class of an interpreter that has it.
pub(super) fn registered<T: Class>(session: &Session) -> Option<Object<'_>> {
    let handle: Handle = session.inner().class(TypeId::of::<T>())?;
    // SAFETY: the interpreter keeps the class as long as it lives.
    Some(unsafe { Object::from_borrowed(session, handle) })
}

/// Notes the class of an interpreter, unless it has one.
fn register<T: Class>(class: &Object<'_>) -> bool {
    let inner = class.session().inner();
    let (_, handle) = class.clone().into_parts();
    // SAFETY: the reference was the object's own, and it is of the interpreter.
    inner.add_class(TypeId::of::<T>(), unsafe { ObjectReference::new(inner, handle) })
}

/// The value of the instance that a method is called on.
fn receiver<'object, T: Class>(object: &'object Object<'_>, name: &str) -> Result<&'object T> {
    instance::value_of(object).ok_or_else(|| {
        let (class, found) = (T::NAME, object.type_name());
        let text = format!(
            "descriptor '{name}' for '{class}' objects doesn't apply to a '{found}' object"
        );
        Error::raise("TypeError", text)
    })
}

/// Splits a method's receiver from its arguments.
fn split<'s>(
    arguments: Arguments<'s>,
    name: &str,
) -> Result<(ManuallyDrop<Object<'s>>, Arguments<'s>)> {
    arguments.split_first().ok_or_else(|| {
        Error::raise("TypeError", format!("unbound method {name}() needs an argument"))
    })
}

fn name_of(head: &str) -> &str {
    head.split('(').next().unwrap_or(head)
}

/// The parentheses of a head, and what is in them.
fn signature_of(head: &str) -> &str {
    &head[name_of(head).len()..]
}
