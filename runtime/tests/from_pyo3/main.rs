//! The snippets of `docs/from-pyo3.md`. PyO3's side of them is `benches/pyo3/snippets`.

mod arrays;
mod call;
mod class;
#[path = "../common/mod.rs"]
mod common;
mod function;

use hydrozoa::{Pool, Session};
use std::sync::OnceLock;

fn session() -> Session {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let pool = || Pool::builder().interpreters(1).venv(common::venv()).build().unwrap();
    POOL.get_or_init(pool).acquire().unwrap()
}

#[test]
fn a_call_with_keywords() {
    assert_eq!(call::to_json(&session(), vec![1, 2]).unwrap(), "[\n  1,\n  2\n]");
}

#[test]
fn arrays_in_and_out() {
    assert_eq!(arrays::cumulative(&session(), vec![1.0, 2.0, 3.0]).unwrap(), [1.0, 3.0, 6.0]);
}

#[test]
fn a_rust_function_for_python() {
    assert_eq!(function::squares(&session(), vec![1, 2, 3]).unwrap(), [1, 4, 9]);
}

#[test]
fn a_rust_type_as_a_class() {
    assert_eq!(class::count(&session(), 2, 3).unwrap(), 5);
}
