//! Requests as the models get them.

use super::body::Held;
use super::proto::inference::ModelInferRequest;
use super::proto::inference::model_infer_request::InferInputTensor;
use super::status::invalid;
use super::{contents, parameters};
use crate::guard::Charge;
use crate::inference::shared_memory::{self, RegionPart, Regions, SharedOutputs};
use bytes::{Bytes, BytesMut};
use hydrozoa_models::{Chosen, Code, DataType, Failure, Input, Model, Request, Server};
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::Status;

/// How a request is answered.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Outputs that are wanted as classes, with how many.
    pub(super) classes: BTreeMap<String, usize>,
    /// Whether an empty response says that there is no more.
    pub(super) empty_final: bool,
    /// Outputs that go to memory that the client shares.
    pub(super) places: SharedOutputs,
}

/// The number of a version; `None` for any.
///
/// # Errors
///
/// [`hydrozoa_models::Code::InvalidArgument`], in Triton's words.
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
/// The version is invalid, or the model does not exist.
pub(super) fn model(server: &Server, name: &str, number: &str) -> Result<Arc<Model>, Failure> {
    server.model(name, version(number)?)
}

/// The model that a message names.
///
/// # Errors
///
/// As [`model`].
pub(super) fn choose(server: &Server, message: &ModelInferRequest) -> Result<Chosen, Failure> {
    server.choose(&message.model_name, version(&message.model_version)?)
}

/// A message's part of the bytes charged to its call.
///
/// # Errors
///
/// RESOURCE_EXHAUSTED if the message was compressed, and its full size does not fit.
pub(super) fn charge(
    held: Option<&Held>,
    message: &ModelInferRequest,
) -> Result<Option<Charge>, Status> {
    held.map(|held| held.take(message.encoded_len())).transpose()
}

/// Reads the request in a message. Inputs in shared memory have at most `limit` bytes, which are charged.
///
/// # Errors
///
/// [`hydrozoa_models::Code::InvalidArgument`], mostly in Triton's words.
pub(super) async fn read(
    message: ModelInferRequest,
    regions: &Regions,
    limit: usize,
    charge: Option<&mut Charge>,
) -> Result<(Request, Wanted), Failure> {
    let Read { mut request, wanted, shared } = describe(message, regions)?;
    let (numbers, places): (Vec<_>, Vec<_>) = shared.into_iter().unzip();
    if let Some(charge) = charge {
        let held = charge.grow(shared_memory::size_of(&places).min(limit));
        held.map_err(|exhausted| Failure::new(Code::Unavailable, exhausted.to_string()))?;
    }
    for (number, data) in numbers.into_iter().zip(shared_memory::read(places, limit).await?) {
        request.inputs[number].data = data;
    }
    Ok((request, wanted))
}

/// A message as read.
struct Read {
    request: Request,
    wanted: Wanted,
    /// The inputs whose data is in shared memory, by their numbers.
    shared: Vec<(usize, RegionPart)>,
}

fn describe(message: ModelInferRequest, regions: &Regions) -> Result<Read, Failure> {
    let ModelInferRequest {
        model_name, id, parameters, inputs, outputs, raw_input_contents, ..
    } = message;
    let mut request = Request { id, ..Request::default() };
    let mut wanted =
        Wanted { empty_final: parameters::read(parameters, &mut request)?, ..Wanted::default() };
    let is_raw = !raw_input_contents.is_empty();
    let is_shared =
        |input: &&InferInputTensor| input.parameters.contains_key("shared_memory_region");
    let most = inputs.len() - inputs.iter().filter(is_shared).count();
    if raw_input_contents.len() > most {
        return Err(invalid(format!(
            "{} raw_input_contents for {most} inputs of model '{model_name}'",
            raw_input_contents.len()
        )));
    }
    let mut raw = raw_input_contents.into_iter();
    let mut shared = Vec::new();
    for tensor in inputs {
        let place = parameters::shared_memory(&tensor.name, &tensor.parameters, regions)?;
        let is_shared = place.is_some();
        shared.extend(place.map(|place| (request.inputs.len(), place)));
        request.inputs.push(input(tensor, is_raw, is_shared, &mut raw, &model_name)?);
    }
    for output in outputs {
        let place = parameters::shared_memory(&output.name, &output.parameters, regions)?;
        if let Some(count) = parameters::classification(&output.parameters)? {
            if place.is_some() {
                let words = "output can't set both 'shared_memory_region' and 'classification'";
                return Err(invalid(words));
            }
            wanted.classes.insert(output.name.clone(), count);
        }
        if let Some(place) = place {
            wanted.places.insert(output.name.clone(), place);
        }
        request.outputs.push(output.name);
    }
    Ok(Read { request, wanted, shared })
}

fn input(
    tensor: InferInputTensor,
    is_raw: bool,
    is_shared: bool,
    raw: &mut impl Iterator<Item = Bytes>,
    model: &str,
) -> Result<Input, Failure> {
    let InferInputTensor { name, datatype, shape, contents, .. } = tensor;
    let data_type = DataType::of_name(&datatype).ok_or_else(|| {
        invalid(format!(
            "inference input '{name}' data-type is '{datatype}', which is not a data-type, for model '{model}'"
        ))
    })?;
    if let Some(extent) = shape.iter().find(|extent| **extent < 0) {
        return Err(invalid(format!(
            "unexpected shape for input '{name}' for model '{model}': {extent} is negative"
        )));
    }
    let data = match contents {
        Some(_) if is_shared => {
            return Err(invalid(format!(
                "unexpected 'content' provided when using shared memory for input tensor '{name}' for model '{model}'"
            )));
        }
        // It is read when all of the message has been.
        None if is_shared => BytesMut::new(),
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
