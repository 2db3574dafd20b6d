//! Requests against a model's configuration.

use crate::config::{ModelConfig, TensorConfig};
use crate::request::{DataType, Failure, Input, Request, decode_bytes};

/// Checks a request. Returns how many of a batch's places it takes.
///
/// # Errors
///
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument), with words for the client.
pub(crate) fn check(request: &Request, config: &ModelConfig) -> Result<usize, Failure> {
    let model = config.name();
    let missing = |expected: &&TensorConfig| {
        !expected.optional && !request.inputs.iter().any(|input| input.name == expected.name)
    };
    let missing: Vec<_> =
        config.inputs().iter().filter(missing).map(|input| format!("'{}'", input.name)).collect();
    if !missing.is_empty() {
        let got: Vec<_> = request.inputs.iter().map(|input| format!("'{}'", input.name)).collect();
        return Err(Failure::invalid(format!(
            "expected {} inputs but got {} inputs for model '{model}'. Got input(s) [{}], but missing required input(s) [{}]. \
             Please provide all required input(s).",
            config.inputs().len(),
            request.inputs.len(),
            got.join(","),
            missing.join(","),
        )));
    }
    for input in &request.inputs {
        let expected =
            config.inputs().iter().find(|expected| expected.name == input.name).ok_or_else(
                || {
                    Failure::invalid(format!(
                        "unexpected inference input '{}' for model '{model}'",
                        input.name
                    ))
                },
            )?;
        if request.inputs.iter().filter(|other| other.name == input.name).count() > 1 {
            return Err(Failure::invalid(format!(
                "input '{}' already exists in request for model '{model}'",
                input.name
            )));
        }
        check_input(input, expected, config)?;
    }
    for name in &request.outputs {
        if !config.outputs().is_empty()
            && !config.outputs().iter().any(|output| output.name == *name)
        {
            return Err(Failure::invalid(format!(
                "unexpected inference output '{name}' for model '{model}'"
            )));
        }
    }
    batch_size(request, config)
}

fn batch_size(request: &Request, config: &ModelConfig) -> Result<usize, Failure> {
    let most = config.max_batch_size();
    let mut inputs = request.inputs.iter().filter(|_| most > 0);
    let Some(first) = inputs.next() else { return Ok(1) };
    let size = first.shape[0];
    if let Some(other) = inputs.find(|other| other.shape[0] != size) {
        return Err(Failure::invalid(format!(
            "input '{}' batch size does not match other inputs for '{}': {} and {size}",
            other.name,
            config.name(),
            other.shape[0],
        )));
    }
    match usize::try_from(size) {
        Ok(size @ 1..) if size <= most => Ok(size),
        _ => Err(Failure::invalid(format!(
            "inference request batch-size must be <= {most} for '{}', and at least 1; it is {size}",
            config.name()
        ))),
    }
}

fn check_input(
    input: &Input,
    expected: &TensorConfig,
    config: &ModelConfig,
) -> Result<(), Failure> {
    let (name, model) = (&input.name, config.name());
    if input.data_type != expected.data_type {
        return Err(Failure::invalid(format!(
            "inference input '{name}' data-type is '{}', but model '{model}' expects '{}'",
            input.data_type, expected.data_type
        )));
    }
    let has_batch = config.max_batch_size() > 0;
    let of_one = if has_batch { input.shape.get(1..) } else { Some(&input.shape[..]) };
    let fits = of_one.is_some_and(|shape| {
        let fits = |(extent, expected): (&i64, &i64)| {
            *extent >= 0 && (*expected == -1 || extent == expected)
        };
        shape.len() == expected.dims.len() && shape.iter().zip(&expected.dims).all(fits)
    });
    if !fits {
        let batch: &[i64] = if has_batch { &[-1] } else { &[] };
        return Err(Failure::invalid(format!(
            "unexpected shape for input '{name}' for model '{model}'. Expected {}, got {}",
            extents(&[batch, &expected.dims].concat()),
            extents(&input.shape),
        )));
    }
    let count = count(&input.shape, input.data_type).ok_or_else(|| {
        Failure::invalid(format!(
            "input '{name}' for model '{model}' has more elements than can be counted"
        ))
    })?;
    match input.data_type.size() {
        Some(size) => {
            let bytes = count * size;
            if bytes != input.data.len() {
                return Err(Failure::invalid(format!(
                    "input byte size mismatch for input '{name}' for model '{model}'. Expected {bytes}, got {}",
                    input.data.len()
                )));
            }
        }
        None => {
            let elements = decode_bytes(&input.data).map_err(|problem| {
                Failure::invalid(format!("input '{name}' for model '{model}': {problem}"))
            })?;
            if elements.len() != count {
                return Err(Failure::invalid(format!(
                    "expected {count} strings for inference input '{name}' for model '{model}', got {}",
                    elements.len()
                )));
            }
        }
    }
    Ok(())
}

/// The elements of a shape. `None` if an array cannot have its extents: those that are not 0 count even where another one
/// is, because numpy refuses such a shape.
fn count(shape: &[i64], data_type: DataType) -> Option<usize> {
    let size = data_type.size().unwrap_or(size_of::<usize>());
    let extents: Vec<usize> =
        shape.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<_>>()?;
    let largest =
        extents.iter().try_fold(size, |product, extent| product.checked_mul((*extent).max(1)))?;
    isize::try_from(largest).ok()?;
    Some(extents.into_iter().product())
}

fn extents(shape: &[i64]) -> String {
    let texts: Vec<_> = shape.iter().map(i64::to_string).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::config::ModelConfig;
    use crate::request::DataType;
    use crate::request::{Input, Request, encode_bytes};
    use bytes::BytesMut;

    const CONFIG: &str = r#"
max_batch_size: 4
input { name: "A" data_type: TYPE_FP32 dims: [ 2, -1 ] }
input { name: "B" data_type: TYPE_STRING dims: [ 1 ] optional: true }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
"#;

    fn input(name: &str, data_type: DataType, shape: &[i64], bytes: usize) -> Input {
        Input {
            name: name.to_owned(),
            data_type,
            shape: shape.to_vec(),
            data: BytesMut::zeroed(bytes),
        }
    }

    fn checked(inputs: Vec<Input>, outputs: &[&str]) -> Result<usize, String> {
        let outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
        let config = ModelConfig::of_text(CONFIG, "m").unwrap();
        check(&Request { inputs, outputs, ..Request::default() }, &config)
            .map_err(|failure| failure.message)
    }

    fn text(elements: &[&[u8]], shape: &[i64]) -> Input {
        Input {
            data: encode_bytes(elements.iter().copied()),
            ..input("B", DataType::Bytes, shape, 0)
        }
    }

    #[test]
    fn a_request_that_fits_says_its_batch() {
        let a = || input("A", DataType::Fp32, &[3, 2, 5], 120);
        assert_eq!(checked(vec![a()], &["OUT"]), Ok(3));
        assert_eq!(checked(vec![a(), text(&[b"x", b"", b"yz"], &[3, 1])], &[]), Ok(3));
        assert_eq!(checked(vec![input("A", DataType::Fp32, &[1, 2, 0], 0)], &[]), Ok(1));
    }

    #[test]
    fn a_request_that_does_not_fit_says_why() {
        let a = |shape: &[i64], bytes| input("A", DataType::Fp32, shape, bytes);
        let huge = i64::MAX;
        for (inputs, outputs, words) in [
            (vec![], &[][..], "missing required input(s) ['A']"),
            (vec![a(&[1, 2, 1], 8), a(&[1, 2, 1], 8)], &[], "already exists"),
            (
                vec![a(&[1, 2, 1], 8), input("C", DataType::Fp32, &[1], 4)],
                &[],
                "unexpected inference input 'C'",
            ),
            (
                vec![input("A", DataType::Fp64, &[1, 2, 1], 16)],
                &[],
                "'FP64', but model 'm' expects 'FP32'",
            ),
            (vec![a(&[1, 3, 1], 12)], &[], "Expected [-1,2,-1], got [1,3,1]"),
            (vec![a(&[], 0)], &[], "got []"),
            (vec![a(&[1, 2, -1], 0)], &[], "got [1,2,-1]"),
            (vec![a(&[5, 2, 1], 40)], &[], "must be <= 4"),
            (vec![a(&[0, 2, 1], 0)], &[], "at least 1"),
            (vec![a(&[1, 2, 1], 7)], &[], "Expected 8, got 7"),
            (vec![a(&[1, 2, huge], 8)], &[], "more elements than can be counted"),
            (vec![a(&[0, 2, huge], 0)], &[], "more elements than can be counted"),
            (vec![a(&[huge, 2, huge], 8)], &[], "more elements than can be counted"),
            (vec![a(&[2, 2, 1], 16), text(&[b"x"], &[1, 1])], &[], "batch size does not match"),
            (vec![a(&[1, 2, 1], 8), text(&[b"x", b"y"], &[1, 1])], &[], "expected 1 strings"),
            (
                vec![a(&[1, 2, 1], 8), input("B", DataType::Bytes, &[1, 1], 3)],
                &[],
                "too few for a length",
            ),
            (vec![a(&[1, 2, 1], 8)], &["NO"], "unexpected inference output 'NO'"),
        ] {
            let message = checked(inputs, outputs).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }
}
