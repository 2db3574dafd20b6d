//! Options of `hydrozoa serve` for TLS and tokens.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::ArgAction;
use hydrozoa_server::{Tls, Tokens};

/// Options for gRPC are named as in tritonserver, those for HTTP the same with `http`.
#[derive(clap::Args)]
#[command(next_help_heading = "Security")]
pub struct Security {
    /// Use TLS for HTTP and for the metrics' port
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    http_use_ssl: bool,
    /// Use TLS for HTTP, and require a certificate of clients
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    http_use_ssl_mutual: bool,
    /// The server's certificate for HTTP, and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE")]
    http_server_cert: Option<PathBuf>,
    /// The key of the server's certificate for HTTP, in PEM
    #[arg(long, value_name = "FILE")]
    http_server_key: Option<PathBuf>,
    /// The certificates that vouch for those of clients of HTTP, in PEM
    #[arg(long, value_name = "FILE")]
    http_root_cert: Option<PathBuf>,
    /// Use TLS for gRPC
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_use_ssl: bool,
    /// Use TLS for gRPC, and require a certificate of clients
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_use_ssl_mutual: bool,
    /// The server's certificate for gRPC, and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,
    /// The key of the server's certificate for gRPC, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,
    /// The certificates that vouch for those of clients of gRPC, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_root_cert: Option<PathBuf>,
    /// A file of bearer tokens, one a line; clients must show one of them for all but the server's health
    #[arg(long, value_name = "FILE")]
    auth_token_file: Option<PathBuf>,
}

impl Security {
    /// The certificate for HTTP, if it should have TLS.
    pub fn http(&self) -> Result<Option<Tls>> {
        let files = [&self.http_server_cert, &self.http_server_key, &self.http_root_cert];
        tls("http", self.http_use_ssl, self.http_use_ssl_mutual, files)
    }

    /// The certificate for gRPC, if it should have TLS.
    pub fn grpc(&self) -> Result<Option<Tls>> {
        let files = [&self.grpc_server_cert, &self.grpc_server_key, &self.grpc_root_cert];
        tls("grpc", self.grpc_use_ssl, self.grpc_use_ssl_mutual, files)
    }

    /// Whether clients of HTTP must show who they are.
    pub fn knows_clients_of_http(&self) -> bool {
        self.has_tokens() || self.http_use_ssl_mutual
    }

    /// Whether clients of gRPC must show who they are.
    pub fn knows_clients_of_grpc(&self) -> bool {
        self.has_tokens() || self.grpc_use_ssl_mutual
    }

    /// Whether clients must show a token.
    pub fn has_tokens(&self) -> bool {
        self.auth_token_file.is_some()
    }

    /// The tokens, of which clients must show one.
    pub fn tokens(&self) -> Result<Option<Tokens>> {
        let load = |path: &PathBuf| Tokens::load(path);
        Ok(self.auth_token_file.as_ref().map(load).transpose()?)
    }
}

/// The certificate of a server, of its options for a protocol. `files` are the certificate, its key, and the root of clients'.
fn tls(
    protocol: &str,
    is_used: bool,
    is_mutual: bool,
    files: [&Option<PathBuf>; 3],
) -> Result<Option<Tls>> {
    if !is_used && !is_mutual {
        // A certificate that nobody uses would be a server that is less safe than its command line looks.
        for (name, file) in ["server-cert", "server-key", "root-cert"].into_iter().zip(files) {
            ensure!(file.is_none(), "--{protocol}-{name} needs --{protocol}-use-ssl=true");
        }
        return Ok(None);
    }
    let [Some(certificate), Some(key), root] = files.map(Option::as_deref) else {
        bail!("--{protocol}-use-ssl needs --{protocol}-server-cert and --{protocol}-server-key");
    };
    ensure!(
        is_mutual == root.is_some(),
        "--{protocol}-use-ssl-mutual and --{protocol}-root-cert need each other"
    );
    Ok(Some(Tls::load(certificate, key, root)?))
}
