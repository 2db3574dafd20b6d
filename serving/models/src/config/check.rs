//! Rejects configurations that make no sense or ask for what this server does not do.

use super::{
    ConfigError, DynamicBatching, Fields, InstanceGroup, PACKAGE, PYTHON, TensorConfig, is_package,
};
use serde_json::Value;

pub(super) fn check_backend(json: &Value, name: &str) -> Result<(), ConfigError> {
    let text = |field: &str| json[field].as_str().unwrap_or_default();
    if text("name") != name {
        let problem = format!(
            "it is `{}`, and the model's folder is `{name}`; both must be the same",
            text("name")
        );
        return Err(ConfigError::field("name", problem));
    }
    if ![PYTHON, PACKAGE].contains(&text("backend")) {
        let problem = format!(
            "this server has models for `{PYTHON}` and `{PACKAGE}` only, not for `{}`",
            text("backend")
        );
        return Err(ConfigError::field("backend", problem));
    }
    if !text("platform").is_empty() {
        let problem = format!("models here have none, and this one has `{}`", text("platform"));
        return Err(ConfigError::field("platform", problem));
    }
    Ok(())
}

pub(super) fn check_groups(groups: &[InstanceGroup]) -> Result<(), ConfigError> {
    match groups.iter().position(|group| group.count < 1) {
        Some(place) => Err(ConfigError::field(
            format!("instance_group[{place}].count"),
            "it must be 1 or more",
        )),
        None => Ok(()),
    }
}

pub(super) fn check_file_name(name: &str, backend: &str) -> Result<(), ConfigError> {
    let is_name = !name.contains(['/', '\\']);
    let problem = match backend {
        PACKAGE if !is_name || !is_package(name) => "no name of a package, such as model.pt",
        PYTHON if !is_name || !name.ends_with(".py") => "no name of a Python file",
        _ => return Ok(()),
    };
    Err(ConfigError::field("default_model_filename", format!("`{name}` is {problem}")))
}

pub(super) fn check_batch_size(max_batch_size: i32) -> Result<(), ConfigError> {
    match max_batch_size {
        0.. => Ok(()),
        _ => Err(ConfigError::field("max_batch_size", "it must be 0 or more")),
    }
}

pub(super) fn check(fields: &Fields, max_batch_size: i32) -> Result<(), ConfigError> {
    for (field, tensors) in [("input", &fields.input), ("output", &fields.output)] {
        check_tensors(field, tensors)?;
    }
    match &fields.dynamic_batching {
        Some(batching) => check_batching(batching, max_batch_size),
        None => Ok(()),
    }
}

fn check_tensors(field: &str, tensors: &[TensorConfig]) -> Result<(), ConfigError> {
    for (place, tensor) in tensors.iter().enumerate() {
        let field = |name: &str| format!("{field}[{place}].{name}");
        if tensor.name.is_empty() {
            return Err(ConfigError::field(field("name"), "it must not be empty"));
        }
        if tensors[..place].iter().any(|other| other.name == tensor.name) {
            return Err(ConfigError::field(
                field("name"),
                format!("`{}` is there twice", tensor.name),
            ));
        }
        if tensor.dims.is_empty() {
            return Err(ConfigError::field(
                field("dims"),
                format!("`{}` needs at least one", tensor.name),
            ));
        }
        if let Some(dim) = tensor.dims.iter().find(|dim| **dim == 0 || **dim < -1) {
            return Err(ConfigError::field(
                field("dims"),
                format!("{dim} is neither -1 nor positive"),
            ));
        }
    }
    Ok(())
}

fn check_batching(batching: &DynamicBatching, max_batch_size: i32) -> Result<(), ConfigError> {
    let field = |name: &str| format!("dynamic_batching.{name}");
    if max_batch_size == 0 {
        let problem = "it needs a max_batch_size of 1 or more";
        return Err(ConfigError::field("dynamic_batching", problem));
    }
    if let Some(size) =
        batching.preferred_batch_size.iter().find(|size| **size < 1 || **size > max_batch_size)
    {
        let problem =
            format!("{size} is not between 1 and max_batch_size, which is {max_batch_size}");
        return Err(ConfigError::field(field("preferred_batch_size"), problem));
    }
    if batching.priority_levels > 0
        && !(1..=batching.priority_levels).contains(&batching.default_priority_level)
    {
        let problem = format!(
            "it must be between 1 and priority_levels, which is {}",
            batching.priority_levels
        );
        return Err(ConfigError::field(field("default_priority_level"), problem));
    }
    for level in batching.priority_queue_policy.keys() {
        if !level.parse().is_ok_and(|level: u64| (1..=batching.priority_levels).contains(&level)) {
            let problem = format!(
                "{level} is not between 1 and priority_levels, which is {}",
                batching.priority_levels
            );
            return Err(ConfigError::field(field("priority_queue_policy"), problem));
        }
    }
    Ok(())
}
