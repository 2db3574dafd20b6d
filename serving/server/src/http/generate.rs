//! `POST v2/models/M/generate` and `generate_stream`: the generate extension.

use super::body_reader::Reader;
use super::json::decode;
use super::json::encode::{elements, parameter as write_parameter, put};
use super::json::fields::{Fields, parameter, read};
use super::problem::{JSON, Problem};
use super::reply::field;
use super::routes::{Front, Target};
use crate::guard::Charge;
use crate::inference::Responses;
use crate::service::{Permit, blocking_if_large};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use hydrozoa_models::config::TensorConfig;
use hydrozoa_models::{Code, Failure, Input};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

pub(crate) async fn generate(
    State(front): State<Front>,
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let mut generated = begin(&front, &target, request).await?;
    let other = |_| {
        let words = "generate expects model to produce exactly 1 response, use generate stream for model that generates \
                     various number of responses";
        Failure::new(Code::InvalidArgument, words)
    };
    let response = generated.responses.single(other).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], generated.json(response)?).into_response())
}

pub(crate) async fn generate_stream(
    State(front): State<Front>,
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let mut generated = begin(&front, &target, request).await?;
    // The status is that of the first response.
    let first = match generated.responses.next().await {
        Some(response) => Some(event(&generated.json(response?)?)),
        None => None,
    };
    let body = Body::new(Stream { first, generated: Some(generated) });
    Ok(([(header::CONTENT_TYPE, EVENTS)], body).into_response())
}

/// Reads a request and puts it into the model's queue.
async fn begin(front: &Front, target: &Target, request: Request) -> Result<Generated, Problem> {
    let permit = front.service.admit()?;
    let chosen = front.service.server().choose(&target.name, target.version)?;
    let model = chosen.model().clone();
    let (parts, body) = request.into_parts();
    let account = front.account(&parts.extensions);
    let trace = front.service.tracer().begin(&parts.headers, "http");
    let mut reader = Reader::decoded(body, &parts.headers, &front.limits, &account).await?;
    let json = reader.rest().await?;
    let limit = front.limits.max_input_size;
    let mut parsed = account.charge();
    let translated = blocking_if_large(json.len(), move || {
        let (config, limit) = (model.config(), (limit, &mut parsed));
        let request = translate(&json, config.inputs(), config.max_batch_size() > 0, limit)?;
        Ok::<_, Problem>((request, parsed))
    });
    let (request, parsed) = translated.await?;
    let responses = Responses::begin(chosen, request, trace, limit)?;
    Ok(Generated { responses, _held: (permit, [reader.into_charge(), parsed]) })
}

/// The responses of a request, and what is held until the last one.
struct Generated {
    responses: Responses,
    _held: (Permit, [Charge; 2]),
}

impl Generated {
    /// A response as an object with its outputs as fields.
    fn json(&self, response: hydrozoa_models::Response) -> Result<Vec<u8>, Problem> {
        let running = &self.responses.running;
        let mut json = vec![b'{'];
        if !running.id.is_empty() {
            field(&mut json, "id", &running.id);
        }
        field(&mut json, "model_name", running.model.config().name());
        field(&mut json, "model_version", &running.model.version().to_string());
        for (name, value) in &response.parameters {
            put(&mut json, name.as_str());
            json.push(b':');
            write_parameter(&mut json, value);
            json.push(b',');
        }
        for output in &response.outputs {
            put(&mut json, output.name.as_str());
            json.push(b':');
            elements(&mut json, output, true)?;
            json.push(b',');
        }
        // The model's name is always there, so the last character is a comma.
        json.pop();
        json.push(b'}');
        Ok(json)
    }
}

/// A server-sent event.
fn event(json: &[u8]) -> Bytes {
    [b"data: ", json, b"\n\n"].concat().into()
}

/// Responses as server-sent events.
struct Stream {
    first: Option<Bytes>,
    /// `None` after an error.
    generated: Option<Generated>,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(generated) = &mut self.generated else { return Poll::Ready(None) };
        let Some(response) = ready!(generated.responses.poll(context)) else {
            self.generated = None;
            return Poll::Ready(None);
        };
        let json = response.map_err(Problem::from).and_then(|response| generated.json(response));
        let data = json.unwrap_or_else(|problem| {
            // A client that reads no further events need not wait for them.
            self.generated = None;
            problem.json().into_bytes()
        });
        Poll::Ready(Some(Ok(Frame::data(event(&data)))))
    }
}

/// Translates a request's JSON for a model with these inputs. Each input has at most so many bytes, which are charged.
fn translate(
    json: &[u8],
    inputs: &[TensorConfig],
    has_batch: bool,
    (limit, charge): (usize, &mut Charge),
) -> Result<hydrozoa_models::Request, Problem> {
    let fields: Fields<'_> = serde_json::from_slice(json).map_err(|error| {
        Problem::bad(format!("failed to parse the request JSON buffer: {error}"))
    })?;
    let mut request = hydrozoa_models::Request::default();
    let mut add = |name: &str, value: &serde_json::value::RawValue| -> Result<(), Problem> {
        match inputs.iter().find(|input| input.name == name) {
            Some(config) => {
                request.inputs.push(input(config, has_batch, value, (limit, &mut *charge))?);
            }
            None => request.parameters.push((name.to_owned(), parameter(name, value)?)),
        }
        Ok(())
    };
    let mut id = String::new();
    for (name, value) in &fields.0 {
        let is_input = inputs.iter().any(|input| input.name == *name);
        match name.as_str() {
            "parameters" if is_input => {
                return Err(Problem::bad(
                    "Keyword 'parameters' for nested schema also given as input tensor name",
                ));
            }
            "parameters" => {
                let nested: Fields<'_> = read(name, value)
                    .map_err(|_| Problem::bad("Expected JSON object for keyword: 'parameters'"))?;
                nested.0.iter().try_for_each(|(name, value)| add(name, value))?;
            }
            "id" if !is_input => id = read(name, value)?,
            _ => add(name, value)?,
        }
    }
    request.id = id;
    Ok(request)
}

/// A value, or an array of values, as an input.
fn input(
    config: &TensorConfig,
    has_batch: bool,
    value: &serde_json::value::RawValue,
    (limit, charge): (usize, &mut Charge),
) -> Result<Input, Problem> {
    let name = &config.name;
    let listed;
    let array = if value.get().starts_with('[') {
        value
    } else {
        let text = format!("[{}]", value.get());
        listed = serde_json::value::RawValue::from_string(text)
            .map_err(|error| Problem::bad(format!("Unable to parse '{name}': {error}")))?;
        &listed
    };
    let count = decode::length(array)?;
    let batch: &[i64] = if has_batch { &[-1] } else { &[] };
    let shape = shape(&[batch, &config.dims].concat(), count).ok_or_else(|| {
        Problem::bad(format!(
            "The schema can not convert input '{name}' to tensor with proper shape"
        ))
    })?;
    let data = decode::elements(name, config.data_type, count, array, limit, charge)?;
    Ok(Input { name: name.clone(), data_type: config.data_type, shape, data })
}

/// The shape of so many elements: the innermost extent that may be any takes what the fixed ones leave.
fn shape(extents: &[i64], count: usize) -> Option<Vec<i64>> {
    let mut left = i64::try_from(count).ok()?;
    for extent in extents.iter().filter(|extent| **extent >= 0) {
        if *extent == 0 {
            return (count == 0).then(|| extents.iter().map(|extent| (*extent).max(0)).collect());
        }
        if left % extent != 0 {
            return None;
        }
        left /= extent;
    }
    let mut shape = extents.to_vec();
    for extent in shape.iter_mut().rev().filter(|extent| **extent < 0) {
        *extent = std::mem::replace(&mut left, 1);
    }
    (left == 1).then_some(shape)
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn a_shape_is_found_for_a_number_of_elements() {
        assert_eq!(shape(&[-1, 1], 1), Some(vec![1, 1]));
        assert_eq!(shape(&[-1, -1], 3), Some(vec![1, 3]));
        assert_eq!(shape(&[-1, 2, 2], 8), Some(vec![2, 2, 2]));
        assert_eq!(shape(&[2], 2), Some(vec![2]));
        assert_eq!(shape(&[-1], 0), Some(vec![0]));
        assert_eq!(shape(&[-1, 0], 0), Some(vec![0, 0]));
        assert_eq!(shape(&[2], 3), None);
        assert_eq!(shape(&[2], 4), None);
        assert_eq!(shape(&[-1, 3], 4), None);
        assert_eq!(shape(&[0], 1), None);
    }
}
