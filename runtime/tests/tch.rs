//! `tch::Tensor` across the boundary, in its own memory. The tests need the cargo feature `tch` and the virtual
//! environment with torch.

mod common;

use hydrozoa::{Error, Pool, Session, Tensor};
use std::thread;
use tch::{Kind, kind};

fn each(test: impl Fn(&Session)) {
    let pool = Pool::builder().interpreters(2).venv(common::venv()).build().unwrap();
    for index in 0..2 {
        let session = pool.acquire_on(index).unwrap();
        session.import("torch").unwrap();
        test(&session);
    }
}

#[test]
fn a_tensor_goes_in_and_comes_out_in_its_own_memory() {
    each(|session| {
        let x = tch::Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape([2, 3]);
        let add = session.eval("lambda x: x.mul_(2).t()").unwrap();
        let y: tch::Tensor = add.call((&x,)).unwrap().extract().unwrap();
        assert_eq!(y.data_ptr(), x.data_ptr());
        assert_eq!((y.size(), y.stride()), (vec![3, 2], vec![1, 3]));
        assert_eq!(y.double_value(&[2, 1]), 12.0);
        assert_eq!(x.double_value(&[1, 2]), 12.0);
    });
}

#[test]
fn each_side_keeps_the_memory_that_it_was_given() {
    each(|session| {
        let torch = session.import("torch").unwrap();
        let y: tch::Tensor = {
            let made = torch.call_method("full", ((1000, 1000), 7.0)).unwrap();
            made.extract().unwrap()
        };
        session.import("gc").unwrap().call_method("collect", ()).unwrap();
        assert_eq!(y.sum(Kind::Double).double_value(&[]), 7e6);
        let kept = {
            let x = tch::Tensor::full([1000, 1000], 3.0, kind::FLOAT_CPU);
            session.object_from(&x).unwrap()
        };
        let sum: f64 = kept
            .call_method("sum", ())
            .unwrap()
            .call_method("item", ())
            .unwrap()
            .extract()
            .unwrap();
        assert_eq!(sum, 3e6);
        // Dropped on a thread that is in no interpreter.
        thread::spawn(move || drop(y)).join().unwrap();
        session.interpreter().drain();
    });
}

#[test]
fn element_types_and_values_agree() {
    each(|session| {
        for (kind, name) in [
            (Kind::Bool, "torch.bool"),
            (Kind::Uint8, "torch.uint8"),
            (Kind::Int64, "torch.int64"),
            (Kind::Half, "torch.float16"),
            (Kind::BFloat16, "torch.bfloat16"),
            (Kind::Double, "torch.float64"),
            (Kind::ComplexFloat, "torch.complex64"),
        ] {
            let x = tch::Tensor::ones([2], (kind, tch::Device::Cpu));
            let object = session.object_from(&x).unwrap();
            assert_eq!(object.getattr("dtype").unwrap().str().unwrap(), name);
            let back: tch::Tensor = object.extract().unwrap();
            assert_eq!(back.kind(), kind);
            assert!(back.eq_tensor(&x).all().int64_value(&[]) == 1);
        }
        let empty: tch::Tensor = session
            .object_from(&tch::Tensor::zeros([0, 3], kind::FLOAT_CPU))
            .unwrap()
            .extract()
            .unwrap();
        assert_eq!(empty.size(), [0, 3]);
    });
}

#[test]
fn flags_on_the_memory_are_resolved_and_gradients_left_behind() {
    each(|session| {
        let z = tch::Tensor::complex(
            &tch::Tensor::ones([1], kind::FLOAT_CPU),
            &tch::Tensor::ones([1], kind::FLOAT_CPU),
        );
        let conjugate = session.object_from(&z.conj()).unwrap();
        let imaginary = conjugate.getattr("imag").unwrap().call_method("item", ()).unwrap();
        assert_eq!(imaginary.extract::<f64>().unwrap(), -1.0);
        let w = tch::Tensor::ones([2], kind::FLOAT_CPU).set_requires_grad(true);
        let seen = session.object_from(&w).unwrap();
        assert!(!seen.getattr("requires_grad").unwrap().extract::<bool>().unwrap());
    });
}

#[test]
fn what_torch_cannot_hold_is_refused() {
    let reversed = [1_i32, 2, 3];
    // SAFETY: the tensor runs from the last element backwards over the array. The test keeps the array.
    let reversed = unsafe {
        Tensor::from_raw_parts(
            reversed.as_ptr().add(2).cast_mut().cast(),
            hydrozoa::DataType::I32,
            hydrozoa::Device::CPU,
            &[3],
            &[-1],
            false,
            (),
        )
    };
    let error = tch::Tensor::try_from(&reversed).unwrap_err();
    assert!(matches!(error, Error::Convert { .. }), "{error}");
    let error = Tensor::try_from(&tch::Tensor::new()).unwrap_err();
    assert!(matches!(error, Error::Convert { .. }), "{error}");
}
