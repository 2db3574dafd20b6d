//! Requests as the models get them.

use super::contents;
use super::parameters;
use super::proto::inference::ModelInferRequest;
use super::proto::inference::model_infer_request::InferInputTensor;
use super::status::invalid;
use bytes::{Bytes, BytesMut};
use hydrozoa_serve::{DataType, Failure, Input, Model, Request, Server};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a request is answered.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Outputs that are wanted as classes, with how many.
    pub(super) classes: BTreeMap<String, usize>,
    /// Whether an empty response says that there is no more.
    pub(super) empty_final: bool,
}

/// The number of a version; `None` for any.
///
/// # Errors
///
/// [`hydrozoa_serve::Code::InvalidArgument`], in Triton's words.
pub(super) fn version(text: &str) -> Result<Option<i64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<i64>() {
        Ok(number @ 0..) => Ok(Some(number)),
        Ok(_) => Err(invalid(format!(
            "invalid model version specified '{text}' , version should be an integral value > 0"
        ))),
        Err(_) => Err(invalid(format!(
            "failed to get model version from specified version string '{text}' (details: stol), version should be an \
             integral value > 0"
        ))),
    }
}

/// The model of a request.
///
/// # Errors
///
/// That the version is none, or that there is no such model.
pub(super) fn model(server: &Server, name: &str, number: &str) -> Result<Arc<Model>, Failure> {
    server.model(name, version(number)?)
}

/// What a message asks for.
///
/// # Errors
///
/// [`hydrozoa_serve::Code::InvalidArgument`], mostly in Triton's words.
pub(super) fn read(message: ModelInferRequest) -> Result<(Request, Wanted), Failure> {
    let ModelInferRequest {
        model_name, id, parameters, inputs, outputs, raw_input_contents, ..
    } = message;
    let mut request = Request { id, ..Request::default() };
    let mut wanted =
        Wanted { empty_final: parameters::read(parameters, &mut request)?, ..Wanted::default() };
    let is_raw = !raw_input_contents.is_empty();
    if is_raw && raw_input_contents.len() > inputs.len() {
        return Err(invalid(format!(
            "{} raw_input_contents for {} inputs of model '{model_name}'",
            raw_input_contents.len(),
            inputs.len()
        )));
    }
    let mut raw = raw_input_contents.into_iter();
    for tensor in inputs {
        request.inputs.push(input(tensor, is_raw, &mut raw, &model_name)?);
    }
    for output in outputs {
        parameters::no_shared_memory(&output.name, &output.parameters)?;
        if let Some(count) = parameters::classification(&output.parameters)? {
            wanted.classes.insert(output.name.clone(), count);
        }
        request.outputs.push(output.name);
    }
    Ok((request, wanted))
}

fn input(
    tensor: InferInputTensor,
    is_raw: bool,
    raw: &mut impl Iterator<Item = Bytes>,
    model: &str,
) -> Result<Input, Failure> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = tensor;
    let data_type = DataType::of_name(&datatype).ok_or_else(|| {
        invalid(format!(
            "inference input '{name}' data-type is '{datatype}', which is no data-type, for model '{model}'"
        ))
    })?;
    if let Some(extent) = shape.iter().find(|extent| **extent < 0) {
        return Err(invalid(format!(
            "unexpected shape for input '{name}' for model '{model}': {extent} is negative"
        )));
    }
    parameters::no_shared_memory(&name, &parameters)?;
    let data = match contents {
        Some(_) if is_raw => {
            return Err(invalid(format!(
                "contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
            )));
        }
        Some(contents) => contents::bytes(contents, data_type, &name, model)?,
        None => raw.next().map(own).ok_or_else(|| {
            invalid(format!(
                "unable to find data for input tensor '{name}' for model '{model}' in request."
            ))
        })?,
    };
    Ok(Input { name, data_type, shape, data })
}

/// Bytes of the message as memory that the model may write. They are copied unless nothing else of the message is left in
/// that memory.
fn own(bytes: Bytes) -> BytesMut {
    BytesMut::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::{own, version};
    use bytes::{Bytes, BytesMut};

    #[test]
    fn a_version_is_a_number() {
        assert_eq!((version("").unwrap(), version("7").unwrap()), (None, Some(7)));
        for (text, words) in
            [("-1", "invalid model version"), ("x", "details: stol"), ("9e9", "stol")]
        {
            assert!(version(text).unwrap_err().message.contains(words), "{text}");
        }
    }

    #[test]
    fn memory_that_nobody_else_has_is_not_copied() {
        let mut all = BytesMut::from(&b"first second"[..]);
        let first: Bytes = all.split_to(6).freeze();
        let second: Bytes = all.freeze();
        let (start_of_first, start_of_second) = (first.as_ptr(), second.as_ptr());
        assert_ne!(own(first).as_ptr(), start_of_first, "the other is still there");
        assert_eq!(own(second).as_ptr(), start_of_second);
    }
}
