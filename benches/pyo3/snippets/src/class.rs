use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// Counts.
#[pyclass(frozen)]
struct Counter(AtomicI64);

#[pymethods]
impl Counter {
    #[new]
    #[pyo3(signature = (start=0))]
    fn new(start: i64) -> Self {
        Counter(AtomicI64::new(start))
    }

    /// Adds n, and returns the sum.
    fn add(&self, n: i64) -> i64 {
        self.0.fetch_add(n, Ordering::Relaxed) + n
    }
}

pub fn count(py: Python<'_>, start: i64, more: i64) -> PyResult<i64> {
    let counter = py.get_type::<Counter>().call1((start,))?;
    counter.call_method1("add", (more,))?.extract()
}
