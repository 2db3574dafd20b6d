use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;

pub fn cumulative(py: Python<'_>, steps: Vec<f64>) -> PyResult<Vec<f64>> {
    let steps = steps.into_pyarray(py);
    let sums = py.import("numpy")?.call_method1("cumsum", (steps,))?;
    let sums: PyReadonlyArray1<f64> = sums.extract()?;
    Ok(sums.as_slice()?.to_vec())
}
