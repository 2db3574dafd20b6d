//! A domain's record of each of its replicas.
//!
//! A replica does not change after relocation. Its domain adds facts to it: the scopes of later loads, the
//! images that it is bound to, whether its constructors have run. These are in the replica's entry, under the
//! lock of the domain's state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bind::scope::Scope;
use crate::image::ImageId;
use crate::replica::Replica;
use crate::system::SystemObject;

/// A DT_NEEDED entry of a loaded replica, or an object that it is a filter of. It names replicas by their
/// images, so that replicas that need each other do not keep each other in memory.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    Replica(ImageId),
    /// A replica of the domain. Lookups ask it before its filter (DT_FILTER, DT_AUXILIARY).
    Filtee(ImageId),
    Commons(ImageId),
    System(Arc<SystemObject>),
}

impl Need {
    /// The image of the domain that it names, if it names one.
    pub(crate) fn in_domain(&self) -> Option<ImageId> {
        match self {
            Need::Replica(image) | Need::Filtee(image) => Some(*image),
            Need::Commons(_) | Need::System(_) => None,
        }
    }
}

/// A domain's record of one replica.
pub(crate) struct ReplicaEntry {
    pub replica: Arc<Replica>,
    /// The objects that it is a filter of, then those of its DT_NEEDED entries, in their order.
    pub needs: Arc<[Need]>,
    /// The scope that it was bound in, then those of later loads that need it. Later lookups of the replica
    /// search them (glibc's `l_scope`).
    pub scopes: Vec<Arc<Scope>>,
    /// Images of the domain that its references are bound to.
    pub bound: HashSet<ImageId>,
    /// Bound images that end after it, in the order in which they were found.
    pub ends_before: Vec<ImageId>,
    /// The exception that one of its constructors has thrown.
    pub failure: Option<Arc<str>>,
    stage: Stage,
}

/// How far an entry's constructors and destructors are.
#[derive(Clone, Copy)]
enum Stage {
    Waiting,
    /// Its constructors have run, or are running: its place in the order in which those of all domains
    /// began.
    Begun(u64),
    /// Its destructors have run, or are running.
    Ended,
}

impl ReplicaEntry {
    /// The entry of a replica that was bound in `scope` and whose constructors wait.
    pub(crate) fn new(replica: Arc<Replica>, needs: Vec<Need>, scope: Arc<Scope>) -> ReplicaEntry {
        ReplicaEntry {
            replica,
            needs: needs.into(),
            scopes: vec![scope],
            bound: HashSet::new(),
            ends_before: Vec::new(),
            failure: None,
            stage: Stage::Waiting,
        }
    }

    /// The images of the domain among its needs.
    pub(crate) fn needed(&self) -> impl Iterator<Item = ImageId> {
        self.needs.iter().filter_map(Need::in_domain)
    }

    /// Whether its constructors have run, or are running.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    /// Notes that its constructors run. False if they had begun before.
    pub(crate) fn begin(&mut self) -> bool {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let waits = !self.has_begun();
        if waits {
            self.stage = Stage::Begun(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        waits
    }

    /// Notes that its destructors run. False if they must not run: the constructors never began, or the
    /// destructors had begun before.
    pub(crate) fn end(&mut self) -> bool {
        let begun = matches!(self.stage, Stage::Begun(_));
        if begun {
            self.stage = Stage::Ended;
        }
        begun
    }

    /// Its place in the order in which constructors began, if its destructors are still to run.
    pub(crate) fn place(&self) -> Option<u64> {
        match self.stage {
            Stage::Begun(place) => Some(place),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    fn is_of(&self, replica: &Replica) -> bool {
        std::ptr::eq(&*self.replica, replica)
    }
}

/// The entries of a domain, in load order.
#[derive(Default)]
pub(crate) struct Entries {
    list: Vec<ReplicaEntry>,
    /// Where an image's entry is in the list.
    places: HashMap<ImageId, usize>,
    /// Entries that were taken out of the domain. Their destructors run, or are about to run, and that code
    /// still looks up names.
    leaving: Vec<ReplicaEntry>,
}

impl Entries {
    /// Adds an entry behind all others.
    pub(crate) fn push(&mut self, entry: ReplicaEntry) {
        self.places.insert(entry.replica.image.id, self.list.len());
        self.list.push(entry);
    }

    /// The entry of the domain's replica of `image`.
    pub(crate) fn get(&self, image: ImageId) -> Option<&ReplicaEntry> {
        self.places.get(&image).map(|&place| &self.list[place])
    }

    /// As [`Entries::get`], to be changed.
    pub(crate) fn get_mut(&mut self, image: ImageId) -> Option<&mut ReplicaEntry> {
        self.places.get(&image).map(|&place| &mut self.list[place])
    }

    /// The domain's replica of `image`.
    pub(crate) fn replica(&self, image: ImageId) -> Option<&Arc<Replica>> {
        self.get(image).map(|entry| &entry.replica)
    }

    /// The entry of `replica`, also while it leaves the domain.
    pub(crate) fn of(&self, replica: &Replica) -> Option<&ReplicaEntry> {
        let own = self.get(replica.image.id).filter(|entry| entry.is_of(replica));
        own.or_else(|| self.list.iter().chain(&self.leaving).find(|entry| entry.is_of(replica)))
    }

    /// As [`Entries::of`], to be changed.
    pub(crate) fn of_mut(&mut self, replica: &Replica) -> Option<&mut ReplicaEntry> {
        self.list.iter_mut().chain(&mut self.leaving).find(|entry| entry.is_of(replica))
    }

    /// In load order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ReplicaEntry> {
        self.list.iter()
    }

    /// In load order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ReplicaEntry> {
        self.list.iter_mut()
    }

    /// The replicas, in load order.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.list.iter().map(|entry| &entry.replica)
    }

    /// The replicas, those that leave too.
    pub(crate) fn with_leaving(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.list.iter().chain(&self.leaving).map(|entry| &entry.replica)
    }

    /// Takes entries out of the domain. They are leaving until [`Entries::gone`].
    pub(crate) fn leave(&mut self, leaves: impl Fn(&ReplicaEntry) -> bool) {
        let (leaving, list) = std::mem::take(&mut self.list).into_iter().partition(leaves);
        self.list = list;
        self.leaving.extend::<Vec<ReplicaEntry>>(leaving);
        let ids = self.list.iter().map(|entry| entry.replica.image.id);
        self.places = ids.zip(0..).collect();
    }

    /// Forgets the entries of `replicas`, which have left. The caller drops them without the lock.
    #[must_use = "dropped without the lock of the state"]
    pub(crate) fn gone(&mut self, replicas: &[Arc<Replica>]) -> Vec<ReplicaEntry> {
        let has_left = |entry: &ReplicaEntry| {
            replicas.iter().any(|replica| Arc::ptr_eq(replica, &entry.replica))
        };
        let (gone, leaving) = std::mem::take(&mut self.leaving).into_iter().partition(has_left);
        self.leaving = leaving;
        gone
    }
}
