//! The estate that an ended domain leaves to a later one: the places of its replicas.
//!
//! A place is the address range of a replica, with its constant pages mapped, and the places of its thread-local blocks.
//! The next domain that loads the same images takes the same places, with fresh data. So the largest number of domains that
//! ever lived at once bounds the number of mappings, and of the blocks that threads keep for replicas. Pointers that still
//! point to code of the ended domain point to the same code.
//!
//! A domain inherits from one ended domain only, the last one that had its first image. Places that it does not use pass
//! to the domain after it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::Domain;
use crate::image::{Image, ImageId};
use crate::replica::Replica;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::memory::Reservation;
use crate::tls::Placed;

/// The places that ended domains have left.
static ESTATES: Mutex<Vec<Estate>> = Mutex::new(Rank::Estates, Vec::new());

/// The places that one domain has left.
struct Estate {
    places: HashMap<ImageId, Arc<Replica>>,
    /// Its thunks stay mapped as long as the places are not used again.
    _domain: Domain,
}

/// The places that a domain has inherited.
#[derive(Default)]
pub(crate) struct Inheritance {
    /// Whether it has looked for an estate.
    settled: bool,
    places: HashMap<ImageId, Arc<Replica>>,
}

impl Domain {
    /// The place of an ended replica of `image`, if the domain has inherited one.
    pub(crate) fn inherit(&self, image: &Image) -> Option<(Reservation, Option<Placed>)> {
        if !self.is_one_of_many() {
            return None;
        }
        let settled = std::mem::replace(&mut self.0.inherited.lock().settled, true);
        if !settled {
            let estate = {
                let estates = &mut *ESTATES.lock();
                let found =
                    estates.iter().rposition(|estate| estate.places.contains_key(&image.id));
                found.map(|place| estates.remove(place))
            };
            if let Some(estate) = estate {
                self.0.inherited.lock().places = estate.places;
            }
        }
        let replica = {
            let places = &mut self.0.inherited.lock().places;
            // A thread that ends may be in its code, and somebody may have a handle to it.
            let is_free = |replica: &Arc<Replica>| {
                Arc::strong_count(replica) == 1 && !replica.registered.is_running()
            };
            if !places.get(&image.id).is_some_and(is_free) {
                return None;
            }
            places.remove(&image.id)
        };
        Some(replica.and_then(Arc::into_inner)?.into_place())
    }

    /// Leaves the places of `replicas`, which have ended, and those that the domain has inherited and not used.
    pub(crate) fn leave_inheritance(&self, replicas: Vec<Arc<Replica>>) {
        let mut places = std::mem::take(&mut self.0.inherited.lock().places);
        places.extend(replicas.into_iter().map(|replica| (replica.image.id, replica)));
        if !places.is_empty() {
            ESTATES.lock().push(Estate { places, _domain: self.clone() });
        }
    }
}
