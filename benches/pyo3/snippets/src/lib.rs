//! PyO3's side of `docs/from-pyo3.md`. Ours is `runtime/tests/from_pyo3`. A tidy test compares the page with both.

#![expect(missing_docs, reason = "the page explains the snippets")]

pub mod arrays;
pub mod call;
pub mod class;
pub mod function;

#[cfg(test)]
mod tests {
    use pyo3::prelude::*;

    fn attached(test: impl FnOnce(Python<'_>) -> PyResult<()>) {
        Python::initialize();
        Python::attach(test).unwrap();
    }

    #[test]
    fn a_call_with_keywords() {
        attached(|py| {
            assert_eq!(super::call::to_json(py, vec![1, 2])?, "[\n  1,\n  2\n]");
            Ok(())
        });
    }

    #[test]
    fn arrays_in_and_out() {
        attached(|py| {
            assert_eq!(super::arrays::cumulative(py, vec![1.0, 2.0, 3.0])?, [1.0, 3.0, 6.0]);
            Ok(())
        });
    }

    #[test]
    fn a_rust_type_as_a_class() {
        attached(|py| {
            assert_eq!(super::class::count(py, 2, 3)?, 5);
            Ok(())
        });
    }

    #[test]
    fn a_rust_function_for_python() {
        attached(|py| {
            assert_eq!(super::function::squares(py, vec![1, 2, 3])?, [1, 4, 9]);
            Ok(())
        });
    }
}
