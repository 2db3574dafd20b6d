//! Hydrozoa's side.

use std::time::Duration;

use anyhow::{Result, ensure};
use hydrozoa::{Object, Pool, Session, Tensor};

use crate::clock::{time, time_prepared};
use crate::side::{ARRAYS, ELEMENTS, Side};

/// An interpreter of a pool, with the objects that the calls use.
pub struct Ours<'session> {
    pool: &'session Pool,
    session: &'session Session,
    none: Object<'session>,
    nothing: Object<'session>,
    same: Object<'session>,
    add: Object<'session>,
    counter: Object<'session>,
    drive: Object<'session>,
    next: Object<'session>,
}

impl<'session> Ours<'session> {
    /// Runs the code that both sides call.
    pub fn new(pool: &'session Pool, session: &'session Session) -> Result<Self> {
        let work = session.run(include_str!("work.py"), "work.py")?;
        let next = session.function("next", |session, arguments| {
            session.object_from(&(arguments.extract::<i64>(0)? + 1))
        })?;
        Ok(Self {
            pool,
            session,
            none: session.none()?,
            nothing: work.getattr("nothing")?,
            same: work.getattr("same")?,
            add: work.getattr("add")?,
            counter: work.getattr("counter")?,
            drive: work.getattr("drive")?,
            next,
        })
    }

    /// There and back. Checks that the memory is the same.
    fn pass(&self, elements: Vec<f32>) -> Result<()> {
        let address = elements.as_ptr();
        let input = Tensor::from_vec(elements, &[ELEMENTS as i64])?;
        let output: Tensor = self.same.call((input,))?.extract()?;
        ensure!(output.data_ptr().cast_const().cast() == address && output.len() == ELEMENTS);
        Ok(())
    }
}

impl Side for Ours<'_> {
    fn no_op(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.nothing.call(())?.is(&self.none));
                Ok(())
            })
        })
    }

    fn add(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.add.call((40, 2))?.extract::<i64>()? == 42);
                Ok(())
            })
        })
    }

    fn keywords(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.add.call_kwargs((40,), (("b", 2),))?.extract::<i64>()? == 42);
                Ok(())
            })
        })
    }

    fn method(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.counter.call_method("nothing", ())?.is(&self.none));
                Ok(())
            })
        })
    }

    fn keywords_interned(&self, calls: usize) -> Result<Duration> {
        self.keywords(calls)
    }

    fn method_interned(&self, calls: usize) -> Result<Duration> {
        self.method(calls)
    }

    fn text(&self, calls: usize) -> Result<Duration> {
        let text = "0123456789".repeat(10);
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.same.call((&text,))?.extract::<String>()? == text);
                Ok(())
            })
        })
    }

    fn list(&self, calls: usize) -> Result<Duration> {
        let numbers: Vec<f64> = (0..1000).map(f64::from).collect();
        self.session.with_gil(|| {
            time(calls, || {
                ensure!(self.same.call((&numbers,))?.extract::<Vec<f64>>()? == numbers);
                Ok(())
            })
        })
    }

    fn callback(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time(1, || {
                let sum: usize = self.drive.call((&self.next, calls))?.extract()?;
                ensure!(sum == calls * (calls + 1) / 2);
                Ok(())
            })
        })
    }

    fn array(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| {
            time_prepared(calls, ARRAYS, || vec![0.5; ELEMENTS], |vector| self.pass(vector))
        })
    }

    fn new_array(&self, calls: usize) -> Result<Duration> {
        self.session.with_gil(|| time(calls, || self.pass(vec![0.5; ELEMENTS])))
    }

    fn attach(&self, calls: usize) -> Result<Duration> {
        time(calls, || {
            self.session.with_gil(|| {
                ensure!(self.nothing.call(())?.is(&self.none));
                Ok(())
            })
        })
    }

    fn import(&self, calls: usize) -> Result<Duration> {
        time(calls, || {
            let session = self.pool.acquire()?;
            let root: f64 = session.import("math")?.call_method("sqrt", (16.0,))?.extract()?;
            ensure!(root == 4.0);
            Ok(())
        })
    }
}
