//! Values that cross the boundary, and conversions of the standard library's types, on every Python of the machine.

mod pythons;

use hydrozoa::{Error, FromPython, Integer, Object, Session, ToPython, Value};
use pythons::each;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn eval<'s, T: FromPython<'s>>(session: &'s Session, expression: &str) -> hydrozoa::Result<T> {
    session.eval(expression).unwrap().extract()
}

/// `value` becomes an object with this `repr`.
fn becomes<T: ToPython + ?Sized>(session: &Session, value: &T, representation: &str) {
    assert_eq!(session.object_from(value).unwrap().repr().unwrap(), representation);
}

/// The conversion of `expression` to `T` is refused; the error's text.
fn refusal<'s, T: FromPython<'s> + Debug>(session: &'s Session, expression: &str) -> String {
    match eval::<T>(session, expression) {
        Err(error @ Error::Convert { .. }) => error.to_string(),
        other => panic!("{expression}: {other:?}"),
    }
}

#[test]
fn a_vector_is_made_from_any_sequence_or_set_but_not_from_a_string() {
    each(|session| {
        for expression in [
            "[1, 2, 3]",
            "(1, 2, 3)",
            "range(1, 4)",
            "{1, 2, 3}",
            "frozenset([1, 2, 3])",
            "b'\\1\\2\\3'",
            "{1: 0, 2: 0, 3: 0}.keys()",
            "__import__('array').array('i', [1, 2, 3])",
            "__import__('collections').deque([1, 2, 3])",
        ] {
            assert_eq!(eval::<Vec<i32>>(session, expression).unwrap(), [1, 2, 3], "{expression}");
            assert_eq!(eval::<[i32; 3]>(session, expression).unwrap(), [1, 2, 3], "{expression}");
        }
        assert_eq!(eval::<Vec<u8>>(session, "range(3)").unwrap(), [0, 1, 2]);
        assert_eq!(eval::<Vec<u8>>(session, "{7}").unwrap(), [7]);
        for expression in ["'abc'", "{1: 2}", "1", "__import__('types').MappingProxyType({1: 2})"] {
            let error = refusal::<Vec<Value>>(session, expression);
            assert!(error.contains("a sequence or set"), "{error}");
        }
        assert!(refusal::<[i32; 2]>(session, "[1, 2, 3]").contains("it has 3 items"));
        assert!(refusal::<Vec<String>>(session, "'abc'").contains("str"));
    });
}

#[test]
fn sets_cross_in_both_directions() {
    each(|session| {
        becomes(session, &BTreeSet::from([7]), "{7}");
        becomes(session, &HashSet::<i32>::new(), "set()");
        let expected = HashSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(eval::<HashSet<String>>(session, "{'a', 'b'}").unwrap(), expected);
        assert_eq!(
            eval::<BTreeSet<i64>>(session, "frozenset([3, 1])").unwrap(),
            BTreeSet::from([1, 3])
        );
        assert!(refusal::<HashSet<i32>>(session, "[1]").contains("set or frozenset"));
        // An item that Python cannot hash is refused in a set.
        let error = session.object_from(&BTreeSet::from([vec![1]])).unwrap_err();
        assert!(matches!(error, Error::Python { type_name, .. } if type_name == "TypeError"));
    });
}

#[test]
fn a_path_may_have_bytes_that_are_not_utf_8() {
    each(|session| {
        let odd = OsStr::from_bytes(b"caf\xe9");
        becomes(session, odd, "'caf\\udce9'");
        becomes(session, Path::new("/tmp/x"), "PosixPath('/tmp/x')");
        becomes(session, &Path::new("/tmp").join(odd), "PosixPath('/tmp/caf\\udce9')");
        assert_eq!(eval::<OsString>(session, "'caf\\udce9'").unwrap(), odd);
        let class = "type('Own', (), {'__fspath__': lambda self: '/own'})()";
        let sources = [
            ("'/own'", "/own"),
            ("b'/own'", "/own"),
            ("__import__('pathlib').PurePath('/a/b')", "/a/b"),
            (class, "/own"),
        ];
        for (expression, path) in sources {
            assert_eq!(eval::<PathBuf>(session, expression).unwrap(), Path::new(path));
        }
        assert_eq!(eval::<PathBuf>(session, "'caf\\udce9'").unwrap().as_os_str(), odd);
        assert!(refusal::<PathBuf>(session, "3").contains("a path"));
        assert!(refusal::<OsString>(session, "b'x'").contains("str"));
        // The failure of the object's own method is that method's.
        let broken = "type('Broken', (), {'__fspath__': lambda self: 1 / 0})()";
        let error = eval::<PathBuf>(session, broken).unwrap_err();
        assert!(
            matches!(error, Error::Python { type_name, .. } if type_name == "ZeroDivisionError")
        );
    });
}

#[test]
fn text_and_values_behind_pointers_convert_as_they_do_alone() {
    each(|session| {
        becomes(session, &'\u{1f419}', "'\u{1f419}'");
        assert_eq!(eval::<char>(session, "'ü'").unwrap(), 'ü');
        assert!(refusal::<char>(session, "'ab'").contains("it has 2 characters"));
        assert!(refusal::<char>(session, "''").contains("it has 0 characters"));
        becomes(session, &Cow::Borrowed("text"), "'text'");
        becomes(session, &Box::<str>::from("text"), "'text'");
        becomes(session, &Arc::new(vec![1, 2]), "[1, 2]");
        assert_eq!(eval::<Cow<str>>(session, "'text'").unwrap(), "text");
        assert_eq!(eval::<Cow<[u8]>>(session, "b'ab'").unwrap(), &b"ab"[..]);
        assert_eq!(&*eval::<Box<str>>(session, "'text'").unwrap(), "text");
        assert_eq!(&*eval::<Arc<str>>(session, "'text'").unwrap(), "text");
        assert_eq!(*eval::<Rc<i32>>(session, "5").unwrap(), 5);
        assert_eq!(&*eval::<Box<[i32]>>(session, "(1, 2)").unwrap(), [1, 2]);
    });
}

#[test]
fn spans_and_points_of_time_are_those_of_datetime() {
    each(|session| {
        let span = Duration::new(2 * 86_400 + 3, 4_000_999);
        becomes(session, &span, "datetime.timedelta(days=2, seconds=3, microseconds=4000)");
        let delta = "__import__('datetime').timedelta(days=2, seconds=3, microseconds=4)";
        let expected = Duration::new(2 * 86_400 + 3, 4_000);
        assert_eq!(eval::<Duration>(session, delta).unwrap(), expected);
        let negative = format!("-{delta}");
        assert!(refusal::<Duration>(session, &negative).contains("it is negative"));
        assert!(refusal::<Duration>(session, "3.5").contains("timedelta"));
        // A subclass may answer anything.
        let hostile = |days: &str, seconds: &str| {
            let class = "type('Span', (__import__('datetime').timedelta,), ";
            format!("{class}dict(days={days}, seconds={seconds}, microseconds=0))()")
        };
        let out_of_range = [
            hostile("2**126", "0"),
            hostile("-2**126", "0"),
            hostile("2**100", "2**107"),
            hostile("0", "2**64"),
        ];
        for span in &out_of_range {
            assert!(refusal::<Duration>(session, span).contains("it is out of range"), "{span}");
        }
        let longest = eval::<Duration>(session, &hostile("0", "2**64 - 1"));
        assert_eq!(longest.unwrap(), Duration::from_secs(u64::MAX));
        for span in &out_of_range {
            let time = format!(
                "type('Time', (__import__('datetime').datetime,), dict(__sub__=lambda *_: {span}))\
                 (2000, 1, 1, tzinfo=__import__('datetime').timezone.utc)"
            );
            let said = refusal::<SystemTime>(session, &time);
            assert!(said.contains("it is out of range"), "{span}: {said}");
        }
        let error = session.object_from(&Duration::MAX).unwrap_err();
        assert!(matches!(error, Error::Python { type_name, .. } if type_name == "OverflowError"));

        for time in [
            UNIX_EPOCH + Duration::new(1_700_000_000, 5_000),
            UNIX_EPOCH - Duration::new(86_400 * 365 * 100, 1_000),
        ] {
            let object: Object<'_> = session.object_from(&time).unwrap();
            assert_eq!(object.extract::<SystemTime>().unwrap(), time);
        }
        becomes(
            session,
            &UNIX_EPOCH,
            "datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)",
        );
        let zone = "(lambda d: d.datetime(1970, 1, 1, 1, tzinfo=d.timezone(d.timedelta(hours=1))))(__import__('datetime'))";
        assert_eq!(eval::<SystemTime>(session, zone).unwrap(), UNIX_EPOCH);
        let naive = "__import__('datetime').datetime(1970, 1, 1)";
        assert!(refusal::<SystemTime>(session, naive).contains("no time zone"));
    });
}

#[test]
fn an_integer_debugs_as_its_number() {
    assert_eq!(format!("{:?}", Value::Int(Integer::from(-300))), "Int(-300)");
    assert_eq!(format!("{:?}", Integer::from(u128::MAX)), u128::MAX.to_string());
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
        assert!(eval::<bool>(session, "True").unwrap());
        assert_eq!(eval::<i64>(session, "-2**63").unwrap(), i64::MIN);
        assert_eq!(eval::<u64>(session, "2**64 - 1").unwrap(), u64::MAX);
        assert_eq!(eval::<i128>(session, "-2**127").unwrap(), i128::MIN);
        assert_eq!(eval::<u128>(session, "2**128 - 1").unwrap(), u128::MAX);
        assert_eq!(eval::<f64>(session, "1e300").unwrap(), 1e300);
        assert_eq!(eval::<f64>(session, "3").unwrap(), 3.0);
        assert_eq!(eval::<String>(session, "'grüß\\0'").unwrap(), "grüß\0");
        assert_eq!(eval::<Vec<u8>>(session, "bytearray(b'ab')").unwrap(), b"ab");
        assert_eq!(eval::<Option<i32>>(session, "None").unwrap(), None);
        assert_eq!(eval::<(i32, Vec<u16>)>(session, "(1, [2, 3])").unwrap(), (1, vec![2, 3]));
        let map: BTreeMap<String, f64> = eval(session, "{'b': 2, 'a': 1.5}").unwrap();
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
        let Value::Dict(pairs) = &value else { panic!("{value:?} is not a dict") };
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
    fn refused<'s, T: FromPython<'s>>(session: &'s Session, expression: &str, expected: &str) {
        match eval::<T>(session, expression).map(drop) {
            Err(Error::Convert { expected: named, .. }) => assert_eq!(named, expected),
            other => panic!("{expression}: {other:?}"),
        }
    }
    each(|session| {
        refused::<u8>(session, "256", "u8");
        refused::<u64>(session, "-1", "u64");
        refused::<i32>(session, "'x'", "int");
        refused::<i32>(session, "1.5", "int");
        refused::<bool>(session, "1", "bool");
        refused::<String>(session, "1", "str");
        refused::<f64>(session, "'x'", "float");
        refused::<Vec<u8>>(session, "'x'", "bytes");
        refused::<Vec<i32>>(session, "1", "a sequence or set");
        refused::<(i32, i32)>(session, "(1,)", "a tuple of 2");
        refused::<Value>(session, "object()", "a plain value");
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
