//! PyO3's side.

use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use numpy::{IntoPyArray, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::clock::{time, time_prepared};
use crate::side::{ARRAYS, ELEMENTS, Side};

/// The Python that the program is linked with, and the objects that the calls use.
pub struct Theirs {
    nothing: Py<PyAny>,
    same: Py<PyAny>,
    add: Py<PyAny>,
    counter: Py<PyAny>,
    drive: Py<PyAny>,
    next: Py<PyAny>,
}

#[pyfunction]
fn next(number: i64) -> i64 {
    number + 1
}

impl Theirs {
    /// Starts Python on this thread and runs the code that both sides call.
    pub fn new(site_packages: &Path) -> Result<Self> {
        Python::initialize();
        Python::attach(|py| {
            // PyO3 makes a Path of a path, which the import system ignores.
            let folder = site_packages.to_str().context("the environment's path is not UTF-8")?;
            py.import("sys")?.getattr("path")?.call_method1("append", (folder,))?;
            py.import("numpy")?;
            let work = PyDict::new(py);
            py.run(&CString::new(include_str!("work.py"))?, Some(&work), None)?;
            let of = |name| -> PyResult<Py<PyAny>> { Ok(work.as_any().get_item(name)?.unbind()) };
            Ok(Self {
                nothing: of("nothing")?,
                same: of("same")?,
                add: of("add")?,
                counter: of("counter")?,
                drive: of("drive")?,
                next: wrap_pyfunction!(next, py)?.into_any().unbind(),
            })
        })
    }

    /// `sys.version`.
    pub fn version() -> Result<String> {
        Python::attach(|py| Ok(py.import("sys")?.getattr("version")?.extract()?))
    }

    /// There and back. Checks that the memory is the same.
    fn pass(same: &Bound<'_, PyAny>, elements: Vec<f32>) -> Result<()> {
        let address = elements.as_ptr();
        let input = elements.into_pyarray(same.py());
        let output: PyReadonlyArray1<'_, f32> = same.call1((input,))?.extract()?;
        ensure!(output.as_slice()?.as_ptr() == address && output.len() == ELEMENTS);
        Ok(())
    }
}

impl Side for Theirs {
    fn no_op(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let nothing = self.nothing.bind(py);
            time(calls, || {
                ensure!(nothing.call0()?.is_none());
                Ok(())
            })
        })
    }

    fn add(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let add = self.add.bind(py);
            time(calls, || {
                ensure!(add.call1((40, 2))?.extract::<i64>()? == 42);
                Ok(())
            })
        })
    }

    fn keywords(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let add = self.add.bind(py);
            time(calls, || {
                let keywords = [("b", 2)].into_py_dict(py)?;
                ensure!(add.call((40,), Some(&keywords))?.extract::<i64>()? == 42);
                Ok(())
            })
        })
    }

    fn method(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let counter = self.counter.bind(py);
            time(calls, || {
                ensure!(counter.call_method0("nothing")?.is_none());
                Ok(())
            })
        })
    }

    fn keywords_interned(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let add = self.add.bind(py);
            time(calls, || {
                let keywords = [(intern!(py, "b"), 2)].into_py_dict(py)?;
                ensure!(add.call((40,), Some(&keywords))?.extract::<i64>()? == 42);
                Ok(())
            })
        })
    }

    fn method_interned(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let counter = self.counter.bind(py);
            time(calls, || {
                ensure!(counter.call_method0(intern!(py, "nothing"))?.is_none());
                Ok(())
            })
        })
    }

    fn text(&self, calls: usize) -> Result<Duration> {
        let text = "0123456789".repeat(10);
        Python::attach(|py| {
            let same = self.same.bind(py);
            time(calls, || {
                ensure!(same.call1((&text,))?.extract::<String>()? == text);
                Ok(())
            })
        })
    }

    fn list(&self, calls: usize) -> Result<Duration> {
        let numbers: Vec<f64> = (0..1000).map(f64::from).collect();
        Python::attach(|py| {
            let same = self.same.bind(py);
            time(calls, || {
                ensure!(same.call1((&numbers,))?.extract::<Vec<f64>>()? == numbers);
                Ok(())
            })
        })
    }

    fn callback(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let drive = self.drive.bind(py);
            time(1, || {
                let sum: usize = drive.call1((&self.next, calls))?.extract()?;
                ensure!(sum == calls * (calls + 1) / 2);
                Ok(())
            })
        })
    }

    fn array(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let same = self.same.bind(py);
            time_prepared(calls, ARRAYS, || vec![0.5; ELEMENTS], |vector| Self::pass(same, vector))
        })
    }

    fn new_array(&self, calls: usize) -> Result<Duration> {
        Python::attach(|py| {
            let same = self.same.bind(py);
            time(calls, || Self::pass(same, vec![0.5; ELEMENTS]))
        })
    }

    fn attach(&self, calls: usize) -> Result<Duration> {
        time(calls, || {
            Python::attach(|py| {
                ensure!(self.nothing.bind(py).call0()?.is_none());
                Ok(())
            })
        })
    }

    fn import(&self, calls: usize) -> Result<Duration> {
        time(calls, || {
            Python::attach(|py| {
                let root: f64 = py.import("math")?.call_method1("sqrt", (16.0,))?.extract()?;
                ensure!(root == 4.0);
                Ok(())
            })
        })
    }
}
