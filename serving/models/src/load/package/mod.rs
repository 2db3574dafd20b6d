//! Packages as models: turns a `torch.package` archive into a model.

mod plan;

#[cfg(test)]
mod tests;

pub(crate) use plan::{Argument, Expected, Plan};

use crate::config::{ConfigDraft, ConfigError, InstanceGroup, ModelConfig};
use crate::config::{Location, instances};
use crate::load::LoadError;
use crate::load::LoadThread;
use crate::load::Source;
use hydrozoa::package::{Archive, EXAMPLE, Kind, OBJECT, Signature, describing};
use hydrozoa::{Error, Movable, Package, Pool, Session};
use plan::Known;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A package that interpreters have. Their objects share its weights.
pub(crate) struct Packaged {
    /// One for each place where instances have it.
    placed: BTreeMap<Location, Placed>,
    pub(crate) plan: Plan,
}

/// A package's object in one place.
pub(crate) struct Placed {
    pub(crate) object: Movable,
    /// The arguments of one call.
    pub(crate) example: Option<Movable>,
}

/// Opens a model's package.
pub(crate) fn open(source: &Source) -> Result<Archive, LoadError> {
    check(&source.draft).map_err(|error| source.configured(error))?;
    Archive::open(&source.file).map_err(|error| source.failed(error.into()))
}

impl Packaged {
    /// Loads a package in a pool's first interpreter, and completes its configuration.
    pub(crate) fn load<T: Send + 'static>(
        source: &Source,
        thread: &Arc<LoadThread<T>>,
        pool: &Pool,
        archive: Archive,
    ) -> Result<(ModelConfig, Self), LoadError> {
        let signature = archive.signature().map_err(|error| source.failed(error.into()))?;
        let package = pool.load_archive(archive);
        let session = pool.acquire_on(0).map_err(|error| source.failed(error))?;
        let first = locations(source.draft.instance_groups())[0];
        let (placed, known) = thread.limited(pool, &session, "load", || {
            let placed = Placed::load(&package, &session, first)?;
            let known = known(&session, &package, &placed, signature)?;
            Ok((placed, known))
        })?;
        let mut json = source.draft.json().clone();
        let plan = Plan::new(&mut json, &known).map_err(|problem| source.unusable(problem))?;
        let config = ModelConfig::of_json(&json, source.name());
        let config = config.map_err(|error| source.configured(error))?;
        let locations = locations(config.instance_groups());
        let is_on_gpu = locations.iter().any(|location| matches!(location, Location::Gpu(_)));
        if is_on_gpu && known.kind == Kind::Array {
            let problem = "a package that declares no torch runs on the processor; it is KIND_CPU";
            return Err(source.configured(ConfigError::field("instance_group.kind", problem)));
        }
        let mut all = BTreeMap::from([(first, placed)]);
        for &location in &locations {
            if all.contains_key(&location) {
                continue;
            }
            let placed = thread.limited(pool, &session, "load", || {
                let placed = Placed::load(&package, &session, location)?;
                if location != locations[0] {
                    // This interpreter's instance is on another device.
                    placed.unload(&session);
                }
                Ok(placed)
            })?;
            all.insert(location, placed);
        }
        // The configuration may name another place than its draft.
        all.retain(|location, _| locations.contains(location));
        Ok((config, Self { placed: all, plan }))
    }

    /// The package at an instance's place.
    pub(crate) fn at(&self, location: Location) -> &Placed {
        &self.placed[&location]
    }
}

impl Placed {
    fn load(package: &Package, session: &Session, location: Location) -> hydrozoa::Result<Self> {
        let load = |(name, resource): (&str, &str)| match location.map() {
            Some(map) => package.load_pickle_mapped_on(session, name, resource, map),
            None => package.load_pickle_on(session, name, resource),
        };
        let object = load(OBJECT)?;
        let example = package.has_example().then(|| load(EXAMPLE)).transpose()?;
        Ok(Self { object, example })
    }

    fn unload(&self, session: &Session) {
        self.object.unload(session);
        if let Some(example) = &self.example {
            example.unload(session);
        }
    }
}

/// Where instances have a package, in their order; never empty.
fn locations(groups: &[InstanceGroup]) -> Vec<Location> {
    let all = instances(groups);
    let mut locations: Vec<_> =
        all.iter().map(|(_, kind, device)| Location::of(kind, *device)).collect();
    if locations.is_empty() {
        locations.push(Location::Processor);
    }
    locations
}

/// Refuses settings that only other models support.
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
    Ok(())
}

/// Collects the facts about the call from the package, its example and its object.
fn known(
    session: &Session,
    package: &Package,
    placed: &Placed,
    signature: Option<Signature>,
) -> hydrozoa::Result<Known> {
    let is_of_torch = |name: &String| name == "torch" || name.starts_with("torch.");
    let has_torch = package.extern_modules().iter().any(is_of_torch);
    let kind = if has_torch { Kind::Tensor } else { Kind::Array };
    session.with_gil(|| {
        let object = placed.object.to_object(session)?;
        let parameters: Vec<String> =
            describing(session)?.call_method("parameters", (&object,))?.extract()?;
        let silence = "the package has no example".to_owned();
        let (signature, silence) = match (signature, &placed.example) {
            (Some(signature), _) => (Some(signature), silence),
            (None, None) => (None, silence),
            (None, Some(example)) => {
                let example = example.to_object(session)?;
                match Signature::of_example(session, &object, &example) {
                    Ok(signature) => (Some(signature), silence),
                    Err(error @ Error::Deadline { .. }) => return Err(error),
                    // An example that cannot be called is told of when instances run it.
                    Err(error) => (None, format!("its example says nothing of its call ({error})")),
                }
            }
        };
        Ok(Known { signature, silence, parameters, kind })
    })
}
