//! An object's attributes belong to the same session.

use hydrozoa::{Object, Pool};

fn attribute(pool: &Pool) -> Object<'static> {
    let session = pool.acquire().unwrap();
    session.import("math").unwrap().getattr("pi").unwrap()
}

fn main() {
    attribute(&Pool::builder().build().unwrap());
}
