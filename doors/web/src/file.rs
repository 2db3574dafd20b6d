//! Bodies that are files: the host reads them as the client does, and Python has no part in it.

use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Bytes that are read at once, of which a response has these and those on their way to the client.
const PIECE: u64 = 128 << 10;

/// A part of a regular file.
pub(crate) struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl FilePart {
    /// The file of a descriptor from `at` on. `None` if it is not a regular one.
    ///
    /// # Errors
    ///
    /// Those of fcntl(2) and fstat(2).
    pub(crate) fn of_descriptor(descriptor: RawFd, at: u64) -> io::Result<Option<Self>> {
        // SAFETY: a duplicate changes nothing of the descriptor. It fails for a number that is not open (fcntl(2)).
        let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has made it just now, and nobody else knows it.
        let own = unsafe { OwnedFd::from_raw_fd(own) };
        Self::new(own.into(), at)
    }

    /// A whole file. `None` if it is not a regular one.
    ///
    /// # Errors
    ///
    /// Those of open(2) and fstat(2).
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        // A pipe would wait for its writer.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Self::new(file, 0)
    }

    fn new(file: File, at: u64) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let end = metadata.len().max(at);
        Ok(metadata.is_file().then(|| Self { file: Arc::new(file), at, end }))
    }

    pub(crate) fn length(&self) -> u64 {
        self.end - self.at
    }

    pub(crate) fn truncate(&mut self, length: u64) {
        self.end = self.end.min(self.at.saturating_add(length));
    }

    /// Reads the next bytes: none at the end.
    ///
    /// # Errors
    ///
    /// Those of pread(2), also if the file has become shorter.
    pub(crate) fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = vec![0; self.length().min(PIECE) as usize];
        self.file.read_exact_at(&mut piece, self.at)?;
        self.at += piece.len() as u64;
        Ok(piece.into())
    }
}

/// A part of a file on its way.
pub(crate) enum FileBody {
    Waits(FilePart),
    /// A thread for such work reads.
    Reads {
        reading: JoinHandle<io::Result<(FilePart, Bytes)>>,
        left: u64,
    },
    Ended,
}

impl FileBody {
    /// Bytes that have not been read.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Waits(part) => part.length(),
            Self::Reads { left, .. } => *left,
            Self::Ended => 0,
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Self::Waits(_) = self {
            let left = self.length();
            let Self::Waits(mut part) = std::mem::replace(self, Self::Ended) else {
                return Poll::Ready(None);
            };
            if left == 0 {
                return Poll::Ready(None);
            }
            let reading = tokio::task::spawn_blocking(move || {
                let piece = part.read()?;
                Ok((part, piece))
            });
            *self = Self::Reads { reading, left };
        }
        let Self::Reads { reading, .. } = self else { return Poll::Ready(None) };
        let read = ready!(std::pin::Pin::new(reading).poll(context));
        *self = Self::Ended;
        let (part, piece) = match read.map_err(io::Error::other).flatten() {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        *self = Self::Waits(part);
        Poll::Ready(Some(Ok(piece)))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileBody, FilePart, PIECE};
    use std::future::poll_fn;
    use std::os::fd::AsRawFd;

    async fn all(mut body: FileBody) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = poll_fn(|context| body.poll(context)).await {
            bytes.extend(piece?);
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn a_file_is_read_from_a_position_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes: Vec<u8> = (0..3 * PIECE as u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mut part = FilePart::of_descriptor(file.as_raw_fd(), 5).unwrap().unwrap();
        // The interpreter closes its own.
        drop(file);
        part.truncate(2 * PIECE + 1);
        let read = all(FileBody::Waits(part)).await.unwrap();
        assert_eq!(read, bytes[5..5 + 2 * PIECE as usize + 1]);
        let beyond =
            FilePart::of_descriptor(std::fs::File::open(&path).unwrap().as_raw_fd(), 1 << 40);
        assert_eq!(beyond.unwrap().unwrap().length(), 0);
        let part = FilePart::open(&path).unwrap().unwrap();
        std::fs::write(&path, "short").unwrap();
        assert!(all(FileBody::Waits(part)).await.is_err());
    }

    #[test]
    fn only_regular_files_are_sent() {
        assert!(FilePart::open("/dev/null".as_ref()).unwrap().is_none());
        assert!(FilePart::open("/".as_ref()).unwrap().is_none());
        assert!(FilePart::open("/nowhere".as_ref()).is_err());
        assert!(FilePart::of_descriptor(-1, 0).is_err());
        assert!(FilePart::of_descriptor(i32::MAX, 0).is_err());
    }
}
