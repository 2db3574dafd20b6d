//! `POST v2/models/M/infer`.

use super::body_reader::Reader;
use super::compression;
use super::problem::Problem;
use super::reply::{HEADER_LENGTH, Reply};
use super::request::{Planned, Source, Wanted};
use super::routes::{Front, Target};
use crate::guard::{Account, Charge};
use crate::inference::{Responses, Running, expected_one, shared_memory};
use crate::service::blocking_if_large;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hydrozoa_models::{Input, Model};

pub(crate) async fn infer(
    State(front): State<Front>,
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let _permit = front.service.admit()?;
    let chosen = front.service.server().choose(&target.name, target.version)?;
    if chosen.model().config().is_decoupled() {
        let words = "HTTP end point doesn't support models with decoupled transaction policy; generate_stream does";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, words));
    }
    let (parts, body) = request.into_parts();
    let account = front.account(&parts.extensions);
    let trace = front.service.tracer().begin(&parts.headers, "http");
    let received = receive(&front, &account, chosen.model(), &parts.headers, body).await;
    // The request's data is held until it is answered.
    let (Planned { request, wanted, .. }, _held) = match received {
        Ok(planned) => planned,
        Err(problem) => {
            trace.refuse(&problem.message);
            return Err(problem);
        }
    };
    let mut responses = Responses::begin(chosen, request, trace, usize::MAX)?;
    let response = responses.single(expected_one).await?;
    let response = shared_memory::deliver(response, &wanted.places).await?;
    // Binary outputs cost nothing here.
    let in_json = response.outputs.iter().filter(|output| !wanted.form(&output.name).binary);
    let size = in_json.map(|output| output.data.len()).sum();
    let Running { model, id, .. } = responses.running;
    let reply = blocking_if_large(size, move || Reply::new(&model, &id, response, &wanted)).await?;
    reply.send(compression::of_response(&parts.headers)).await
}

/// Reads a request's body.
async fn receive(
    front: &Front,
    account: &Account,
    model: &Model,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Planned, [Charge; 2]), Problem> {
    let limit = front.limits.max_input_size;
    let mut reader = Reader::decoded(body, headers, &front.limits, account).await?;
    let mut parsed = account.charge();
    let length = header_length(headers, reader.size())?;
    if length == Some(0) {
        let planned = raw(&mut reader, model).await?;
        return Ok((planned, [reader.into_charge(), parsed]));
    }
    let json = match length {
        None => reader.rest().await?,
        Some(length) => reader.take(length).await?.map_err(|short| {
            Problem::bad(format!(
                "unexpected size for request JSON, expecting {} more bytes",
                short.missing
            ))
        })?,
    };
    let (service, json_size) = (front.service.clone(), json.len());
    let parse = move || {
        let planned = Planned::parse(&json, limit, service.regions(), &mut parsed)?;
        Ok::<_, Problem>((planned, parsed))
    };
    let (mut planned, parsed) = blocking_if_large(json_size, parse).await?;
    for (input, source) in planned.request.inputs.iter_mut().zip(&planned.sources) {
        let Source::Body(size) = *source else { continue };
        if length.is_none() && size > 0 {
            return Err(Problem::bad(
                "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when passing \
                 inputs in binary data format",
            ));
        }
        input.data = reader.take(size).await?.map_err(|short| {
            Problem::bad(format!(
                "unexpected size for input '{}', expecting {} additional bytes for model '{}'",
                input.name,
                short.missing,
                model.config().name()
            ))
        })?;
    }
    if !reader.is_over().await? {
        let name = model.config().name();
        return Err(Problem::bad(format!("unexpected additional input data for model '{name}'")));
    }
    shared(&mut planned, limit, &mut reader).await?;
    Ok((planned, [reader.into_charge(), parsed]))
}

/// Reads the inputs that are in shared memory.
async fn shared(planned: &mut Planned, limit: usize, reader: &mut Reader) -> Result<(), Problem> {
    let of_input = |(number, source): (usize, &Source)| match source {
        Source::Shared(place) => Some((number, place.clone())),
        Source::Json | Source::Body(_) => None,
    };
    let found = planned.sources.iter().enumerate().filter_map(of_input);
    let (numbers, places): (Vec<_>, Vec<_>) = found.unzip();
    reader.hold(shared_memory::size_of(&places).min(limit))?;
    for (number, data) in numbers.into_iter().zip(shared_memory::read(places, limit).await?) {
        planned.request.inputs[number].data = data;
    }
    Ok(())
}

/// The length of the JSON, if the request says it.
fn header_length(headers: &HeaderMap, size: Option<usize>) -> Result<Option<usize>, Problem> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let length: i128 = text.trim().parse().map_err(|_| {
        Problem::bad(format!("Unable to parse Inference-Header-Content-Length, got: {text}"))
    })?;
    let most = size.unwrap_or(i32::MAX as usize);
    usize::try_from(length).ok().filter(|length| *length <= most).map(Some).ok_or_else(|| {
        Problem::bad(format!("inference header size should be in range (0, {most}), got: {text}"))
    })
}

/// A request that is the only input's data and nothing else.
async fn raw(reader: &mut Reader, model: &Model) -> Result<Planned, Problem> {
    let config = model.config();
    let [input] = config.inputs() else {
        return Err(Problem::bad(format!(
            "Raw request must only have 1 input (found {}) to be deduced but got {} inputs in '{}' model configuration",
            config.inputs().len(),
            config.inputs().len(),
            config.name()
        )));
    };
    let data = reader.rest().await?;
    let mut shape = input.dims.clone();
    let wild: Vec<_> = shape.iter().enumerate().filter(|(_, extent)| **extent < 0).collect();
    match (input.data_type.size(), &wild[..]) {
        (_, [_, _, ..]) | (None, [_]) => {
            return Err(Problem::bad(format!(
                "The shape of the raw input '{}' can not be deduced because there are more than one variable-sized dimension",
                input.name
            )));
        }
        (Some(size), [(place, _)]) => {
            let place = *place;
            let known: Option<i64> = shape
                .iter()
                .filter(|extent| **extent >= 0)
                .try_fold(size as i64, |product, extent| product.checked_mul(*extent));
            match known.map(|known| (known, data.len() as i64)) {
                Some((known @ 1.., bytes)) if bytes % known == 0 => shape[place] = bytes / known,
                _ => {
                    return Err(Problem::bad(format!(
                        "The shape of the raw input '{}' can not be deduced: its {} bytes are not a whole number of elements",
                        input.name,
                        data.len()
                    )));
                }
            }
        }
        (_, []) => {}
    }
    if config.max_batch_size() > 0 {
        shape.insert(0, 1);
    }
    // The input is one text, and has no length in front.
    let data = match input.data_type.size() {
        Some(_) => data,
        None => {
            reader.hold(data.len())?;
            hydrozoa_models::encode_bytes([&data[..]])
        }
    };
    let input = Input { name: input.name.clone(), data_type: input.data_type, shape, data };
    Ok(Planned {
        request: hydrozoa_models::Request { inputs: vec![input], ..Default::default() },
        sources: Vec::new(),
        wanted: Wanted { binary: true, ..Wanted::default() },
    })
}
