//! Calls in both directions, and the exceptions that they raise.

mod pythons;

use hydrozoa::{Error, Spread, Value};
use pythons::each;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn arguments_arrive_in_their_places() {
    each(|session| {
        let code = "def f(*args, **kwargs): return args, kwargs";
        let f = session.run(code, "f.py").unwrap().getattr("f").unwrap();
        let seen = |call: hydrozoa::Result<hydrozoa::Object<'_>>| call.unwrap().repr().unwrap();
        assert_eq!(seen(f.call(())), "((), {})");
        assert_eq!(seen(f.call((1, "b", 2.5))), "((1, 'b', 2.5), {})");
        assert_eq!(
            seen(f.call(Spread(vec![7; 20]))),
            format!("(({}), {{}})", ["7"; 20].join(", "))
        );
        assert_eq!(seen(f.call(Spread(&[1, 2]))), "((1, 2), {})");
        assert_eq!(seen(f.call_kwargs((), [("a", 1), ("b", 2)])), "((), {'a': 1, 'b': 2})");
        assert_eq!(
            seen(f.call_kwargs((0,), (("a", 1), ("b", "two"), ("c", ())))),
            "((0,), {'a': 1, 'b': 'two', 'c': None})"
        );
        let text = session.object_from("a b").unwrap();
        assert_eq!(seen(text.call_method("split", ())), "['a', 'b']");
        assert_eq!(
            seen(text.call_method_kwargs("split", (), (("sep", "b"), ("maxsplit", 1)))),
            "['a ', '']"
        );
    });
}

#[test]
fn a_value_that_is_no_tuple_is_one_argument() {
    each(|session| {
        let f = session.eval("lambda *args: args").unwrap();
        let seen = |call: hydrozoa::Result<hydrozoa::Object<'_>>| call.unwrap().repr().unwrap();
        assert_eq!(seen(f.call(1)), "(1,)");
        assert_eq!(seen(f.call("ab")), "('ab',)");
        assert_eq!(seen(f.call(b"ab")), "(b'ab',)");
        assert_eq!(seen(f.call(vec![1, 2])), "([1, 2],)");
        assert_eq!(seen(f.call(&["a", "b"][..])), "(['a', 'b'],)");
        assert_eq!(seen(f.call(None::<i64>)), "(None,)");
        let list = session.eval("[3]").unwrap();
        assert_eq!(seen(f.call(&list)), "([3],)");
        assert_eq!(seen(f.call(&[list.clone(), list])), "([[3], [3]],)");
    });
}

#[test]
fn many_names_are_many_strings() {
    each(|session| {
        let code = "
class Any:
    def __getattr__(self, name): return name
    def method(self, **keywords): return '/'.join(keywords)
any = Any()
";
        let any = session.run(code, "names.py").unwrap().getattr("any").unwrap();
        // More than are kept, and each asked for again: short and long ones that begin and end alike.
        for _ in 0..3 {
            for number in 0..2000 {
                for name in [
                    format!("n{number}"),
                    format!("a_name_of_some_length_{number}_that_ends_alike"),
                    format!("{number}_é_{}", "x".repeat(number % 90)),
                ] {
                    assert_eq!(any.getattr(&name).unwrap().extract::<String>().unwrap(), name);
                }
            }
        }
        for count in [1, 2, 5, 16, 17, 40] {
            let names: Vec<String> = (0..count).map(|index| format!("k{index}")).collect();
            for _ in 0..3 {
                let named: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 1)).collect();
                let seen = any.call_method_kwargs("method", (), named).unwrap();
                assert_eq!(seen.extract::<String>().unwrap(), names.join("/"));
            }
        }
    });
}

#[test]
fn an_argument_that_cannot_be_made_leaves_nothing_behind() {
    each(|session| {
        let code = "
import gc, sys
class Thing: pass
def alive(): gc.collect(); return sum(type(o) is Thing for o in gc.get_objects())
";
        let code = session.run(code, "things.py").unwrap();
        let make = code.getattr("Thing").unwrap();
        let alive = || code.getattr("alive").unwrap().call(()).unwrap().extract::<i64>().unwrap();
        let before = alive();
        // No `str` has this text in UTF-8, so the call does not begin. The lists are made before it is found.
        let surrogate = session.eval("'\\ud800'").unwrap();
        for _ in 0..100 {
            let things = vec![make.call(()).unwrap(), make.call(()).unwrap()];
            let names = [("", things.clone()), ("x", things.clone())];
            assert!(make.call_kwargs((&things, things.clone()), names).is_err());
            assert!(surrogate.extract::<String>().is_err());
        }
        assert_eq!(alive(), before);
    });
}

#[test]
fn an_exception_brings_its_type_message_and_traceback() {
    each(|session| {
        let code = "
class Trouble(Exception):
    pass
def inner():
    raise Trouble('out of cheese')
def outer():
    try:
        inner()
    except Trouble as trouble:
        raise ValueError('redo from start') from trouble
";
        let names = session.run(code, "trouble.py").unwrap();
        let error = names.getattr("outer").unwrap().call(()).unwrap_err();
        let Error::Python { type_name, message, traceback, .. } = &error else { panic!("{error}") };
        assert_eq!((type_name.as_str(), message.as_str()), ("ValueError", "redo from start"));
        assert!(traceback.contains("trouble.py\", line 10, in outer"), "{traceback}");
        assert!(traceback.contains("out of cheese"), "{traceback}");
        assert!(traceback.contains("direct cause"), "{traceback}");
        let error = names.getattr("inner").unwrap().call(()).unwrap_err();
        assert!(
            matches!(&error, Error::Python { type_name, .. } if type_name == "__hydrozoa__.trouble.Trouble"),
            "{error}"
        );
        // The interpreter still works.
        assert_eq!(session.eval("1 + 1").unwrap().extract::<i32>().unwrap(), 2);
    });
}

#[test]
fn a_missing_module_is_named() {
    each(|session| {
        let error = session.import("no.such.module").unwrap_err();
        let Error::Python { type_name, message, .. } = &error else { panic!("{error}") };
        assert_eq!(type_name, "ModuleNotFoundError");
        assert_eq!(message, "No module named 'no'");
    });
}

#[test]
fn exceptions_that_cannot_be_printed_are_reported_all_the_same() {
    each(|session| {
        let code = "
class Unprintable(Exception):
    def __str__(self): raise RuntimeError('no')
def unprintable(): raise Unprintable()
def surrogate(): raise ValueError('a\\ud800')
def leave(): raise SystemExit(3)
def deep(): return deep()
";
        let names = session.run(code, "odd.py").unwrap();
        let raised = |name: &str| match names.getattr(name).unwrap().call(()).unwrap_err() {
            Error::Python { type_name, message, .. } => (type_name, message),
            other => panic!("{other}"),
        };
        assert_eq!(raised("unprintable").0, "__hydrozoa__.odd.Unprintable");
        assert_eq!(raised("surrogate").1, "a\\ud800");
        assert_eq!(raised("leave"), ("SystemExit".to_owned(), "3".to_owned()));
        assert_eq!(raised("deep").0, "RecursionError");
    });
}

#[test]
fn python_calls_rust_with_arguments_of_every_kind() {
    each(|session| {
        let add = session
            .function("add", |session, arguments| {
                let sum = arguments.extract::<i64>(0)? + arguments.extract::<i64>(1)?;
                let names: Vec<String> = arguments.named()?.into_iter().map(|(n, _)| n).collect();
                session.object_from(&(sum, names))
            })
            .unwrap();
        assert_eq!(add.repr().unwrap(), "<host function 'add'>");
        let call = session.eval("lambda f: f(1, 2, c=3)").unwrap();
        assert_eq!(call.call((&add,)).unwrap().repr().unwrap(), "(3, ['c'])");
        let error = add.call((1,)).unwrap_err();
        assert!(error.to_string().starts_with("TypeError: at least 2"), "{error}");
    });
}

#[test]
fn errors_and_panics_of_rust_are_raised_in_python() {
    each(|session| {
        let code = "
def attempt(f):
    try:
        f()
    except Exception as error:
        return f'{type(error).__name__}: {error}'
";
        let attempt = session.run(code, "attempt.py").unwrap().getattr("attempt").unwrap();
        let outcome = |error: fn() -> Error| {
            let f = session.function("f", move |_, _| Err(error())).unwrap();
            attempt.call((&f,)).unwrap().extract::<String>().unwrap()
        };
        assert_eq!(outcome(|| raised("FileNotFoundError")), "FileNotFoundError: from Rust");
        assert_eq!(outcome(|| raised("mine.Own")), "RuntimeError: mine.Own: from Rust");
        assert_eq!(
            outcome(|| Error::Configuration("set wrong".to_owned())),
            "RuntimeError: set wrong"
        );
        let f = session.function("f", |_, _| panic!("at the disco")).unwrap();
        let outcome: String = attempt.call((&f,)).unwrap().extract().unwrap();
        assert!(outcome.contains("at the disco"), "{outcome}");
    });

    fn raised(type_name: &str) -> Error {
        Error::raise(type_name, "from Rust")
    }
}

#[test]
fn what_a_host_function_owns_is_dropped_with_it() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    each(|session| {
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = Counted(drops.clone());
        let f = session
            .function("f", move |session, _| session.object_from(&counted.0.load(Ordering::SeqCst)))
            .unwrap();
        assert_eq!(f.call(()).unwrap().extract::<usize>().unwrap(), 0);
        drop(f);
        // No thread held the GIL when the reference was dropped.
        session.interpreter().drain();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn results_of_many_calls_keep_their_order_and_values() {
    each(|session| {
        let square = session.eval("lambda x: x * x").unwrap();
        let squares: Vec<i64> = session.with_gil(|| {
            (0..1000).map(|x| square.call((x,)).unwrap().extract().unwrap()).collect()
        });
        assert!(squares.iter().zip(0..).all(|(square, x)| *square == x * x));
        let value: Value = square.call((Value::Float(1.5),)).unwrap().extract().unwrap();
        assert_eq!(value, Value::Float(2.25));
    });
}
