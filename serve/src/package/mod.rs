//! Packages as models: what a server makes of a `torch.package` archive.

mod plan;

#[cfg(test)]
mod tests;

pub(crate) use plan::{Argument, Expected, Plan};

use crate::config::{ConfigDraft, ConfigError, InstanceGroup, ModelConfig};
use crate::interpreters::{Interpreters, Settings};
use crate::load::{LoadError, Source};
use hydrozoa::package::{Archive, EXAMPLE, Kind, OBJECT, Signature, describing};
use hydrozoa::{Imports, Movable, Package};
use plan::Known;
use serde_json::Value;
use std::sync::Arc;

/// A package that interpreters have. Their objects share its weights.
pub(crate) struct Packaged {
    pub(crate) object: Movable,
    /// The arguments of one call.
    pub(crate) example: Option<Movable>,
    pub(crate) plan: Plan,
}

/// What a package has become.
pub(crate) struct Loaded {
    pub(crate) interpreters: Arc<Interpreters>,
    pub(crate) config: ModelConfig,
    pub(crate) packaged: Packaged,
}

impl Loaded {
    /// Opens a package, finds interpreters for it, and completes its configuration. Interpreters that serve a former package of the model
    /// take it, too, if they are as it needs them: a package finds no trace of another one there.
    pub(crate) fn new(source: &Source<'_>) -> Result<Self, LoadError> {
        check(source.draft).map_err(|error| source.configured(error))?;
        let archive = Archive::open(&source.file).map_err(|error| source.failed(error.into()))?;
        let imports = archive.imports().map_err(|error| source.failed(error.into()))?;
        let signature = archive.signature().map_err(|error| source.failed(error.into()))?;
        let interpreters = interpreters(source, imports)?;
        let package = interpreters.pool().load_archive(archive);
        let load = |(package_name, resource)| package.load_pickle(package_name, resource);
        let object = load(OBJECT).map_err(|error| source.failed(error))?;
        let example = package.has_example().then(|| load(EXAMPLE)).transpose();
        let example = example.map_err(|error| source.failed(error))?;
        let known = known(source, &package, &object, example.as_ref(), signature)?;
        let mut json = source.draft.json().clone();
        let plan = Plan::new(&mut json, &known).map_err(|problem| source.unusable(problem))?;
        let config = ModelConfig::of_json(&json, source.name());
        let config = config.map_err(|error| source.configured(error))?;
        let packaged = Packaged { object, example, plan };
        Ok(Self { interpreters, config, packaged })
    }
}

/// Refuses what a configuration may ask of other models only.
fn check(draft: &ConfigDraft) -> Result<(), ConfigError> {
    let json = draft.json();
    let refuse = |field: &str, problem: &str| Err(ConfigError::field(field, problem));
    if json["model_transaction_policy"]["decoupled"] == true {
        return refuse("model_transaction_policy", "a package answers each request once");
    }
    if json["sequence_batching"].is_object() {
        return refuse(
            "sequence_batching",
            "a package keeps no state of clients; a Python model can",
        );
    }
    let is_ragged = |input: &Value| input["allow_ragged_batch"] == true;
    if json["input"].as_array().is_some_and(|inputs| inputs.iter().any(is_ragged)) {
        return refuse(
            "input.allow_ragged_batch",
            "requests to a package are joined to one tensor",
        );
    }
    let is_elsewhere = |group: &InstanceGroup| group.kind == crate::config::Kind::Gpu;
    if draft.groups().iter().any(is_elsewhere) {
        return refuse("instance_group.kind", "packages run on the processor only; it is KIND_CPU");
    }
    Ok(())
}

/// The interpreters of a former version that fits, or new ones.
fn interpreters(source: &Source<'_>, imports: Imports) -> Result<Arc<Interpreters>, LoadError> {
    let text = match &imports {
        Imports::Profile(profile) => Some(profile.to_string()),
        _ => None,
    };
    let settings = Settings {
        is_package: true,
        count: crate::model::instances(source.draft.groups()).len(),
        environment: source.environment()?,
        imports: text,
    };
    if let Some(former) = source.former.as_ref().filter(|former| former.fits(&settings)) {
        return Ok(former.clone());
    }
    let imports = settings.imports.is_some().then_some(imports);
    let started = Interpreters::start(source.name(), (source.builder)(), settings, imports);
    let started = started.map_err(|error| source.failed(error))?;
    crate::python::prepare(started.pool()).map_err(|error| source.failed(error))?;
    Ok(Arc::new(started))
}

/// What the package, its example and its object say of the call.
fn known(
    source: &Source<'_>,
    package: &Package,
    object: &Movable,
    example: Option<&Movable>,
    signature: Option<Signature>,
) -> Result<Known, LoadError> {
    let is_of_torch = |name: &String| name == "torch" || name.starts_with("torch.");
    let has_torch = package.extern_modules().iter().any(is_of_torch);
    let kind = if has_torch { Kind::Tensor } else { Kind::Array };
    let session = package.pool().acquire_on(0).map_err(|error| source.failed(error))?;
    let asked = session.with_gil(|| {
        let object = object.to_object(&session)?;
        let parameters: Vec<String> =
            describing(&session)?.call_method("parameters", (&object,))?.extract()?;
        let silence = "the package has no example".to_owned();
        let (signature, silence) = match (signature, example) {
            (Some(signature), _) => (Some(signature), silence),
            (None, None) => (None, silence),
            (None, Some(example)) => {
                let example = example.to_object(&session)?;
                match Signature::of_example(&session, &object, &example) {
                    Ok(signature) => (Some(signature), silence),
                    // An example that cannot be called is told of when instances run it.
                    Err(error) => (None, format!("its example says nothing of its call ({error})")),
                }
            }
        };
        Ok(Known { signature, silence, parameters, kind })
    });
    asked.map_err(|error| source.failed(error))
}
