//! Blocks of an interpreter's heap that others free.

use super::{is_report, module};
use hydrozoa::{Object, Pool};
use std::ffi::c_void;
use std::{ptr, thread};

/// A block that code of the interpreter takes.
fn taken(module: &Object<'_>, size: usize) -> *mut c_void {
    let address: usize = module.call_method("takes", (size,)).unwrap().extract().unwrap();
    ptr::with_exposed_provenance_mut(address)
}

/// The application frees an interpreter's block twice.
pub fn freed_by_the_application(pool: &Pool) {
    let session = pool.acquire_on(1).unwrap();
    let module = module(&session);
    let (block, _behind_it) = (taken(&module, 5000), taken(&module, 5000));
    // SAFETY: it is not.
    unsafe {
        libc::free(block);
        libc::free(block);
    }
}

/// Code of another interpreter does.
pub fn freed_by_another_interpreter(pool: &Pool) {
    let [other, session] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
    let (module, other) = (module(&session), module(&other));
    let (block, _behind_it) = (taken(&module, 5000), taken(&module, 5000));
    let _ = other.call_method("frees_twice_what_is_at", (block.addr(),));
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

/// The application has blocks of an interpreter that crashes in malloc, and frees them afterwards, as a thread does at its end.
pub fn freed_after_the_crash(pool: &Pool) {
    let session = pool.acquire_on(1).unwrap();
    let module = module(&session);
    let sizes = [40, 600, 5000, 200_000, 40 << 20];
    let [freed, moved] = [(); 2].map(|()| sizes.map(|size| taken(&module, size)));
    let outcome = module.call_method("crash", ("breaks_long_blocks",));
    is_report(outcome.map(drop), "breaks_long_blocks");
    // SAFETY: the application has got them.
    unsafe {
        freed.into_iter().for_each(|block| libc::free(block));
        for block in moved {
            let block = libc::realloc(block, 10_000);
            assert!(!block.is_null());
            libc::free(block);
        }
    }
}
