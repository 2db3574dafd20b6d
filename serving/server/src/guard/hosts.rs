//! The hosts that clients may name in their requests.
//!
//! A page of another site makes the browser ask a name of that site, and the site's name server may resolve the name to this
//! machine (DNS rebinding). The browser then takes the answers for those of the page's own site. The name gives it away: this
//! server is not known by it.

use super::address::Met;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// The hosts that clients may name, besides the addresses that the server listens at.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    is_any: bool,
    named: Arc<[Authority]>,
}

/// The error of an invalid host.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{host}` is not a host: NAME, NAME:PORT, an address such as 10.0.0.1 or [fd00::1], or * for any"
)]
pub struct HostError {
    /// The text given as a host.
    pub host: String,
}

/// A host, and a port if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) host: Name,
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Address(IpAddr),
    /// In lower case, without a dot at its end.
    Name(String),
}

/// Where a listener listens.
#[derive(Debug, Default)]
pub(crate) struct Listens {
    /// At all addresses of the machine.
    is_everywhere: bool,
    /// The machine's names, if it listens everywhere.
    names: Vec<String>,
}

impl Hosts {
    /// These hosts: `NAME` with any port, `NAME:PORT`, or `*`, which is any.
    ///
    /// # Errors
    ///
    /// [`HostError`], with the invalid host.
    pub fn parse<T: AsRef<str>>(hosts: impl IntoIterator<Item = T>) -> Result<Self, HostError> {
        let (mut is_any, mut named) = (false, Vec::new());
        for host in hosts {
            let host = host.as_ref();
            if host == "*" {
                is_any = true;
                continue;
            }
            // An address of IPv6 needs no brackets where no port can follow.
            let address = host.parse::<Ipv6Addr>().ok();
            let bare = address.map(|ip| Authority { host: Name::Address(ip.into()), port: None });
            let parsed = bare.or_else(|| Authority::parse(host));
            named.push(parsed.ok_or_else(|| HostError { host: host.to_owned() })?);
        }
        Ok(Self { is_any, named: named.into() })
    }

    /// Whether it is one of those that were named.
    pub(crate) fn names(&self, asked: &Authority) -> bool {
        let is_it = |known: &Authority| {
            known.host == asked.host && known.port.is_none_or(|port| asked.port == Some(port))
        };
        self.named.iter().any(is_it)
    }

    /// Words for a client that names a host which it may not name on such a connection.
    pub(crate) fn refusal(&self, asked: &Authority, met: Option<&Met>) -> Option<String> {
        // A program that has a server of its own knows its addresses itself, and no browser reaches a socket in the file system.
        let (met, local) = met.and_then(|met| Some((met, met.local?)))?;
        (!self.allow(asked, &met.listens, local)).then(|| {
            format!(
                "the request is for the host `{asked}`, which does not name this server; --allow-host {asked} allows it"
            )
        })
    }

    /// Whether a client may name this host on a connection that was accepted on `local`.
    ///
    /// Ports are not compared: behind a published container port or a tunnel, clients name another one.
    fn allow(&self, asked: &Authority, listens: &Listens, local: SocketAddr) -> bool {
        self.is_any || self.names(asked) || listens.has(&asked.host, local.ip().to_canonical())
    }
}

impl Listens {
    /// The addresses that a socket listens at, by its own address.
    pub(crate) fn at(bound: Option<SocketAddr>) -> Self {
        let is_everywhere = bound.is_some_and(|bound| bound.ip().is_unspecified());
        if !is_everywhere {
            return Self::default();
        }
        // Without /proc the machine has no name that is known.
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim().to_ascii_lowercase();
        let short = name.split('.').next().unwrap_or_default().to_owned();
        let names = [name, short].into_iter().filter(|name| !name.is_empty()).collect();
        Self { is_everywhere, names }
    }

    fn has(&self, asked: &Name, local: IpAddr) -> bool {
        match asked {
            Name::Address(address) => {
                *address == local
                    || (local.is_loopback() && is_localhost(*address))
                    || (self.is_everywhere && is_of_this_machine(*address))
            }
            Name::Name(name) if name == "localhost" => self.is_everywhere || local.is_loopback(),
            Name::Name(name) => self.names.contains(name),
        }
    }
}

fn is_localhost(address: IpAddr) -> bool {
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address)
}

/// Whether it is an address of the machine: only such an address can be bound.
fn is_of_this_machine(address: IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_multicast();
    !is_special && UdpSocket::bind((address, 0)).is_ok()
}

impl Authority {
    /// The host that a client names in bytes, or words for the client if it cannot be understood.
    pub(crate) fn of_client(text: &[u8]) -> Result<Self, &'static str> {
        let authority = str::from_utf8(text).ok().and_then(Authority::parse);
        authority.ok_or("the request's host cannot be understood: it is HOST or HOST:PORT")
    }

    /// `HOST` or `HOST:PORT`, as in `Host` and `:authority`. `None` if it is something else: RFC 3986 allows characters that no
    /// DNS name contains, and a user in front.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                let address = IpAddr::V6(address.parse().ok()?).to_canonical();
                (Name::Address(address), port)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Name::parse(name)?, port)
            }
        };
        let port = match port {
            "" | ":" => None,
            _ => {
                let digits = port.strip_prefix(':')?;
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                Some(digits.parse().ok().filter(|_| is_number)?)
            }
        };
        Some(Self { host, port })
    }
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Some(Name::Address(address.into()));
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_right = !name.is_empty() && name.len() <= 253 && name.bytes().all(is_name);
        is_right.then(|| Name::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Name::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]")?,
            Name::Address(address) => write!(formatter, "{address}")?,
            Name::Name(name) => formatter.write_str(name)?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Authority, Hosts, Listens};

    fn parsed(text: &str) -> Option<String> {
        Authority::parse(text).map(|authority| authority.to_string())
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for (text, expected) in [
            ("LocalHost", "localhost"),
            ("models.example.:80", "models.example:80"),
            ("10.0.0.1:8000", "10.0.0.1:8000"),
            ("[FD00::1]:1", "[fd00::1]:1"),
            ("[::ffff:10.0.0.1]", "10.0.0.1"),
            ("my_service:", "my_service"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "",
            ":80",
            "a b",
            "a:b",
            "a:-1",
            "a:+1",
            "a:65536",
            "a@b",
            "a/b",
            "a,b",
            "[::1",
            "::1",
            "[x]",
            "[::1]80",
            "a:1:2",
            "\u{e9}",
            "a%41",
            ".",
            "[fe80::1%25eth0]",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn clients_name_the_addresses_of_the_server_and_what_was_allowed() {
        let allows = |hosts: &[&str], bound: &str, local: &str, asked: &str| {
            let listens = Listens::at(Some(bound.parse().unwrap()));
            let asked = Authority::parse(asked).unwrap();
            Hosts::parse(hosts).unwrap().allow(&asked, &listens, local.parse().unwrap())
        };
        for (bound, local) in [("127.0.0.1:1", "127.0.0.1:1"), ("[::1]:1", "[::1]:1")] {
            for asked in ["localhost", "LOCALHOST.:1", "127.0.0.1:1", "[::1]:1", "localhost:9"] {
                assert!(allows(&[], bound, local, asked), "{asked}");
            }
            for asked in [
                "evil.example",
                "localhost.evil.example",
                "10.1.2.3",
                "[fd00::1]",
                "0.0.0.0",
                "127.1",
            ] {
                assert!(!allows(&[], bound, local, asked), "{asked}");
            }
        }
        // A probe names the address that it connects to.
        let (bound, local) = ("10.1.2.3:80", "10.1.2.3:80");
        assert!(allows(&[], bound, local, "10.1.2.3:80"));
        assert!(!allows(&[], bound, local, "localhost") && !allows(&[], bound, local, "10.1.2.4"));
        let (bound, local) = ("[::]:80", "[::ffff:10.1.2.3]:80");
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for asked in ["10.1.2.3", "localhost:80", "127.0.0.1", name.trim()] {
            assert!(allows(&[], bound, local, asked), "{asked}");
        }
        for asked in ["evil.example", "192.0.2.1", "0.0.0.0", "224.0.0.1"] {
            assert!(!allows(&[], bound, local, asked), "{asked}");
        }
        let (bound, local) = ("127.0.0.1:1", "127.0.0.1:1");
        assert!(allows(&["models.example"], bound, local, "Models.Example:9"));
        assert!(allows(&["models.example:9"], bound, local, "models.example:9"));
        assert!(!allows(&["models.example:9"], bound, local, "models.example"));
        assert!(allows(&["fd00::1"], bound, local, "[fd00::1]:9"));
        assert!(allows(&["a", "*"], bound, local, "evil.example"));
    }

    #[test]
    fn what_is_no_host_says_so() {
        let error = Hosts::parse(["http://a"]).unwrap_err().to_string();
        assert!(error.starts_with("`http://a` is not a host: NAME, NAME:PORT"), "{error}");
    }
}
