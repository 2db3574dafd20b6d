//! Responses of models as responses of HTTP.

use super::compression::{self, Encoding};
use super::json::encode::{elements, parameter, put};
use super::pieces::Pieces;
use super::problem::{JSON, Problem};
use super::request::Wanted;
use crate::inference::classes;
use crate::service::blocking_if_large;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hydrozoa_models::Model;

/// The length of the JSON in a body that has binary tensors behind it.
pub(crate) const HEADER_LENGTH: HeaderName =
    HeaderName::from_static("inference-header-content-length");

const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The response to a client.
pub(crate) struct Reply {
    /// The JSON, and binary outputs where they lie.
    pieces: Vec<Bytes>,
    is_binary: bool,
}

impl Reply {
    /// The parts of a response that the client wants.
    pub(crate) fn new(
        model: &Model,
        id: &str,
        response: hydrozoa_models::Response,
        wanted: &Wanted,
    ) -> Result<Self, Problem> {
        let mut json = Vec::with_capacity(256);
        json.push(b'{');
        if !id.is_empty() {
            field(&mut json, "id", id);
        }
        field(&mut json, "model_name", model.config().name());
        field(&mut json, "model_version", &model.version().to_string());
        if !response.parameters.is_empty() {
            json.extend_from_slice(b"\"parameters\":{");
            for (place, (name, value)) in response.parameters.iter().enumerate() {
                separate(&mut json, place);
                put(&mut json, name.as_str());
                json.push(b':');
                parameter(&mut json, value);
            }
            json.extend_from_slice(b"},");
        }
        json.extend_from_slice(b"\"outputs\":[");
        let mut binaries = Vec::new();
        for (place, mut output) in response.outputs.into_iter().enumerate() {
            let form = wanted.form(&output.name);
            if form.classes > 0 {
                output = classes(&output, form.classes, model.config().max_batch_size() > 0)?;
            }
            separate(&mut json, place);
            json.push(b'{');
            field(&mut json, "name", &output.name);
            field(&mut json, "datatype", output.data_type.name());
            json.extend_from_slice(b"\"shape\":");
            put(&mut json, &output.shape);
            if form.is_shared {
                // The client knows where it is.
            } else if form.binary {
                json.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
                put(&mut json, &output.data.len());
                json.push(b'}');
                binaries.push(output.data);
            } else {
                json.extend_from_slice(b",\"data\":");
                elements(&mut json, &output, false)?;
            }
            json.push(b'}');
        }
        json.extend_from_slice(b"]}");
        let is_binary = binaries.iter().any(|data| !data.is_empty());
        let mut pieces = vec![Bytes::from(json)];
        pieces.append(&mut binaries);
        Ok(Self { pieces, is_binary })
    }

    /// The response, compressed if that is wanted.
    pub(crate) async fn send(self, encoding: Option<Encoding>) -> Result<Response, Problem> {
        let Self { mut pieces, is_binary } = self;
        let length = pieces[0].len();
        if let Some(encoding) = encoding {
            let size = pieces.iter().map(Bytes::len).sum();
            let compressed =
                blocking_if_large(size, move || compression::compress(encoding, &pieces)).await;
            pieces = vec![compressed.map_err(|error| {
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                Problem::new(status, format!("failed to compress the response: {error}"))
            })?];
        }
        let mut response = Response::new(Pieces::body(pieces));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, if is_binary { BINARY } else { JSON });
        if is_binary {
            headers.insert(HEADER_LENGTH, HeaderValue::from(length));
        }
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, encoding.name());
        }
        Ok(response)
    }
}

/// Writes a field with a text, and a comma.
pub(crate) fn field(json: &mut Vec<u8>, name: &str, value: &str) {
    put(json, name);
    json.push(b':');
    put(json, value);
    json.push(b',');
}

fn separate(json: &mut Vec<u8>, place: usize) {
    if place > 0 {
        json.push(b',');
    }
}
