//! Requests for inference: what their JSON says.

use super::params::{Few, Fields, parameter, read};
use super::parse;
use super::problem::Problem;
use axum::http::StatusCode;
use bytes::BytesMut;
use hydrozoa_serve::{CorrelationId, DataType, Input, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A request whose binary inputs have not been read.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// The request. Inputs that are binary have no data yet.
    pub(crate) request: Request,
    /// The sizes of binary inputs, by their places.
    pub(crate) sizes: Vec<Option<usize>>,
    pub(crate) wanted: Wanted,
}

/// How the client wants its outputs.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Those that it names.
    pub(crate) outputs: Vec<(String, Form)>,
    /// All outputs, if it names none.
    pub(crate) binary: bool,
}

/// How an output is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    pub(crate) binary: bool,
    /// The number of classes; 0 for the output itself.
    pub(crate) classes: usize,
}

impl Wanted {
    pub(crate) fn form(&self, name: &str) -> Form {
        let named = self.outputs.iter().find(|(known, _)| known == name).map(|(_, form)| *form);
        named.unwrap_or(Form { binary: self.binary, classes: 0 })
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<Fields<'a>>,
    #[serde(borrow)]
    inputs: Option<Few<Tensor<'a>>>,
    #[serde(borrow)]
    outputs: Option<Few<Tensor<'a>>>,
}

/// An input, or an output that is wanted.
#[derive(Deserialize)]
struct Tensor<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    datatype: Option<&'a RawValue>,
    #[serde(borrow)]
    shape: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<Fields<'a>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl Planned {
    /// What a request's JSON says. An input in JSON takes at most `limit` bytes.
    pub(crate) fn parse(json: &[u8], limit: usize) -> Result<Self, Problem> {
        let head: Head<'_> = serde_json::from_slice(json).map_err(|error| {
            Problem::bad(format!("failed to parse the request JSON buffer: {error}"))
        })?;
        let mut planned = Planned::default();
        if let Some(id) = head.id {
            planned.request.id = read("id", id)?;
        }
        for (name, value) in head.parameters.iter().flat_map(|fields| &fields.0) {
            planned.parameter(name, value)?;
        }
        let inputs = head
            .inputs
            .ok_or_else(|| Problem::bad("Unable to parse 'inputs': the request has none"))?;
        for tensor in &inputs.0 {
            let (input, size) = input(tensor, limit)?;
            planned.request.inputs.push(input);
            planned.sizes.push(size);
        }
        for tensor in head.outputs.iter().flat_map(|outputs| &outputs.0) {
            let name: String = required("name", tensor.name)?;
            let form = form(tensor)?;
            planned.request.outputs.push(name.clone());
            planned.wanted.outputs.push((name, form));
        }
        Ok(planned)
    }

    fn parameter(&mut self, name: &str, value: &RawValue) -> Result<(), Problem> {
        let request = &mut self.request;
        match name {
            "sequence_id" => {
                request.correlation_id = match value.get().parse() {
                    Ok(number) => CorrelationId::Number(number),
                    Err(_) => CorrelationId::Text(read(name, value)?),
                }
            }
            "sequence_start" => request.flags |= u32::from(read::<bool>(name, value)?),
            "sequence_end" => request.flags |= u32::from(read::<bool>(name, value)?) << 1,
            "priority" => request.priority = read(name, value)?,
            "timeout" => request.timeout = read(name, value)?,
            "binary_data_output" => self.wanted.binary = read(name, value)?,
            _ if name.starts_with("triton_") => {
                return Err(Problem::bad(
                    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
                ));
            }
            _ => request.parameters.push((name.to_owned(), parameter(name, value)?)),
        }
        Ok(())
    }
}

fn required<'v, T: Deserialize<'v>>(name: &str, value: Option<&'v RawValue>) -> Result<T, Problem> {
    let value =
        value.ok_or_else(|| Problem::bad(format!("Unable to parse '{name}': it is missing")))?;
    read(name, value)
}

/// An input, and its size if it is binary. Then its data is not here.
fn input(tensor: &Tensor<'_>, limit: usize) -> Result<(Input, Option<usize>), Problem> {
    let none = Fields(Vec::new());
    let parameters = tensor.parameters.as_ref().unwrap_or(&none);
    check_source(tensor, parameters)?;
    let name: String = required("name", tensor.name)?;
    let data_type: String = required("datatype", tensor.datatype)?;
    let data_type = DataType::of_name(&data_type)
        .ok_or_else(|| Problem::bad(format!("invalid datatype for input {name}: '{data_type}'")))?;
    let shape: Few<u64> = required("shape", tensor.shape)?;
    let shape = shape.0.into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| {
        Problem::bad(format!(
            "invalid shape for input '{name}': an extent is more than {}",
            i64::MAX
        ))
    })?;
    if let Some(region) = parameters.read::<String>("shared_memory_region")? {
        return Err(no_region(&region));
    }
    let size = parameters.read::<u64>("binary_data_size")?;
    let size = size.map(usize::try_from).transpose();
    let size = size.map_err(|_| Problem::bad(format!("input '{name}' is larger than memory")))?;
    let data = match tensor.data {
        Some(data) if size.is_none() => {
            let count = parse::count(&name, &shape)?;
            parse::elements(&name, data_type, count, data, limit)?
        }
        _ => BytesMut::new(),
    };
    Ok((Input { name, data_type, shape, data }, size))
}

/// There is one place where an input's data is.
fn check_source(tensor: &Tensor<'_>, parameters: &Fields<'_>) -> Result<(), Problem> {
    let sources = [
        ("data", tensor.data.is_some()),
        ("binary_data_size", parameters.get("binary_data_size").is_some()),
        ("shared_memory_region", parameters.get("shared_memory_region").is_some()),
    ];
    let set: Vec<_> =
        sources.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("'{name}'")).collect();
    let found = match set.len() {
        1 => return Ok(()),
        0 => "no field is set".to_owned(),
        _ => format!("set {}", set.join(" ")),
    };
    Err(Problem::bad(format!(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', \
         'shared_memory_region' in 'parameters'. But {found}"
    )))
}

/// Clients have no shared memory with this server, so no region is known.
fn no_region(name: &str) -> Problem {
    let words = format!("Unable to find shared memory region: '{name}'");
    Problem::new(StatusCode::NOT_FOUND, words)
}

fn form(tensor: &Tensor<'_>) -> Result<Form, Problem> {
    let Some(parameters) = &tensor.parameters else { return Ok(Form::default()) };
    if let Some(region) = parameters.read::<String>("shared_memory_region")? {
        return Err(no_region(&region));
    }
    let classes = parameters.read::<u64>("classification")?.unwrap_or_default();
    Ok(Form {
        binary: parameters.read("binary_data")?.unwrap_or_default(),
        classes: usize::try_from(classes).unwrap_or(usize::MAX),
    })
}
