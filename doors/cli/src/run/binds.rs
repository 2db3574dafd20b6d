//! Where `hydrozoa run` listens.

use anyhow::{Context, Result, bail};
use hydrozoa_server::Tls;
use hydrozoa_server::http::{Address, Listener};

/// The first descriptor that systemd passes (sd_listen_fds(3)).
const FIRST: i32 = 3;

/// The listeners, each with its place in words.
pub async fn listen(
    addresses: &[String],
    descriptors: &[i32],
    tls: Option<Tls>,
) -> Result<Vec<(Listener, String)>> {
    let mut descriptors = descriptors.to_vec();
    let mut addresses = addresses.to_vec();
    if descriptors.is_empty() && addresses.is_empty() {
        descriptors.extend((FIRST..).take(passed()));
        if descriptors.is_empty() {
            addresses.push("127.0.0.1:8000".to_owned());
        }
    }
    let mut listeners = Vec::new();
    for number in descriptors {
        let listener = Listener::inherited(number).with_context(|| {
            format!("the descriptor {number} is not that of a socket that listens")
        })?;
        let place = listener
            .local_addr()
            .map_or_else(|| format!("descriptor {number}"), |bound| bound.to_string());
        listeners.push((listener, place));
    }
    for address in addresses {
        let listener = bind(&address).await?;
        let place = listener.local_addr().map_or(address, |bound| bound.to_string());
        listeners.push((listener, place));
    }
    let secured = |listener: Listener| match &tls {
        Some(tls) => listener.with_tls(tls.clone()),
        None => listener,
    };
    Ok(listeners.into_iter().map(|(listener, place)| (secured(listener), place)).collect())
}

/// How many sockets systemd passes to this process.
fn passed() -> usize {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return 0;
    }
    number("LISTEN_FDS").map_or(0, |count| count as usize)
}

/// Listens at an address.
pub async fn bind(text: &str) -> Result<Listener> {
    let address = parse(text)?;
    Listener::bind(&address).await.with_context(|| format!("listening at {address}"))
}

/// `HOST:PORT`, `:PORT`, `[ADDRESS]:PORT` or `unix:PATH`.
fn parse(text: &str) -> Result<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        bail!("`{text}` is neither HOST:PORT nor unix:PATH");
    };
    let port = port.parse().with_context(|| format!("the port of `{text}`"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(Address::Tcp(if host.is_empty() { "0.0.0.0" } else { host }.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::{Address, parse};

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_path() {
        let tcp = |host: &str, port| Address::Tcp(host.to_owned(), port);
        for (text, address) in [
            ("127.0.0.1:80", tcp("127.0.0.1", 80)),
            (":80", tcp("0.0.0.0", 80)),
            ("[::1]:0", tcp("::1", 0)),
            ("unix:/run/a.sock", Address::Unix("/run/a.sock".into())),
        ] {
            assert_eq!(parse(text).unwrap(), address);
        }
        assert!(parse("localhost").unwrap_err().to_string().contains("neither HOST:PORT nor unix"));
        assert!(parse("a:b").unwrap_err().to_string().contains("the port of `a:b`"));
    }
}
