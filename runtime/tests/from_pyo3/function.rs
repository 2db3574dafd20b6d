use hydrozoa::{Result, Session};

pub fn squares(session: &Session, numbers: Vec<i64>) -> Result<Vec<i64>> {
    let square = session.function("square", |session, arguments| {
        let number: i64 = arguments.extract(0)?;
        session.object_from(&(number * number))
    })?;
    let map = session.eval("lambda function, items: [function(item) for item in items]")?;
    map.call((square, numbers))?.extract()
}
