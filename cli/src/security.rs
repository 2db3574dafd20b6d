//! Options of `hydrozoa serve` for TLS and tokens.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::ArgAction;
use hydrozoa_server::{Tls, Tokens};

/// Options for gRPC have the names that tritonserver gives them, those for HTTP the same with `http`.
#[derive(clap::Args)]
#[command(next_help_heading = "Security")]
pub struct Security {
    /// Have TLS for HTTP and for the metrics' port
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    http_use_ssl: bool,
    /// The same, and serve only clients that have a certificate
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    http_use_ssl_mutual: bool,
    /// The server's certificate for HTTP, and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE")]
    http_server_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE")]
    http_server_key: Option<PathBuf>,
    /// The certificates that vouch for those of clients of HTTP, in PEM
    #[arg(long, value_name = "FILE")]
    http_root_cert: Option<PathBuf>,
    /// Have TLS for gRPC
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_use_ssl: bool,
    /// The same, and serve only clients that have a certificate
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    grpc_use_ssl_mutual: bool,
    /// The server's certificate for gRPC, and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,
    /// The certificates that vouch for those of clients of gRPC, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_root_cert: Option<PathBuf>,
    /// A file of bearer tokens, one a line; clients must show one of them for all but the server's health
    #[arg(long, value_name = "FILE")]
    auth_token_file: Option<PathBuf>,
}

/// The options of one protocol.
struct Given<'a> {
    protocol: &'a str,
    is_used: bool,
    is_mutual: bool,
    certificate: &'a Option<PathBuf>,
    key: &'a Option<PathBuf>,
    root: &'a Option<PathBuf>,
}

impl Security {
    /// The certificate for HTTP, if it should have TLS.
    pub fn http(&self) -> Result<Option<Tls>> {
        let given = Given {
            protocol: "http",
            is_used: self.http_use_ssl,
            is_mutual: self.http_use_ssl_mutual,
            certificate: &self.http_server_cert,
            key: &self.http_server_key,
            root: &self.http_root_cert,
        };
        given.load()
    }

    /// The certificate for gRPC, if it should have TLS.
    pub fn grpc(&self) -> Result<Option<Tls>> {
        let given = Given {
            protocol: "grpc",
            is_used: self.grpc_use_ssl,
            is_mutual: self.grpc_use_ssl_mutual,
            certificate: &self.grpc_server_cert,
            key: &self.grpc_server_key,
            root: &self.grpc_root_cert,
        };
        given.load()
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

impl Given<'_> {
    fn load(&self) -> Result<Option<Tls>> {
        let protocol = self.protocol;
        if !self.is_used && !self.is_mutual {
            // A certificate that nobody uses would be a server that is less safe than its command line looks.
            let files = [("server-cert", self.certificate), ("server-key", self.key)];
            let more = [("root-cert", self.root)];
            for (name, file) in files.iter().chain(&more) {
                ensure!(file.is_none(), "--{protocol}-{name} needs --{protocol}-use-ssl=true");
            }
            return Ok(None);
        }
        let (Some(certificate), Some(key)) = (self.certificate, self.key) else {
            anyhow::bail!(
                "--{protocol}-use-ssl needs --{protocol}-server-cert and --{protocol}-server-key"
            );
        };
        let root: Option<&Path> = self.root.as_deref();
        ensure!(
            self.is_mutual == root.is_some(),
            "--{protocol}-use-ssl-mutual and --{protocol}-root-cert need each other"
        );
        Ok(Some(Tls::load(certificate, key, root)?))
    }
}
