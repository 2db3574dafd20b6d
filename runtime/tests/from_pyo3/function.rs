use hydrozoa::{Result, Session};

#[hydrozoa::function]
fn square(number: i64) -> i64 {
    number * number
}

pub fn squares(session: &Session, numbers: Vec<i64>) -> Result<Vec<i64>> {
    let square = square::to_python(session)?;
    let map = session.eval("lambda function, items: [function(item) for item in items]")?;
    map.call((square, numbers))?.extract()
}
