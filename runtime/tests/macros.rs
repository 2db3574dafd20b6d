//! The attribute macros for functions and classes.

mod pythons;

use hydrozoa::{Error, Instance, Object, Session};
use pythons::each;
use std::sync::Mutex;

/// Multiplies a number.
///
/// By two, if nothing else is said.
#[hydrozoa::function(module = "numbers")]
#[signature = "(x, /, by=2.0, *, label=None)"]
fn scale(session: &Session, x: f64, by: f64, label: Option<String>) -> hydrozoa::Result<String> {
    assert_eq!(session.interpreter().index(), 0);
    match x.is_nan() {
        true => Err(Error::raise("ValueError", "not a number")),
        false => Ok(format!("{}{}", label.unwrap_or_default(), x * by)),
    }
}

#[hydrozoa::function]
fn nothing() {}

#[hydrozoa::function(name = "type")]
fn kind(r#type: i64, arguments: i64, session: i64) -> i64 {
    r#type + arguments + session
}

#[hydrozoa::function]
#[signature = "(*rest, **names)"]
fn rest(rest: Vec<i64>, names: std::collections::BTreeMap<String, i64>) -> i64 {
    rest.iter().sum::<i64>() + names.values().sum::<i64>()
}

#[hydrozoa::function]
fn fails(text: String) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    Ok(text.parse::<i64>()?)
}

#[test]
fn a_function_has_its_parameters_and_its_documentation() {
    each(|session| {
        let code = "
import inspect
def check(scale, nothing, kind, rest, fails):
    assert scale(3) == '6' and scale(3, 4) == '12' and scale(3, by=5, label='n=') == 'n=15'
    assert str(inspect.signature(scale)) == '(x, /, by=2.0, *, label=None)'
    assert inspect.getdoc(scale) == 'Multiplies a number.\\n\\nBy two, if nothing else is said.'
    assert (scale.__name__, scale.__module__) == ('scale', 'numbers')
    for wrong, kind_of, text in [
        (lambda: scale(), TypeError, \"scale() missing 1 required positional argument: 'x'\"),
        (lambda: scale('3'), TypeError, \"argument 'x': cannot convert str to float\"),
        (lambda: scale(float('nan')), ValueError, 'not a number'),
        (lambda: nothing(1), TypeError, 'nothing() takes 0 positional arguments but 1 was given'),
        (lambda: fails('x'), RuntimeError, 'invalid digit found in string'),
    ]:
        try:
            wrong()
        except kind_of as error:
            assert str(error).startswith(text), error
        else:
            assert False, text
    assert nothing() is None and fails(text='7') == 7
    assert kind(1, session=3, arguments=2) == 6 and kind.__name__ == 'type'
    assert str(inspect.signature(kind)) == '(type, arguments, session)'
    assert rest(1, 2, a=3) == 6 and rest() == 0
";
        let check = session.run(code, "functions.py").unwrap().getattr("check").unwrap();
        let callables = (
            scale::to_python(session).unwrap(),
            nothing::to_python(session).unwrap(),
            kind::to_python(session).unwrap(),
            rest::to_python(session).unwrap(),
            fails::to_python(session).unwrap(),
        );
        check.call(callables).unwrap();
        assert_eq!(scale(session, 1.0, 2.0, None).unwrap(), "2");
        nothing();
    });
}

#[test]
fn a_function_inside_of_another_one_works() {
    #[hydrozoa::function]
    fn local(number: i64) -> i64 {
        number + 1
    }
    each(|session| {
        let two = local::to_python(session).unwrap().call(1).unwrap();
        assert_eq!(two.extract::<i64>().unwrap(), local(1));
    });
}

struct Stack(Mutex<Vec<i64>>);

/// A stack of numbers.
#[hydrozoa::class(module = "stacks")]
impl Stack {
    #[classattr]
    const LIMIT: i64 = 5;

    #[classattr]
    #[name = "EMPTY"]
    fn empty() -> Self {
        Stack(Mutex::new(Vec::new()))
    }

    #[new]
    #[signature = "(*items)"]
    fn new(items: Vec<i64>) -> hydrozoa::Result<Self> {
        match items.len() as i64 > Self::LIMIT {
            true => Err(Error::raise("OverflowError", "too many")),
            false => Ok(Stack(Mutex::new(items))),
        }
    }

    /// Adds a number.
    #[signature = "(item, /, *, twice=False)"]
    fn push(&self, item: i64, twice: bool) {
        let count = if twice { 2 } else { 1 };
        self.0.lock().unwrap().extend(std::iter::repeat_n(item, count));
    }

    fn pop(&self) -> Option<i64> {
        self.0.lock().unwrap().pop()
    }

    /// The number on top.
    #[getter]
    fn get_top(&self) -> hydrozoa::Result<i64> {
        let top = self.0.lock().unwrap().last().copied();
        top.ok_or_else(|| Error::raise("IndexError", "it is empty"))
    }

    #[setter]
    fn set_top(&self, value: i64) {
        let mut items = self.0.lock().unwrap();
        items.pop();
        items.push(value);
    }

    #[getter]
    fn items<'s>(&self, session: &'s Session) -> hydrozoa::Result<Object<'s>> {
        session.object_from(&*self.0.lock().unwrap())
    }

    #[staticmethod]
    fn of(item: i64) -> Self {
        Stack(Mutex::new(vec![item]))
    }

    #[staticmethod]
    fn maybe(item: Option<i64>) -> Option<Self> {
        item.map(Self::of)
    }

    #[classmethod]
    fn describe(class: Object<'_>, text: String) -> hydrozoa::Result<String> {
        Ok(format!("{} {text}", class.getattr("__name__")?.extract::<String>()?))
    }

    fn __len__(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn __add__(&self, other: Instance<Stack>) -> Self {
        let mut items = self.0.lock().unwrap().clone();
        items.extend(&*other.0.lock().unwrap());
        Stack(Mutex::new(items))
    }

    fn __eq__(&self, other: Instance<Self>) -> bool {
        std::ptr::eq(self, &*other) || *self.0.lock().unwrap() == *other.0.lock().unwrap()
    }

    fn __iter__(this: Object<'_>) -> Object<'_> {
        this
    }

    fn __next__(&self) -> Option<i64> {
        self.pop()
    }

    fn shared(this: Instance<Self>) -> Instance<Self> {
        this
    }

    fn __repr__(&self) -> String {
        format!("Stack{:?}", self.0.lock().unwrap())
    }
}

impl Stack {
    fn hidden(&self) -> usize {
        self.__len__()
    }
}

#[test]
fn a_class_is_one_of_python() {
    each(|session| {
        let code = "
import inspect
def check(Stack):
    s = Stack(1, 2)
    s.push(3, twice=True)
    assert repr(s) == 'Stack[1, 2, 3, 3]' and len(s) == 4 and s.items == [1, 2, 3, 3]
    assert s.pop() == 3 and s.top == 3
    s.top = 9
    assert s.top == 9 and s.shared() == s and s.shared() is not s
    assert s + Stack.of(4) == Stack(1, 2, 9, 4) and s.__eq__(1) is NotImplemented and s != 1
    assert iter(s) is s and list(s) == [9, 2, 1] and s.pop() is None
    assert Stack.LIMIT == 5 and type(Stack.EMPTY) is Stack
    assert Stack.maybe(None) is None and Stack.maybe(1) == Stack(1)
    assert Stack.describe('here') == 'Stack here' and not hasattr(s, 'hidden')
    assert Stack.__doc__ == 'A stack of numbers.' and Stack.push.__doc__ == 'Adds a number.'
    assert Stack.top.__doc__ == 'The number on top.' and Stack.__module__ == 'stacks'
    assert str(inspect.signature(Stack)) == '(*items)', inspect.signature(Stack)
    assert str(inspect.signature(s.push)) == '(item, /, *, twice=False)'
    for wrong, kind, text in [
        (lambda: s.push(), TypeError, \"Stack.push() missing 1 required positional argument: 'item'\"),
        (lambda: s.push('a'), TypeError, \"argument 'item': cannot convert str to int\"),
        (lambda: s.top, IndexError, 'it is empty'),
        (lambda: s + 1, TypeError, 'unsupported operand'),
        (lambda: Stack(*range(9)), OverflowError, 'too many'),
        (lambda: hash(s), TypeError, 'unhashable'),
    ]:
        try:
            wrong()
        except kind as error:
            assert str(error).startswith(text), error
        else:
            assert False, text
";
        let check = session.run(code, "class.py").unwrap().getattr("check").unwrap();
        check.call((session.class::<Stack>().unwrap(),)).unwrap();
        assert_eq!(Stack::of(1).hidden(), 1);
    });
}
