//! A host function cannot keep its arguments beyond the call.

use hydrozoa::{Object, Pool};
use std::sync::Mutex;

fn main() {
    let pool = Pool::builder().build().unwrap();
    let session = pool.acquire().unwrap();
    let kept: Mutex<Vec<Object<'static>>> = Mutex::new(Vec::new());
    let _function = session.function("keep", move |session, arguments| {
        kept.lock().unwrap().extend(arguments.get(0));
        session.none()
    });
}
