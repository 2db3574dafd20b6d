//! TLS: a certificate with its key, and the certificates required of clients.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// A certificate with its key. Connections use TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls {
    certificates: Vec<u8>,
    key: Vec<u8>,
    clients: Option<Vec<u8>>,
    http: TlsAcceptor,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file lacks the expected content.
    #[error("{} has no {what} in PEM", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
    },
    /// The certificate and the key do not belong together, or are of a kind that cannot be used.
    #[error("the certificate {} and the key {} cannot be used: {source}", certificate.display(), key.display())]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The root certificates for clients' certificates cannot be used.
    #[error("the root certificates {} cannot be used: {problem}", path.display())]
    Roots {
        /// Their file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is nobody's business.
        formatter.debug_struct("Tls").field("clients", &self.clients.is_some()).finish()
    }
}

impl Tls {
    /// Reads the certificate, followed by those that vouch for it, and its key, both in PEM. With `clients`, a client is served
    /// only if a certificate of that file vouches for its own.
    ///
    /// # Errors
    ///
    /// [`TlsError`], with the file's path.
    pub fn load(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, TlsError> {
        let certificates = read(certificate)?;
        let chain = parsed(certificate, &certificates)?;
        let key_text = read(key)?;
        let private = PrivateKeyDer::from_pem_slice(&key_text)
            .map_err(|_| TlsError::Missing { path: key.to_owned(), what: "private key" })?;
        // gRPC's library takes the process's provider of cryptography. A program that has chosen one keeps it.
        drop(ring::default_provider().install_default());
        let provider = Arc::new(ring::default_provider());
        let unusable = |source| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let (builder, clients) = match clients {
            None => (builder.with_no_client_auth(), None),
            Some(path) => {
                let text = read(path)?;
                let failed = |problem: String| TlsError::Roots { path: path.to_owned(), problem };
                let mut roots = RootCertStore::empty();
                for root in parsed(path, &text)? {
                    roots.add(root).map_err(|error| failed(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                let verifier = verifier.map_err(|error| failed(error.to_string()))?;
                (builder.with_client_cert_verifier(verifier), Some(text))
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(unusable)?;
        config.alpn_protocols.push(b"http/1.1".to_vec());
        let http = TlsAcceptor::from(Arc::new(config));
        Ok(Self { certificates, key: key_text, clients, http })
    }

    /// The same, and clients may choose HTTP/2.
    #[must_use]
    pub fn with_http2(mut self) -> Self {
        let mut config = ServerConfig::clone(self.http.config());
        config.alpn_protocols.insert(0, b"h2".to_vec());
        self.http = TlsAcceptor::from(Arc::new(config));
        self
    }

    /// For HTTP.
    pub(crate) fn http(&self) -> &TlsAcceptor {
        &self.http
    }

    /// For gRPC.
    pub(crate) fn grpc(&self) -> ServerTlsConfig {
        let config =
            ServerTlsConfig::new().identity(Identity::from_pem(&self.certificates, &self.key));
        match &self.clients {
            Some(clients) => config.client_ca_root(Certificate::from_pem(clients)),
            None => config,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// The certificates of a text, of which there is at least one.
fn parsed(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    all.ok()
        .filter(|all| !all.is_empty())
        .ok_or(TlsError::Missing { path: path.to_owned(), what: "certificate" })
}
