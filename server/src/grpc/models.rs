//! What there is: models, their configurations and statistics, and repositories.

use super::proto;
use super::proto::inference::model_metadata_response::TensorMetadata;
use super::proto::inference::model_repository_parameter::ParameterChoice as Choice;
use super::proto::inference::repository_index_response::ModelIndex;
use super::proto::inference::{
    InferBatchStatistics, InferStatistics, ModelConfigResponse, ModelMetadataResponse,
    ModelRepositoryParameter, ModelStatistics, StatisticDuration,
};
use super::request;
use super::status::invalid;
use hydrozoa_serve::config::TensorConfig;
use hydrozoa_serve::host::Overrides;
use hydrozoa_serve::{BatchStatistics, Code, Failure, Indexed, Model, Server, State};
use std::collections::BTreeMap;
use std::time::Duration;

/// The versions of models that serve, of one model or of all.
fn serving(server: &Server, name: &str) -> Vec<(String, i64)> {
    let of_version = |model: Indexed| model.version.map(|version| (model.name, version));
    let mut all: Vec<_> = server.index().into_iter().filter_map(of_version).collect();
    all.retain(|(model, _)| name.is_empty() || model == name);
    all
}

fn tensors(tensors: &[TensorConfig], is_batch: bool) -> Vec<TensorMetadata> {
    let one = |tensor: &TensorConfig| {
        let batch = is_batch.then_some(-1);
        TensorMetadata {
            name: tensor.name.clone(),
            datatype: tensor.data_type.name().to_owned(),
            shape: batch.into_iter().chain(tensor.dims.iter().copied()).collect(),
        }
    };
    tensors.iter().map(one).collect()
}

/// What a model takes and gives.
pub(super) fn metadata(
    server: &Server,
    name: &str,
    version: &str,
) -> Result<ModelMetadataResponse, Failure> {
    let model = request::model(server, name, version)?;
    let config = model.config();
    let versions = match version {
        "" => serving(server, name).into_iter().map(|(_, number)| number.to_string()).collect(),
        _ => vec![model.version().to_string()],
    };
    let is_batch = config.max_batch_size() > 0;
    Ok(ModelMetadataResponse {
        name: config.name().to_owned(),
        versions,
        platform: config.json()["backend"].as_str().unwrap_or_default().to_owned(),
        inputs: tensors(config.inputs(), is_batch),
        outputs: tensors(config.outputs(), is_batch),
    })
}

/// A model's configuration, defaults included.
pub(super) fn config(
    server: &Server,
    name: &str,
    version: &str,
) -> Result<ModelConfigResponse, Failure> {
    let model = request::model(server, name, version)?;
    let config =
        proto::model_config(model.config()).map_err(|words| Failure::new(Code::Internal, words))?;
    Ok(ModelConfigResponse { config: Some(config) })
}

fn duration(count: u64, time: Duration) -> Option<StatisticDuration> {
    Some(StatisticDuration { count, ns: time.as_nanos().try_into().unwrap_or(u64::MAX) })
}

fn statistics_of(model: &Model) -> ModelStatistics {
    let done = model.statistics();
    let none = duration(0, Duration::ZERO);
    ModelStatistics {
        name: model.config().name().to_owned(),
        version: model.version().to_string(),
        inference_count: done.inferences,
        execution_count: done.executions,
        inference_stats: Some(InferStatistics {
            success: duration(done.success, done.success_time),
            fail: duration(done.failed, done.failed_time),
            queue: duration(done.success, done.queue),
            compute_input: duration(done.success, done.compute_input),
            compute_infer: duration(done.success, done.compute),
            compute_output: duration(done.success, done.compute_output),
            cache_hit: none,
            cache_miss: none,
        }),
        batch_stats: model.batches().into_iter().map(batch).collect(),
        ..ModelStatistics::default()
    }
}

fn batch(done: BatchStatistics) -> InferBatchStatistics {
    InferBatchStatistics {
        batch_size: done.size as u64,
        compute_input: duration(done.executions, done.compute_input),
        compute_infer: duration(done.executions, done.compute),
        compute_output: duration(done.executions, done.compute_output),
    }
}

/// What models have done: one version, all versions of a model, or all models.
pub(super) fn statistics(
    server: &Server,
    name: &str,
    version: &str,
) -> Result<Vec<ModelStatistics>, Failure> {
    let number = request::version(version)?;
    if !name.is_empty() {
        let model = server.model(name, number)?;
        if number.is_some() {
            return Ok(vec![statistics_of(&model)]);
        }
    }
    // A model that is unloaded just now is left out.
    let all = serving(server, name).into_iter();
    let models = all.filter_map(|(name, version)| server.model(&name, Some(version)).ok());
    Ok(models.map(|model| statistics_of(&model)).collect())
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
    server: &Server,
    repository: &str,
    only_ready: bool,
) -> Result<Vec<ModelIndex>, Failure> {
    one_repository(repository)?;
    let one = |model: Indexed| {
        let state = match (&model.state, model.version) {
            (State::Impaired(_), _) => "UNAVAILABLE",
            (_, Some(_)) => "READY",
            (State::Loading, None) => "LOADING",
            _ => "UNAVAILABLE",
        };
        let reason = match model.state {
            State::Failed(why) | State::Impaired(why) => why,
            State::Unloaded => "unloaded".to_owned(),
            _ => String::new(),
        };
        let version = model.version.map(|number| number.to_string()).unwrap_or_default();
        ModelIndex { name: model.name, version, state: state.to_owned(), reason }
    };
    let mut models: Vec<_> = server.index().into_iter().map(one).collect();
    models.retain(|model| !only_ready || model.state == "READY");
    Ok(models)
}

type Parameters = BTreeMap<String, ModelRepositoryParameter>;

/// What the parameters of a load have in the place of the repository's.
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
