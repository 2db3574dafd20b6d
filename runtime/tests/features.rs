//! The types of other crates, each under its cargo feature, on every Python of the machine.

mod pythons;

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use half::{bf16, f16};
use hydrozoa::convert::Serde;
use hydrozoa::{Buffer, Error, FromPython, Integer, Session, Tensor, ToPython, Value};
use ndarray::{Array2, ArrayD, Axis, Ix1, Ix2, Ix3, array};
use num_complex::Complex;
use pythons::each;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

fn eval<'s, T: FromPython<'s>>(session: &'s Session, expression: &str) -> hydrozoa::Result<T> {
    session.eval(expression).unwrap().extract()
}

fn becomes<T: ToPython>(session: &Session, value: T, representation: &str) {
    assert_eq!(session.object_from(&value).unwrap().repr().unwrap(), representation);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Model {
    name: String,
    layers: Vec<Layer>,
    scale: Option<f64>,
    seed: u128,
    offset: i128,
    pair: (u8, bool),
    sizes: BTreeMap<i32, char>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Layer {
    Identity,
    Dense(u32),
    Range(i8, i8),
    Conv { size: u32, name: Option<String> },
}

fn model() -> Model {
    Model {
        name: "grüß".to_owned(),
        layers: vec![
            Layer::Identity,
            Layer::Dense(3),
            Layer::Range(-1, 2),
            Layer::Conv { size: 5, name: None },
        ],
        scale: None,
        seed: u128::MAX,
        offset: i128::MIN,
        pair: (255, true),
        sizes: BTreeMap::from([(1, 'a')]),
    }
}

#[test]
fn any_serializable_type_becomes_plain_values_and_comes_back() {
    each(|session| {
        let object = session.object_from(&Serde(model())).unwrap();
        let expected = format!(
            "{{'name': 'grüß', 'layers': ['Identity', {{'Dense': 3}}, {{'Range': (-1, 2)}}, {{'Conv': {{'size': 5, \
             'name': None}}}}], 'scale': None, 'seed': {}, 'offset': {}, 'pair': (255, True), 'sizes': {{1: 'a'}}}}",
            u128::MAX,
            i128::MIN
        );
        assert_eq!(object.repr().unwrap(), expected);
        assert_eq!(object.extract::<Serde<Model>>().unwrap(), Serde(model()));
        assert_eq!(eval::<Serde<Vec<u8>>>(session, "b'ab'").unwrap().0, b"ab");
        assert_eq!(eval::<Serde<f64>>(session, "3").unwrap().0, 3.0);
        assert_eq!(eval::<Serde<(i32, i32)>>(session, "[1, 2]").unwrap().0, (1, 2));
        // A field that the type does not have may hold anything.
        #[derive(Deserialize)]
        struct One {
            a: i32,
        }
        assert_eq!(eval::<Serde<One>>(session, "{'b': object(), 'a': 1}").unwrap().0.a, 1);
    });
}

#[test]
fn an_error_names_the_path_to_the_value() {
    fn refused<T: DeserializeOwned>(session: &Session, expression: &str, parts: &[&str]) {
        match eval::<Serde<T>>(session, expression).map(drop) {
            Err(error @ Error::Convert { .. }) => {
                let text = error.to_string();
                assert!(parts.iter().all(|part| text.contains(part)), "{expression}: {text}");
            }
            other => panic!("{expression}: {other:?}"),
        }
    }
    each(|session| {
        type Layers = BTreeMap<String, Vec<Layer>>;
        let wrong = "{'layers': ['Identity', {'Conv': {'size': 'big', 'name': None}}]}";
        refused::<Layers>(session, wrong, &["layers[1].Conv.size", "u32", "big"]);
        refused::<Layers>(session, "{'l': ['Pool']}", &["l[0]", "unknown variant `Pool`"]);
        refused::<Layers>(
            session,
            "{'l': [{'Conv': {'size': 1}}, {'Dense': object()}]}",
            &["l[1].Dense"],
        );
        refused::<Layers>(session, "{'l': [{'Dense': -1}]}", &["l[0].Dense", "-1"]);
        refused::<Layers>(session, "{'a b': 1}", &["['a b']", "sequence"]);
        refused::<(i32, i32)>(session, "(1, 2, 3)", &["3 items"]);
        refused::<BTreeMap<String, i32>>(session, "{3: 1}", &["[3]"]);
        refused::<u128>(session, "2**128", &["128 bits"]);
        refused::<Value>(session, "(lambda l: (l.append(l), l)[1])([])", &["contains itself"]);
    });
}

#[test]
fn a_value_is_data_for_serde_too() {
    each(|session| {
        let expression = "{'a': [1, 2.5, None, True], 3: b'x', 'big': 2**99}";
        let Serde(value): Serde<Value> = eval(session, expression).unwrap();
        assert_eq!(value, eval::<Value>(session, expression).unwrap());
        becomes(session, Serde(&value), &session.eval(expression).unwrap().repr().unwrap());
        becomes(session, Serde(Value::Tuple(vec![Value::None])), "(None,)");
        assert_eq!(eval::<Serde<Integer>>(session, "7").unwrap().0, Integer::from(7));
        let huge: Integer = eval(session, "2**200").unwrap();
        let error = session.object_from(&Serde(vec![huge])).unwrap_err().to_string();
        assert!(error.contains("[0]") && error.contains("128 bits"), "{error}");
    });
}

#[test]
fn elements_of_other_crates_make_the_round_trip() {
    each(|session| {
        let halves = vec![f16::from_f32(1.5), f16::MAX];
        let brains = vec![bf16::from_f32(1.5), bf16::MIN];
        let complex = vec![Complex::new(1.0_f32, -2.0), Complex::new(0.0, 3.0)];
        macro_rules! same {
            ($elements:expr, $type:ty) => {
                let tensor = Tensor::from_vec($elements.clone(), &[2]).unwrap();
                let back: Tensor = session.object_from(&tensor).unwrap().extract().unwrap();
                assert_eq!(back.data_ptr(), tensor.data_ptr());
                assert_eq!(back.to_vec::<$type>().unwrap(), $elements);
            };
        }
        same!(halves, f16);
        same!(brains, bf16);
        same!(complex, Complex<f32>);
        assert!(Tensor::from_vec(halves, &[2]).unwrap().to_vec::<bf16>().is_err());
        let buffer: Buffer = eval(session, "memoryview(b'\\0\\x3e').cast('B')").unwrap();
        assert!(buffer.to_vec::<f16>().is_err());
    });
}

#[test]
fn numbers_of_other_crates_are_those_of_python() {
    each(|session| {
        becomes(session, f16::from_f32(1.5), "1.5");
        assert_eq!(eval::<bf16>(session, "2").unwrap(), bf16::from_f32(2.0));
        becomes(session, Complex::new(1.0, -2.5), "(1-2.5j)");
        assert_eq!(eval::<Complex<f32>>(session, "1-2.5j").unwrap(), Complex::new(1.0, -2.5));
        assert_eq!(eval::<Complex<f64>>(session, "3").unwrap(), Complex::new(3.0, 0.0));
        for expression in ["'1j'", "object()", "None"] {
            assert!(matches!(
                eval::<Complex<f64>>(session, expression),
                Err(Error::Convert { .. })
            ));
        }
    });
}

#[test]
fn an_array_and_its_tensor_share_their_memory() {
    let array: Array2<i32> = array![[1, 2, 3], [4, 5, 6]];
    let address = array.as_ptr();
    let tensor = Tensor::from(array.reversed_axes());
    assert_eq!(tensor.data_ptr().cast_const().cast(), address);
    assert_eq!((tensor.shape(), tensor.strides()), (&[3, 2][..], &[1, 3][..]));
    assert_eq!(tensor.to_array::<i32, Ix2>().unwrap(), array![[1, 4], [2, 5], [3, 6]]);
    // SAFETY: nobody writes the memory.
    let view = unsafe { tensor.as_array::<i32, Ix2>() }.unwrap();
    assert_eq!(view, array![[1, 4], [2, 5], [3, 6]]);
    assert_eq!(view.as_ptr(), address);
    // SAFETY: as above.
    assert!(unsafe { tensor.as_array::<i32, Ix3>() }.is_err());
    // SAFETY: as above.
    assert!(unsafe { tensor.as_array::<f32, Ix2>() }.is_err());
    assert!(tensor.to_array::<i32, Ix1>().unwrap_err().to_string().contains("2 dimensions"));
    // Backwards, in steps, and with an axis of one element.
    let mut array: ArrayD<i64> = ArrayD::from_shape_vec(vec![4, 1, 3], (0..12).collect()).unwrap();
    array.invert_axis(Axis(0));
    array.invert_axis(Axis(2));
    array.slice_axis_inplace(Axis(0), ndarray::Slice::new(0, None, 2));
    let expected = array.clone();
    let tensor = Tensor::from(array);
    assert!(tensor.strides()[2] < 0);
    // SAFETY: as above.
    assert_eq!(unsafe { tensor.as_array::<i64, Ix3>() }.unwrap().into_dyn(), expected);
    let empty = Tensor::from(Array2::<f64>::zeros((0, 3)));
    // SAFETY: as above.
    assert_eq!(unsafe { empty.as_array::<f64, Ix2>() }.unwrap().dim(), (0, 3));
}

#[test]
fn an_array_crosses_to_python_and_back() {
    each(|session| {
        let array = array![[1.0_f64, 2.0], [3.0, 4.0]];
        let object = session.object_from(&array).unwrap();
        assert_eq!(object.extract::<Array2<f64>>().unwrap(), array);
        let buffer: Buffer =
            eval(session, "memoryview(bytes(range(6))).cast('B', (2, 3))").unwrap();
        // SAFETY: a bytes object never changes.
        let view = unsafe { buffer.as_array::<u8, Ix2>() }.unwrap();
        assert_eq!(view, array![[0, 1, 2], [3, 4, 5]]);
    });
}

#[test]
fn dates_and_times_of_chrono_are_those_of_datetime() {
    each(|session| {
        let day = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
        let time = NaiveTime::from_hms_micro_opt(23, 59, 58, 7).unwrap();
        let local = day.and_time(time);
        becomes(session, day, "datetime.date(2024, 2, 29)");
        becomes(session, time, "datetime.time(23, 59, 58, 7)");
        becomes(session, local, "datetime.datetime(2024, 2, 29, 23, 59, 58, 7)");
        becomes(
            session,
            TimeDelta::microseconds(-1),
            "datetime.timedelta(days=-1, seconds=86399, microseconds=999999)",
        );
        let utc = local.and_utc();
        let east = FixedOffset::east_opt(2 * 3600).unwrap();
        becomes(
            session,
            utc,
            "datetime.datetime(2024, 2, 29, 23, 59, 58, 7, tzinfo=datetime.timezone.utc)",
        );
        macro_rules! same {
            ($value:expr, $type:ty) => {
                let object = session.object_from(&$value).unwrap();
                assert_eq!(object.extract::<$type>().unwrap(), $value);
            };
        }
        same!(day, NaiveDate);
        same!(time, NaiveTime);
        same!(local, NaiveDateTime);
        same!(utc, DateTime<Utc>);
        same!(TimeDelta::microseconds(-90_061_000_001), TimeDelta);
        let there = utc.with_timezone(&east);
        same!(there, DateTime<FixedOffset>);
        let object = session.object_from(&there).unwrap();
        assert_eq!(object.extract::<DateTime<FixedOffset>>().unwrap().offset(), &east);
        assert_eq!(object.extract::<DateTime<Utc>>().unwrap(), utc);
        // A subclass may answer anything.
        let hostile = |days: &str, seconds: &str| {
            let class = "type('Span', (__import__('datetime').timedelta,), ";
            format!("{class}dict(days={days}, seconds={seconds}, microseconds=0))()")
        };
        for span in [hostile("2**126", "0"), hostile("0", "2**63"), hostile("-2**80", "0")] {
            let said = eval::<TimeDelta>(session, &span).unwrap_err().to_string();
            assert!(said.contains("it is out of range"), "{span}: {said}");
        }
        for offset in ["2**32 + 3600", "2**70"] {
            let time = format!(
                "type('Time', (__import__('datetime').datetime,), dict(utcoffset=lambda _: {}))\
                 (2000, 1, 1, tzinfo=__import__('datetime').timezone.utc)",
                hostile("0", offset)
            );
            let said = eval::<DateTime<Utc>>(session, &time).unwrap_err().to_string();
            assert!(said.contains("it is out of range"), "{offset}: {said}");
        }
        // A conversion that would lose a part is refused.
        assert!(object.extract::<NaiveDateTime>().unwrap_err().to_string().contains("time zone"));
        let local = session.object_from(&local).unwrap();
        assert!(local.extract::<NaiveDate>().unwrap_err().to_string().contains("time of the day"));
        assert!(local.extract::<DateTime<Utc>>().unwrap_err().to_string().contains("no time zone"));
    });
}
