//! Configurations of models: `config.pbtxt`.

mod check;
pub(crate) mod fitting;
pub(crate) mod limits;
mod placement;
mod schema;
mod sequence;
mod warmup;

use check::{check, check_backend, check_batch_size, check_file_name, check_groups};
pub(crate) use limits::{Defaults, ModelImports};
pub(crate) use placement::{Location, instances};
pub use sequence::{Control, FalseTrue, SequenceBatching, Signal, Strategy};
pub use warmup::{Warmup, WarmupData, WarmupInput};

use crate::request::DataType;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// An error in a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("reading it: {0}")]
    Read(#[from] io::Error),
    /// The text does not parse as a configuration, or contains a field that this server does not know.
    #[error("{0}")]
    Text(String),
    /// A field's value makes no sense, or this server does not honour it.
    #[error("{field}: {problem}")]
    Field {
        /// The field's path, e.g. `input[0].dims`.
        field: String,
        /// The problem, and the values allowed.
        problem: String,
    },
}

impl ConfigError {
    pub(crate) fn parameter(name: &str, problem: String) -> Self {
        Self::field(format!("parameters {{ key: \"{name}\" }}"), problem)
    }

    pub(crate) fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        ConfigError::Field { field: field.into(), problem: problem.into() }
    }
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TensorConfig {
    /// Its name.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents without the batch's; -1 for any.
    pub dims: Vec<i64>,
    /// Whether a request may lack it.
    #[serde(default)]
    pub optional: bool,
    /// Whether requests of other extents may be in one batch.
    #[serde(default)]
    pub allow_ragged_batch: bool,
}

/// Where instances run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Kind {
    /// On a GPU if the group names one, else on the processor.
    #[serde(rename = "KIND_AUTO")]
    Auto,
    /// On the GPUs that the group names.
    #[serde(rename = "KIND_GPU")]
    Gpu,
    /// On the processor.
    #[serde(rename = "KIND_CPU")]
    Cpu,
    /// Where the model wants to.
    #[serde(rename = "KIND_MODEL")]
    Model,
}

/// A group of equal instances.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct InstanceGroup {
    /// Its name.
    pub name: String,
    /// Instances for each device.
    pub count: i32,
    /// Devices.
    pub gpus: Vec<i32>,
    /// Where they run.
    pub kind: Kind,
}

/// The fate of a request that has waited too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TimeoutAction {
    /// It is refused.
    #[default]
    #[serde(rename = "REJECT")]
    Reject,
    /// It waits behind all others.
    #[serde(rename = "DELAY")]
    Delay,
}

/// Limits of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct QueuePolicy {
    /// The action at the timeout.
    pub timeout_action: TimeoutAction,
    /// Microseconds; 0 for none.
    pub default_timeout_microseconds: u64,
    /// Whether a request may ask for a shorter timeout.
    pub allow_timeout_override: bool,
    /// Requests; 0 for no limit.
    pub max_queue_size: u32,
}

/// How requests are joined to batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct DynamicBatching {
    /// Sizes for which nobody waits.
    pub preferred_batch_size: Vec<i32>,
    /// How long a request may wait for others, in microseconds.
    pub max_queue_delay_microseconds: u64,
    /// Levels of priority; 0 for one.
    pub priority_levels: u64,
    /// The level of requests that name none.
    pub default_priority_level: u64,
    /// The limits of all levels that have none of their own.
    pub default_queue_policy: Option<QueuePolicy>,
    /// The limits of levels.
    pub priority_queue_policy: BTreeMap<String, QueuePolicy>,
}

impl DynamicBatching {
    /// How long a request may wait for others.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.max_queue_delay_microseconds)
    }

    /// The limits of a level; levels count from 1.
    pub fn policy(&self, level: u64) -> QueuePolicy {
        let own = self.priority_queue_policy.get(&level.to_string());
        own.or(self.default_queue_policy.as_ref()).cloned().unwrap_or_default()
    }
}

/// Which versions of a model are served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionPolicy {
    /// The greatest.
    Latest {
        /// How many.
        num_versions: u32,
    },
    /// All.
    All {},
    /// These.
    Specific {
        /// Their numbers.
        versions: Vec<i64>,
    },
}

impl VersionPolicy {
    /// Chooses the versions to serve from those in a model's folder, the lowest first.
    pub fn choose(&self, available: &[i64]) -> Vec<i64> {
        let mut versions = available.to_vec();
        versions.sort_unstable();
        match self {
            VersionPolicy::All {} => {}
            VersionPolicy::Latest { num_versions } => {
                let others = versions.len().saturating_sub(*num_versions as usize);
                versions.drain(..others);
            }
            VersionPolicy::Specific { versions: wanted } => {
                versions.retain(|version| wanted.contains(version))
            }
        }
        versions
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Transaction {
    #[serde(default)]
    decoupled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Parameter {
    string_value: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Fields {
    input: Vec<TensorConfig>,
    output: Vec<TensorConfig>,
    dynamic_batching: Option<DynamicBatching>,
    sequence_batching: Option<sequence::Fields>,
    #[serde(default)]
    model_warmup: Vec<Warmup>,
    #[serde(default)]
    model_transaction_policy: Transaction,
}

/// The fields that decide how a model is loaded. The model may complete the rest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct DraftFields {
    name: String,
    backend: String,
    max_batch_size: i32,
    version_policy: VersionPolicy,
    default_model_filename: String,
    instance_group: Vec<InstanceGroup>,
    parameters: BTreeMap<String, Parameter>,
}

/// A configuration as in its file, with Triton's defaults. Its inputs, outputs and schedulers may be missing or incomplete.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigDraft {
    fields: DraftFields,
    json: Value,
    /// Whether a version's files decide if it is a Python model or a package.
    is_open: bool,
}

impl ConfigDraft {
    /// The configuration in `config.pbtxt` of a model's folder. Without that file, every field takes its default.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the file cannot be read or parsed, or asks for what this server does not do.
    pub fn of_folder(folder: &Path) -> Result<Self, ConfigError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        match fs::read_to_string(folder.join(CONFIG_FILE)) {
            Ok(text) => Self::of_text(&text, &name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::of_text("", &name),
            Err(error) => Err(error.into()),
        }
    }

    /// The configuration that a text describes, for the model of this name.
    ///
    /// # Errors
    ///
    /// As [`ConfigDraft::of_folder`].
    pub fn of_text(text: &str, name: &str) -> Result<Self, ConfigError> {
        Self::completed(schema::of_text(text)?, name)
    }

    /// The same as JSON, by the names of `config.pbtxt`.
    ///
    /// # Errors
    ///
    /// As [`ConfigDraft::of_folder`].
    pub fn of_json(json: &Value, name: &str) -> Result<Self, ConfigError> {
        Self::completed(schema::of_json(json)?, name)
    }

    fn completed(mut json: Value, name: &str) -> Result<Self, ConfigError> {
        let is_open = ["backend", "default_model_filename"].iter().all(|field| json[field] == "");
        complete(&mut json, name);
        let fields = DraftFields::deserialize(&json)
            .map_err(|error| ConfigError::Text(error.to_string()))?;
        check_backend(&json, name)?;
        check_batch_size(fields.max_batch_size)?;
        check_groups(&fields.instance_group)?;
        check_file_name(&fields.default_model_filename, &fields.backend)?;
        Ok(Self { fields, json, is_open })
    }

    /// The configuration of a package that lies alone.
    pub(crate) fn of_package(
        name: &str,
        instances: u32,
        gpus: &[u32],
    ) -> Result<Self, ConfigError> {
        let place = match gpus {
            [] => "kind: KIND_CPU".to_owned(),
            _ => format!("kind: KIND_GPU gpus: {gpus:?}"),
        };
        let group = format!("instance_group {{ count: {instances} {place} }}");
        Self::of_text(&format!("backend: \"{PACKAGE}\" {group}"), name)
    }

    /// The candidates for the model's file in a version's folder. The first that exists is the model.
    pub(crate) fn files(&self) -> Vec<&str> {
        // A Python model may have a `model.pt` that it loads itself.
        if self.is_open { vec![PYTHON_FILE, PACKAGE_FILE] } else { vec![self.file_name()] }
    }

    /// The configuration of a version whose model is in this file, one of [`ConfigDraft::files`].
    pub(crate) fn with_file(&self, name: &str) -> Self {
        let mut draft = self.clone();
        if self.is_open {
            draft.fields.backend = backend_of(name).to_owned();
            draft.fields.default_model_filename = name.to_owned();
            draft.json["backend"] = json!(draft.fields.backend);
            draft.json["default_model_filename"] = json!(name);
        }
        draft
    }

    /// The backend that runs the model: `python` or `package`.
    pub fn backend(&self) -> &str {
        &self.fields.backend
    }

    /// The requests that one execution takes at most; 0 if the model takes no batches.
    pub fn max_batch_size(&self) -> usize {
        self.fields.max_batch_size as usize
    }

    /// Whether the model is a package.
    pub(crate) fn is_package(&self) -> bool {
        self.fields.backend == PACKAGE
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.fields.name
    }

    /// All of it as JSON, by the names of `config.pbtxt`.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Which versions are served.
    pub fn version_policy(&self) -> &VersionPolicy {
        &self.fields.version_policy
    }

    /// The model's file in a version's folder.
    pub fn file_name(&self) -> &str {
        &self.fields.default_model_filename
    }

    /// The groups of instances.
    pub fn instance_groups(&self) -> &[InstanceGroup] {
        &self.fields.instance_group
    }

    /// A parameter's text.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.fields.parameters.get(name).map(|parameter| parameter.string_value.as_str())
    }
}

/// A checked configuration, with the defaults that Triton gives. It has all that a draft has.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    draft: ConfigDraft,
    fields: Fields,
    sequences: Option<SequenceBatching>,
}

impl Deref for ModelConfig {
    type Target = ConfigDraft;

    fn deref(&self) -> &ConfigDraft {
        &self.draft
    }
}

/// The backend of models written in Python.
const PYTHON: &str = "python";

/// The backend of packages.
const PACKAGE: &str = "package";

/// The default names of models' files.
const PYTHON_FILE: &str = "model.py";
pub(crate) const PACKAGE_FILE: &str = "model.pt";

/// The file of a model's configuration.
pub(crate) const CONFIG_FILE: &str = "config.pbtxt";

fn is_package(file_name: &str) -> bool {
    file_name.ends_with(".pt")
}

/// The backend that a model's file is for.
fn backend_of(file_name: &str) -> &'static str {
    if is_package(file_name) { PACKAGE } else { PYTHON }
}

impl ModelConfig {
    /// The configuration that a text describes, for the model of this name.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if it cannot be parsed, or asks for what this server does not do.
    pub fn of_text(text: &str, name: &str) -> Result<Self, ConfigError> {
        Self::completed(ConfigDraft::of_text(text, name)?)
    }

    /// The configuration as JSON, by the names of `config.pbtxt`. This is the opposite of [`ConfigDraft::json`].
    ///
    /// # Errors
    ///
    /// As [`ModelConfig::of_text`].
    pub fn of_json(json: &Value, name: &str) -> Result<Self, ConfigError> {
        Self::completed(ConfigDraft::of_json(json, name)?)
    }

    fn completed(mut draft: ConfigDraft) -> Result<Self, ConfigError> {
        // It says which file the model is.
        draft.is_open = false;
        let fields = Fields::deserialize(&draft.json)
            .map_err(|error| ConfigError::Text(error.to_string()))?;
        let max_batch_size = draft.fields.max_batch_size;
        check(&fields, max_batch_size)?;
        let parse = |given: &sequence::Fields| given.parse(max_batch_size, &fields.input);
        let sequences = fields.sequence_batching.as_ref().map(parse).transpose()?;
        warmup::check(&fields.model_warmup, &fields.input, sequences.as_ref())?;
        Ok(Self { draft, fields, sequences })
    }

    /// The inputs.
    pub fn inputs(&self) -> &[TensorConfig] {
        &self.fields.input
    }

    /// The outputs.
    pub fn outputs(&self) -> &[TensorConfig] {
        &self.fields.output
    }

    /// How requests are joined, if they are.
    pub fn dynamic_batching(&self) -> Option<&DynamicBatching> {
        self.fields.dynamic_batching.as_ref()
    }

    /// How requests of sequences are joined, if they belong to sequences.
    pub fn sequence_batching(&self) -> Option<&SequenceBatching> {
        self.sequences.as_ref()
    }

    /// Requests that each instance runs before the model serves.
    pub fn warmups(&self) -> &[Warmup] {
        &self.fields.model_warmup
    }

    /// Whether a request may have any number of responses.
    pub fn is_decoupled(&self) -> bool {
        self.fields.model_transaction_policy.decoupled
    }
}

/// Fills in what Triton fills in where a file says nothing.
fn complete(json: &mut Value, name: &str) {
    let fields = json.as_object_mut().expect("a message is an object");
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => false,
    };
    let given = fields.get("default_model_filename").and_then(Value::as_str).unwrap_or_default();
    let backend = match fields.get("backend").and_then(Value::as_str).unwrap_or_default() {
        "" => backend_of(given),
        backend => backend,
    };
    let file_name = if backend == PACKAGE { PACKAGE_FILE } else { PYTHON_FILE };
    let defaults = [
        ("name", json!(name)),
        ("backend", json!(backend)),
        ("version_policy", json!({"latest": {"num_versions": 1}})),
        ("default_model_filename", json!(file_name)),
        ("instance_group", json!([{"name": "", "count": 1, "gpus": [], "kind": "KIND_CPU"}])),
    ];
    for (field, default) in defaults {
        if is_empty(fields.get(field)) {
            fields.insert(field.to_owned(), default);
        }
    }
    if let Some(batching) = fields.get_mut("sequence_batching").filter(|given| given.is_object())
        && batching["max_sequence_idle_microseconds"] == 0
    {
        batching["max_sequence_idle_microseconds"] = json!(sequence::IDLE);
    }
    for (place, group) in fields["instance_group"].as_array_mut().into_iter().flatten().enumerate()
    {
        if is_empty(group.get("name")) {
            group["name"] = json!(format!("{name}_{place}"));
        }
        if group["count"] == 0 {
            group["count"] = json!(1);
        }
        if group["kind"] == "KIND_AUTO" {
            group["kind"] =
                json!(if is_empty(group.get("gpus")) { "KIND_CPU" } else { "KIND_GPU" });
        }
    }
}

#[cfg(test)]
mod tests;
