//! How a connection came.

use super::hosts::Listens;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The connection of a request.
#[derive(Clone, Debug)]
pub struct Met {
    /// The address that the connection was accepted on; `None` for a socket in the file system.
    pub(crate) local: Option<SocketAddr>,
    /// The other end, for the log.
    pub(crate) peer: Option<SocketAddr>,
    /// The client whose limits it counts against.
    pub(crate) client: Option<IpAddr>,
    pub(crate) listens: Arc<Listens>,
    /// Whether it took one of the places reserved for questions about health.
    pub(crate) is_reserved: bool,
}

impl Met {
    /// The address that it was accepted on; `None` for a socket in the file system.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The other end; `None` for a socket in the file system.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Whether all other places are taken, so that it may only hear that it should come later.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

/// The client that a connection from this address counts for. The 2^64 addresses of an IPv6 host are one client.
pub(crate) fn client_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::client_of;
    use std::net::IpAddr;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let client = |text: &str| client_of(text.parse::<IpAddr>().unwrap()).to_string();
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), client("2001:db8:1:2::9"));
        assert_ne!(client("2001:db8:1:2::9"), client("2001:db8:1:3::9"));
        assert_eq!(client("::ffff:10.0.0.1"), "10.0.0.1");
        assert_ne!(client("10.0.0.1"), client("10.0.0.2"));
    }
}
