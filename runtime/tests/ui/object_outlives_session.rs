//! An object cannot outlive the session it came from.

fn main() {
    let pool = hydrozoa::Pool::builder().build().unwrap();
    let module = {
        let session = pool.acquire().unwrap();
        session.import("math").unwrap()
    };
    println!("{module}");
}
