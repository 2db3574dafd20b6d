use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

pub fn to_json(py: Python<'_>, numbers: Vec<i64>) -> PyResult<String> {
    let json = py.import("json")?;
    let keywords = [("indent", 2)].into_py_dict(py)?;
    json.call_method("dumps", (numbers,), Some(&keywords))?.extract()
}
