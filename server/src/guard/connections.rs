//! The connections of a listener: how many there may be, for all and for each client, and which one goes when there are as many.
//!
//! A connection that has a whole request is left alone. Every other one waits for its client: for a request, or for the rest of
//! one. When there are as many connections as there may be, the one that has waited longest is closed for the next. Where none
//! waits, the next one gets one of a few places that are kept: it is told the server's health, and to come later for all else.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Places for questions about health.
pub(crate) const RESERVED: usize = 16;

/// All connections of a listener.
pub(crate) struct Connections {
    began: Instant,
    pools: Mutex<[Pool; 2]>,
}

/// The usual places, or those that are kept.
struct Pool {
    most: usize,
    most_of_client: usize,
    entries: BTreeMap<u64, Arc<Entry>>,
    of: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection, as those see it who make room.
pub(crate) struct Entry {
    began: Instant,
    client: Option<IpAddr>,
    /// Requests that are whole and not answered.
    whole: AtomicUsize,
    /// Since when the client was waited for, in nanoseconds since `began`.
    waits_since: AtomicU64,
    /// Tells the connection to end. It has one listener.
    end: Arc<Notify>,
}

/// A connection's place. It is free when this is dropped.
pub(crate) struct Place {
    connections: Arc<Connections>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) is_reserved: bool,
    number: u64,
}

/// A request on a connection, from its head to the end of its response.
pub(crate) struct Exchange {
    entry: Arc<Entry>,
    is_whole: std::sync::atomic::AtomicBool,
}

impl Connections {
    pub(crate) fn new(most: usize, most_of_client: usize) -> Arc<Self> {
        let pool = |most: usize, most_of_client: usize| Pool {
            most: most.max(1),
            most_of_client: most_of_client.max(1),
            entries: BTreeMap::new(),
            of: HashMap::new(),
            next: 0,
        };
        let pools = [pool(most, most_of_client), pool(RESERVED, RESERVED / 4)];
        Arc::new(Self { began: Instant::now(), pools: Mutex::new(pools) })
    }

    /// A place for a connection of this client; `None` if even those that are kept are taken.
    pub(crate) fn enter(self: &Arc<Self>, client: Option<IpAddr>) -> Option<Place> {
        let entry = Arc::new(Entry {
            began: self.began,
            client,
            whole: AtomicUsize::new(0),
            waits_since: AtomicU64::new(self.began.elapsed().as_nanos() as u64),
            end: Arc::default(),
        });
        let mut pools = self.pools.lock();
        let kind = pools.iter_mut().position(|pool| pool.makes_room(client))?;
        let number = pools[kind].add(&entry);
        Some(Place { connections: Arc::clone(self), entry, is_reserved: kind == 1, number })
    }

    /// Closes the connection that has waited longest, if one waits.
    pub(crate) fn make_room(&self) {
        self.pools.lock()[0].close_oldest(None);
    }
}

impl Pool {
    fn makes_room(&mut self, client: Option<IpAddr>) -> bool {
        let has = client.map_or(0, |client| self.of.get(&client).copied().unwrap_or_default());
        if client.is_some() && has >= self.most_of_client {
            self.close_oldest(client)
        } else {
            self.entries.len() < self.most || self.close_oldest(None)
        }
    }

    fn add(&mut self, entry: &Arc<Entry>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, Arc::clone(entry));
        if let Some(client) = entry.client {
            *self.of.entry(client).or_default() += 1;
        }
        number
    }

    fn remove(&mut self, number: u64) {
        let Some(entry) = self.entries.remove(&number) else { return };
        if let Some(client) = entry.client
            && let Some(count) = self.of.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&client);
            }
        }
    }

    /// Closes the connection of this client, or of any, that has waited longest. False if none waits.
    fn close_oldest(&mut self, client: Option<IpAddr>) -> bool {
        let waits = |entry: &Entry| {
            (client.is_none() || entry.client == client) && entry.whole.load(Ordering::Relaxed) == 0
        };
        let waiting = self.entries.iter().filter(|(_, entry)| waits(entry));
        let oldest = waiting.min_by_key(|(_, entry)| entry.waits_since.load(Ordering::Relaxed));
        let Some((number, end)) = oldest.map(|(number, entry)| (*number, Arc::clone(&entry.end)))
        else {
            return false;
        };
        self.remove(number);
        end.notify_one();
        true
    }
}

impl Entry {
    /// Is ready when the connection should end for another one.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        Arc::clone(&self.end).notified_owned()
    }

    fn wait(&self) {
        let now = self.began.elapsed().as_nanos() as u64;
        self.waits_since.store(now, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may be gone already, for another connection.
        self.connections.pools.lock()[usize::from(self.is_reserved)].remove(self.number);
    }
}

impl Exchange {
    /// A request whose head has come.
    pub(crate) fn begin(entry: &Arc<Entry>) -> Arc<Self> {
        entry.wait();
        Arc::new(Self { entry: Arc::clone(entry), is_whole: false.into() })
    }

    /// All of the request has come.
    pub(crate) fn is_whole(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.entry.whole.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.entry.wait();
        if *self.is_whole.get_mut() {
            self.entry.whole.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, Exchange, Place, RESERVED};
    use std::future::Future as _;
    use std::net::IpAddr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn client(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    fn is_told_to_end(place: &Place) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(place.entry.end()).poll(&mut context).is_ready()
    }

    #[test]
    fn the_one_that_has_waited_longest_goes_and_whole_requests_stay() {
        let connections = Connections::new(3, 3);
        let enter = |last: u8| connections.enter(client(last)).unwrap();
        let (first, second, third) = (enter(1), enter(2), enter(3));
        let exchange = Exchange::begin(&first.entry);
        exchange.is_whole();
        let fourth = enter(4);
        assert_eq!([&first, &second, &third].map(is_told_to_end), [false, true, false]);
        // Its request is answered, and it waits as of now.
        drop(exchange);
        let _fifth = enter(5);
        assert_eq!([&first, &third, &fourth].map(is_told_to_end), [false, true, false]);
        drop(fourth);
        assert!(!enter(6).is_reserved && !is_told_to_end(&first));
    }

    #[test]
    fn a_client_makes_room_for_itself_and_health_has_places_of_its_own() {
        let connections = Connections::new(100, 2);
        let other = connections.enter(client(1)).unwrap();
        let busy: Vec<_> = (0..2).map(|_| connections.enter(client(2)).unwrap()).collect();
        let exchanges: Vec<_> = busy.iter().map(|place| Exchange::begin(&place.entry)).collect();
        exchanges.iter().for_each(|exchange| exchange.is_whole());
        let kept: Vec<_> = (0..RESERVED).map(|_| connections.enter(client(2)).unwrap()).collect();
        assert!(kept.iter().all(|place| place.is_reserved));
        assert!(!is_told_to_end(&other), "others keep theirs");
        // A client has a quarter of them.
        let ended = kept.iter().filter(|place| is_told_to_end(place)).count();
        assert_eq!(ended, RESERVED - RESERVED / 4);
        let waiting: Vec<_> = kept.iter().map(|place| Exchange::begin(&place.entry)).collect();
        waiting.iter().for_each(|exchange| exchange.is_whole());
        assert!(connections.enter(client(2)).is_none());
        assert!(!connections.enter(client(3)).unwrap().is_reserved);
        drop((kept, busy, other));
        assert!(
            connections
                .pools
                .lock()
                .iter()
                .all(|pool| pool.entries.is_empty() && pool.of.is_empty())
        );
    }
}
