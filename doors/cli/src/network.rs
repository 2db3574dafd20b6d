//! Options of `hydrozoa serve` for the network, and what listens there.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ArgAction;
use hydrozoa_server::grpc;
use hydrozoa_server::http::{Address, Limits, Listener};
use hydrozoa_server::{Hosts, Service, Settings, raise_descriptor_limit};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::security::Security;

/// The default. To let other machines connect, name another address.
const LOOPBACK: &str = "127.0.0.1";

/// Connections for metrics at once.
const FOR_METRICS: usize = 64;

/// The threads for gRPC share a runtime. More of them than processors wake each other, and one connection gets fewer answers.
fn network_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(4)
}

#[derive(clap::Args)]
#[command(next_help_heading = "Network")]
pub struct Network {
    /// The address for HTTP, or `unix:PATH`; 0.0.0.0 for all addresses of the machine
    #[arg(long, value_name = "ADDRESS", default_value = LOOPBACK, overrides_with = "http_address")]
    http_address: String,
    /// The port for HTTP; 0 for one that is free
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    http_port: u16,
    /// Threads for HTTP, and as many for gRPC: by default as there are processors, and at most 4
    #[arg(long, value_name = "N", default_value_t = network_threads())]
    pub http_thread_count: usize,
    /// The most bytes of a request, before and after decompression
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_input_size)]
    http_max_input_size: usize,
    /// The most bytes of a request's headers
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_header_size)]
    http_max_header_size: usize,
    /// The most connections for HTTP at once; a further one replaces the connection that has waited longest for its client
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    http_max_connections: usize,
    /// Seconds for a request's headers, and for an idle connection
    #[arg(long, value_name = "N", default_value_t = Limits::default().header_timeout.as_secs())]
    http_header_timeout_secs: u64,
    /// Seconds for a request's body
    #[arg(long, value_name = "N", default_value_t = Limits::default().body_timeout.as_secs())]
    http_body_timeout_secs: u64,
    /// The least bytes a second of a request's body in any ten seconds, over HTTP and gRPC; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().min_body_rate)]
    min_body_rate: usize,
    /// Seconds that a client may leave its response unread
    #[arg(long, value_name = "N", default_value_t = Limits::default().write_timeout.as_secs())]
    http_write_timeout_secs: u64,
    /// Serve gRPC
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_grpc: bool,
    /// The address for gRPC; 0.0.0.0 for all addresses of the machine
    #[arg(long, value_name = "ADDRESS", default_value = LOOPBACK, overrides_with = "grpc_address")]
    grpc_address: String,
    /// The port for gRPC; 0 for one that is free
    #[arg(long, value_name = "PORT", default_value_t = 8001)]
    grpc_port: u16,
    /// The most connections for gRPC at once
    #[arg(long, value_name = "N", default_value_t = grpc::Options::default().max_connections)]
    grpc_max_connections: usize,
    /// The most bytes of a request over gRPC
    #[arg(long, value_name = "BYTES", default_value_t = grpc::Options::default().max_request_size)]
    grpc_max_request_size: usize,
    /// Compress responses over gRPC for clients that accept gzip
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_infer_response_compression: bool,
    /// The most requests under way at once; the server asks clients to send further ones later
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_requests)]
    max_requests: usize,
    /// The most connections from one address at once, for HTTP and for gRPC each; a quarter of all by default
    #[arg(long, value_name = "N")]
    max_connections_per_client: Option<usize>,
    /// The most bytes of requests that the server holds at once; it asks clients to send further requests later. By default an
    /// eighth of the memory that the process may use, from 64 MiB to 1 GiB, and at least twice --http-max-input-size
    #[arg(long, value_name = "BYTES")]
    max_bytes_in_flight: Option<usize>,
    /// The same for requests from one address; half of all by default
    #[arg(long, value_name = "BYTES")]
    max_bytes_in_flight_per_client: Option<usize>,
    /// A host that clients may name besides the addresses that the server listens at, such as that of a proxy in front of it; `*`
    /// for any. May be given several times
    #[arg(long, value_name = "NAME[:PORT]")]
    allow_host: Vec<String>,
    /// Let clients that load models (--model-control-mode=explicit) bring files for them, which are code that the server runs
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    allow_client_files: bool,
    /// Serve a page for people at `/`, and its figures at `/status`
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_page: bool,
    /// Let clients on this machine put inputs and outputs in POSIX shared memory; they can read and write all of it that this
    /// process can
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    allow_client_shm: bool,
    /// Also serve metrics on a port of their own
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    allow_metrics: bool,
    /// The address for metrics; by default that of HTTP
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<String>,
    /// The port for metrics
    #[arg(long, value_name = "PORT", default_value_t = 8002)]
    metrics_port: u16,
}

/// How many connections there may be.
pub struct Room {
    http: usize,
    metrics: usize,
    grpc: usize,
}

impl Room {
    /// So many are wanted, and the system lets the process have so many descriptors.
    fn within(wanted: Room, descriptors: u64) -> Self {
        // Models open files, too, and each listener keeps some places for questions about health.
        let others = (descriptors / 4).clamp(64, 1024) + 48;
        let left = usize::try_from(descriptors.saturating_sub(others)).unwrap_or(usize::MAX);
        let sum = wanted.http.saturating_add(wanted.metrics).saturating_add(wanted.grpc);
        if sum <= left {
            return wanted;
        }
        let part = |wanted: usize| {
            let part = wanted as u128 * left as u128 / sum as u128;
            usize::try_from(part).unwrap_or(usize::MAX).max(4).min(wanted)
        };
        Self { http: part(wanted.http), metrics: part(wanted.metrics), grpc: part(wanted.grpc) }
    }
}

impl Network {
    /// How many connections the system permits, of those that are wanted. The log tells if they are fewer.
    pub fn room(&self) -> Room {
        let wanted = || Room {
            http: self.http_max_connections,
            metrics: if self.allow_metrics { FOR_METRICS } else { 0 },
            grpc: if self.allow_grpc { self.grpc_max_connections } else { 0 },
        };
        let descriptors = match raise_descriptor_limit() {
            Ok(descriptors) => descriptors,
            Err(error) => {
                tracing::warn!("the limit of open files is not known: {error}");
                return wanted();
            }
        };
        let room = Room::within(wanted(), descriptors);
        let fewer = [("HTTP", room.http, wanted().http), ("gRPC", room.grpc, wanted().grpc)];
        for (protocol, permitted, wanted) in fewer {
            if permitted < wanted {
                tracing::warn!(
                    "the system lets the process open {descriptors} files, so {protocol} has at most {permitted} connections at \
                     once, not {wanted}; a higher hard limit (ulimit -Hn) permits more"
                );
            }
        }
        room
    }

    fn limits(&self, connections: usize) -> Limits {
        let mut limits = Limits::default();
        limits.max_input_size = self.http_max_input_size;
        limits.max_header_size = self.http_max_header_size;
        limits.max_connections = connections;
        limits.max_connections_per_client = self.max_connections_per_client;
        limits.header_timeout = Duration::from_secs(self.http_header_timeout_secs);
        limits.body_timeout = Duration::from_secs(self.http_body_timeout_secs);
        limits.min_body_rate = self.min_body_rate;
        limits.write_timeout = Duration::from_secs(self.http_write_timeout_secs);
        limits
    }

    /// Sets what clients may do and hold.
    pub fn set(&self, settings: &mut Settings) -> Result<()> {
        settings.max_requests = self.max_requests;
        settings.page = self.allow_page;
        settings.client_shared_memory = self.allow_client_shm;
        settings.client_files = self.allow_client_files;
        let largest = self.http_max_input_size;
        let all = self.max_bytes_in_flight;
        let all =
            all.unwrap_or_else(|| settings.max_bytes_in_flight.max(largest.saturating_mul(2)));
        let of_client = self.max_bytes_in_flight_per_client;
        let of_client = of_client.unwrap_or_else(|| (all / 2).max(largest.min(all)));
        ensure!(
            of_client.min(all) >= largest,
            "--max-bytes-in-flight and --max-bytes-in-flight-per-client must be at least --http-max-input-size, {largest}"
        );
        (settings.max_bytes_in_flight, settings.max_bytes_in_flight_per_client) = (all, of_client);
        // Clients may call the server by the names that its operator calls it by.
        let own =
            [Some(&self.http_address), Some(&self.grpc_address), self.metrics_address.as_ref()];
        let own = own
            .into_iter()
            .flatten()
            .filter(|name| !name.starts_with("unix:") && name.parse::<IpAddr>().is_err());
        settings.hosts = Hosts::parse(own.chain(&self.allow_host)).context("--allow-host")?;
        Ok(())
    }

    /// Listens for HTTP, with these limits.
    pub async fn http(&self, security: &Security, room: &Room) -> Result<(Listener, Limits)> {
        let address = address(&self.http_address, self.http_port);
        let listener = bind("HTTP", &address, security).await?;
        Ok((listener, self.limits(room.http)))
    }

    /// Listens for metrics, if they should have a port of their own.
    pub async fn metrics(
        &self,
        security: &Security,
        room: &Room,
    ) -> Result<Option<(Listener, Limits)>> {
        let host = self.metrics_address.as_ref().unwrap_or(&self.http_address);
        // A socket in the file system is that of HTTP, which has the metrics.
        if !self.allow_metrics || host.starts_with("unix:") && self.metrics_address.is_none() {
            return Ok(None);
        }
        let listener = bind("metrics", &address(host, self.metrics_port), security).await?;
        Ok(Some((listener, self.limits(room.metrics))))
    }

    /// Serves gRPC until `end`, in a task of its own. Requests under way have `drain` then.
    pub async fn serve_grpc(
        &self,
        service: &Service,
        security: &Security,
        room: &Room,
        drain: Duration,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Option<JoinHandle<Result<(), grpc::Error>>>> {
        if !self.allow_grpc {
            return Ok(None);
        }
        let tls = security.grpc()?;
        if security.has_tokens() && tls.is_none() {
            tracing::warn!(
                "tokens for gRPC go over the network unencrypted; --grpc-use-ssl encrypts them"
            );
        }
        let address = (self.grpc_address.as_str(), self.grpc_port);
        let listener = TcpListener::bind(address).await;
        let listener = listener
            .with_context(|| format!("listening at {}:{} for gRPC", address.0, address.1))?;
        let bound = listener.local_addr().context("the address of gRPC")?;
        tracing::info!("gRPC at {bound}");
        if !bound.ip().is_loopback() && !security.knows_clients_of_grpc() {
            warn("gRPC", "grpc", bound);
        }
        let limits = grpc::Options {
            max_request_size: self.grpc_max_request_size,
            max_connections: room.grpc,
            max_connections_per_client: self.max_connections_per_client,
            min_message_rate: self.min_body_rate,
            compress_responses: self.grpc_infer_response_compression,
            drain,
            tls,
            ..grpc::Options::default()
        };
        Ok(Some(tokio::spawn(grpc::serve(listener, service.clone(), limits, end))))
    }
}

/// Warns of an address that everybody may use who reaches it.
fn warn(what: &str, protocol: &str, bound: SocketAddr) {
    tracing::warn!(
        "{what} at {bound} serves everybody who reaches it: --auth-token-file or --{protocol}-use-ssl-mutual have clients show who \
         they are, --{protocol}-address {LOOPBACK} serves this machine alone"
    );
}

/// `unix:PATH`, or a host.
fn address(host: &str, port: u16) -> Address {
    match host.strip_prefix("unix:") {
        Some(path) => Address::Unix(path.into()),
        None => Address::Tcp(host.to_owned(), port),
    }
}

async fn bind(what: &str, address: &Address, security: &Security) -> Result<Listener> {
    let tls = security.http()?;
    let listener = Listener::bind(address)
        .await
        .with_context(|| format!("listening at {address} for {what}"))?;
    match listener.local_addr() {
        Some(bound) => {
            tracing::info!("{what} at {bound}");
            if !bound.ip().is_loopback() && !security.knows_clients_of_http() {
                warn(what, "http", bound);
            }
        }
        None => tracing::info!("{what} at {address}"),
    }
    Ok(match tls {
        Some(tls) => listener.with_tls(tls),
        None => listener,
    })
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn connections_are_as_many_as_the_system_permits() {
        let room = |descriptors: u64| {
            let room = Room::within(Room { http: 4096, metrics: 64, grpc: 4096 }, descriptors);
            (room.http, room.metrics, room.grpc)
        };
        assert_eq!(room(1 << 20), (4096, 64, 4096));
        let (http, metrics, grpc) = room(1024);
        assert_eq!(http, grpc);
        assert!(http > 300 && http + metrics + grpc < 1024 - 256, "{http} {metrics}");
        let (http, metrics, grpc) = room(256);
        assert!(http > 50 && metrics >= 4 && http + metrics + grpc < 256 - 64, "{http} {metrics}");
        assert_eq!(room(0), (4, 4, 4));
    }
}
