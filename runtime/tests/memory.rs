//! Memory and tensors that cross the boundary without a copy, on every Python of the machine.

mod pythons;

use hydrozoa::{Buffer, DataType, Device, Error, Object, Pool, Tensor};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{each, pools, pythons};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn raises(outcome: hydrozoa::Result<Object<'_>>, expected: &str) {
    match outcome.unwrap_err() {
        Error::Python { type_name, .. } => assert_eq!(type_name, expected),
        other => panic!("{other}"),
    }
}

#[test]
fn a_buffer_is_the_exporters_own_memory() {
    each(|session| {
        let array = session.import("array").unwrap().call_method("array", ("d", [1.5, 2.5]));
        let array = array.unwrap();
        let buffer: Buffer = array.extract().unwrap();
        assert_eq!((buffer.format(), buffer.item_size(), buffer.len()), ("d", 8, 16));
        assert_eq!((buffer.shape(), buffer.strides()), (&[2][..], &[8][..]));
        assert!(!buffer.is_read_only() && buffer.is_contiguous());
        let info: (usize, usize) = array.call_method("buffer_info", ()).unwrap().extract().unwrap();
        assert_eq!(info.0, buffer.data_ptr() as usize);
        array.set_item(0, 9.0).unwrap();
        // SAFETY: no Python code runs while the slice lives.
        assert_eq!(unsafe { buffer.as_slice::<f64>() }.unwrap(), [9.0, 2.5]);
        assert_eq!(buffer.to_vec::<f64>().unwrap(), [9.0, 2.5]);
        assert!(buffer.to_vec::<i64>().is_err());
        assert!(buffer.to_vec::<f32>().is_err());
        assert_eq!(buffer.to_vec::<u8>().unwrap().len(), 16);
    });
}

#[test]
fn a_held_buffer_keeps_its_exporter_from_moving_the_memory() {
    each(|session| {
        let bytes = session.eval("bytearray(b'abc')").unwrap();
        let buffer = bytes.writable_buffer().unwrap();
        raises(bytes.call_method("append", (1,)), "BufferError");
        drop(buffer);
        // The release was queued. The next call does it.
        bytes.call_method("append", (100,)).unwrap();
        assert_eq!(bytes.extract::<Vec<u8>>().unwrap(), b"abcd");
        assert!(session.eval("b'abc'").unwrap().writable_buffer().is_err());
        assert!(session.eval("1").unwrap().extract::<Buffer>().is_err());
    });
}

#[test]
fn strided_buffers_tell_their_shape() {
    each(|session| {
        let view = session.eval("memoryview(bytes(range(12))).cast('B', (3, 4))").unwrap();
        let buffer: Buffer = view.extract().unwrap();
        assert_eq!((buffer.shape(), buffer.strides()), (&[3, 4][..], &[4, 1][..]));
        assert!(buffer.is_read_only() && buffer.is_contiguous());
        let odd: Buffer =
            session.eval("memoryview(bytes(range(12)))[1::2]").unwrap().extract().unwrap();
        assert_eq!((odd.shape(), odd.strides(), odd.is_contiguous()), (&[6][..], &[2][..], false));
        assert!(odd.to_vec::<u8>().is_err());
    });
}

#[test]
fn a_buffer_is_passed_on_with_its_shape_and_format() {
    for pool in pools(2) {
        let (one, other) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
        let array = one.import("array").unwrap().call_method("array", ("d", [1.5, 2.5])).unwrap();
        let buffer: Buffer = array.extract().unwrap();
        for session in [&one, &other] {
            let view = session.object_from(&buffer).unwrap();
            assert_eq!(view.call_method("tolist", ()).unwrap().repr().unwrap(), "[1.5, 2.5]");
            view.set_item(0, 9.0).unwrap();
            assert_eq!(array.get_item(0).unwrap().extract::<f64>().unwrap(), 9.0);
            array.set_item(0, 1.5).unwrap();
        }
        let of = |expression: &str| one.eval(expression).unwrap().extract::<Buffer>().unwrap();
        let seen = |buffer: Buffer| {
            let view = other.object_from(&buffer).unwrap();
            let list = view.call_method("tolist", ()).unwrap().repr().unwrap();
            (list, view.getattr("readonly").unwrap().truth().unwrap())
        };
        let table = "memoryview(bytes(range(6))).cast('B', (2, 3))";
        assert_eq!(seen(of(table)), ("[[0, 1, 2], [3, 4, 5]]".to_owned(), true));
        assert_eq!(seen(of("bytearray()")), ("[]".to_owned(), false));
        let long = "__import__('ctypes').c_long(-7)";
        assert_eq!(seen(of(long)), ("-7".to_owned(), false));
        let record = "type('R', (__import__('ctypes').Structure,), {'_fields_': [('a', __import__('ctypes').c_uint16)]})(258)";
        assert_eq!(seen(of(record)), ("[2, 1]".to_owned(), false));
        let odd = of("memoryview(bytes(range(12)))[1::2]");
        assert!(matches!(other.object_from(&odd), Err(Error::Convert { .. })));
    }
}

#[test]
fn lent_memory_is_read_in_place_and_given_back() {
    each(|session| {
        let owner: Arc<[u8]> = Arc::from(&b"lent"[..]);
        let view = session.lend(owner.clone()).unwrap();
        assert_eq!(Arc::strong_count(&owner), 2);
        let buffer: Buffer = view.extract().unwrap();
        assert_eq!(buffer.data_ptr().cast_const(), owner.as_ptr());
        assert!(buffer.is_read_only());
        raises(
            session.import("operator").unwrap().call_method("setitem", (&view, 0, 1)),
            "TypeError",
        );
        let part =
            view.call_method("__getitem__", (session.eval("slice(1, 3)").unwrap(),)).unwrap();
        drop((view, buffer));
        session.interpreter().drain();
        // A part of the view holds the whole.
        assert_eq!(Arc::strong_count(&owner), 2);
        assert_eq!(part.call_method("tobytes", ()).unwrap().extract::<Vec<u8>>().unwrap(), b"en");
        drop(part);
        session.interpreter().drain();
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

#[test]
fn given_memory_may_be_written() {
    each(|session| {
        let view = session.give(vec![0; 3]).unwrap();
        view.set_item(1, 7).unwrap();
        assert_eq!(
            view.call_method("tolist", ()).unwrap().extract::<Vec<u8>>().unwrap(),
            [0, 7, 0]
        );
    });
}

#[test]
fn a_tensor_crosses_by_address_and_is_freed_by_the_last_user() {
    each(|session| {
        let owner = Arc::new(());
        let mut elements = vec![1_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let data = elements.as_mut_ptr();
        // SAFETY: a 3 x 2 tensor, transposed, over the six elements of the vector. That vector is the
        // other half of the owner.
        let tensor = unsafe {
            Tensor::from_raw_parts(
                data.cast(),
                DataType::F32,
                Device::CPU,
                &[2, 3],
                &[1, 2],
                false,
                (elements, owner.clone()),
            )
        };
        let carrier = session.lend_tensor(&tensor).unwrap();
        let device = carrier.call_method("__dlpack_device__", ()).unwrap();
        assert_eq!(device.extract::<(i32, i32)>().unwrap(), (1, 0));
        let back: Tensor = carrier.extract().unwrap();
        assert_eq!(back.data_ptr(), data.cast());
        assert_eq!((back.shape(), back.strides()), (&[2, 3][..], &[1, 2][..]));
        assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        drop((tensor, carrier));
        session.interpreter().drain();
        assert_eq!(Arc::strong_count(&owner), 2);
        // It came from Python, so the next thread under the GIL releases it.
        drop(back);
        session.interpreter().drain();
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

#[test]
fn an_unused_capsule_frees_its_tensor() {
    each(|session| {
        let tensor = Tensor::from_vec(vec![1_i64, 2], &[2]).unwrap();
        let carrier = session.lend_tensor(&tensor).unwrap();
        let code = "
def offer(carrier):
    for arguments in {}, {'max_version': (1, 0)}, {'stream': None, 'dl_device': (1, 0)}:
        carrier.__dlpack__(**arguments)
def refused(carrier, **arguments):
    try:
        carrier.__dlpack__(**arguments)
    except BufferError as error:
        return str(error)
";
        let names = session.run(code, "offer.py").unwrap();
        names.getattr("offer").unwrap().call((&carrier,)).unwrap();
        let refused = names.getattr("refused").unwrap();
        let reason = |keywords: (&str, Object<'_>)| -> Option<String> {
            refused.call_kwargs((&carrier,), [keywords]).unwrap().extract().unwrap()
        };
        assert!(reason(("copy", session.eval("True").unwrap())).unwrap().contains("copy"));
        assert!(reason(("dl_device", session.eval("(2, 0)").unwrap())).unwrap().contains("device"));
        assert_eq!(reason(("copy", session.eval("False").unwrap())), None);
    });
}

#[test]
fn what_is_no_tensor_is_refused() {
    each(|session| {
        for expression in ["1", "[1.0]", "type('T', (), {'__dlpack__': lambda self: 1})()"] {
            let error = session.eval(expression).unwrap().extract::<Tensor>().unwrap_err();
            assert!(matches!(error, Error::Convert { .. }), "{expression}: {error}");
        }
    });
}

#[test]
fn a_tensor_may_outlive_pool_and_session() {
    for pool in pools(1) {
        let (tensor, buffer) = {
            let session = pool.acquire().unwrap();
            let tensor = Tensor::from_vec(vec![7_u8; 3], &[3]).unwrap();
            let carrier = session.lend_tensor(&tensor).unwrap();
            let buffer: Buffer = session.eval("bytearray(b'xy')").unwrap().extract().unwrap();
            (carrier.extract::<Tensor>().unwrap(), buffer)
        };
        drop(pool);
        assert_eq!(tensor.to_vec::<u8>().unwrap(), [7; 3]);
        thread::spawn(move || {
            assert_eq!(buffer.to_vec::<u8>().unwrap(), b"xy");
            // Dropping the last of them ends the interpreter, on this thread.
            drop((tensor, buffer));
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_tensor_that_a_crashed_interpreter_holds_is_given_back_when_that_ends() {
    let owner = Arc::new(());
    let builder = Pool::builder().interpreters(1).python(pythons().values().next().unwrap());
    let pool = builder.contain_crashes(true).replace_crashed(false).build().unwrap();
    let session = pool.acquire().unwrap();
    let mut elements = vec![1_f32, 2.0];
    let (data, shape, strides) = (elements.as_mut_ptr().cast(), [2], [1]);
    let held = (elements, owner.clone());
    // SAFETY: a tensor of two elements, over the vector in its owner.
    let tensor = unsafe {
        Tensor::from_raw_parts(data, DataType::F32, Device::CPU, &shape, &strides, false, held)
    };
    let code = "
import ctypes
# As a library does that takes the tensor: the capsule does not free it any more.
def take(carrier):
    capsule = carrier.__dlpack__()
    set_name = ctypes.pythonapi.PyCapsule_SetName
    set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
    set_name(capsule, b'used_dltensor')
def crash(): ctypes.string_at(0)
";
    let names = session.run(code, "takes.py").unwrap();
    let carrier = session.lend_tensor(&tensor).unwrap();
    names.call_method("take", (&carrier,)).unwrap();
    drop((carrier, tensor));
    session.interpreter().drain();
    assert_eq!(Arc::strong_count(&owner), 2);
    let error = names.call_method("crash", ()).unwrap_err();
    assert!(matches!(error, Error::Crashed { .. }), "{error}");
    drop(names);
    drop(session);
    pool.close(PATIENCE).unwrap();
    assert_eq!(Arc::strong_count(&owner), 1);
}

/// The shortest of several runs: other work of the machine only makes runs longer.
fn shortest(mut action: impl FnMut()) -> Duration {
    (0..30)
        .map(|_| {
            let begin = Instant::now();
            action();
            begin.elapsed()
        })
        .min()
        .unwrap()
}

#[test]
fn the_elements_of_a_tensor_are_copied_as_fast_as_a_slice() {
    let shape = [3, 224, 224];
    let elements: Vec<f32> = (0..3 * 224 * 224).map(|number| number as f32).collect();
    let tensor = Tensor::from_vec(elements.clone(), &shape).unwrap();
    // SAFETY: nobody writes the elements.
    let slice = unsafe { tensor.as_slice::<f32>() }.unwrap();
    let plain = shortest(|| drop(black_box(black_box(slice).to_vec())));
    let copied = shortest(|| drop(black_box(tensor.to_vec::<f32>().unwrap())));
    assert!(copied < 4 * plain, "{copied:?} for what takes {plain:?}");
    assert_eq!(tensor.to_vec::<f32>().unwrap(), elements);
    // Channels last: no two elements are neighbours, and no element may cost a division for each index.
    // SAFETY: the strides of the same elements in another order.
    let turned = unsafe {
        Tensor::from_raw_parts(
            tensor.data_ptr(),
            DataType::F32,
            Device::CPU,
            &[224, 224, 3],
            &[224, 1, 224 * 224],
            true,
            tensor.clone(),
        )
    };
    let gathered = shortest(|| drop(black_box(turned.to_vec::<f32>().unwrap())));
    let indexed = shortest(|| {
        let mut all = Vec::with_capacity(slice.len());
        for row in 0..224 {
            for column in 0..224 {
                for channel in 0..3 {
                    all.push(slice[channel * 224 * 224 + row * 224 + column]);
                }
            }
        }
        drop(black_box(all));
    });
    assert!(gathered < 4 * indexed, "{gathered:?} for what takes {indexed:?}");
    assert_eq!(turned.to_vec::<f32>().unwrap()[..4], [0.0, 50176.0, 100352.0, 1.0]);
}

#[test]
fn a_byte_that_is_no_bool_is_refused() {
    let bytes = |bytes: Vec<u8>, stride| {
        let data = bytes.as_ptr().cast_mut().cast();
        // SAFETY: two bytes of the vector, which becomes the owner.
        unsafe {
            Tensor::from_raw_parts(
                data,
                DataType::BOOLEAN,
                Device::CPU,
                &[2],
                &[stride],
                true,
                bytes,
            )
        }
    };
    assert_eq!(bytes(vec![1, 0], 1).to_vec::<bool>().unwrap(), [true, false]);
    // Only the elements count, not what lies between them.
    assert_eq!(bytes(vec![1, 2, 0], 2).to_vec::<bool>().unwrap(), [true, false]);
    for (tensor, place) in [(bytes(vec![1, 2], 1), "row"), (bytes(vec![0, 1, 255], 2), "strided")] {
        let error = tensor.to_vec::<bool>().unwrap_err().to_string();
        assert!(error.contains("bit pattern"), "{place}: {error}");
        assert!(tensor.to_vec::<u8>().is_err(), "a bool is not a number");
    }
    let wrong = bytes(vec![1, 2], 1);
    // SAFETY: nobody writes the memory.
    assert!(unsafe { wrong.as_slice::<bool>() }.is_err());
}

#[test]
fn a_buffer_of_bool_is_read_as_bool() {
    each(|session| {
        let buffer =
            |expression: &str| -> Buffer { session.eval(expression).unwrap().extract().unwrap() };
        let good = buffer("memoryview(b'\\1\\0\\1').cast('?')");
        assert_eq!(good.to_vec::<bool>().unwrap(), [true, false, true]);
        assert_eq!(good.to_vec::<u8>().unwrap(), [1, 0, 1]);
        let bad = buffer("memoryview(b'\\1\\7').cast('?')");
        assert!(bad.to_vec::<bool>().unwrap_err().to_string().contains("bit pattern"));
        // Plain bytes are not said to be bool.
        assert!(buffer("b'\\1'").to_vec::<bool>().is_err());
        let tensor = Tensor::from_vec(vec![true, false], &[2]).unwrap();
        let back: Tensor = session.object_from(&tensor).unwrap().extract().unwrap();
        assert_eq!(back.to_vec::<bool>().unwrap(), [true, false]);
    });
}

#[test]
fn what_is_copied_is_checked_after_the_copy() {
    // Of the writer, whose bytes are invalid as `bool` for moments.
    const ROUNDS: usize = 100_000;
    alone(PATIENCE, || {
        let pool = pools(2).next().unwrap();
        let session = pool.acquire_on(0).unwrap();
        let code = "import ctypes\nflags = (ctypes.c_bool * 65536)()";
        let flags = session.run(code, "flags.py").unwrap().getattr("flags").unwrap();
        let flags: Buffer = flags.extract().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let other = pool.acquire_on(1).unwrap();
                let code = "def write(flags, rounds):\n    view = flags.cast('B')\n    for _ in range(rounds):\n        \
                            view[:96] = b'\\2' * 96\n        view[:96] = bytes(96)";
                let module = other.run(code, "write.py").unwrap();
                module.call_method("write", (&flags, ROUNDS)).unwrap();
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                if let Ok(copied) = flags.to_vec::<bool>() {
                    // SAFETY: the bytes of the vector's elements.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(copied.as_ptr().cast::<u8>(), copied.len())
                    };
                    assert_eq!(bytes.iter().max(), Some(&0));
                }
            }
        });
    });
}
