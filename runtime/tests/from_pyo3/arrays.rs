use hydrozoa::{Result, Session, Tensor};

pub fn cumulative(session: &Session, steps: Vec<f64>) -> Result<Vec<f64>> {
    let length = steps.len() as i64;
    let steps = Tensor::from_vec(steps, &[length])?;
    let sums = session.import("numpy")?.call_method("cumsum", (steps,))?;
    sums.extract::<Tensor>()?.to_vec()
}
