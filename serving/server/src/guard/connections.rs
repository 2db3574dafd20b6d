//! The connections of a listener: their limits, in all and for each client, and the choice of one to close at a limit.
//!
//! A connection with a whole request is left alone. Every other one waits for its client: for a request, or for the rest of
//! one. At the limit, the connection that has waited longest is closed for the next. Where none waits, the next one gets one of
//! a few reserved places: it is told the server's health, and to come later for all else.

use super::address::{Met, client_of};
use super::hosts::Listens;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Places for questions about health.
pub(crate) const RESERVED: usize = 16;

/// How long no connection is taken after the system has refused one, e.g. for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// All connections of a listener.
pub(crate) struct Connections {
    began: Instant,
    pools: Mutex<[Pool; 2]>,
    /// How many have a place, or had one and are not closed yet.
    open: AtomicUsize,
    most_open: usize,
    closed: Notify,
}

/// The usual places, or the reserved ones.
struct Pool {
    most: usize,
    most_of_client: usize,
    all: BTreeMap<u64, Arc<OpenConnection>>,
    of: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection, as seen by the code that makes room.
pub(crate) struct OpenConnection {
    began: Instant,
    client: Option<IpAddr>,
    /// Requests received whole but not answered.
    whole: AtomicUsize,
    /// When the wait for the client began, in nanoseconds since `began`.
    waits_since: AtomicU64,
    /// Tells the connection to end. It has one listener.
    end: Arc<Notify>,
}

/// A connection's place. It is free when this is dropped, which its owner does once the descriptor is closed.
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    pub(crate) connected: Arc<OpenConnection>,
    pub(crate) is_reserved: bool,
    number: u64,
}

/// A request on a connection, from its head to the end of its response.
pub(crate) struct Exchange {
    connected: Arc<OpenConnection>,
    is_whole: std::sync::atomic::AtomicBool,
}

impl Connections {
    pub(crate) fn new(most: usize, most_of_client: usize) -> Arc<Self> {
        let pool = |most: usize, most_of_client: usize| Pool {
            most: most.max(1),
            most_of_client: most_of_client.max(1),
            all: BTreeMap::new(),
            of: HashMap::new(),
            next: 0,
        };
        let pools = [pool(most, most_of_client), pool(RESERVED, RESERVED / 4)];
        Arc::new(Self {
            began: Instant::now(),
            pools: Mutex::new(pools),
            open: AtomicUsize::new(0),
            most_open: most.max(1).saturating_add(RESERVED),
            closed: Notify::new(),
        })
    }

    /// A place for a connection of this client; `None` if even those that are kept are taken.
    pub(crate) fn enter(self: &Arc<Self>, client: Option<IpAddr>) -> Option<ConnectionSlot> {
        let connected = Arc::new(OpenConnection {
            began: self.began,
            client,
            whole: AtomicUsize::new(0),
            waits_since: AtomicU64::new(self.began.elapsed().as_nanos() as u64),
            end: Arc::default(),
        });
        let mut pools = self.pools.lock();
        let kind = pools.iter_mut().position(|pool| pool.makes_room(client))?;
        let number = pools[kind].add(&connected);
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSlot {
            connections: Arc::clone(self),
            connected,
            is_reserved: kind == 1,
            number,
        })
    }

    /// A place for an accepted connection with these addresses: its own and the client's. `None` if even the reserved places
    /// are taken; then the connection is closed.
    pub(crate) fn meet(
        self: &Arc<Self>,
        addresses: Option<(SocketAddr, SocketAddr)>,
        listens: &Arc<Listens>,
    ) -> Option<(ConnectionSlot, Met)> {
        let client = addresses.map(|(_, peer)| client_of(peer.ip()));
        let slot = self.enter(client)?;
        let met = Met {
            local: addresses.map(|(local, _)| local),
            peer: addresses.map(|(_, peer)| peer),
            client,
            listens: Arc::clone(listens),
            is_reserved: slot.is_reserved,
        };
        Some((slot, met))
    }

    /// Waits while connections that were told to end hold more descriptors than all places together. A burst of connections
    /// would otherwise be taken faster than the older ones close.
    pub(crate) async fn room(&self) {
        while self.open.load(Ordering::Relaxed) > self.most_open {
            // A close between the look and the wait is stored in `closed`.
            if tokio::time::timeout(PAUSE, self.closed.notified()).await.is_err() {
                return;
            }
        }
    }

    /// The system gives no connection. From the second time on, the connection that has waited longest is closed.
    pub(crate) async fn refused(&self, error: &io::Error, is_again: &mut bool) {
        tracing::warn!("the system gives no connection: {error}");
        // The kernel looks for a descriptor before it looks for a waiting connection (accept4 in net/socket.c). So the
        // first refusal does not mean that a client waits.
        if std::mem::replace(is_again, true) {
            self.pools.lock()[0].close_oldest(None);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Pool {
    fn makes_room(&mut self, client: Option<IpAddr>) -> bool {
        let has = client.map_or(0, |client| self.of.get(&client).copied().unwrap_or_default());
        if client.is_some() && has >= self.most_of_client {
            self.close_oldest(client)
        } else {
            self.all.len() < self.most || self.close_oldest(None)
        }
    }

    fn add(&mut self, connected: &Arc<OpenConnection>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number, Arc::clone(connected));
        if let Some(client) = connected.client {
            *self.of.entry(client).or_default() += 1;
        }
        number
    }

    fn remove(&mut self, number: u64) {
        let Some(connected) = self.all.remove(&number) else { return };
        if let Some(client) = connected.client
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
        let waits = |connected: &OpenConnection| {
            (client.is_none() || connected.client == client)
                && connected.whole.load(Ordering::Relaxed) == 0
        };
        let waiting = self.all.iter().filter(|(_, connected)| waits(connected));
        let oldest =
            waiting.min_by_key(|(_, connected)| connected.waits_since.load(Ordering::Relaxed));
        let Some((number, end)) =
            oldest.map(|(number, connected)| (*number, Arc::clone(&connected.end)))
        else {
            return false;
        };
        self.remove(number);
        end.notify_one();
        true
    }
}

impl OpenConnection {
    /// Is ready when the connection should end for another one.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        Arc::clone(&self.end).notified_owned()
    }

    fn wait(&self) {
        let now = self.began.elapsed().as_nanos() as u64;
        self.waits_since.store(now, Ordering::Relaxed);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // It may be gone already, for another connection.
        self.connections.pools.lock()[usize::from(self.is_reserved)].remove(self.number);
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        self.connections.closed.notify_one();
    }
}

impl Exchange {
    /// A request whose head has come.
    pub(crate) fn begin(connected: &Arc<OpenConnection>) -> Arc<Self> {
        connected.wait();
        Arc::new(Self { connected: Arc::clone(connected), is_whole: false.into() })
    }

    /// All of the request has come.
    pub(crate) fn is_whole(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.connected.whole.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.connected.wait();
        if *self.is_whole.get_mut() {
            self.connected.whole.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionSlot, Connections, Exchange, RESERVED};
    use std::future::Future as _;
    use std::net::IpAddr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn client(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    fn is_told_to_end(place: &ConnectionSlot) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(place.connected.end()).poll(&mut context).is_ready()
    }

    #[test]
    fn the_one_that_has_waited_longest_goes_and_whole_requests_stay() {
        let connections = Connections::new(3, 3);
        let enter = |last: u8| connections.enter(client(last)).unwrap();
        let (first, second, third) = (enter(1), enter(2), enter(3));
        let exchange = Exchange::begin(&first.connected);
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
    fn no_connection_is_taken_before_those_that_were_told_to_end_have_closed() {
        let connections = Connections::new(1, 1);
        let is_there_room = || {
            let mut context = Context::from_waker(Waker::noop());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.unwrap();
            let _entered = runtime.enter();
            pin!(connections.room()).poll(&mut context).is_ready()
        };
        let mut told: Vec<_> =
            (0..RESERVED + 1).map(|_| connections.enter(client(1)).unwrap()).collect();
        assert!(is_there_room());
        let _last = connections.enter(client(1)).unwrap();
        assert!(!is_there_room());
        told.pop();
        assert!(is_there_room());
    }

    #[test]
    fn a_client_makes_room_for_itself_and_health_has_places_of_its_own() {
        let connections = Connections::new(100, 2);
        let other = connections.enter(client(1)).unwrap();
        let busy: Vec<_> = (0..2).map(|_| connections.enter(client(2)).unwrap()).collect();
        let exchanges: Vec<_> =
            busy.iter().map(|place| Exchange::begin(&place.connected)).collect();
        exchanges.iter().for_each(|exchange| exchange.is_whole());
        let kept: Vec<_> = (0..RESERVED).map(|_| connections.enter(client(2)).unwrap()).collect();
        assert!(kept.iter().all(|place| place.is_reserved));
        assert!(!is_told_to_end(&other), "others keep theirs");
        // A client has a quarter of them.
        let ended = kept.iter().filter(|place| is_told_to_end(place)).count();
        assert_eq!(ended, RESERVED - RESERVED / 4);
        let waiting: Vec<_> = kept.iter().map(|place| Exchange::begin(&place.connected)).collect();
        waiting.iter().for_each(|exchange| exchange.is_whole());
        assert!(connections.enter(client(2)).is_none());
        assert!(!connections.enter(client(3)).unwrap().is_reserved);
        drop((kept, busy, other));
        assert!(
            connections.pools.lock().iter().all(|pool| pool.all.is_empty() && pool.of.is_empty())
        );
    }
}
