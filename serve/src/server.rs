//! The models of a process.

use crate::config::ConfigDraft;
use crate::failure::{Code, Failure};
use crate::limits::Defaults;
use crate::load::{LoadError, Source};
use crate::metrics::Metrics;
use crate::model::{Model, Ticket, versions};
use crate::pending::Process;
use crate::python::Context;
use crate::request::{Event, Request};
use hydrozoa::Builder;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The models of a process: those that repositories have, and of these the versions that serve.
///
/// A repository is a folder of models: `NAME/config.pbtxt` and `NAME/VERSION/model.py`, as Triton has it. A model's
/// instances run in interpreters of their own.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

/// A [`Server`] that it does not keep.
#[derive(Clone)]
pub(crate) struct WeakServer(Weak<Shared>);

struct Shared {
    builder: Box<dyn Fn() -> Builder + Send + Sync>,
    repositories: RwLock<Vec<PathBuf>>,
    defaults: RwLock<Defaults>,
    models: RwLock<BTreeMap<String, Entry>>,
    /// One load or unload of a model at a time.
    changes: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    metrics: Metrics,
}

#[derive(Default)]
struct Entry {
    /// The versions that serve.
    serving: BTreeMap<i64, Arc<Model>>,
    state: State,
}

/// Where a model stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It was never loaded, or it was unloaded.
    #[default]
    Unloaded,
    /// It is being loaded. Versions that served go on.
    Loading,
    /// It serves.
    Ready,
    /// The last load failed. Versions that served go on.
    Failed(
        /// Why.
        String,
    ),
    /// It serves, but an instance of this version is stuck or cannot be replaced.
    Impaired(
        /// Why.
        String,
    ),
}

/// One line of [`Server::index`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Indexed {
    /// The model.
    pub name: String,
    /// A version that serves. `None` for a model without one.
    pub version: Option<i64>,
    /// Where the model stands.
    pub state: State,
}

/// Versions that have served.
struct Former(BTreeMap<i64, Arc<Model>>);

impl Former {
    /// Serves who waits for them, and ends them.
    fn end(self) {
        self.0.into_values().for_each(|model| model.unload());
    }

    /// The same on a thread of its own.
    fn end_elsewhere(self, name: &str) -> Result<(), LoadError> {
        let thread = std::thread::Builder::new().name("unload".to_owned());
        let started = thread.spawn(move || self.end());
        started.map(drop).map_err(|source| LoadError::Thread { model: name.to_owned(), source })
    }
}

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

impl Server {
    /// A server without models. `builder` says how the interpreters of a model are made; their number is the model's.
    pub fn new(builder: impl Fn() -> Builder + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            builder: Box::new(builder),
            repositories: RwLock::default(),
            defaults: RwLock::default(),
            models: RwLock::default(),
            changes: Mutex::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Looks for models in this folder, too.
    pub fn add_repository(&self, directory: impl Into<PathBuf>) {
        self.0.repositories.write().push(directory.into());
    }

    /// What holds for models that are loaded from now on, unless their configuration says otherwise. Without it they have no
    /// limits.
    ///
    /// ```no_run
    /// # use hydrozoa_serve::{Defaults, Server};
    /// # fn f(server: &Server) {
    /// let mut defaults = Defaults::default();
    /// defaults.execution_limit = Some(std::time::Duration::from_secs(10));
    /// server.set_defaults(defaults);
    /// # }
    /// ```
    pub fn set_defaults(&self, defaults: Defaults) {
        *self.0.defaults.write() = defaults;
    }

    /// The names of all models that the repositories have, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for repository in self.0.repositories.read().iter() {
            let entries = std::fs::read_dir(repository).into_iter().flatten().flatten();
            names.extend(
                entries
                    .filter(|entry| entry.path().is_dir())
                    .filter_map(|entry| entry.file_name().into_string().ok()),
            );
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names.dedup();
        names
    }

    /// The folder of a model.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, LoadError> {
        let repositories = self.0.repositories.read();
        // A name is one folder, and never a way out of the repository.
        let is_name =
            Path::new(name).file_name().is_some_and(|file| file == name) && !name.starts_with('.');
        let found = repositories
            .iter()
            .map(|repository| repository.join(name))
            .find(|path| is_name && path.is_dir());
        found.ok_or_else(|| {
            let searched: Vec<_> =
                repositories.iter().map(|path| path.display().to_string()).collect();
            LoadError::Unknown {
                model: name.to_owned(),
                searched: format!("they are {}", searched.join(", ")),
            }
        })
    }

    fn change(&self, name: &str) -> Arc<Mutex<()>> {
        self.0.changes.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Loads a model, or loads it again. All versions that its configuration asks for are loaded and initialized before
    /// any of them serves. The former ones serve until then, and end afterwards, when what waits for them is served.
    ///
    /// # Errors
    ///
    /// [`LoadError`]. Then the versions that served go on.
    pub fn load(&self, name: &str) -> Result<(), LoadError> {
        let change = self.change_of_model(name)?;
        let former = self.replace(name, &change.lock())?;
        former.end();
        Ok(())
    }

    /// As [`Server::load`], for a model that calls it. It waits for nobody who might wait for the model itself.
    pub(crate) fn load_for_model(&self, name: &str) -> Result<(), LoadError> {
        let change = self.change_of_model(name)?;
        let change = change.try_lock().ok_or_else(|| LoadError::Busy { model: name.to_owned() })?;
        self.replace(name, &change)?.end_elsewhere(name)
    }

    /// Nothing is kept of a name that no repository has.
    fn change_of_model(&self, name: &str) -> Result<Arc<Mutex<()>>, LoadError> {
        self.find(name).map(|_| self.change(name))
    }

    /// Loads a model, and returns what served until now.
    fn replace(&self, name: &str, _change: &MutexGuard<'_, ()>) -> Result<Former, LoadError> {
        self.0.models.write().entry(name.to_owned()).or_default().state = State::Loading;
        let loaded = self.load_versions(name);
        let mut models = self.0.models.write();
        let entry = models.entry(name.to_owned()).or_default();
        match loaded {
            Ok(serving) => {
                entry.state = State::Ready;
                Ok(Former(std::mem::replace(&mut entry.serving, serving)))
            }
            Err(error) => {
                entry.state = State::Failed(error.to_string());
                Err(error)
            }
        }
    }

    fn load_versions(&self, name: &str) -> Result<BTreeMap<i64, Arc<Model>>, LoadError> {
        let directory = self.find(name)?;
        // Models are told absolute paths.
        let directory = std::path::absolute(&directory).map_err(|source| LoadError::Read {
            model: name.to_owned(),
            path: directory.clone(),
            source,
        })?;
        let configured = |source| LoadError::Config { model: name.to_owned(), source };
        let draft = Arc::new(ConfigDraft::of_folder(&directory).map_err(configured)?);
        let limits = self.0.defaults.read().with(&draft, &directory).map_err(configured)?;
        let available = versions(&directory, draft.file_name()).map_err(|source| {
            LoadError::Read { model: name.to_owned(), path: directory.clone(), source }
        })?;
        let wanted = draft.version_policy().choose(&available);
        if wanted.is_empty() {
            let file_name = draft.file_name().to_owned();
            return Err(LoadError::NoVersion {
                model: name.to_owned(),
                path: directory,
                file_name,
            });
        }
        let mut loaded = BTreeMap::new();
        for version in wanted {
            let context = Context {
                server: Arc::new(WeakServer(Arc::downgrade(&self.0))),
                model: name.to_owned(),
                directory: directory.join(version.to_string()),
                process: Process::this(),
            };
            let source = Source {
                directory: directory.clone(),
                draft: draft.clone(),
                version,
                builder: (self.0.builder)(),
                context,
                limits: limits.clone(),
            };
            match Model::load(&Arc::new(source)) {
                Ok(model) => drop(loaded.insert(version, model)),
                Err(error) => {
                    loaded.into_values().for_each(|model: Arc<Model>| model.unload());
                    return Err(error);
                }
            }
        }
        Ok(loaded)
    }

    /// Takes a model out of service. What waits for it is served first.
    ///
    /// # Errors
    ///
    /// [`LoadError::Unknown`] if it was never loaded.
    pub fn unload(&self, name: &str) -> Result<(), LoadError> {
        let change = self.change_of_loaded(name)?;
        let former = self.take_out(name, &change.lock());
        former.end();
        Ok(())
    }

    /// As [`Server::unload`], for a model that calls it. It waits for nobody who might wait for the model itself.
    pub(crate) fn unload_for_model(&self, name: &str) -> Result<(), LoadError> {
        let change = self.change_of_loaded(name)?;
        let change = change.try_lock().ok_or_else(|| LoadError::Busy { model: name.to_owned() })?;
        self.take_out(name, &change).end_elsewhere(name)
    }

    fn change_of_loaded(&self, name: &str) -> Result<Arc<Mutex<()>>, LoadError> {
        if self.0.models.read().contains_key(name) {
            return Ok(self.change(name));
        }
        let searched = "it was never loaded".to_owned();
        Err(LoadError::Unknown { model: name.to_owned(), searched })
    }

    fn take_out(&self, name: &str, _change: &MutexGuard<'_, ()>) -> Former {
        let mut models = self.0.models.write();
        Former(std::mem::take(models.entry(name.to_owned()).or_default()).serving)
    }

    /// Takes all models out of service.
    pub fn unload_all(&self) {
        let names: Vec<_> = self.0.models.read().keys().cloned().collect();
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| self.unload(name));
            }
        });
    }

    /// All models: those that the repositories have, and those that were loaded.
    pub fn index(&self) -> Vec<Indexed> {
        self.indexed(self.names())
    }

    /// The models that were loaded, or should have been. This reads no folder.
    pub fn loaded(&self) -> Vec<Indexed> {
        self.indexed(Vec::new())
    }

    /// Those of these names, and all that were loaded.
    fn indexed(&self, mut names: Vec<String>) -> Vec<Indexed> {
        let models = self.0.models.read();
        names.extend(models.keys().cloned());
        names.sort();
        names.dedup();
        let mut index = Vec::new();
        for name in names {
            let entry = models.get(&name);
            let state = entry.map(|entry| entry.state.clone()).unwrap_or_default();
            let serving: Vec<_> = entry
                .into_iter()
                .flat_map(|entry| entry.serving.keys().copied().map(Some))
                .collect();
            let versions = if serving.is_empty() { vec![None] } else { serving };
            index.extend(versions.into_iter().map(|version| {
                let model = version.and_then(|version| entry?.serving.get(&version));
                let problem = model.and_then(|model| model.problem()).map(State::Impaired);
                let state = problem.unwrap_or_else(|| state.clone());
                Indexed { name: name.clone(), version, state }
            }));
        }
        index
    }

    /// A version of a model that serves; without a number the greatest.
    ///
    /// # Errors
    ///
    /// [`Code::NotFound`] if there is none, [`Code::Unavailable`] if it does not serve now.
    pub fn model(&self, name: &str, version: Option<i64>) -> Result<Arc<Model>, Failure> {
        find(&self.0.models.read(), name, version).cloned()
    }

    /// Runs a request on a version of a model; without a number on the greatest that serves. `respond` is that of
    /// [`Model::infer`]. The request is cancelled when the ticket is dropped.
    ///
    /// The request is in the queue before the version that is looked up can be replaced, and whoever is in the queue is
    /// served. So a reload refuses no request.
    ///
    /// # Errors
    ///
    /// As [`Server::model`]. Then `respond` is not called.
    pub fn infer(
        &self,
        name: &str,
        version: Option<i64>,
        request: Request,
        respond: impl FnMut(Event) + Send + 'static,
    ) -> Result<(Arc<Model>, Ticket), Failure> {
        let mut model = self.model(name, version)?;
        let admitted = loop {
            // This may take long, and nobody waits for it.
            let size = model.check(&request);
            // Who replaces or takes out a version needs this lock before it closes the queue.
            let models = self.0.models.read();
            let current = find(&models, name, version)?;
            if Arc::ptr_eq(current, &model) {
                break model.admit(request, size, respond);
            }
            model = current.clone();
        };
        Ok((model, admitted.ticket()))
    }

    /// The versions of a model that serve, the least first.
    pub fn versions(&self, name: &str) -> Vec<i64> {
        let models = self.0.models.read();
        models.get(name).map(|entry| entry.serving.keys().copied().collect()).unwrap_or_default()
    }

    /// Whether a model serves with all of its instances, or this version of it. An empty text is the version that serves who
    /// names none.
    pub fn is_ready(&self, name: &str, version: &str) -> bool {
        let is_ready = |version| self.model(name, version).is_ok_and(|model| model.is_ready());
        match version {
            "" => is_ready(None),
            _ => version.parse().is_ok_and(|version| is_ready(Some(version))),
        }
    }

    /// The metrics that models have defined.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}

/// A version that serves; without a number the greatest.
fn find<'m>(
    models: &'m BTreeMap<String, Entry>,
    name: &str,
    version: Option<i64>,
) -> Result<&'m Arc<Model>, Failure> {
    let Some(entry) = models.get(name) else {
        return Err(Failure::new(
            Code::NotFound,
            format!("Request for unknown model: '{name}' is not found"),
        ));
    };
    let found = match version {
        Some(version) => entry.serving.get(&version),
        None => entry.serving.values().next_back(),
    };
    found.ok_or_else(|| match (version, &entry.state) {
        (Some(version), State::Ready) => Failure::new(
            Code::NotFound,
            format!("Request for unknown model: '{name}' version {version} is not found"),
        ),
        (_, State::Failed(why)) => Failure::new(
            Code::Unavailable,
            format!("Request for model '{name}', which is not ready: {why}"),
        ),
        _ => Failure::new(
            Code::Unavailable,
            format!("Request for model '{name}', which is not ready"),
        ),
    })
}
