//! A session cannot be dropped or moved away while objects of it exist.

fn main() {
    let pool = hydrozoa::Pool::builder().build().unwrap();
    let session = pool.acquire().unwrap();
    let items = session.eval("[1, 2]").unwrap().iter().unwrap();
    drop(session);
    for item in items {
        println!("{}", item.unwrap());
    }
}
