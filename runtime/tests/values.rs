//! Values that cross the boundary, on every Python of the machine.

mod pythons;

use hydrozoa::{Error, Integer, Object, Session, Value};
use pythons::pools;
use std::collections::{BTreeMap, HashMap};

/// Runs `test` in a session of each Python.
fn each(test: impl Fn(&Session)) {
    for pool in pools(1) {
        test(&pool.acquire().unwrap());
    }
}

/// `value == expression`, as Python sees it.
fn equals(session: &Session, value: &Object<'_>, expression: &str) -> bool {
    let expected = session.eval(expression).unwrap();
    let same_type = value.type_name() == expected.type_name();
    same_type && value.call_method("__eq__", (&expected,)).unwrap().extract().unwrap()
}

#[test]
fn scalars_arrive_as_the_same_value_of_the_same_type() {
    each(|session| {
        let same = |value: Object<'_>, expression| {
            assert!(equals(session, &value, expression), "{value:?} is not {expression}");
        };
        same(session.object_from(&true).unwrap(), "True");
        same(session.object_from(&-7_i8).unwrap(), "-7");
        same(session.object_from(&u64::MAX).unwrap(), "2**64 - 1");
        same(session.object_from(&i128::MIN).unwrap(), "-2**127");
        same(session.object_from(&u128::MAX).unwrap(), "2**128 - 1");
        same(session.object_from(&1.5_f32).unwrap(), "1.5");
        same(session.object_from("grüß\0\u{1f419}").unwrap(), "'grüß\\0\\U0001f419'");
        same(session.object_from(&b"\x00\xff"[..]).unwrap(), "b'\\x00\\xff'");
        same(session.object_from(&[1, 2, 3]).unwrap(), "[1, 2, 3]");
        same(session.object_from(&(1, "two", 3.0)).unwrap(), "(1, 'two', 3.0)");
        same(session.object_from(&HashMap::from([("k", 1)])).unwrap(), "{'k': 1}");
        assert!(session.object_from(&None::<i32>).unwrap().is_none());
    });
}

#[test]
fn scalars_come_back() {
    each(|session| {
        let eval = |expression| session.eval(expression).unwrap();
        assert!(eval("True").extract::<bool>().unwrap());
        assert_eq!(eval("-2**63").extract::<i64>().unwrap(), i64::MIN);
        assert_eq!(eval("2**64 - 1").extract::<u64>().unwrap(), u64::MAX);
        assert_eq!(eval("-2**127").extract::<i128>().unwrap(), i128::MIN);
        assert_eq!(eval("2**128 - 1").extract::<u128>().unwrap(), u128::MAX);
        assert_eq!(eval("1e300").extract::<f64>().unwrap(), 1e300);
        assert_eq!(eval("3").extract::<f64>().unwrap(), 3.0);
        assert_eq!(eval("'grüß\\0'").extract::<String>().unwrap(), "grüß\0");
        assert_eq!(eval("bytearray(b'ab')").extract::<Vec<u8>>().unwrap(), b"ab");
        assert_eq!(eval("None").extract::<Option<i32>>().unwrap(), None);
        assert_eq!(eval("(1, [2, 3])").extract::<(i32, Vec<u16>)>().unwrap(), (1, vec![2, 3]));
        let map: BTreeMap<String, f64> = eval("{'b': 2, 'a': 1.5}").extract().unwrap();
        assert_eq!(map, BTreeMap::from([("a".to_owned(), 1.5), ("b".to_owned(), 2.0)]));
    });
}

#[test]
fn integers_of_any_size_make_the_round_trip() {
    each(|session| {
        for exponent in [62, 63, 64, 65, 127, 128, 1000] {
            for (sign, offset) in [("", 0), ("-", 0), ("", 1), ("-", 1), ("", -1), ("-", -1)] {
                let expression = format!("{sign}2**{exponent} + {offset}");
                let integer: Integer = session.eval(&expression).unwrap().extract().unwrap();
                let back = session.object_from(&integer).unwrap();
                assert!(equals(session, &back, &expression), "{expression}");
                assert_eq!(integer.to_string(), back.str().unwrap(), "{expression}");
            }
        }
    });
}

#[test]
fn values_of_any_shape_make_the_round_trip() {
    each(|session| {
        let expression = "{'a': [1, 2.5, None, True], ('t', b'x'): {'n': {}}, 3: (), 'big': 2**99}";
        let object = session.eval(expression).unwrap();
        let value: Value = object.extract().unwrap();
        let Value::Dict(pairs) = &value else { panic!("{value:?} is no dict") };
        assert_eq!(pairs[0].0, Value::Str("a".to_owned()));
        assert!(equals(session, &session.object_from(&value).unwrap(), expression));
    });
}

#[test]
fn objects_with_conversion_methods_convert_as_python_would() {
    each(|session| {
        let code = "
class Number:
    def __index__(self): return 42
    def __float__(self): return 4.5
class Broken:
    def __index__(self): raise LookupError('no index today')
";
        let names = session.run(code, "number.py").unwrap();
        let number = names.getattr("Number").unwrap().call(()).unwrap();
        assert_eq!(number.extract::<u8>().unwrap(), 42);
        assert_eq!(number.extract::<f64>().unwrap(), 4.5);
        let error = names.getattr("Broken").unwrap().call(()).unwrap().extract::<i32>();
        assert!(
            matches!(error, Err(Error::Python { type_name, .. }) if type_name == "LookupError")
        );
    });
}

#[test]
fn what_cannot_be_converted_is_named() {
    each(|session| {
        let refused =
            |expression: &str, expected: &str, outcome: hydrozoa::Result<()>| match outcome
                .unwrap_err()
            {
                Error::Convert { expected: named, .. } => assert_eq!(named, expected),
                other => panic!("{expression}: {other}"),
            };
        let eval = |expression| session.eval(expression).unwrap();
        refused("256", "u8", eval("256").extract::<u8>().map(drop));
        refused("-1", "u64", eval("-1").extract::<u64>().map(drop));
        refused("'x'", "int", eval("'x'").extract::<i32>().map(drop));
        refused("1.5", "int", eval("1.5").extract::<i32>().map(drop));
        refused("1", "bool", eval("1").extract::<bool>().map(drop));
        refused("1", "str", eval("1").extract::<String>().map(drop));
        refused("'x'", "float", eval("'x'").extract::<f64>().map(drop));
        refused("'x'", "bytes", eval("'x'").extract::<Vec<u8>>().map(drop));
        refused("1", "a sequence or set", eval("1").extract::<Vec<i32>>().map(drop));
        refused("(1,)", "a tuple of 2", eval("(1,)").extract::<(i32, i32)>().map(drop));
        refused("object()", "a plain value", eval("object()").extract::<Value>().map(drop));
    });
}

#[test]
fn lone_surrogates_are_refused_with_a_reason() {
    each(|session| {
        let text = session.eval("'a\\ud800b'").unwrap();
        let error = text.extract::<String>().unwrap_err();
        assert!(matches!(&error, Error::Convert { reason, .. } if reason.contains("surrogates")));
        assert!(text.extract::<Value>().is_err());
        assert!(!text.is_none());
    });
}

#[test]
fn a_list_that_contains_itself_is_refused() {
    each(|session| {
        let code = "endless = []\nendless.append(endless)";
        let endless = session.run(code, "endless.py").unwrap().getattr("endless").unwrap();
        let error = endless.extract::<Value>().unwrap_err();
        assert!(error.to_string().contains("contains itself"), "{error}");
    });
}

#[test]
fn objects_of_another_interpreter_are_refused() {
    for pool in pools(2) {
        let (one, other) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
        let object = one.eval("[]").unwrap();
        let error = other.import("builtins").unwrap().call_method("len", (&object,)).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        assert_eq!(
            one.import("builtins").unwrap().call_method("len", (&object,)).unwrap().str().unwrap(),
            "0"
        );
    }
}

#[test]
fn iteration_yields_items_and_ends_with_the_first_error() {
    each(|session| {
        let code = "
def three():
    yield from range(3)
    raise OSError('enough')
";
        let three = session.run(code, "three.py").unwrap().getattr("three").unwrap();
        let mut items = three.call(()).unwrap().iter().unwrap();
        for expected in 0..3 {
            assert_eq!(items.next().unwrap().unwrap().extract::<i32>().unwrap(), expected);
        }
        assert!(items.next().unwrap().unwrap_err().to_string().starts_with("OSError: enough"));
        assert!(items.next().is_none());
        assert!(session.eval("1").unwrap().iter().is_err());
    });
}

#[test]
fn items_and_attributes_are_read_written_and_deleted() {
    each(|session| {
        let dict = session.eval("{}").unwrap();
        dict.set_item("k", [1, 2]).unwrap();
        dict.set_item(2.5, "v").unwrap();
        assert_eq!(dict.len().unwrap(), 2);
        assert_eq!(dict.get_item("k").unwrap().get_item(-1).unwrap().extract::<i32>().unwrap(), 2);
        dict.delete_item(2.5).unwrap();
        let error = dict.get_item(2.5).unwrap_err();
        assert!(matches!(error, Error::Python { type_name, .. } if type_name == "KeyError"));
        let namespace =
            session.import("types").unwrap().call_method("SimpleNamespace", ()).unwrap();
        namespace.setattr("name", "value").unwrap();
        assert_eq!(namespace.getattr("name").unwrap().str().unwrap(), "value");
        assert!(namespace.getattr("other").unwrap_err().to_string().starts_with("AttributeError"));
        assert!(session.eval("[0]").unwrap().truth().unwrap());
        assert!(session.eval("[]").unwrap().is_empty().unwrap());
    });
}
