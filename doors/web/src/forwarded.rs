//! The client of a request: the other end of its connection, or the one that a trusted proxy names.

use hyper::header::{HeaderMap, HeaderName};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The proxies that are trusted.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    is_any: bool,
    networks: Vec<(IpAddr, u8)>,
}

/// A text that names no address.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is neither an address nor a network, such as 10.0.0.1, 10.0.0.0/8 or fd00::/8, nor * for any"
)]
pub struct ProxyError(String);

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    /// The other end of the connection.
    Peer(SocketAddr),
    /// The address that a proxy names. It does not know the port.
    Named(IpAddr),
    /// A client of a socket in the file system.
    Local,
}

/// How the client has sent its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl Client {
    pub(crate) fn of(peer: Option<SocketAddr>) -> Self {
        peer.map_or(Client::Local, Client::Peer)
    }

    fn address(self) -> Option<IpAddr> {
        match self {
            Client::Peer(peer) => Some(peer.ip().to_canonical()),
            Client::Named(address) => Some(address),
            Client::Local => None,
        }
    }

    /// Adds its address; nothing for a client of a socket in the file system.
    pub(crate) fn write_address(self, text: &mut String) {
        if let Some(address) = self.address() {
            // A String takes everything.
            let _ = write!(text, "{address}");
        }
    }

    /// The client's port. A proxy's client has 0, as with uvicorn.
    pub(crate) fn port(self) -> Option<u16> {
        match self {
            Client::Peer(peer) => Some(peer.port()),
            Client::Named(_) => Some(0),
            Client::Local => None,
        }
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

impl Proxies {
    /// Addresses and networks, separated by commas; `*` is any.
    ///
    /// # Errors
    ///
    /// [`ProxyError`], with the wrong text.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let mut proxies = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if part == "*" {
                proxies.is_any = true;
                continue;
            }
            let wrong = || ProxyError(part.to_owned());
            let (address, bits) = match part.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (part, None),
            };
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
            if bits > most {
                return Err(wrong());
            }
            proxies.networks.push((address, bits));
        }
        Ok(proxies)
    }

    fn trusts(&self, address: Option<IpAddr>) -> bool {
        // A client of a socket in the file system is a proxy on this machine.
        let Some(address) = address else { return true };
        let is_within = |(network, bits): &(IpAddr, u8)| match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(*bits);
                shift == 32 || (network.to_bits() ^ address.to_bits()) >> shift == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(*bits);
                shift == 128 || (network.to_bits() ^ address.to_bits()) >> shift == 0
            }
            _ => false,
        };
        self.is_any || self.networks.iter().any(is_within)
    }

    /// The client and the scheme of a request from this peer.
    pub(crate) fn client(
        &self,
        peer: Option<SocketAddr>,
        scheme: Scheme,
        headers: &HeaderMap,
    ) -> (Client, Scheme) {
        let own = Client::of(peer);
        if !headers.contains_key(FORWARDED_FOR) && !headers.contains_key(FORWARDED_PROTO)
            || !self.trusts(own.address())
        {
            return (own, scheme);
        }
        let scheme = match headers.get(FORWARDED_PROTO).map(|value| value.as_bytes()) {
            Some(proto) if proto.eq_ignore_ascii_case(b"https") => Scheme::Https,
            Some(proto) if proto.eq_ignore_ascii_case(b"http") => Scheme::Http,
            _ => scheme,
        };
        let values = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        // Each proxy adds the address that it has seen, so the last one that is not a proxy is the client.
        let mut client = own;
        for hop in hops.iter().rev() {
            let Some(address) = address(hop) else { break };
            client = Client::Named(address);
            if self.is_any || !self.trusts(Some(address)) {
                if self.is_any {
                    client = hops
                        .first()
                        .and_then(|hop| self::address(hop))
                        .map_or(client, Client::Named);
                }
                break;
            }
        }
        (client, scheme)
    }
}

/// An address, perhaps with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = bare.or_else(with_port);
    let bracketed =
        || text.strip_prefix('[')?.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok();
    address.or_else(|| bracketed().map(IpAddr::V6)).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trusted: &str, peer: &str, forwarded: &str, proto: &str) -> (String, Scheme) {
        let mut headers = HeaderMap::new();
        if !forwarded.is_empty() {
            headers.insert(FORWARDED_FOR, forwarded.parse().unwrap());
        }
        if !proto.is_empty() {
            headers.insert(FORWARDED_PROTO, proto.parse().unwrap());
        }
        let proxies = Proxies::parse(trusted).unwrap();
        let (client, scheme) = proxies.client(peer.parse().ok(), Scheme::Http, &headers);
        let mut text = String::new();
        client.write_address(&mut text);
        (text, scheme)
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let (trusted, peer) = ("127.0.0.1, 10.0.0.0/8", "127.0.0.1:5");
        for (forwarded, client) in [
            ("192.0.2.1", "192.0.2.1"),
            ("6.6.6.6, 192.0.2.1", "192.0.2.1"),
            ("6.6.6.6, 192.0.2.1, 10.1.1.1", "192.0.2.1"),
            ("192.0.2.1:77", "192.0.2.1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("unknown", "127.0.0.1"),
            ("", "127.0.0.1"),
        ] {
            assert_eq!(seen(trusted, peer, forwarded, "").0, client, "{forwarded}");
        }
        assert_eq!(
            seen(trusted, "192.0.2.9:1", "6.6.6.6", "https"),
            ("192.0.2.9".into(), Scheme::Http)
        );
        assert_eq!(
            seen("*", "192.0.2.9:1", "6.6.6.6, 7.7.7.7", "https"),
            ("6.6.6.6".into(), Scheme::Https)
        );
        assert_eq!(seen("", "", "6.6.6.6", "https"), ("6.6.6.6".into(), Scheme::Https));
    }

    #[test]
    fn what_is_no_address_says_so() {
        for wrong in ["a", "10.0.0.0/33", "::1/129", "10.0.0.1/x"] {
            let error = Proxies::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("is neither an address nor a network"), "{error}");
        }
    }
}
