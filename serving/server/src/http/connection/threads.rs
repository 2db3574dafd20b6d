//! The threads that serve connections.

use super::lane::Lane;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Handle;

/// Threads that serve connections, until this is dropped. The listeners of a server may share them.
#[derive(Debug)]
pub struct Threads {
    all: Vec<Thread>,
    /// For connections that may ask for the server's health alone.
    reserved: Thread,
}

/// A connection's place on a thread.
pub(crate) struct ThreadSlot {
    pub(crate) runtime: Handle,
    _taken: Arc<()>,
}

#[derive(Debug)]
struct Thread {
    lane: Lane,
    /// Each of its connections has a clone.
    connections: Arc<()>,
    joined: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts so many threads, at least one, and another one that answers questions about health where the others are taken.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn start(count: usize) -> io::Result<Self> {
        let all = (0..count.max(1)).map(|_| Thread::start());
        Ok(Self { all: all.collect::<io::Result<_>>()?, reserved: Thread::start()? })
    }

    /// The shares of the connections, one a thread: other threads may serve them while they wait.
    pub fn lanes(&self) -> Vec<Lane> {
        self.all.iter().map(|thread| thread.lane.clone()).collect()
    }

    /// A place on the thread that is reserved.
    pub(crate) fn reserved(&self) -> ThreadSlot {
        self.reserved.place()
    }

    /// A place on the thread that has the fewest connections.
    pub(crate) fn place(&self) -> ThreadSlot {
        let fewest = self.all.iter().min_by_key(|thread| Arc::strong_count(&thread.connections));
        fewest.expect("there is at least one").place()
    }
}

impl Thread {
    fn place(&self) -> ThreadSlot {
        let (runtime, _taken) = (self.lane.runtime().clone(), Arc::clone(&self.connections));
        ThreadSlot { runtime, _taken }
    }

    fn start() -> io::Result<Self> {
        let lane = Lane::new()?;
        let own = lane.clone();
        let named = std::thread::Builder::new().name("http".to_owned());
        let joined = Some(named.spawn(move || own.own_thread())?);
        Ok(Self { lane, connections: Arc::default(), joined })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.lane.end();
        if let Some(joined) = self.joined.take() {
            // A panic of a task stays with the task.
            let _ = joined.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn connections_are_spread_over_the_threads_and_stay_there() {
        let threads = Threads::start(3).expect("threads start");
        let ids = |place: &ThreadSlot| {
            let (sender, receiver) = std::sync::mpsc::channel();
            place.runtime.spawn(async move { sender.send(std::thread::current().id()) });
            receiver.recv().expect("the thread runs it")
        };
        let places: Vec<_> = (0..6).map(|_| threads.place()).collect();
        let on: Vec<_> = places.iter().map(ids).collect();
        assert_eq!(on.iter().collect::<HashSet<_>>().len(), 3, "{on:?}");
        assert_eq!(on[..3], on[3..], "each thread has two");
        assert_eq!(on, places.iter().map(ids).collect::<Vec<_>>());

        // A thread that lost connections gets the next ones.
        let (gone, left) = (on[4], places.into_iter().enumerate());
        let _left: Vec<_> = left.filter(|(index, _)| *index != 4).collect();
        assert_eq!(ids(&threads.place()), gone);
    }

    #[test]
    fn what_runs_on_a_thread_ends_with_it() {
        struct Told(std::sync::mpsc::Sender<()>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let threads = Threads::start(0).expect("there is at least one");
        let place = threads.place();
        let told = Told(sender);
        place.runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(told);
        });
        drop(threads);
        receiver.try_recv().expect("the task was dropped with its thread");
    }
}
