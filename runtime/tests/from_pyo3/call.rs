use hydrozoa::{Result, Session};

pub fn to_json(session: &Session, numbers: Vec<i64>) -> Result<String> {
    let json = session.import("json")?;
    json.call_method_kwargs("dumps", (numbers,), (("indent", 2),))?.extract()
}
