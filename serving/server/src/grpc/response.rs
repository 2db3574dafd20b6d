//! Responses as the client gets them.

use super::parameters;
use super::proto::inference::ModelInferResponse;
use super::proto::inference::model_infer_response::InferOutputTensor;
use super::request::Wanted;
use super::status::invalid;
use crate::inference::classes;
use hydrozoa_models::{Failure, Model, Output, Response};
use prost::Message;

/// Whose response it is.
pub(super) struct Origin<'a> {
    pub(super) model: &'a Model,
    /// The request's.
    pub(super) id: &'a str,
    pub(super) wanted: &'a Wanted,
    /// Bytes that a response may have.
    pub(super) most: usize,
}

/// A response as a message. The outputs' memory is the model's.
///
/// # Errors
///
/// If an output cannot be classified, or the response is too large.
pub(super) fn write(
    origin: &Origin<'_>,
    response: Response,
) -> Result<ModelInferResponse, Failure> {
    let mut message = ModelInferResponse {
        model_name: origin.model.config().name().to_owned(),
        model_version: origin.model.version().to_string(),
        id: origin.id.to_owned(),
        parameters: parameters::write(response.parameters)?,
        ..ModelInferResponse::default()
    };
    for output in response.outputs {
        let output = match origin.wanted.classes.get(&output.name) {
            Some(count) => classes(&output, *count, origin.model.config().max_batch_size() > 0)?,
            None => output,
        };
        let Output { name, data_type, shape, data } = output;
        message.raw_output_contents.push(data);
        message.outputs.push(InferOutputTensor {
            name,
            datatype: data_type.name().to_owned(),
            shape,
            ..InferOutputTensor::default()
        });
    }
    let size = message.encoded_len();
    if size > origin.most {
        return Err(invalid(format!(
            "Response has byte size {size} which exceeds gRPC's byte size limit {}.",
            origin.most
        )));
    }
    Ok(message)
}
