//! A program with the feature `embed`, for the test that seals it: two interpreters compute with the numpy that it carries.

use hydrozoa::Pool;

fn main() -> hydrozoa::Result<()> {
    let pool = Pool::builder().interpreters(2).build()?;
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let numpy = session.import("numpy")?;
        let sum: f64 = numpy.call_method("arange", (10,))?.call_method("sum", ())?.extract()?;
        let file: String = numpy.getattr("__file__")?.extract()?;
        println!("{sum} {file}");
    }
    Ok(())
}
