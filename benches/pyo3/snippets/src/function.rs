use pyo3::prelude::*;

#[pyfunction]
fn square(number: i64) -> i64 {
    number * number
}

pub fn squares(py: Python<'_>, numbers: Vec<i64>) -> PyResult<Vec<i64>> {
    let square = wrap_pyfunction!(square, py)?;
    let map = py.eval(c"lambda function, items: [function(item) for item in items]", None, None)?;
    map.call1((square, numbers))?.extract()
}
