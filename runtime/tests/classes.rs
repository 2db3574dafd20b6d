//! Rust types as Python classes, by their builder.

mod pythons;

use hydrozoa::{Class, ClassBuilder, Error, Handle, Instance, Object, Pool, Session};
use pythons::{builders, each, pools};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// A vector of the plane.
#[derive(Clone, Copy, PartialEq)]
struct Vector(f64, f64);

impl Class for Vector {
    const NAME: &'static str = "Vector";
    const MODULE: &'static str = "plane";
    const DOC: &'static str = "A vector of the plane.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .constructor("(x, y=0.0)", |_, arguments| {
                let x: f64 = arguments.parameter(0, "x")?;
                if x.is_nan() {
                    return Err(Error::raise("ValueError", "x is not a number"));
                }
                Ok(Vector(x, arguments.parameter(1, "y")?))
            })
            .getter("x", "The first coordinate.", |vector, session| session.object_from(&vector.0))
            .method(
                "scaled(by, /, *, flip=False)",
                "A longer one.",
                |vector, session, arguments| {
                    let (by, flip): (f64, bool) = (arguments.extract(0)?, arguments.extract(1)?);
                    let by = if flip { -by } else { by };
                    session.object_from(&Instance::new(Vector(vector.0 * by, vector.1 * by)))
                },
            )
            .method("count", "", |_, session, arguments| session.object_from(&arguments.len()))
            .static_method("unit()", "(1, 0)", |session, _| {
                session.object_from(&Instance::new(Vector(1.0, 0.0)))
            })
            .class_method("named(name)", "", |class, session, arguments| {
                let name: String = class.getattr("__name__")?.extract()?;
                session.object_from(&format!("{name} {}", arguments.extract::<String>(0)?))
            })
            .constant("ZERO", Instance::new(Vector(0.0, 0.0)))
            .constant("DIMENSIONS", 2);
        operators(class);
    }
}

fn operators(class: &mut ClassBuilder<'_, Vector>) {
    class
        .method("__repr__()", "", |vector, session, _| {
            session.object_from(&format!("Vector({:?}, {:?})", vector.0, vector.1))
        })
        .method("__add__(other)", "", |vector, session, arguments| {
            match arguments.extract::<Instance<Vector>>(0) {
                Ok(other) => {
                    let sum = Vector(vector.0 + other.0, vector.1 + other.1);
                    session.object_from(&Instance::new(sum))
                }
                Err(_) => session.not_implemented(),
            }
        })
        .method("__eq__(other)", "", |vector, session, arguments| {
            match arguments.extract::<Instance<Vector>>(0) {
                Ok(other) => session.object_from(&(*vector == *other)),
                Err(_) => session.not_implemented(),
            }
        })
        .method("__hash__()", "", |vector, session, _| session.object_from(&(vector.0 as i64)))
        .method("__bool__()", "", |vector, session, _| {
            session.object_from(&(*vector != Vector(0.0, 0.0)))
        })
        .method("__len__()", "", |_, session, _| session.object_from(&2))
        .method("__getitem__(index)", "", |vector, session, arguments| {
            match arguments.parameter(0, "index")? {
                0 => session.object_from(&vector.0),
                1 => session.object_from(&vector.1),
                index => Err(Error::raise("IndexError", format!("no coordinate {index}"))),
            }
        })
        .method("__call__(*arguments, **names)", "", |_, session, arguments| {
            session.object_from(&(arguments.get(0), arguments.get(1)))
        })
        .object_method("__enter__()", "", |object, _, _| Ok(object.clone()))
        .method("__exit__(*reason)", "", |_, session, _| session.object_from(&true));
}

/// Puts the class into a module that code can import.
fn plane(session: &Session) -> Object<'_> {
    let types = session.import("types").unwrap();
    let module = types.call_method("ModuleType", ("plane",)).unwrap();
    module.setattr("Vector", session.class::<Vector>().unwrap()).unwrap();
    let modules = session.import("sys").unwrap().getattr("modules").unwrap();
    modules.set_item("plane", &module).unwrap();
    module
}

#[test]
fn python_uses_a_class_as_one_of_its_own() {
    each(|session| {
        plane(session);
        let code = "
from plane import Vector
v = Vector(1, y=2)
assert repr(v) == 'Vector(1.0, 2.0)' and str(v) == repr(v)
assert type(v) is Vector and isinstance(v, Vector) and v.x == 1.0
assert repr(Vector) == \"<class 'plane.Vector'>\"
assert repr(v.scaled(2, flip=True)) == 'Vector(-2.0, -4.0)'
assert v + Vector.unit() == Vector(2, 2) and v != Vector(0)
assert v.__add__(3) is NotImplemented and v.__eq__(3) is NotImplemented
assert hash(v) == 1 and {v: 'found'}[Vector(1, 2)] == 'found'
assert bool(v) and not Vector.ZERO and type(Vector.ZERO) is Vector
assert Vector.DIMENSIONS == 2 and len(v) == 2
assert list(v) == [1.0, 2.0] and 2.0 in v
assert v(1, 2, a=3) == ((1, 2), {'a': 3})
assert v.count(1, 2, 3) == 3
assert Vector.named('a') == 'Vector a' and v.named(name='b') == 'Vector b'
with v as entered:
    assert entered is v
    raise KeyError
";
        session.run(code, "uses.py").unwrap();
    });
}

#[test]
fn errors_are_those_of_a_class_of_python() {
    each(|session| {
        plane(session);
        let code = "
from plane import Vector
class Own:
    def __new__(cls, x, y=0.0): return super().__new__(cls)
    def scaled(self, by, /, *, flip=False): pass
    x = property(lambda self: 1)
    def named(cls, name): pass
    named = classmethod(named)
Own.__name__ = 'Vector'
def text(action, kind):
    try:
        action()
    except Exception as error:
        assert isinstance(error, kind), error
        return str(error).replace('Own.', 'Vector.')
    assert False, 'nothing was raised'
v, own = Vector(1), Own(1)
for action in [
    lambda c, o: c(), lambda c, o: c(1, 2, 3), lambda c, o: c(1, z=3), lambda c, o: c(1, x=2),
    lambda c, o: o.scaled(), lambda c, o: o.scaled(1, 2), lambda c, o: o.scaled(by=1), lambda c, o: o.scaled(1, zzz=2),
    lambda c, o: c.scaled(), lambda c, o: c.named(), lambda c, o: c.named(1, 2),
]:
    expected, seen = text(lambda: action(Own, own), TypeError), text(lambda: action(Vector, v), TypeError)
    assert seen == expected, (seen, expected)
assert text(lambda: v[2], IndexError) == 'no coordinate 2'
assert text(lambda: Vector(float('nan')), ValueError) == 'x is not a number'
assert \"argument 'x'\" in text(lambda: Vector('one'), TypeError)
text(lambda: v + 1, TypeError)
text(lambda: setattr(v, 'x', 1), AttributeError)
text(lambda: setattr(v, 'other', 1), AttributeError)
assert text(lambda: Vector.count(), TypeError) == 'unbound method count() needs an argument'
assert text(lambda: Vector.scaled(3, 1), TypeError) == \"descriptor 'scaled' for 'Vector' objects doesn't apply to a 'int' object\"
";
        session.run(code, "errors.py").unwrap();
    });
}

#[test]
fn python_shows_signatures_and_documentation() {
    each(|session| {
        let module = plane(session);
        let code = "
import inspect, pydoc
def check(plane):
    Vector = plane.Vector
    assert str(inspect.signature(Vector)) == '(x, y=0.0)', inspect.signature(Vector)
    assert str(inspect.signature(Vector.scaled)) == '(self, by, /, *, flip=False)', inspect.signature(Vector.scaled)
    assert str(inspect.signature(Vector(1).scaled)) == '(by, /, *, flip=False)', inspect.signature(Vector(1).scaled)
    assert str(inspect.signature(Vector.unit)) == '()' and str(inspect.signature(Vector.named)) == '(name)'
    assert Vector.__doc__ == 'A vector of the plane.' and Vector.__module__ == 'plane'
    assert Vector.__qualname__ == 'Vector' and Vector.scaled.__qualname__ == 'Vector.scaled'
    assert Vector.scaled.__doc__ == 'A longer one.' and Vector.x.__doc__ == 'The first coordinate.'
    text = pydoc.plain(pydoc.render_doc(Vector))
    for part in ['Vector(x, y=0.0)', 'A vector of the plane.', 'scaled(self, by, /', 'A longer one.', 'unit()']:
        assert part in text, (part, text)
";
        let check = session.run(code, "shows.py").unwrap().getattr("check").unwrap();
        check.call((module,)).unwrap();
    });
}

#[test]
fn only_the_constructor_makes_instances_and_each_has_a_value() {
    each(|session| {
        plane(session);
        let other = session.class::<Number>().unwrap();
        let code = "
import copy, pickle
from plane import Vector
def refused(action, text):
    try:
        action()
    except TypeError as error:
        assert text in str(error), error
    else:
        assert False, 'nothing was raised'
def check(Number):
    base = Vector.__base__
    refused(lambda: object.__new__(Vector), 'is not safe')
    refused(lambda: base(), 'cannot create')
    refused(lambda: Number(), 'cannot create')
    refused(lambda: object.__new__(Number), 'is not safe')
    refused(lambda: type('Empty', (base,), {})(), 'cannot create')
    refused(lambda: Vector.__new__(int, 1), 'not a class of the application')
    refused(lambda: pickle.dumps(Vector(1)), 'pickle')
    refused(lambda: copy.copy(Vector(1)), '')
    # An object of one class that holds the value of another one is neither.
    odd = Vector.__new__(Number, 1)
    refused(lambda: Vector.scaled(odd, 1) if type(odd) is Vector else odd.get(), \"doesn't apply\")
class Derived(Vector):
    def __init__(self, *arguments):
        self.note = 'noted'
    @property
    def both(self):
        return self.x, self.note
derived = Derived(3)
assert derived.both == (3.0, 'noted') and isinstance(derived, Vector)
assert derived + Vector(1) == Vector(4) and Derived.named('c') == 'Derived c'
import gc
derived.itself = derived
del derived
gc.collect()
";
        let check = session.run(code, "refused.py").unwrap().getattr("check").unwrap();
        check.call((other,)).unwrap();
    });
}

/// Counts how many of it were dropped.
struct Number {
    value: AtomicI64,
    dropped: Arc<AtomicUsize>,
    /// The Python object that it keeps.
    kept: Mutex<Option<Handle>>,
}

impl Number {
    fn new(value: i64, dropped: &Arc<AtomicUsize>) -> Self {
        let (value, kept) = (AtomicI64::new(value), Mutex::new(None));
        Self { value, dropped: dropped.clone(), kept }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Class for Number {
    const NAME: &'static str = "Number";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        let load = |number: &Number| number.value.load(Ordering::SeqCst);
        class
            .method("get()", "", move |number, session, _| session.object_from(&load(number)))
            .method("add(n)", "", |number, session, arguments| {
                let n: i64 = arguments.extract(0)?;
                session.object_from(&(number.value.fetch_add(n, Ordering::SeqCst) + n))
            })
            .method("keep(object)", "", |number, session, arguments| {
                let kept = arguments.get(0).map(|object| object.keep());
                let before = std::mem::replace(&mut *number.kept.lock().unwrap(), kept);
                drop(before);
                session.none()
            })
            .method("panic()", "", |_, _, _| panic!("at the disco"))
            .property_with(
                "value",
                "The number.",
                move |number, session| session.object_from(&load(number)),
                |number, _, arguments| {
                    number.value.store(arguments.parameter(0, "value")?, Ordering::SeqCst);
                    Ok(())
                },
            )
            .object_method("__iter__()", "", |object, _, _| Ok(object.clone()))
            .method("__next__()", "", |number, session, _| {
                match number.value.fetch_sub(1, Ordering::SeqCst) {
                    value if value > 0 => session.object_from(&value),
                    _ => Err(Error::raise("StopIteration", "")),
                }
            });
    }
}

#[test]
fn properties_iterators_and_panics() {
    each(|session| {
        let drops = Arc::new(AtomicUsize::new(0));
        let number = session.object_from(&Instance::new(Number::new(3, &drops))).unwrap();
        let code = "
def check(number):
    assert iter(number) is number and list(number) == [3, 2, 1]
    number.value = 7
    assert number.value == 7
    try:
        del number.value
    except AttributeError:
        pass
    try:
        number.value = 'seven'
    except TypeError as error:
        assert \"argument 'value'\" in str(error), error
    try:
        number.panic()
    except RuntimeError as error:
        assert \"'Number.panic' panicked: at the disco\" in str(error), error
    assert number.get() == 7
";
        let check = session.run(code, "properties.py").unwrap().getattr("check").unwrap();
        check.call((&number,)).unwrap();
        drop(number);
        session.interpreter().drain();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn interpreters_share_one_value_and_have_a_class_each() {
    for pool in pools(2) {
        let drops = Arc::new(AtomicUsize::new(0));
        let number = Arc::new(Number::new(0, &drops));
        std::thread::scope(|scope| {
            for index in 0..2 {
                let (pool, number) = (&pool, &number);
                scope.spawn(move || {
                    let session = pool.acquire_on(index).unwrap();
                    let object = session.object_from(&Instance::from(number.clone())).unwrap();
                    let code = "def add(number):\n  for _ in range(1000): number.add(1)";
                    let add = session.run(code, "add.py").unwrap().getattr("add").unwrap();
                    add.call((&object,)).unwrap();
                    let class = session.class::<Number>().unwrap();
                    assert!(object.getattr("__class__").unwrap().is(&class));
                    let back: Instance<Number> = object.extract().unwrap();
                    assert!(Arc::ptr_eq(&back.into_arc(), number));
                });
            }
        });
        assert_eq!(number.value.load(Ordering::SeqCst), 2000);
        let sessions = [pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap()];
        let [one, other] = sessions.each_ref().map(|session| session.class::<Number>().unwrap());
        assert!(!one.is(&other));
        assert!(matches!(one.setattr("other", &other), Err(Error::Foreign { .. })));
        drop((one, other));
        drop(sessions);
        drop(pool);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        drop(number);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_is_no_instance_is_refused_by_name() {
    each(|session| {
        let refused = |object: Object<'_>| object.extract::<Instance<Vector>>().unwrap_err();
        let number = session.eval("1").unwrap();
        let text = "cannot convert int to Vector: it is of another type";
        assert_eq!(refused(number).to_string(), text);
        let drops = Arc::new(AtomicUsize::new(0));
        let other = session.object_from(&Instance::new(Number::new(0, &drops))).unwrap();
        assert!(refused(other).to_string().starts_with("cannot convert Number to Vector"));
        assert!(matches!(refused(session.class::<Vector>().unwrap()), Error::Convert { .. }));
    });
}

#[test]
fn values_are_dropped_once_when_their_interpreter_ends() {
    for builder in builders(1) {
        let drops = Arc::new(AtomicUsize::new(0));
        let pool: Pool = builder.build().unwrap();
        let session = pool.acquire().unwrap();
        let make = |value| session.object_from(&Instance::new(Number::new(value, &drops))).unwrap();
        // In a module, in a class, in a cycle through Python, and in one through Rust.
        session.import("builtins").unwrap().setattr("kept_number", make(1)).unwrap();
        session.class::<Number>().unwrap().setattr("one", make(2)).unwrap();
        let code = "
class Node: pass
def tie(number):
    node = Node()
    node.itself, node.number = node, number
def keep(number):
    node = Node()
    node.number = number
    number.keep(node)
";
        let code = session.run(code, "cycles.py").unwrap();
        code.getattr("tie").unwrap().call((make(3),)).unwrap();
        code.getattr("keep").unwrap().call((make(4),)).unwrap();
        session.interpreter().drain();
        session.import("gc").unwrap().call_method("collect", ()).unwrap();
        session.interpreter().drain();
        assert_eq!(drops.load(Ordering::SeqCst), 1, "only the cycle through Python has no owner");
        let outlives = session.object_from(&Instance::new(Number::new(5, &drops))).unwrap();
        let value: Instance<Number> = outlives.extract().unwrap();
        drop((outlives, code));
        drop(session);
        drop(pool);
        assert_eq!(drops.load(Ordering::SeqCst), 4);
        assert_eq!(value.value.load(Ordering::SeqCst), 5);
        drop(value);
        assert_eq!(drops.load(Ordering::SeqCst), 5);
    }
}

/// A class that cannot be made.
struct Broken;

impl Class for Broken {
    const NAME: &'static str = "Broken";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method("fine()", "", |_, session, _| session.none())
            .method("wrong(x, x)", "", |_, session, _| session.none())
            .method("later()", "", |_, session, _| session.none());
    }
}

#[test]
fn a_head_that_is_none_is_an_error_of_the_class() {
    each(|session| {
        let error = session.class::<Broken>().unwrap_err();
        assert!(error.to_string().starts_with("SyntaxError: duplicate argument 'x'"), "{error}");
    });
}

#[test]
fn threads_that_ask_at_once_get_one_class() {
    for pool in pools(1) {
        let barrier = Barrier::new(8);
        let classes: Vec<Handle> = std::thread::scope(|scope| {
            let ask = || {
                let session = pool.acquire().unwrap();
                barrier.wait();
                session.class::<Vector>().unwrap().keep()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let session = pool.acquire().unwrap();
        let class = session.class::<Vector>().unwrap();
        assert!(classes.iter().all(|one| one.attach(&session).unwrap().is(&class)));
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

impl Class for Bomb {
    const NAME: &'static str = "Bomb";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class.constructor("()", |_, _| Ok(Bomb));
    }
}

#[test]
fn a_value_whose_drop_panics_leaves_python_unharmed() {
    each(|session| {
        let code = "
import threading
def check(Bomb):
    def fail():
        bomb = Bomb()
        raise KeyError('kept')
    for run in range(3):
        try:
            fail()
        except KeyError as error:
            assert error.args == ('kept',)
    thread = threading.Thread(target=lambda: Bomb() and None)
    thread.start()
    thread.join()
    return 'unharmed'
";
        let check = session.run(code, "bombs.py").unwrap().getattr("check").unwrap();
        let class = session.class::<Bomb>().unwrap();
        assert_eq!(check.call((class,)).unwrap().extract::<String>().unwrap(), "unharmed");
    });
}
