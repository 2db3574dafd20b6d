//! Exporters of memory that leave out optional fields, or give impossible values. The tests run on every
//! Python of the machine.

mod pythons;

use hydrozoa::{Buffer, Error, Object, Session, Tensor, Value};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{each, pools};

/// The value of `expression`, which may use the names of `ctypes`.
fn of_ctypes<'s>(session: &'s Session, expression: &str) -> Object<'s> {
    session
        .run(&format!("from ctypes import *\nvalue = {expression}"), "ctypes_value.py")
        .unwrap()
        .getattr("value")
        .unwrap()
}

#[test]
fn arrays_of_ctypes_are_read_although_they_have_no_strides() {
    alone(PATIENCE, || {
        each(|session| {
            let flat: Buffer = of_ctypes(session, "(c_int * 4)(1, 2, 3, 4)").extract().unwrap();
            assert_eq!((flat.shape(), flat.strides()), (&[4][..], &[4][..]));
            assert_eq!(flat.to_vec::<i32>().unwrap(), [1, 2, 3, 4]);
            let nested = "(c_double * 3 * 2)((1, 2, 3), (4, 5, 6))";
            let nested: Buffer = of_ctypes(session, nested).extract().unwrap();
            assert_eq!((nested.shape(), nested.strides()), (&[2, 3][..], &[24, 8][..]));
            assert_eq!(nested.to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            let scalar: Buffer = of_ctypes(session, "c_int(7)").extract().unwrap();
            assert_eq!((scalar.shape(), scalar.strides()), (&[][..], &[][..]));
            assert_eq!(scalar.to_vec::<i32>().unwrap(), [7]);
            let empty: Buffer = of_ctypes(session, "(c_int * 0)()").extract().unwrap();
            assert!(empty.is_empty() && empty.is_contiguous());
            assert_eq!(empty.to_vec::<i32>().unwrap(), [0i32; 0]);
            let written = of_ctypes(session, "(c_ubyte * 2)()").writable_buffer().unwrap();
            assert_eq!(written.shape(), [2]);
        });
    });
}

/// A type whose objects fill a `Py_buffer` as they are told; `offer(**fields)` makes one.
const EXPORTER: &str = "
from ctypes import *
import sys

Size = c_ssize_t
class Buffer(Structure):
    _fields_ = [('buf', c_void_p), ('obj', c_void_p), ('len', Size), ('itemsize', Size),
                ('readonly', c_int), ('ndim', c_int), ('format', c_char_p),
                ('shape', POINTER(Size)), ('strides', POINTER(Size)),
                ('suboffsets', POINTER(Size)), ('internal', c_void_p)]
class Slot(Structure):
    _fields_ = [('slot', c_int), ('function', c_void_p)]
class Spec(Structure):
    _fields_ = [('name', c_char_p), ('basicsize', c_int), ('itemsize', c_int), ('flags', c_uint),
                ('slots', POINTER(Slot))]

said = None
held = 0
memory = (c_int * 6)(*range(6))

@PYFUNCTYPE(c_int, py_object, POINTER(Buffer), c_int)
def get(exporter, view, flags):
    global held
    pythonapi.Py_IncRef(py_object(exporter))
    view.contents.obj = id(exporter)
    for name, value in said.items():
        setattr(view.contents, name, value)
    held += 1
    return 0

@PYFUNCTYPE(None, py_object, POINTER(Buffer))
def release(exporter, view):
    global held
    held -= 1

# Py_bf_getbuffer, Py_bf_releasebuffer (Include/typeslots.h).
slots = (Slot * 3)(Slot(1, cast(get, c_void_p)), Slot(2, cast(release, c_void_p)), Slot())
spec = Spec(b'tests.Exporter', object.__basicsize__, 0, 0, slots)
pythonapi.PyType_FromSpec.restype = py_object
Exporter = pythonapi.PyType_FromSpec(byref(spec))

def extents(*numbers):
    return (Size * len(numbers))(*numbers) if numbers else None

def offer(shape=(6,), strides=None, suboffsets=None, **fields):
    global said
    said = dict(buf=addressof(memory), len=24, itemsize=4, readonly=1, ndim=len(shape),
                format=b'i', shape=extents(*shape))
    said['strides'] = extents(*strides) if strides else None
    said['suboffsets'] = extents(*suboffsets) if suboffsets else None
    said.update(fields)
    return Exporter()
";

#[test]
fn a_buffer_that_no_memory_can_be_is_refused_and_let_go_of() {
    alone(PATIENCE, || {
        each(|session| {
            let names = session.run(EXPORTER, "exporter.py").unwrap();
            let offer = |fields: &str| {
                let call = format!("lambda offer: offer({fields})");
                let object =
                    session.eval(&call).unwrap().call((names.getattr("offer").unwrap(),)).unwrap();
                object.extract::<Buffer>()
            };
            for (fields, shape) in [
                ("", &[6][..]),
                ("(), ndim=1", &[6]),
                ("(2, 3)", &[2, 3]),
                ("(2, 3), (12, 4), (-1, -1)", &[2, 3]),
                ("(), len=4", &[]),
                ("format=None, itemsize=1, shape=(24,)", &[24]),
                ("(0,), len=0, buf=None", &[0]),
            ] {
                let buffer = offer(fields).unwrap_or_else(|error| panic!("{fields}: {error}"));
                assert_eq!(buffer.shape(), shape, "{fields}");
                assert!(buffer.is_contiguous(), "{fields}");
                assert_eq!(buffer.to_vec::<u8>().unwrap().len(), buffer.len(), "{fields}");
            }
            for (fields, reason) in [
                ("(), ndim=2", "no shape"),
                ("(-6,)", "negative extent"),
                ("(7,)", "24 bytes for the shape [7]"),
                ("len=-24", "the length -24"),
                ("itemsize=-4", "the item size -4"),
                ("ndim=-1", "the number of dimensions -1"),
                ("ndim=65", "the number of dimensions 65"),
                ("(2**62, 2**62)", "exceeds all memory"),
                ("(2, 3), (2**62, 2**62)", "exceeds all memory"),
                ("(6,), (8,), (0,)", "behind pointers"),
                ("buf=None", "no address"),
            ] {
                match offer(fields).map(|buffer| format!("{buffer:?}")) {
                    Err(Error::Convert { reason: said, .. }) => {
                        assert!(said.contains(reason), "{fields}: {said}");
                    }
                    other => panic!("{fields}: {other:?}"),
                }
            }
            session.interpreter().drain();
            assert_eq!(names.getattr("held").unwrap().extract::<i64>().unwrap(), 0);
        });
    });
}

/// Whether a conversion reports too little memory for a copy.
fn has_no_room<T: std::fmt::Debug>(converted: hydrozoa::Result<T>) -> bool {
    match converted {
        Err(Error::Convert { reason, .. }) => reason.contains("there is no memory for "),
        other => panic!("{:?}", other.map(|_| "a copy")),
    }
}

#[test]
fn a_copy_that_no_memory_has_room_for_is_an_error() {
    alone(PATIENCE, || {
        each(|session| {
            let tensors = session.run(DLPACK, "dlpack.py").unwrap();
            // One byte, 2**45 times, as `numpy.broadcast_to` has it.
            let offer = "lambda offer: offer((2**40, 32), (0, 0), code=1, bits=8)";
            let offer = session.eval(offer).unwrap();
            let offer = offer.call((tensors.getattr("Offer").unwrap(),)).unwrap();
            let tensor: Tensor = offer.extract().unwrap();
            assert_eq!(tensor.len(), 1 << 45);
            assert!(has_no_room(tensor.to_vec::<u8>()));
            let buffers = session.run(EXPORTER, "exporter.py").unwrap();
            let offer = "lambda offer: offer((2**45,), itemsize=1, len=2**45, format=b'B')";
            let offer = session.eval(offer).unwrap();
            let offer = offer.call((buffers.getattr("offer").unwrap(),)).unwrap();
            assert!(has_no_room(offer.extract::<Buffer>().unwrap().to_vec::<u8>()));
        });
        // Python has them, and a copy exceeds the limit. The pages are zero, and none is touched.
        for pool in pools(1) {
            let session = pool.acquire().unwrap();
            let code = "
import resource
large = bytes(3 << 30)
is_full = False
def fill():
    used = int(open('/proc/self/statm').read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
def clear():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
";
            let module = session.run(code, "large.py").unwrap();
            let large = module.getattr("large").unwrap();
            module.call_method("fill", ()).unwrap();
            let copies = [
                has_no_room(large.extract::<Vec<u8>>()),
                has_no_room(large.extract::<Value>()),
                has_no_room(large.extract::<Buffer>().unwrap().to_vec::<u8>()),
                has_no_room(large.extract::<std::path::PathBuf>()),
            ];
            module.call_method("clear", ()).unwrap();
            assert_eq!(copies, [true; 4]);
        }
    });
}

/// `offer(**fields)` makes an object whose `__dlpack__` gives a `DLManagedTensor` as it is told.
const DLPACK: &str = "
from ctypes import *

class Tensor(Structure):
    _fields_ = [('data', c_void_p), ('device_type', c_int), ('device_id', c_int), ('ndim', c_int),
                ('code', c_uint8), ('bits', c_uint8), ('lanes', c_uint16),
                ('shape', POINTER(c_int64)), ('strides', POINTER(c_int64)),
                ('byte_offset', c_uint64)]
class Managed(Structure):
    _fields_ = [('tensor', Tensor), ('context', c_void_p), ('deleter', c_void_p)]

memory = (c_float * 6)(*range(6))
alive = {}

@PYFUNCTYPE(None, c_void_p)
def delete(managed):
    del alive[managed]

pythonapi.PyCapsule_New.restype = py_object
pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]

def extents(numbers):
    return None if numbers is None else (c_int64 * len(numbers))(*numbers)

class Offer:
    def __init__(self, shape=(6,), strides=None, **fields):
        self.tensor = Tensor(data=addressof(memory), device_type=1, ndim=len(shape or ()), code=2,
                             bits=32, lanes=1)
        self.kept = extents(shape), extents(strides)
        self.tensor.shape, self.tensor.strides = self.kept
        for name, value in fields.items():
            setattr(self.tensor, name, value)
    def __dlpack__(self):
        managed = Managed(self.tensor, None, cast(delete, c_void_p))
        alive[addressof(managed)] = managed, self.kept
        return pythonapi.PyCapsule_New(addressof(managed), b'dltensor', None)
    def __dlpack_device__(self):
        return 1, 0
";

#[test]
fn a_tensor_that_no_memory_can_be_is_refused_and_deleted() {
    alone(PATIENCE, || {
        each(|session| {
            let names = session.run(DLPACK, "dlpack.py").unwrap();
            let offer = |fields: &str| {
                let call = format!("lambda offer: offer({fields})");
                let offer = names.getattr("Offer").unwrap();
                session.eval(&call).unwrap().call((offer,)).unwrap().extract::<Tensor>()
            };
            let read = |fields: &str| offer(fields).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(read(""), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(read("(2, 3)"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(read("(3, 2), (1, 3)"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
            assert_eq!(read("None, byte_offset=8"), [2.0]);
            assert_eq!(read("(0, 3), data=None"), [0f32; 0]);
            assert_eq!(read("(0, 2**62, 2**62), (1, 1, 1), data=None"), [0f32; 0]);
            for (fields, reason) in [
                ("None, ndim=2", "no shape"),
                ("ndim=-1", "-1 dimensions"),
                ("ndim=1025", "1025 dimensions"),
                ("(-6,)", "negative extent"),
                ("(-2, -3)", "negative extent"),
                ("(2**62, 2**62)", "exceeds all memory"),
                ("(2**62,)", "exceeds all memory"),
                ("(2, 3), (2**62, 2**62)", "exceeds all memory"),
                ("data=None", "no address"),
                ("byte_offset=2**63", "the offset 9223372036854775808"),
            ] {
                match offer(fields) {
                    Err(Error::Convert { reason: said, .. }) => {
                        assert!(said.contains(reason), "{fields}: {said}");
                    }
                    other => panic!("{fields}: {other:?}"),
                }
            }
            session.interpreter().drain();
            assert_eq!(names.getattr("alive").unwrap().len().unwrap(), 0);
        });
    });
}
