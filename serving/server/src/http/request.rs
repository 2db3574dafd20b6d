//! Requests for inference: their JSON.

use super::json::decode;
use super::json::fields::{Few, Fields, parameter, read};
use super::problem::Problem;
use crate::guard::Charge;
use crate::inference::shared_memory::{RegionPart, Regions, SharedOutputs};
use bytes::BytesMut;
use hydrozoa_models::{CorrelationId, DataType, Input, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A request whose binary inputs have not been read.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// The request. Inputs that are binary have no data yet.
    pub(crate) request: Request,
    /// Where the data of the inputs is.
    pub(crate) sources: Vec<Source>,
    pub(crate) wanted: Wanted,
}

/// Where an input's data is.
#[derive(Debug)]
pub(crate) enum Source {
    /// In the JSON, and thus in the request.
    Json,
    /// Behind the JSON, with so many bytes.
    Body(usize),
    /// In memory that the client shares.
    Shared(RegionPart),
}

/// How the client wants its outputs.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Those that it names.
    pub(crate) outputs: Vec<(String, Form)>,
    /// All outputs, if it names none.
    pub(crate) binary: bool,
    /// Outputs that go to memory that the client shares.
    pub(crate) places: SharedOutputs,
}

/// How an output is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    pub(crate) binary: bool,
    /// The number of classes; 0 for the output itself.
    pub(crate) classes: usize,
    /// Whether it goes to shared memory.
    pub(crate) is_shared: bool,
}

impl Wanted {
    pub(crate) fn form(&self, name: &str) -> Form {
        let named = self.outputs.iter().find(|(known, _)| known == name).map(|(_, form)| *form);
        named.unwrap_or(Form { binary: self.binary, ..Form::default() })
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
    /// Reads a request's JSON. An input in JSON takes at most `limit` bytes, which are charged.
    pub(crate) fn parse(
        json: &[u8],
        limit: usize,
        regions: &Regions,
        charge: &mut Charge,
    ) -> Result<Self, Problem> {
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
            let (input, source) = input(tensor, limit, regions, charge)?;
            planned.request.inputs.push(input);
            planned.sources.push(source);
        }
        for tensor in head.outputs.iter().flat_map(|outputs| &outputs.0) {
            let name: String = required("name", tensor.name)?;
            let (form, place) = form(tensor, regions)?;
            if let Some(place) = place {
                planned.wanted.places.insert(name.clone(), place);
            }
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

/// An input, and where its data is.
fn input(
    tensor: &Tensor<'_>,
    limit: usize,
    regions: &Regions,
    charge: &mut Charge,
) -> Result<(Input, Source), Problem> {
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
    let size = parameters.read::<u64>("binary_data_size")?;
    let size = size.map(usize::try_from).transpose();
    let size = size.map_err(|_| Problem::bad(format!("input '{name}' is larger than memory")))?;
    let mut data = BytesMut::new();
    let source = match (place(parameters, regions)?, size, tensor.data) {
        (Some(place), ..) => Source::Shared(place),
        (None, Some(size), _) => Source::Body(size),
        (None, None, elements) => {
            if let Some(elements) = elements {
                let count = decode::count(&name, &shape)?;
                data = decode::elements(&name, data_type, count, elements, limit, charge)?;
            }
            Source::Json
        }
    };
    Ok((Input { name, data_type, shape, data }, source))
}

/// The shared memory that parameters name, if they name one.
fn place(parameters: &Fields<'_>, regions: &Regions) -> Result<Option<RegionPart>, Problem> {
    let Some(region) = parameters.read::<String>("shared_memory_region")? else {
        return Ok(None);
    };
    let offset = parameters.read::<u64>("shared_memory_offset")?.unwrap_or_default();
    let size = parameters.read::<u64>("shared_memory_byte_size")?.unwrap_or_default();
    Ok(Some(regions.part(&region, offset, size)?))
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

/// How an output is sent, and where in shared memory it goes, if it goes there.
fn form(tensor: &Tensor<'_>, regions: &Regions) -> Result<(Form, Option<RegionPart>), Problem> {
    let Some(parameters) = &tensor.parameters else { return Ok(Default::default()) };
    let place = place(parameters, regions)?;
    let classes = parameters.read::<u64>("classification")?;
    let form = Form {
        binary: parameters.read("binary_data")?.unwrap_or_default(),
        classes: usize::try_from(classes.unwrap_or_default()).unwrap_or(usize::MAX),
        is_shared: place.is_some(),
    };
    let others = [("classification", classes.is_some()), ("binary_data", form.binary)];
    match others.iter().find(|(_, is_set)| *is_set && form.is_shared) {
        Some((other, _)) => {
            Err(Problem::bad(format!("Output can't set both 'shared_memory_region' and '{other}'")))
        }
        None => Ok((form, place)),
    }
}
