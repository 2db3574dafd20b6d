//! The elements of tensors: how fast they are copied, and which are refused.

mod pythons;

use hydrozoa::{Buffer, DataType, Device, Tensor};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::pools;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The CPU time that this thread has used, in nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the write.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU time of `ours` relative to that of `theirs`: the median over rounds that alternate.
fn ratio(mut ours: impl FnMut(), mut theirs: impl FnMut()) -> f64 {
    let timed = |action: &mut dyn FnMut()| {
        let begin = cpu_time();
        (0..4).for_each(|_| action());
        (cpu_time() - begin) as f64
    };
    let mut ratios: Vec<f64> = (0..101).map(|_| timed(&mut ours) / timed(&mut theirs)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[test]
fn contiguous_elements_are_copied_as_fast_as_a_vector_is_cloned() {
    for count in [10_000, 1 << 18, 1 << 22] {
        let elements: Vec<f32> = (0..count).map(|number| number as f32).collect();
        let flags: Vec<bool> = (0..count).map(|number| number % 3 == 0).collect();
        let tensor = Tensor::from_vec(elements.clone(), &[count / 4, 4]).unwrap();
        assert_eq!(tensor.to_vec::<f32>().unwrap(), elements);
        let clone = || drop(black_box(elements.clone()));
        let out = ratio(|| drop(black_box(tensor.to_vec::<f32>().unwrap())), clone);
        let clone = || drop(black_box(elements.clone()));
        let shape = [count / 4, 4];
        let into = ratio(|| drop(black_box(Tensor::from_slice(&elements, &shape).unwrap())), clone);
        println!("{count} f32, relative to Vec::clone: to_vec {out:.2}, from_slice {into:.2}");
        assert!(out < 3.0 && into < 3.0, "{count} elements: to_vec {out}, from_slice {into}");
        let tensor = Tensor::from_slice(&flags, &[count]).unwrap();
        assert_eq!(tensor.to_vec::<bool>().unwrap(), flags);
    }
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
        assert!(tensor.to_vec::<u8>().is_err(), "a bool is no number");
    }
    let wrong = bytes(vec![1, 2], 1);
    // SAFETY: nobody writes the memory.
    assert!(unsafe { wrong.as_slice::<bool>() }.is_err());
}

#[test]
fn a_buffer_of_bool_is_read_as_bool() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
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
    }
}

#[test]
fn what_is_copied_is_checked_after_the_copy() {
    // Of the writer, whose bytes are no `bool` for moments.
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
