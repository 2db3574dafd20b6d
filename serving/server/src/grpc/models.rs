//! Answers about models, their configurations and statistics, and repositories.

use super::proto::inference::model_repository_parameter::ParameterChoice as Choice;
use super::proto::inference::repository_index_response::ModelIndex;
use super::proto::inference::{
    ModelConfigResponse, ModelMetadataResponse, ModelRepositoryParameter, ModelStatisticsResponse,
};
use super::status::invalid;
use super::{proto, request};
use crate::service::Service;
use hydrozoa_models::host::Overrides;
use hydrozoa_models::{Code, Failure, Indexed, ModelState};
use std::collections::BTreeMap;

/// The inputs and outputs of a model.
pub(super) fn metadata(
    service: &Service,
    name: &str,
    version: &str,
) -> Result<ModelMetadataResponse, Failure> {
    let found = service.model_metadata(name, request::version(version)?)?;
    proto::message("inference.ModelMetadataResponse", &found)
}

/// A model's configuration, defaults included.
pub(super) fn config(
    service: &Service,
    name: &str,
    version: &str,
) -> Result<ModelConfigResponse, Failure> {
    let model = request::model(service.server(), name, version)?;
    let config = proto::message("inference.ModelConfig", model.config().json())?;
    Ok(ModelConfigResponse { config: Some(config) })
}

/// The statistics of one version, of all versions of a model, or of all models.
pub(super) fn statistics(
    service: &Service,
    name: &str,
    version: &str,
) -> Result<ModelStatisticsResponse, Failure> {
    let number = request::version(version)?;
    let name = Some(name).filter(|name| !name.is_empty());
    if let Some(name) = name {
        service.server().model(name, number)?;
    }
    // A version without a name stands for nothing.
    let found = service.statistics(name, number.filter(|_| name.is_some()))?;
    proto::message("inference.ModelStatisticsResponse", &found)
}

fn one_repository(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Ok(());
    }
    let words = "'repository_name' specification is not supported";
    Err(Failure::new(Code::Unsupported, words))
}

/// All models of the repositories, or those that serve.
pub(super) fn index(
    service: &Service,
    repository: &str,
    only_ready: bool,
) -> Result<Vec<ModelIndex>, Failure> {
    one_repository(repository)?;
    let one = |model: Indexed| {
        let state = match (&model.state, model.version) {
            (ModelState::Impaired(_), _) => "UNAVAILABLE",
            (_, Some(_)) => "READY",
            (ModelState::Loading, None) => "LOADING",
            _ => "UNAVAILABLE",
        };
        let reason = match model.state {
            ModelState::Failed(why) | ModelState::Impaired(why) => why,
            ModelState::Unloaded => "unloaded".to_owned(),
            _ => String::new(),
        };
        let version = model.version.map(|number| number.to_string()).unwrap_or_default();
        ModelIndex { name: model.name, version, state: state.to_owned(), reason }
    };
    let mut models: Vec<_> = service.server().index().into_iter().map(one).collect();
    models.retain(|model| !only_ready || model.state == "READY");
    Ok(models)
}

type Parameters = BTreeMap<String, ModelRepositoryParameter>;

/// The configuration and files that a load's parameters put in the place of the repository's.
pub(super) fn overrides(repository: &str, parameters: Parameters) -> Result<Overrides, Failure> {
    one_repository(repository)?;
    let mut overrides = Overrides::default();
    for (parameter, value) in parameters {
        let expected = match (parameter.as_str(), value.parameter_choice) {
            ("config", Some(Choice::StringParam(config))) => {
                overrides.config = Some(config);
                continue;
            }
            ("config", _) => "string_param",
            (file, Some(Choice::BytesParam(data))) if file.starts_with("file:") => {
                overrides.files.push((parameter, data));
                continue;
            }
            (file, _) if file.starts_with("file:") => "bytes_param",
            _ => return Err(invalid(format!("unrecognized load parameter '{parameter}'."))),
        };
        return Err(invalid(format!(
            "invalid value type for load parameter '{parameter}', expected {expected}."
        )));
    }
    Ok(overrides)
}

/// Whether a model can be unloaded with these parameters.
pub(super) fn check_unload(repository: &str, parameters: &Parameters) -> Result<(), Failure> {
    one_repository(repository)?;
    // No model depends on another one here.
    if let Some(value) = parameters.get("unload_dependents")
        && !matches!(value.parameter_choice, Some(Choice::BoolParam(_)))
    {
        return Err(invalid(
            "invalid value type for 'unload_dependents' parameter, expected bool_param.",
        ));
    }
    Ok(())
}
