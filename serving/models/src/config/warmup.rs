//! `model_warmup`: requests that instances run before they serve.

use super::{ConfigError, SequenceBatching, TensorConfig};
use crate::request::DataType;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// Requests that each instance runs before the model serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Warmup {
    /// Its name in messages.
    pub name: String,
    /// Requests of an execution; 0 for no execution.
    pub batch_size: u32,
    /// Executions; 0 for one.
    pub count: u32,
    /// The inputs of each request, by name.
    pub inputs: BTreeMap<String, WarmupInput>,
}

/// An input of a warm-up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "InputFields")]
#[non_exhaustive]
pub struct WarmupInput {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents without the batch's.
    pub dims: Vec<i64>,
    /// The elements.
    pub data: WarmupData,
}

/// Elements of a warm-up's input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmupData {
    /// Zeros, or empty texts.
    Zero,
    /// Random bytes, or empty texts.
    Random,
    /// The contents of a file in the model's folder `warmup`.
    File(
        /// The file's path in that folder.
        String,
    ),
}

/// As with Triton, a field counts that is there, and not whether it is true.
#[derive(Deserialize)]
struct InputFields {
    data_type: DataType,
    dims: Vec<i64>,
    zero_data: Option<bool>,
    random_data: Option<bool>,
    input_data_file: Option<String>,
}

impl TryFrom<InputFields> for WarmupInput {
    type Error = &'static str;

    fn try_from(fields: InputFields) -> Result<Self, Self::Error> {
        let data = match (fields.zero_data, fields.random_data, fields.input_data_file) {
            (Some(_), ..) => WarmupData::Zero,
            (_, Some(_), _) => WarmupData::Random,
            (.., Some(file)) => WarmupData::File(file),
            _ => {
                return Err(
                    "an input of model_warmup needs one of zero_data, random_data and input_data_file",
                );
            }
        };
        Ok(Self { data_type: fields.data_type, dims: fields.dims, data })
    }
}

/// Refuses what cannot be run with a model of these inputs.
pub(super) fn check(
    warmups: &[Warmup],
    inputs: &[TensorConfig],
    sequences: Option<&SequenceBatching>,
) -> Result<(), ConfigError> {
    for (place, warmup) in warmups.iter().enumerate() {
        for (name, input) in &warmup.inputs {
            let refused = |field: &str, problem: String| {
                let path = format!("model_warmup[{place}].inputs {{ key: \"{name}\" }}{field}");
                Err(ConfigError::field(path, problem))
            };
            let is_control = sequences
                .is_some_and(|batching| batching.controls.iter().any(|other| other.name == *name));
            if !is_control && !inputs.iter().any(|other| other.name == *name) {
                return refused("", "the model has no input of this name".to_owned());
            }
            if let Some(dim) = input.dims.iter().find(|dim| **dim < 0) {
                return refused(
                    ".dims",
                    format!("{dim} is not an extent; a warm-up needs them all"),
                );
            }
            if let WarmupData::File(file) = &input.data
                && !is_inside(Path::new(file))
            {
                let problem = format!("`{file}` is not a path in the folder `warmup`");
                return refused(".input_data_file", problem);
            }
        }
    }
    Ok(())
}

/// Whether a path stays in its folder.
fn is_inside(path: &Path) -> bool {
    let mut components = path.components().peekable();
    components.peek().is_some() && components.all(|part| matches!(part, Component::Normal(_)))
}
