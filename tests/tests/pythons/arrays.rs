//! Arrays of numpy and tensors of the host are over the same memory, whichever way they are made.

use anyhow::{Context, Result, ensure};
use hydrozoa::{DataType, Device, Element, Object, Pool, Session, Tensor};
use hydrozoa_tests::place;

const CODE: &str = "
import numpy, sys, weakref

def describe(array):
    flags = {name: array.flags[name] for name in ('C', 'F', 'WRITEABLE', 'ALIGNED', 'OWNDATA')}
    place = array.ctypes.data if array.size else None
    return repr((type(array), array.dtype, array.shape, array.strides, flags, place, array.tolist()))

def make(expression):
    return eval(expression)

def same(array, original):
    original = numpy.asarray(original)
    return (array.dtype == original.dtype and array.flags.writeable == original.flags.writeable
            and numpy.array_equal(array, original))

def keep():
    global kept, count, alive
    kept = numpy.arange(1000.0)
    count = sys.getrefcount(kept)
    alive = weakref.ref(kept)
    return kept

def has_one_more():
    return sys.getrefcount(kept) == count + 1

def resize():
    kept.resize(2000)

def let_go():
    global kept
    kept = kept.reshape(10, 100)
    kept[3, 4] = -1.0
    del kept

def is_alive():
    return alive() is not None
";

/// Expressions of arrays that a tensor can have, of others that it cannot, and of no array at all.
const EXPORTED: [&str; 15] = [
    "numpy.arange(24, dtype='f4').reshape(2, 3, 4)",
    "numpy.arange(24, dtype='f8').reshape(2, 3, 4).transpose(2, 0, 1)",
    "numpy.arange(24, dtype='i2')[::-2]",
    "numpy.arange(24, dtype='q')[1:1]",
    "numpy.array(7, dtype='u1')",
    "numpy.zeros((3, 0, 2), dtype='longlong')",
    "numpy.broadcast_to(numpy.arange(3, dtype='ulonglong'), (4, 3))",
    "numpy.array([True, False])",
    "numpy.array([1 + 2j, 3], dtype='c8')",
    "numpy.array([1 + 2j, 3])",
    "numpy.array([1.5, -2], dtype='f2')",
    "numpy.arange(6, dtype='i4')[2:5]",
    "numpy.arange(4, dtype='u2').view(type('Kind', (numpy.ndarray,), {}))",
    "numpy.ma.masked_array([1.0, 2.0], [0, 1])",
    "numpy.float32(4)[()].reshape(1)",
];

const REFUSED: [&str; 6] = [
    "numpy.arange(3, dtype='>i4')",
    "numpy.array([object()])",
    "numpy.array(['text'])",
    "numpy.array(['2020-01-01'], dtype='M8[D]')",
    "numpy.zeros(2, dtype=[('a', 'i1'), ('b', 'i4')])['b']",
    "numpy.zeros(3, dtype='g')",
];

pub fn arrays() -> Result<()> {
    let pool = Pool::builder().venv(place::venv()?).interpreters(2).build()?;
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let numbers = Tensor::from_vec(vec![1i64, 2], &[2])?;
        let object = session.object_from(&numbers)?;
        ensure!(object.type_name() != "ndarray", "numpy has not been imported");
        let code = session.run(CODE, "arrays.py")?;
        lent(&session, &code)?;
        exported(&session, &code)?;
        kept(&code)?;
    }
    // An array of one interpreter is one of the other's, by the host.
    let (first, second) = (pool.acquire_on(0)?, pool.acquire_on(1)?);
    let tensor: Tensor = first.import("numpy")?.call_method("arange", (5.0,))?.extract()?;
    let again = second.object_from(&tensor)?;
    ensure!(again.call_method("sum", ())?.extract::<f64>()? == 10.0);
    drop((first, tensor));
    again.call_method("fill", (2.0,))?;
    ensure!(again.call_method("sum", ())?.extract::<f64>()? == 10.0, "five times 2");
    Ok(())
}

/// Each tensor is the array that `numpy.from_dlpack` makes.
fn lent(session: &Session, code: &Object<'_>) -> Result<()> {
    let describe = code.getattr("describe")?;
    let from_dlpack = session.import("numpy")?.getattr("from_dlpack")?;
    let same = |tensor: &Tensor, words: &str| -> Result<()> {
        let ours: String = describe.call((session.object_from(tensor)?,))?.extract()?;
        let theirs = from_dlpack.call((session.lend_tensor(tensor)?,))?;
        let theirs: String = describe.call((theirs,))?.extract()?;
        ensure!(ours == theirs, "{words}: {ours}, by DLPack {theirs}");
        ensure!(ours.contains("numpy.ndarray"), "{ours}");
        Ok(())
    };
    fn of<T: Element + Clone>(one: T) -> Result<Tensor> {
        Ok(Tensor::from_vec(vec![one; 6], &[3, 2])?)
    }
    same(&of(true)?, "bool")?;
    same(&of(-8i8)?, "i8")?;
    same(&of(8u8)?, "u8")?;
    same(&of(-16i16)?, "i16")?;
    same(&of(16u16)?, "u16")?;
    same(&of(-32i32)?, "i32")?;
    same(&of(32u32)?, "u32")?;
    same(&of(-64i64)?, "i64")?;
    same(&of(64u64)?, "u64")?;
    same(&of(0.5f32)?, "f32")?;
    same(&of(0.25f64)?, "f64")?;
    same(&Tensor::from_vec(vec![7u8], &[])?, "no dimension")?;
    same(&Tensor::from_vec(Vec::<f32>::new(), &[0, 3])?, "no element")?;
    same(&Tensor::from_vec(vec![1u8], &[1; 32])?, "32 dimensions")?;
    let bytes = Box::new([1.0f32; 16]);
    let data = bytes.as_ptr().cast_mut();
    let kinds = [
        (DataType::F32, vec![2, 3], vec![1, 5], false),
        (DataType::F32, vec![4], vec![-2], false),
        (DataType::F16, vec![4, 2], vec![4, 1], true),
        (DataType::COMPLEX64, vec![2], vec![3], true),
        (DataType::COMPLEX128, vec![2], vec![1], false),
    ];
    let owner = std::sync::Arc::new(bytes);
    for (kind, shape, strides, read_only) in kinds {
        // SAFETY: what shape and strides reach from the eighth element lies within the 16, which the owner keeps.
        let tensor = unsafe {
            let data = data.add(8).cast();
            Tensor::from_raw_parts(
                data,
                kind,
                Device::CPU,
                &shape,
                &strides,
                read_only,
                owner.clone(),
            )
        };
        same(&tensor, &format!("{kind:?} of shape {shape:?}, strides {strides:?}"))?;
    }
    // numpy has no such elements. It says so.
    // SAFETY: 8 elements of 2 bytes lie within.
    let brain = unsafe {
        let strides = [1];
        Tensor::from_raw_parts(
            data.cast(),
            DataType::BF16,
            Device::CPU,
            &[8],
            &strides,
            false,
            owner.clone(),
        )
    };
    let error = session.object_from(&brain).map(|_| ()).err().context("numpy has no bf16")?;
    ensure!(error.to_string().contains("dtype"), "{error}");
    Ok(())
}

/// Each array is the tensor that its `__dlpack__` exports.
fn exported(session: &Session, code: &Object<'_>) -> Result<()> {
    for expression in EXPORTED {
        let words = || expression.to_owned();
        let array = code.call_method("make", (expression,)).with_context(words)?;
        let tensor: Tensor = array.extract().with_context(words)?;
        let shape: Vec<i64> = array.getattr("shape")?.extract()?;
        ensure!(tensor.shape() == shape, "{expression}: {:?}", tensor.shape());
        let address: usize = array.getattr("ctypes")?.getattr("data")?.extract()?;
        ensure!(tensor.is_empty() || tensor.data_ptr().addr() == address, "{expression}");
        let back = session.object_from(&tensor)?;
        ensure!(code.call_method("same", (&back, &array))?.truth()?, "{expression}: {back:?}");
    }
    for expression in REFUSED {
        let words = || expression.to_owned();
        let array = code.call_method("make", (expression,)).with_context(words)?;
        let error = array.extract::<Tensor>().err().with_context(words)?;
        let own = array.call_method("__dlpack__", ()).err().with_context(words)?;
        let same = error.to_string() == own.to_string();
        ensure!(same, "{expression}: {error}; numpy says {own}");
    }
    Ok(())
}

/// A tensor keeps the array and its memory, and lets go of both.
fn kept(code: &Object<'_>) -> Result<()> {
    let tensor: Tensor = code.call_method("keep", ())?.extract()?;
    ensure!(code.call_method("has_one_more", ())?.truth()?);
    let error = code.call_method("resize", ()).err().context("the array cannot be resized")?;
    ensure!(error.to_string().contains("resize"), "{error}");
    code.call_method("let_go", ())?;
    ensure!(tensor.to_vec::<f64>()?[304] == -1.0);
    ensure!(code.call_method("is_alive", ())?.truth()?, "the tensor keeps the array");
    drop(tensor);
    ensure!(!code.call_method("is_alive", ())?.truth()?, "the array is let go of");
    Ok(())
}
