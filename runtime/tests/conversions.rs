//! Conversions of the standard library's types, on every Python of the machine.

mod pythons;

use hydrozoa::{Error, FromPython, Integer, Object, Session, ToPython, Value};
use pythons::pools;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn each(test: impl Fn(&Session)) {
    for pool in pools(1) {
        test(&pool.acquire().unwrap());
    }
}

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
        // What Python cannot hash is no item of a set.
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
