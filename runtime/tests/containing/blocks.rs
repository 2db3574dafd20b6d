//! Blocks of an interpreter's heap that others free.

use super::{is_report, module};
use hydrozoa::{Object, Pool};
use std::ffi::{c_int, c_void};
use std::{ptr, thread};

/// A block of zeros that code of the interpreter takes.
fn taken(module: &Object<'_>, size: usize) -> usize {
    module.call_method("takes", (size,)).unwrap().extract().unwrap()
}

/// `wordexp_t` of <wordexp.h>.
#[repr(C)]
struct Words {
    count: usize,
    words: *mut c_void,
    offset: usize,
}

unsafe extern "C" {
    fn wordfree(words: *mut Words);
    fn getdelim(
        line: *mut *mut c_void,
        length: *mut usize,
        end: c_int,
        stream: *mut libc::FILE,
    ) -> isize;
}

/// The C library frees a block for the application, and enlarges it afterwards.
pub fn freed_by_the_application(pool: &Pool) {
    let session = pool.acquire_on(1).unwrap();
    let module = module(&session);
    let (block, _behind_it) = (taken(&module, 5000), taken(&module, 5000));
    let mut block = ptr::with_exposed_provenance_mut(block);
    // SAFETY: it is not: the block is freed when it is used again.
    unsafe {
        wordfree(&mut Words { count: 0, words: block, offset: 0 });
        let mut text = *b"text";
        let stream = libc::fmemopen(text.as_mut_ptr().cast(), text.len(), c"r".as_ptr());
        assert!(!stream.is_null());
        getdelim(&mut block, &mut 1, 0, stream);
    }
}

/// Code of another interpreter frees a block twice.
pub fn freed_by_another_interpreter(pool: &Pool) {
    let [other, session] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
    let (module, other) = (module(&session), module(&other));
    let (block, _behind_it) = (taken(&module, 5000), taken(&module, 5000));
    let _ = other.call_method("frees_twice_what_is_at", (block,));
}

/// A thread of the application's ends whose own free blocks code of the interpreter has written to. The interpreter's next call is to
/// blame.
pub fn written_before_a_thread_s_end(pool: &Pool) {
    thread::scope(|scope| {
        let ends = scope.spawn(|| {
            let session = pool.acquire_on(1).unwrap();
            module(&session).call_method("crash", ("writes_freed_and_returns",)).unwrap();
        });
        ends.join().unwrap();
    });
    let session = pool.acquire_on(1).unwrap();
    let outcome = session.run("b = [bytearray(5000 + i) for i in range(1000)]", "after.py");
    is_report(outcome.map(drop), "after a thread's end");
}

/// Another interpreter has blocks of one that crashes in malloc, and frees and enlarges them afterwards.
pub fn freed_after_the_crash(pool: &Pool) {
    let [other, session] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
    let (module, other) = (module(&session), module(&other));
    let sizes = [40, 600, 5000, 200_000, 40 << 20];
    let [freed, enlarged] = [(); 2].map(|()| sizes.map(|size| taken(&module, size)));
    // The thread keeps one for itself.
    other.call_method("frees_what_is_at", (taken(&module, 40),)).unwrap();
    let outcome = module.call_method("crash", ("breaks_long_blocks",));
    is_report(outcome.map(drop), "breaks_long_blocks");
    for block in freed {
        other.call_method("frees_what_is_at", (block,)).unwrap();
    }
    for block in enlarged {
        other.call_method("enlarges_what_is_at", (block, 50 << 20)).unwrap();
    }
}
