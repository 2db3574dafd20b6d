//! How a connection came.

use super::hosts::Listens;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What requests know of their connection.
#[derive(Clone)]
pub(crate) struct Met {
    /// The address that the connection was accepted on; `None` for a socket in the file system.
    pub(crate) local: Option<SocketAddr>,
    /// The other end, for the log.
    pub(crate) peer: Option<SocketAddr>,
    /// Whom limits of clients count it for.
    pub(crate) client: Option<IpAddr>,
    pub(crate) listens: Arc<Listens>,
    /// Whether it has one of the places that are kept for questions about health.
    pub(crate) is_reserved: bool,
}

/// Whom a connection from this address is counted for. A host that has IPv6 has 2^64 addresses, which are one client.
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
