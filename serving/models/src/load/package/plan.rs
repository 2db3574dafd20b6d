//! How requests to a packaged model become calls: from its signature and its configuration.

use crate::request::DataType;
use hydrozoa::package::{Described, Kind, Signature};
use serde_json::{Value, json};

/// The known facts about a packaged object and its call.
pub(super) struct Known {
    /// The signature in the package, or that of its example.
    pub(super) signature: Option<Signature>,
    /// Why the signature is missing.
    pub(super) silence: String,
    /// The names of the parameters that take positional arguments.
    pub(super) parameters: Vec<String>,
    /// The kind of inputs that the signature does not describe.
    pub(super) kind: Kind,
}

/// How an input becomes an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// Its place among the arguments.
    pub(crate) place: usize,
    pub(crate) is_tensor: bool,
    /// Whether the argument lacks the last extent, which is 1: a request's tensors have at least one besides the batch's.
    pub(crate) is_flat: bool,
}

/// How an output is found in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Extents without the batch's; -1 for any.
    pub(crate) dims: Vec<i64>,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In the order of their places.
    pub(crate) arguments: Vec<Argument>,
    pub(crate) results: Vec<Expected>,
    pub(crate) has_batch: bool,
}

/// The place that a name such as `INPUT__1` says, as with Triton's PyTorch backend.
fn place_of(name: &str) -> Option<usize> {
    let (_, digits) = name.rsplit_once("__")?;
    digits.parse().ok()
}

/// The protocol's type for elements as numpy and torch name it.
fn data_type(name: &str) -> Option<DataType> {
    let name = match name {
        "text" => return Some(DataType::Bytes),
        "bfloat16" => return Some(DataType::Bf16),
        "bool" => return Some(DataType::Bool),
        _ => name,
    };
    let (kind, bits) = name.split_at(name.find(|one: char| one.is_ascii_digit())?);
    let kind = match kind {
        "float" => "FP",
        "int" => "INT",
        "uint" => "UINT",
        _ => return None,
    };
    DataType::of_name(&format!("{kind}{bits}"))
}

/// An extent as a configuration has it.
fn dim(extent: Option<u64>) -> i64 {
    extent.and_then(|extent| i64::try_from(extent).ok()).unwrap_or(-1)
}

impl Plan {
    /// Completes a configuration from the package, and plans calls by it.
    ///
    /// # Errors
    ///
    /// A text: the missing part, or the contradiction, and what to do.
    pub(super) fn new(config: &mut Value, known: &Known) -> Result<Self, String> {
        let names_inputs = has(config, "input");
        if known.signature.is_none() && !(names_inputs && has(config, "output")) {
            return Err(format!(
                "{}, and the model's configuration names no inputs and outputs; build it again with the arguments of a call \
                 (`hydrozoa package build MODULE:FUNCTION`, where the function returns the model and a tuple of arguments), or name \
                 `input` and `output` in config.pbtxt",
                known.silence
            ));
        }
        if let Some(signature) = &known.signature
            && signature.max_batch_size > 0
            && config["max_batch_size"] == 0
            && !names_inputs
        {
            config["max_batch_size"] = json!(signature.max_batch_size);
            if !config["dynamic_batching"].is_object() {
                config["dynamic_batching"] = json!({});
            }
        }
        let has_batch = config["max_batch_size"].as_i64().is_some_and(|most| most > 0);
        let arguments = arguments(config, known, has_batch)?;
        let results = results(config, known, has_batch)?;
        Ok(Self { arguments, results, has_batch })
    }
}

fn has(config: &Value, field: &str) -> bool {
    config[field].as_array().is_some_and(|tensors| !tensors.is_empty())
}

fn arguments(config: &mut Value, known: &Known, has_batch: bool) -> Result<Vec<Argument>, String> {
    let described = known.signature.as_ref().map_or(&[][..], |signature| &signature.inputs[..]);
    if !has(config, "input") {
        config["input"] =
            described.iter().map(|(_, input)| json!({ "name": input.name })).collect();
    }
    let mut arguments = Vec::new();
    for tensor in config["input"].as_array_mut().into_iter().flatten() {
        let name = tensor["name"].as_str().unwrap_or_default().to_owned();
        let place = described
            .iter()
            .find(|(_, input)| input.name == name)
            .map(|(place, _)| *place)
            .or_else(|| known.parameters.iter().position(|parameter| *parameter == name))
            .or_else(|| place_of(&name))
            .ok_or_else(|| {
                format!(
                    "no parameter of the call has the name of the input `{name}`; name it after one of its parameters ({}), or with \
                     its place, such as `{name}__0`",
                    known.parameters.join(", ")
                )
            })?;
        let input = described.iter().find(|(found, _)| *found == place).map(|(_, input)| input);
        let is_flat = match input {
            Some(input) => complete("input", tensor, input, has_batch)?,
            None => false,
        };
        let kind = input.map_or(known.kind, |input| input.kind);
        // Texts are arrays of objects, which torch lacks.
        let is_tensor = kind == Kind::Tensor && tensor["data_type"] != "TYPE_STRING";
        arguments.push(Argument { name, place, is_tensor, is_flat });
    }
    for (place, input) in described {
        if !arguments.iter().any(|argument| argument.place == *place) {
            return Err(format!(
                "the call takes `{}`, and the configuration has no such input",
                input.name
            ));
        }
    }
    arguments.sort_by_key(|argument| argument.place);
    if let Some(pair) = arguments.windows(2).find(|pair| pair[0].place == pair[1].place) {
        return Err(format!(
            "the inputs `{}` and `{}` are the same argument, that at {} from 0",
            pair[0].name, pair[1].name, pair[0].place
        ));
    }
    Ok(arguments)
}

fn results(config: &mut Value, known: &Known, has_batch: bool) -> Result<Vec<Expected>, String> {
    let described = known.signature.as_ref().map(|signature| &signature.outputs);
    if !has(config, "output") {
        let outputs = described.into_iter().flatten();
        config["output"] = outputs.map(|output| json!({ "name": output.name })).collect();
    }
    let mut results = Vec::new();
    for tensor in config["output"].as_array_mut().into_iter().flatten() {
        let name = tensor["name"].as_str().unwrap_or_default().to_owned();
        if let Some(described) = described {
            let by_name = described.iter().find(|output| output.name == name);
            let found = by_name.or_else(|| described.get(place_of(&name)?)).ok_or_else(|| {
                let names: Vec<_> = described.iter().map(|output| &*output.name).collect();
                format!("the call returns no `{name}`; it returns {}", names.join(", "))
            })?;
            complete("output", tensor, found, has_batch)?;
        }
        let data_type = tensor["data_type"].as_str().and_then(DataType::of_config_name);
        let dims = tensor["dims"].as_array().into_iter().flatten().filter_map(Value::as_i64);
        if let Some(data_type) = data_type {
            results.push(Expected { name, data_type, dims: dims.collect() });
        }
    }
    Ok(results)
}

/// Completes an input or output of a configuration, and compares it with the package's. Returns whether it has an extent of 1
/// more than the package's.
fn complete(
    what: &str,
    tensor: &mut Value,
    described: &Described,
    has_batch: bool,
) -> Result<bool, String> {
    let name = tensor["name"].as_str().unwrap_or_default().to_owned();
    let found = data_type(&described.data_type).ok_or_else(|| {
        format!(
            "elements of the {what} `{name}` are {}, which no request can have",
            described.data_type
        )
    })?;
    let given = tensor["data_type"].as_str().unwrap_or_default();
    if given.is_empty() || given == "TYPE_INVALID" {
        tensor["data_type"] = json!(found.config_name());
    } else if given != found.config_name() {
        return Err(format!(
            "the {what} `{name}` is {} in the package, and {given} in the configuration",
            found.config_name()
        ));
    }
    let mut extents = &described.shape[..];
    if has_batch {
        extents = extents.get(1..).ok_or_else(|| {
            format!("the {what} `{name}` has no extents, and so none of a batch; set max_batch_size to 0")
        })?;
    }
    let is_flat = extents.is_empty();
    let expected: Vec<i64> =
        if is_flat { vec![1] } else { extents.iter().copied().map(dim).collect() };
    let dims: Vec<i64> =
        tensor["dims"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    if dims.is_empty() {
        // An extent of 0 in an example: a configuration cannot have it.
        let dims = expected.iter().map(|extent| if *extent == 0 { -1 } else { *extent });
        tensor["dims"] = dims.collect::<Vec<_>>().into();
        return Ok(is_flat);
    }
    let fits =
        |(given, expected): (&i64, &i64)| *given == -1 || *expected == -1 || given == expected;
    if dims.len() != expected.len() || !dims.iter().zip(&expected).all(fits) {
        return Err(format!(
            "the {what} `{name}` has dims {expected:?} in the package{}, and {dims:?} in the configuration",
            if has_batch { " without the batch's" } else { "" }
        ));
    }
    Ok(is_flat)
}
