//! Random numbers: `rand` and `random`, and `drand48` with its relatives.

use std::ffi::{c_char, c_double, c_int, c_long, c_uint, c_ushort, c_void};
use std::ptr;

use super::{Answer, Own};
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
        // SAFETY: an empty structure, and a table of that size which nothing else uses.
        unsafe { initstate_r(1, table.cast(), size_of_val(&*table), &raw mut *generator) };
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let generator = &raw const self.generator;
        let congruence = self.congruence.place().cast_const();
        for (name, target, arguments) in [
            ("rand", rand as *const c_void, 0),
            ("random", random as *const c_void, 0),
            ("srand", srandom as *const c_void, 1),
            ("srandom", srandom as *const c_void, 1),
            ("initstate", initstate as *const c_void, 3),
            ("setstate", setstate as *const c_void, 1),
        ] {
            all.push(Answer::behind(name, target, arguments, generator));
        }
        for (name, target, arguments) in [
            ("drand48", drand48 as *const c_void, 0),
            ("erand48", erand48 as *const c_void, 1),
            ("lrand48", lrand48 as *const c_void, 0),
            ("nrand48", nrand48 as *const c_void, 1),
            ("mrand48", mrand48 as *const c_void, 0),
            ("jrand48", jrand48 as *const c_void, 1),
            ("srand48", srand48_r as *const c_void, 1),
            ("seed48", seed48 as *const c_void, 1),
            ("lcong48", lcong48_r as *const c_void, 1),
        ] {
            all.push(Answer::behind(name, target, arguments, congruence));
        }
    }
}

/// `random()`.
extern "C" fn random(generator: &Latch<Generator>) -> c_long {
    let mut number = 0;
    // SAFETY: the generator was seeded, and its table is the domain's or the program's.
    unsafe { random_r(&raw mut *generator.lock(), &mut number) };
    number.into()
}

/// `rand()`, which is `random` with a smaller type (stdlib/rand.c).
extern "C" fn rand(generator: &Latch<Generator>) -> c_int {
    random(generator) as c_int
}

/// `srandom(seed)`, `srand(seed)`.
extern "C" fn srandom(seed: c_uint, generator: &Latch<Generator>) {
    // SAFETY: as in `random`.
    unsafe { srandom_r(seed, &raw mut *generator.lock()) };
}

/// `initstate(seed, table, size)`.
///
/// # Safety
/// As initstate(3).
unsafe extern "C" fn initstate(
    seed: c_uint,
    table: *mut c_char,
    size: usize,
    generator: &Latch<Generator>,
) -> *mut c_char {
    let mut generator = generator.lock();
    let old = generator.table();
    // SAFETY: the caller's promise.
    match unsafe { initstate_r(seed, table, size, &raw mut *generator) } {
        -1 => ptr::null_mut(),
        _ => old,
    }
}

/// `setstate(table)`.
///
/// # Safety
/// As setstate(3).
unsafe extern "C" fn setstate(table: *mut c_char, generator: &Latch<Generator>) -> *mut c_char {
    let mut generator = generator.lock();
    let old = generator.table();
    // SAFETY: the caller's promise.
    match unsafe { setstate_r(table, &raw mut *generator) } {
        -1 => ptr::null_mut(),
        _ => old,
    }
}

impl Generator {
    /// The table as `initstate` takes it: its numbers, and the kind of generator before them (stdlib/random.c).
    fn table(&self) -> *mut c_char {
        self.state.wrapping_sub(1).cast()
    }
}

/// A function that has its parameters in `$x`: the domain's, or the caller's.
macro_rules! congruence {
    ($name:ident: $number:ty, $re_entrant:ident, own) => {
        /// The function of that name in <stdlib.h>.
        ///
        /// # Safety
        /// Called through its thunk, by one thread of a program at a time.
        unsafe extern "C" fn $name(of: *mut Congruence) -> $number {
            let mut number = Default::default();
            // SAFETY: the thunk's state, and the caller's promise.
            unsafe { $re_entrant((&raw mut (*of).x).cast(), of, &mut number) };
            number
        }
    };
    ($name:ident: $number:ty, $re_entrant:ident, given) => {
        /// The function of that name in <stdlib.h>.
        ///
        /// # Safety
        /// As drand48(3): `x` are three numbers. Called through its thunk.
        unsafe extern "C" fn $name(x: *mut c_ushort, of: *mut Congruence) -> $number {
            let mut number = Default::default();
            // SAFETY: the caller's promise, and the thunk's state.
            unsafe { $re_entrant(x, of, &mut number) };
            number
        }
    };
}

congruence!(drand48: c_double, erand48_r, own);
congruence!(lrand48: c_long, nrand48_r, own);
congruence!(mrand48: c_long, jrand48_r, own);
congruence!(erand48: c_double, erand48_r, given);
congruence!(nrand48: c_long, nrand48_r, given);
congruence!(jrand48: c_long, jrand48_r, given);

/// `seed48(x)`.
///
/// # Safety
/// As seed48(3). Called through its thunk.
unsafe extern "C" fn seed48(x: *mut c_ushort, of: *mut Congruence) -> *mut c_ushort {
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe {
        seed48_r(x, of);
        (&raw mut (*of).old_x).cast()
    }
}
