//! Programs without `unsafe`: the process survives all of them.
#![forbid(unsafe_code)]

mod pythons;

use hydrozoa::{Error, Pool, Session, Tensor, Value};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{builders, each_pool_alone, pools, works};
use std::fmt;
use std::io::{self, Write};
use std::panic::panic_any;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(thread::panicking(), "a destructor, on purpose");
    }
}

/// Owns it, as the owner of bytes, an error, or a writer.
struct Owner(Arc<Bomb>);

impl Owner {
    fn new() -> Self {
        Self(Arc::new(Bomb))
    }
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"lent"
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Owner")
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an error of the application")
    }
}

impl std::error::Error for Owner {}

impl Write for Owner {
    /// The value of the panic panics too when it is dropped.
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic_any(Self(self.0.clone()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Both interpreters of a pool of each Python: with one of them something is done, the other one takes part.
fn for_each_pool(action: impl Fn(&Pool, &Session)) {
    for pool in pools(2) {
        let session = pool.acquire_on(0).unwrap();
        action(&pool, &session);
        works(&session);
        works(&pool.acquire_on(1).unwrap());
    }
}

#[test]
fn an_owner_of_lent_memory_may_panic_when_python_lets_go_of_it() {
    alone(PATIENCE, || {
        for_each_pool(|_, session| {
            drop(session.lend(Owner::new()).unwrap());
            // At the end of the interpreter.
            let builtins = session.import("builtins").unwrap();
            builtins.setattr("kept", session.lend(Owner::new()).unwrap()).unwrap();
        });
    });
}

#[test]
fn an_error_and_a_host_function_may_panic_when_python_lets_go_of_them() {
    alone(PATIENCE, || {
        for_each_pool(|_, session| {
            let owned = Owner::new();
            let fail = session
                .function("fail", move |_, _| {
                    let _ = &owned;
                    Err(Error::host(Owner::new()))
                })
                .unwrap();
            let code =
                "def ignore(f):\n    try:\n        f()\n    except RuntimeError:\n        pass";
            let module = session.run(code, "ignore.py").unwrap();
            module.call_method("ignore", (&fail,)).unwrap();
        });
    });
}

#[test]
fn what_a_panic_carries_may_panic_when_it_is_dropped() {
    alone(PATIENCE, || {
        for_each_pool(|_, session| {
            let fail = session.function("fail", |_, _| panic_any(Owner::new())).unwrap();
            assert!(matches!(fail.call(()), Err(Error::Panic(_))));
        });
    });
}

#[test]
fn a_stream_may_panic_with_a_value_that_panics_and_when_it_is_dropped() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let pool = builder.stdout(|_| Box::new(Owner::new())).build().unwrap();
            let session = pool.acquire().unwrap();
            let error = session.eval("print('x', flush=True)").unwrap_err().to_string();
            assert!(error.starts_with("OSError"), "{error}");
            works(&session);
            session.run("import sys\nsys.stdout = sys.__stdout__ = None", "off.py").unwrap();
            works(&session);
        }
    });
}

#[test]
fn values_that_are_nested_deeply_are_an_error() {
    alone(PATIENCE, || {
        let nested = || (0..4000).fold(Value::None, |inner, _| Value::List(vec![inner]));
        for_each_pool(|_, session| {
            let error = session.object_from(&nested()).unwrap_err();
            assert!(matches!(error, Error::Stack { .. }), "{error}");
        });
    });
}

#[test]
fn waits_without_a_limit_are_possible() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_timeout(Duration::MAX).unwrap();
        session.with_deadline(Duration::MAX, || works(&session));
        drop(session);
        pool.close(Duration::MAX).unwrap();
    });
}

#[test]
fn shapes_that_no_library_has_are_errors() {
    alone(PATIENCE, || {
        for_each_pool(|_, session| {
            for shape in [&[1 << 62, 4, 0][..], &[i64::MAX, i64::MAX, 0]] {
                match Tensor::from_vec(Vec::<f32>::new(), shape) {
                    Err(error) => assert!(matches!(error, Error::Convert { .. }), "{error}"),
                    Ok(tensor) => {
                        let there = session.object_from(&tensor).unwrap();
                        let back: Tensor = there.extract().unwrap();
                        assert_eq!(back.to_vec::<f32>().unwrap(), []);
                    }
                }
            }
            let deep = Tensor::from_vec(vec![1_f32], &[1; 1000]).unwrap();
            let back: Tensor = session.object_from(&deep).unwrap().extract().unwrap();
            assert_eq!(back.to_vec::<f32>().unwrap(), [1.0]);
        });
    });
}

/// Uses and drops what it has when its thread ends.
struct AtExit(Pool, Session);

impl Drop for AtExit {
    fn drop(&mut self) {
        works(&self.1);
        works(&self.0.acquire_on(1).unwrap());
    }
}

thread_local! {
    static AT_EXIT: std::cell::RefCell<Option<AtExit>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn sessions_may_be_used_in_destructors_of_thread_locals() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        let thread = thread::spawn(move || {
            AT_EXIT.with(|place| *place.borrow_mut() = Some(AtExit(pool, session)));
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_host_function_may_give_up_its_own_pool() {
    each_pool_alone(2, |pool| {
        let session = pool.acquire_on(0).unwrap();
        let pool = std::sync::Mutex::new(Some(pool));
        let give_up = session
            .function("give_up", move |session, _| {
                let pool = pool.lock().unwrap().take().unwrap();
                pool.resize(1)?;
                drop(pool.replace(0)?);
                drop(pool);
                let own = session.interpreter().clone().close(Duration::ZERO);
                assert!(matches!(own, Err(Error::InUse { .. })));
                session.none()
            })
            .unwrap();
        give_up.call(()).unwrap();
        works(&session);
    });
}
