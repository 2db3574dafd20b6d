//! Where a server listens.

use crate::access::Tls;
use crate::guard::Listens;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where clients reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// A socket that takes connections.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    /// With the path that is removed when it is dropped.
    Unix(UnixListener, Option<PathBuf>),
}

/// A connection that no runtime has yet.
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream, SocketAddr),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Binds an address. A socket in the file system that nobody listens on any more is replaced.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host, port) => {
                let bound = TcpListener::bind((host.as_str(), *port)).await?;
                Ok(Self { kind: Kind::Tcp(bound), tls: None })
            }
            Address::Unix(path) => {
                if is_abandoned(path).await {
                    std::fs::remove_file(path)?;
                }
                let bound = Kind::Unix(UnixListener::bind(path)?, Some(path.clone()));
                Ok(Self { kind: bound, tls: None })
            }
        }
    }

    /// A socket that the process was started with, by the number of its descriptor. It listens already.
    ///
    /// # Errors
    ///
    /// Those of the system, if it is not the descriptor of such a socket.
    pub fn inherited(descriptor: i32) -> io::Result<Self> {
        // SAFETY: fcntl(2) makes another descriptor of the same file, and fails for one that is not open.
        let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now, and nobody else knows it.
        let own = unsafe { OwnedFd::from_raw_fd(own) };
        let socket = std::net::TcpListener::from(own);
        // The standard library takes addresses of IP alone for one.
        let kind = match socket.local_addr() {
            Ok(_) => {
                socket.set_nonblocking(true)?;
                Kind::Tcp(TcpListener::from_std(socket)?)
            }
            Err(_) => {
                let socket = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
                socket.local_addr()?;
                socket.set_nonblocking(true)?;
                Kind::Unix(UnixListener::from_std(socket)?, None)
            }
        };
        Ok(Self { kind, tls: None })
    }

    /// The same socket, whose connections have TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Whether its connections have TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The path of a socket in the file system that it has bound.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Unix(_, path) => path.as_deref(),
            Kind::Tcp(_) => None,
        }
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The port, if it has one. It is what the system has chosen if port 0 was bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix(..) => None,
        }
    }

    /// Where it listens.
    pub(crate) fn listens(&self) -> Listens {
        Listens::at(self.local_addr())
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A response is written in one piece. Nobody should wait for the client's acknowledgement.
                stream.set_nodelay(true)?;
                Ok(Accepted::Tcp(stream.into_std()?, peer))
            }
            Kind::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::Unix(stream.into_std()?))
            }
        }
    }
}

impl Accepted {
    /// The address that it was accepted on, and that of the client.
    pub(crate) fn addresses(&self) -> io::Result<Option<(SocketAddr, SocketAddr)>> {
        match self {
            Accepted::Tcp(stream, peer) => Ok(Some((stream.local_addr()?, *peer))),
            Accepted::Unix(_) => Ok(None),
        }
    }

    /// The connection for tasks of the runtime that this runs on.
    pub(crate) fn on_this_runtime(self) -> io::Result<Stream> {
        Ok(match self {
            Accepted::Tcp(stream, _) => Stream::Tcp(TcpStream::from_std(stream)?),
            Accepted::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, Some(path)) = &self.kind {
            // Another process may have removed it.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Whether a path is a socket that nobody listens on.
async fn is_abandoned(path: &Path) -> bool {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .await
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
