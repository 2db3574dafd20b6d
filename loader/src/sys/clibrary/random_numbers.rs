//! Random numbers: `rand` and `random`, and `drand48` with its relatives.

use std::ffi::{c_char, c_double, c_int, c_long, c_uint, c_ushort, c_void};
use std::ptr;

use super::{Answer, Own};
use crate::sys::answering::answering;
use crate::sys::lock::Latch;

/// `struct random_data` (<stdlib.h>).
#[derive(Debug)]
#[repr(C)]
struct Generator {
    front: *mut i32,
    rear: *mut i32,
    state: *mut i32,
    kind: c_int,
    degree: c_int,
    separation: c_int,
    end: *mut i32,
}

// SAFETY: the pointers lead to the domain's table, or to one that the program has given.
unsafe impl Send for Generator {}

/// `struct drand48_data` (<stdlib.h>).
#[derive(Debug, Default)]
#[repr(C)]
struct Congruence {
    x: [c_ushort; 3],
    old_x: [c_ushort; 3],
    c: c_ushort,
    is_set: c_ushort,
    a: u64,
}

#[derive(Debug)]
pub(super) struct Numbers {
    generator: Latch<Generator>,
    /// The generator's table until the program gives another one: as large as glibc's (stdlib/random.c, `randtbl`).
    table: Own<[i32; 32]>,
    congruence: Own<Congruence>,
}

unsafe extern "C" {
    fn random_r(generator: *mut Generator, number: *mut i32) -> c_int;
    fn srandom_r(seed: c_uint, generator: *mut Generator) -> c_int;
    fn initstate_r(
        seed: c_uint,
        table: *mut c_char,
        size: usize,
        generator: *mut Generator,
    ) -> c_int;
    fn setstate_r(table: *mut c_char, generator: *mut Generator) -> c_int;
    fn erand48_r(x: *mut c_ushort, of: *mut Congruence, number: *mut c_double) -> c_int;
    fn nrand48_r(x: *mut c_ushort, of: *mut Congruence, number: *mut c_long) -> c_int;
    fn jrand48_r(x: *mut c_ushort, of: *mut Congruence, number: *mut c_long) -> c_int;
    fn srand48_r(seed: c_long, of: *mut Congruence) -> c_int;
    fn seed48_r(x: *mut c_ushort, of: *mut Congruence) -> c_int;
    fn lcong48_r(parameters: *mut c_ushort, of: *mut Congruence) -> c_int;
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        let null = ptr::null_mut;
        let generator = Generator {
            front: null(),
            rear: null(),
            state: null(),
            kind: 0,
            degree: 0,
            separation: 0,
            end: null(),
        };
        Numbers {
            generator: Latch::new(generator),
            table: Own::new([0; 32]),
            congruence: Own::default(),
        }
    }

    /// Seeds the generator with 1, as glibc's is in a program that has not called `srand`. The numbers do not move any more.
    pub(super) fn seed(&self) {
        let mut generator = self.generator.lock();
        let table = self.table.place();
        // SAFETY: an empty structure, and a table of that size that nothing else uses.
        unsafe { initstate_r(1, table.cast(), size_of_val(&*table), &raw mut *generator) };
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let generator = &raw const self.generator;
        let congruence = self.congruence.place().cast_const();
        all.extend(Answer::functions(of_generator(), generator));
        all.extend(Answer::functions(of_congruence(), congruence));
        all.push(Answer::behind("srand48", srand48_r as *const c_void, 1, congruence));
        all.push(Answer::behind("lcong48", lcong48_r as *const c_void, 1, congruence));
    }
}

answering! {
    fn of_generator, generator: &Latch<Generator>;

    /// `random()`. The generator was seeded, and its table is the domain's or the program's.
    "random" => extern "C" fn random() -> c_long {
        let mut number = 0;
        random_r(&raw mut *generator.lock(), &mut number);
        number.into()
    }

    /// `rand()`, which is `random` with a smaller type (stdlib/rand.c).
    "rand" => extern "C" fn rand() -> c_int {
        random(generator) as c_int
    }

    /// `srandom(seed)`, `srand(seed)`.
    "srand", "srandom" => extern "C" fn srandom(seed: c_uint) {
        srandom_r(seed, &raw mut *generator.lock());
    }

    /// `initstate(seed, table, size)`.
    "initstate" => extern "C" fn initstate(seed: c_uint, table: *mut c_char, size: usize) -> *mut c_char {
        let mut generator = generator.lock();
        let old = generator.table();
        if initstate_r(seed, table, size, &raw mut *generator) == -1 { ptr::null_mut() } else { old }
    }

    /// `setstate(table)`.
    "setstate" => extern "C" fn setstate(table: *mut c_char) -> *mut c_char {
        let mut generator = generator.lock();
        let old = generator.table();
        if setstate_r(table, &raw mut *generator) == -1 { ptr::null_mut() } else { old }
    }
}

impl Generator {
    /// The table as `initstate` takes it: its numbers, and the kind of generator before them (stdlib/random.c).
    fn table(&self) -> *mut c_char {
        self.state.wrapping_sub(1).cast()
    }
}

impl Congruence {
    /// The number that `next` finds by the parameters at `x`, the domain's own if that is null.
    ///
    /// # Safety
    /// As drand48(3); called by one thread of a program at a time.
    unsafe fn number<T: Default>(
        of: *mut Congruence,
        x: *mut c_ushort,
        next: unsafe extern "C" fn(*mut c_ushort, *mut Congruence, *mut T) -> c_int,
    ) -> T {
        let mut number = T::default();
        // SAFETY: the caller's promise.
        unsafe {
            let x = if x.is_null() { (&raw mut (*of).x).cast() } else { x };
            next(x, of, &mut number);
        }
        number
    }
}

answering! {
    fn of_congruence, of: *mut Congruence;

    /// `drand48()`.
    "drand48" => extern "C" fn drand48() -> c_double {
        Congruence::number(of, ptr::null_mut(), erand48_r)
    }

    /// `lrand48()`.
    "lrand48" => extern "C" fn lrand48() -> c_long {
        Congruence::number(of, ptr::null_mut(), nrand48_r)
    }

    /// `mrand48()`.
    "mrand48" => extern "C" fn mrand48() -> c_long {
        Congruence::number(of, ptr::null_mut(), jrand48_r)
    }

    /// `erand48(x)`.
    "erand48" => extern "C" fn erand48(x: *mut c_ushort) -> c_double {
        Congruence::number(of, x, erand48_r)
    }

    /// `nrand48(x)`.
    "nrand48" => extern "C" fn nrand48(x: *mut c_ushort) -> c_long {
        Congruence::number(of, x, nrand48_r)
    }

    /// `jrand48(x)`.
    "jrand48" => extern "C" fn jrand48(x: *mut c_ushort) -> c_long {
        Congruence::number(of, x, jrand48_r)
    }

    /// `seed48(x)`.
    "seed48" => extern "C" fn seed48(x: *mut c_ushort) -> *mut c_ushort {
        seed48_r(x, of);
        (&raw mut (*of).old_x).cast()
    }
}
