//! Bytes of requests that the server holds at once.
//!
//! A body is charged as it arrives, not by the length that its head claims: a claim costs its sender nothing. The data made from
//! a request is charged too: decompressed bytes, elements of JSON, inputs copied out of shared memory. Once no bytes are left, a
//! request is refused at once. Nobody waits, so half-received requests cannot wait for each other.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The limits of bytes, and the bytes held.
pub(crate) struct Budget {
    most: usize,
    most_of_client: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// A client's part of the budget. Clients of a socket in the file system have no address, and share all of it.
#[derive(Clone)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    client: Option<IpAddr>,
}

/// Bytes that a request holds. They are given back when this is dropped.
pub(crate) struct Charge {
    account: Account,
    bytes: usize,
}

/// Why a request cannot hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// It would not fit if it were alone.
    Alone(usize),
    /// All requests together are at this limit.
    Server(usize),
    /// The requests of this client are at this limit.
    Client(usize),
}

impl fmt::Display for Exhausted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Alone(most) => write!(
                formatter,
                "the request needs more than the {most} bytes that requests of a client may hold. Use --max-bytes-in-flight and \
                 --max-bytes-in-flight-per-client to increase the limits."
            ),
            Exhausted::Server(most) => write!(
                formatter,
                "the server holds requests of {most} bytes, as many as it may (--max-bytes-in-flight); try again later"
            ),
            Exhausted::Client(most) => write!(
                formatter,
                "the server holds requests of {most} bytes of this client, as many as it may (--max-bytes-in-flight-per-client); \
                 try again later"
            ),
        }
    }
}

impl Budget {
    pub(crate) fn new(most: usize, most_of_client: usize) -> Self {
        Self { most, most_of_client: most_of_client.min(most), held: Mutex::default() }
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().all
    }

    pub(crate) fn account(self: &Arc<Self>, client: Option<IpAddr>) -> Account {
        Account { budget: Arc::clone(self), client }
    }
}

impl Account {
    /// Whether so many bytes would fit if they were alone.
    pub(crate) fn fits(&self, bytes: u64) -> Result<(), Exhausted> {
        let most = self.most_alone();
        if bytes > most as u64 { Err(Exhausted::Alone(most)) } else { Ok(()) }
    }

    fn most_alone(&self) -> usize {
        if self.client.is_some() { self.budget.most_of_client } else { self.budget.most }
    }

    /// A charge of nothing.
    pub(crate) fn charge(&self) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }
}

impl Charge {
    /// Holds so many bytes more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.account.fits(self.bytes.saturating_add(bytes) as u64)?;
        let Account { budget, client } = &self.account;
        let mut held = budget.held.lock();
        let all = held.all.saturating_add(bytes);
        if all > budget.most {
            return Err(Exhausted::Server(budget.most));
        }
        if let Some(client) = client {
            let of_client = held.of.entry(*client).or_default();
            if of_client.saturating_add(bytes) > budget.most_of_client {
                return Err(Exhausted::Client(budget.most_of_client));
            }
            *of_client += bytes;
        }
        held.all = all;
        self.bytes += bytes;
        Ok(())
    }

    /// Holds so many bytes in all, if it holds fewer.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.grow(bytes.saturating_sub(self.bytes))
    }

    /// A charge of its own for so many of the bytes, or for all if they are fewer.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { account: self.account.clone(), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Account { budget, client } = &self.account;
        let mut held = budget.held.lock();
        held.all -= self.bytes;
        if let Some(client) = client
            && let Some(of_client) = held.of.get_mut(client)
        {
            *of_client -= self.bytes;
            if *of_client == 0 {
                held.of.remove(client);
            }
        }
    }
}

/// An eighth of the memory that the process may have, from 64 MiB to 1 GiB.
pub(crate) fn default_bytes() -> usize {
    let number = |text: String| text.trim().parse::<u64>().ok();
    // The process's own group of version 2, which a container sees as the root; then that of version 1.
    let of_group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let of_group =
        of_group.iter().find_map(|path| std::fs::read_to_string(path).ok().and_then(number));
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let memory = of_group.into_iter().chain(of_machine).min();
    // Without /proc nothing is known.
    let eighth = memory.map_or(256 << 20, |memory| memory / 8);
    eighth.clamp(64 << 20, 1 << 30) as usize
}

#[cfg(test)]
mod tests {
    use super::{Budget, Exhausted, default_bytes};
    use std::sync::Arc;

    #[test]
    fn bytes_are_bounded_for_all_and_for_each_client_and_come_back() {
        let budget = Arc::new(Budget::new(100, 60));
        let client = |last: u8| budget.account(Some([10, 0, 0, last].into()));
        let mut first = client(1).charge();
        assert_eq!(first.grow(61), Err(Exhausted::Alone(60)));
        first.grow(50).unwrap();
        let mut second = client(1).charge();
        assert_eq!(second.grow(11), Err(Exhausted::Client(60)));
        second.grow(10).unwrap();
        let mut other = client(2).charge();
        assert_eq!(other.grow(41), Err(Exhausted::Server(100)));
        other.grow_to(40).unwrap();
        other.grow_to(30).unwrap();
        assert_eq!(budget.held(), 100);
        let part = first.split(20);
        drop(first);
        assert_eq!(budget.held(), 70);
        drop(part);
        // A refusal has held nothing.
        second.grow(50).unwrap();
        drop((second, other));
        assert_eq!(budget.held(), 0);
        assert!(budget.held.lock().of.is_empty(), "clients that hold nothing are forgotten");
        let mut local = budget.account(None).charge();
        local.grow(100).unwrap();
        assert_eq!(local.grow(1), Err(Exhausted::Alone(100)));
    }

    #[test]
    fn the_default_is_a_part_of_the_memory() {
        assert!((64 << 20..=1 << 30).contains(&default_bytes()));
    }
}
