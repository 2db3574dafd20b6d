//! The models of a process.

mod chosen;
mod own_host;
mod wait_group;
mod watch;

pub use chosen::Chosen;
pub use watch::{Changes, Watch};

use crate::config::Defaults;
use crate::figures::Metrics;
use crate::host::Overrides;
use crate::load::{LoadError, Source};
use crate::model::{Model, Ticket};
use crate::python::Context;
use crate::queue::Process;
use crate::repository::{
    Catalog, Home, LoadFolders, Origin, PackageFile, checked, is_name, wanted,
};
use crate::request::{Code, Event, Failure, Request};
use hydrozoa::Builder;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use wait_group::{Counted, WaitGroup};

/// The models of a process: those of its repositories, its packages, and the versions of these that serve.
///
/// A repository is a folder of models: `NAME/config.pbtxt` and `NAME/VERSION/model.py`, in Triton's layout, or
/// `NAME/VERSION/model.pt`, a package. A model's instances run in interpreters of their own.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

/// A weak reference to a [`Server`].
#[derive(Clone)]
pub(crate) struct WeakServer(Weak<Shared>);

struct Shared {
    builder: Box<dyn Fn() -> Builder + Send + Sync>,
    catalog: RwLock<Catalog>,
    defaults: RwLock<Defaults>,
    models: RwLock<BTreeMap<String, KnownModel>>,
    /// One load or unload of a model at a time.
    changes: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    metrics: Metrics,
    folders: LoadFolders,
    /// Whether further loads are refused. It changes under the lock of `models`.
    is_closed: AtomicBool,
    /// Loads that are under way.
    loading: WaitGroup,
    /// Versions that no longer serve but have not ended, by [`Former`].
    ending: WaitGroup,
}

/// A model that was loaded, or should have been.
#[derive(Default)]
struct KnownModel {
    /// The versions that serve.
    serving: BTreeMap<i64, Arc<Model>>,
    state: ModelState,
    /// The versions of the last load, if it got that far.
    wanted: Vec<i64>,
    /// Whether the last load brought the model's files. Such a model is forgotten once it no longer serves, unless a repository
    /// has it.
    is_callers: bool,
}

/// Where a model stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelState {
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
    /// It serves, but an instance of this version is stuck, has crashed, or cannot be replaced.
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
    pub state: ModelState,
}

/// Versions that no longer serve.
struct Former {
    versions: BTreeMap<i64, Arc<Model>>,
    _ending: Counted,
}

impl Former {
    /// Serves their waiting requests, and ends them.
    fn end(self) {
        self.versions.into_values().for_each(|model| model.unload());
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
            catalog: RwLock::default(),
            defaults: RwLock::default(),
            models: RwLock::default(),
            changes: Mutex::default(),
            metrics: Metrics::default(),
            folders: LoadFolders::default(),
            is_closed: AtomicBool::new(false),
            loading: WaitGroup::default(),
            ending: WaitGroup::default(),
        }))
    }

    /// Looks for models in this folder, too.
    pub fn add_repository(&self, directory: impl Into<PathBuf>) {
        self.0.catalog.write().add_repository(directory.into());
    }

    /// Sets the limits and imports of models loaded from now on, unless their configuration sets them. Without it models have no
    /// limits.
    ///
    /// ```no_run
    /// # use hydrozoa_models::{Defaults, Server};
    /// # fn f(server: &Server) {
    /// let mut defaults = Defaults::default();
    /// defaults.execution_limit = Some(std::time::Duration::from_secs(10));
    /// server.set_defaults(defaults);
    /// # }
    /// ```
    pub fn set_defaults(&self, defaults: Defaults) {
        *self.0.defaults.write() = defaults;
    }

    /// Adds a package as a model by itself, with so many instances, and returns the model's name: `resnet18` for `resnet18.pt`.
    /// Its only version is 1. After the file was replaced, [`Server::load`] loads the new one.
    ///
    /// # Errors
    ///
    /// [`LoadError::Unnamed`], or [`LoadError::Twice`] if such a package was added before.
    pub fn add_package(
        &self,
        file: impl Into<PathBuf>,
        instances: u32,
    ) -> Result<String, LoadError> {
        self.add_package_on(file, instances, &[])
    }

    /// As [`Server::add_package`], with so many instances on each of these GPUs, by torch's numbers. A GPU holds the weights
    /// once. Without a GPU they run on the processor.
    ///
    /// # Errors
    ///
    /// As [`Server::add_package`].
    pub fn add_package_on(
        &self,
        file: impl Into<PathBuf>,
        instances: u32,
        gpus: &[u32],
    ) -> Result<String, LoadError> {
        let (path, gpus) = (file.into(), gpus.to_vec());
        self.0.catalog.write().add_package(PackageFile { path, instances, gpus })
    }

    /// The names of all models, sorted.
    pub fn names(&self) -> Vec<String> {
        self.0.catalog.read().names()
    }

    /// Where a model lies.
    pub(crate) fn find(&self, name: &str) -> Result<Home, LoadError> {
        self.0.catalog.read().find(name)
    }

    fn change(&self, name: &str) -> Arc<Mutex<()>> {
        let mut changes = self.0.changes.lock();
        // Those that nobody waits for.
        changes.retain(|known, change| known == name || Arc::strong_count(change) > 1);
        changes.entry(name.to_owned()).or_default().clone()
    }

    /// Loads a model, or loads it again. All versions that its configuration asks for are loaded and initialized before
    /// any of them serves. The former ones serve until then, and end after they have served their waiting requests.
    ///
    /// # Errors
    ///
    /// [`LoadError`]. Then the versions that served go on.
    pub fn load(&self, name: &str) -> Result<(), LoadError> {
        self.load_with(name, &Overrides::default())
    }

    /// As [`Server::load`], with a configuration in the place of the file's, or with a configuration and all files of the model.
    /// With files, the model need not be in a repository. A later load without them takes the repository's again.
    ///
    /// # Errors
    ///
    /// As [`Server::load`].
    pub fn load_with(&self, name: &str, overrides: &Overrides) -> Result<(), LoadError> {
        let change = self.change_of_model(name, overrides)?;
        let former = self.replace(name, overrides, &change.lock())?;
        former.end();
        Ok(())
    }

    /// As [`Server::load_with`], for a model that calls it. It waits for nobody who might wait for the model itself.
    pub(crate) fn load_for_model(
        &self,
        name: &str,
        overrides: &Overrides,
    ) -> Result<(), LoadError> {
        let change = self.change_of_model(name, overrides)?;
        let change = change.try_lock().ok_or_else(|| LoadError::Busy { model: name.to_owned() })?;
        self.replace(name, overrides, &change)?.end_elsewhere(name)
    }

    /// Forgets a name that no repository has.
    fn change_of_model(
        &self,
        name: &str,
        overrides: &Overrides,
    ) -> Result<Arc<Mutex<()>>, LoadError> {
        checked(name)?;
        if !(overrides.is_whole() && is_name(name)) {
            self.find(name)?;
        }
        Ok(self.change(name))
    }

    /// Loads a model, and returns the versions that served until now.
    fn replace(
        &self,
        name: &str,
        overrides: &Overrides,
        _change: &MutexGuard<'_, ()>,
    ) -> Result<Former, LoadError> {
        let _loading = self.0.loading.count();
        {
            let mut models = self.0.models.write();
            if self.0.is_closed.load(Ordering::Relaxed) {
                return Err(LoadError::Ends { model: name.to_owned() });
            }
            let known = models.entry(name.to_owned()).or_default();
            known.state = ModelState::Loading;
            known.wanted.clear();
            known.is_callers = overrides.is_whole();
        }
        let origin = Origin::new(&self.0.folders, || self.find(name), name, overrides);
        let loaded = origin.and_then(|origin| self.load_versions(name, &origin));
        let mut models = self.0.models.write();
        let is_closed = self.0.is_closed.load(Ordering::Relaxed);
        let known = models.entry(name.to_owned()).or_default();
        match loaded {
            Ok(loaded) if is_closed => {
                known.state = ModelState::Unloaded;
                let former = self.former(loaded);
                drop(models);
                former.end();
                Err(LoadError::Ends { model: name.to_owned() })
            }
            Ok(serving) => {
                known.state = ModelState::Ready;
                Ok(self.former(std::mem::replace(&mut known.serving, serving)))
            }
            Err(error) => {
                known.state = ModelState::Failed(error.to_string());
                self.forget(name, &mut models);
                Err(error)
            }
        }
    }

    fn load_versions(
        &self,
        name: &str,
        origin: &Origin,
    ) -> Result<BTreeMap<i64, Arc<Model>>, LoadError> {
        let wanted = wanted(name, origin)?;
        if let Some(known) = self.0.models.write().get_mut(name) {
            known.wanted = wanted.iter().map(|one| one.version).collect();
        }
        let limits = self.0.defaults.read().with(&origin.draft, &origin.directory);
        let limits =
            limits.map_err(|source| LoadError::Config { model: name.to_owned(), source })?;
        let mut former: Vec<Arc<Model>> = {
            let models = self.0.models.read();
            models.get(name).into_iter().flat_map(|known| known.serving.values().cloned()).collect()
        };
        let mut loaded = BTreeMap::new();
        for one in &wanted {
            let version = one.version;
            let context = Context {
                server: Arc::new(WeakServer(Arc::downgrade(&self.0))),
                model: name.to_owned(),
                directory: one.file.parent().unwrap_or(Path::new("/")).to_owned(),
                process: Process::this(),
            };
            // The interpreters of the same version, or of one that is removed.
            let goes =
                |model: &Arc<Model>| !wanted.iter().any(|one| one.version == model.version());
            let same = former.iter().position(|model| model.version() == version);
            let taken = same.or_else(|| former.iter().position(goes));
            let source = Arc::new(Source {
                directory: origin.directory.clone(),
                file: one.file.clone(),
                draft: one.draft.clone(),
                version,
                builder: (self.0.builder)(),
                context,
                limits: limits.clone(),
                former: taken.and_then(|place| former.swap_remove(place).interpreters()),
                made: origin.made.clone(),
            });
            match Model::load(&source) {
                Ok(model) => drop(loaded.insert(version, model)),
                Err(error) => {
                    drop(source);
                    loaded.into_values().for_each(|model: Arc<Model>| model.unload());
                    return Err(error);
                }
            }
        }
        Ok(loaded)
    }

    /// Takes a model out of service. Waiting requests are served first.
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

    fn former(&self, versions: BTreeMap<i64, Arc<Model>>) -> Former {
        Former { versions, _ending: self.0.ending.count() }
    }

    fn take_out(&self, name: &str, _change: &MutexGuard<'_, ()>) -> Former {
        let mut models = self.0.models.write();
        let known = models.entry(name.to_owned()).or_default();
        let former = self.former(std::mem::take(&mut known.serving));
        (known.state, known.wanted) = (ModelState::Unloaded, Vec::new());
        self.forget(name, &mut models);
        former
    }

    /// Forgets a model whose files a caller brought, if it does not serve and no repository has it. Otherwise a client that may
    /// load models could fill the index and the page.
    fn forget(&self, name: &str, models: &mut BTreeMap<String, KnownModel>) {
        let is_gone = |known: &KnownModel| known.is_callers && known.serving.is_empty();
        if models.get(name).is_some_and(is_gone)
            && matches!(self.find(name), Err(LoadError::Unknown { .. }))
        {
            models.remove(name);
        }
    }

    /// Takes all models out of service.
    pub fn unload_all(&self) {
        let names: Vec<_> = self.0.models.read().keys().cloned().collect();
        // A model that has gone meanwhile needs no end.
        beside_each_other(&names, |name| drop(self.unload(name)));
    }

    /// From now on no model is loaded ([`LoadError::Ends`]). A load under way finishes, and its model ends at once.
    pub fn refuse_loads(&self) {
        // A load that took the lock before has its model in the map; one that takes it later sees the flag.
        let _models = self.0.models.write();
        self.0.is_closed.store(true, Ordering::Relaxed);
    }

    /// Takes all models out of service for good ([`Server::refuse_loads`]). It does not wait for loads under way. `ended` is
    /// called for each model that has ended, on any thread. At last it removes the files that loads have brought.
    pub fn close(&self, ended: impl Fn(&str) + Sync) {
        self.refuse_loads();
        let taken = |(name, known): (&String, &mut KnownModel)| {
            let former = self.former(std::mem::take(&mut known.serving));
            (name.clone(), Mutex::new(Some(former)))
        };
        let all: Vec<_> = self.0.models.write().iter_mut().map(taken).collect();
        beside_each_other(&all, |(name, former)| {
            let former = former.lock().take();
            former.into_iter().for_each(Former::end);
            ended(name);
        });
        // Also those that were taken out before.
        self.0.ending.wait();
        self.0.folders.remove();
    }

    /// Whether a load is under way.
    pub fn is_loading(&self) -> bool {
        !self.0.loading.is_zero()
    }

    /// All models: those in the repositories, and those that were loaded.
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
            let known = models.get(&name);
            let state = known.map(|known| known.state.clone()).unwrap_or_default();
            let serving: Vec<_> = known
                .into_iter()
                .flat_map(|known| known.serving.keys().copied().map(Some))
                .collect();
            let versions = if serving.is_empty() { vec![None] } else { serving };
            index.extend(versions.into_iter().map(|version| {
                let model = version.and_then(|version| known?.serving.get(&version));
                let problem = model.and_then(|model| model.problem()).map(ModelState::Impaired);
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
    /// [`Code::NotFound`] if it does not exist, [`Code::Unavailable`] if it does not serve now.
    pub fn model(&self, name: &str, version: Option<i64>) -> Result<Arc<Model>, Failure> {
        find(&self.0.models.read(), name, version).cloned()
    }

    /// Runs a request on a version of a model; without a number on the greatest that serves. `respond` is that of
    /// [`Model::infer`]. The request is cancelled when the ticket is dropped.
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
        self.choose(name, version)?.infer(request, respond)
    }

    /// Chooses the model of a request that is still to be read.
    ///
    /// # Errors
    ///
    /// As [`Server::model`].
    pub fn choose(&self, name: &str, version: Option<i64>) -> Result<Chosen, Failure> {
        let model = self.model(name, version)?;
        Ok(Chosen { server: self.clone(), name: name.to_owned(), version, model })
    }

    /// The versions of a model that serve, the least first.
    pub fn versions(&self, name: &str) -> Vec<i64> {
        let models = self.0.models.read();
        models.get(name).map(|known| known.serving.keys().copied().collect()).unwrap_or_default()
    }

    /// Whether a model, or this version of it, serves with all of its instances. An empty text is the version that serves
    /// requests without one.
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

/// Runs an action for each, on a thread of its own if the system can start one.
fn beside_each_other<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    let act = &act;
    std::thread::scope(|scope| {
        for one in all {
            let thread = std::thread::Builder::new().name("unload".to_owned());
            if thread.spawn_scoped(scope, move || act(one)).is_err() {
                act(one);
            }
        }
    });
}

/// A version that serves; without a number the greatest.
fn find<'m>(
    models: &'m BTreeMap<String, KnownModel>,
    name: &str,
    version: Option<i64>,
) -> Result<&'m Arc<Model>, Failure> {
    let Some(known) = models.get(name) else {
        return Err(Failure::new(
            Code::NotFound,
            format!("Request for unknown model: '{name}' is not found"),
        ));
    };
    let found = match version {
        Some(version) => known.serving.get(&version),
        None => known.serving.values().next_back(),
    };
    let is_unknown = |version| match known.state {
        ModelState::Ready => true,
        ModelState::Failed(_) => !known.serving.is_empty() && !known.wanted.contains(&version),
        _ => false,
    };
    found.ok_or_else(|| match (version, &known.state) {
        (Some(version), _) if is_unknown(version) => Failure::new(
            Code::NotFound,
            format!("Request for unknown model: '{name}' version {version} is not found"),
        ),
        (_, ModelState::Failed(why)) => Failure::new(
            Code::Unavailable,
            format!("Request for model '{name}', which is not ready: {why}"),
        ),
        _ => Failure::new(
            Code::Unavailable,
            format!("Request for model '{name}', which is not ready"),
        ),
    })
}
