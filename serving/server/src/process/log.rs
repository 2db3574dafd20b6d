//! The server's log: lines that threads leave in a queue, and one thread that writes them.
//!
//! A log must not affect the code that it reports on. `std::io::stderr` fails where nobody reads or the disk is full, and its
//! users (`eprintln!`, and tracing's subscriber with it) then panic. A reader that stops reading holds up every writer. So a
//! thread that logs never waits and never sees a failure: a line that cannot be written is lost, and counted.

use hydrozoa_models::escaped;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{process, thread};

/// Bytes that may wait for the writing thread. Further entries are lost.
const WAITING: usize = 1 << 20;

/// How long a log that takes nothing now is retried (a stream that somebody has made non-blocking).
const PAUSE: Duration = Duration::from_millis(20);

/// The prefix of an entry's further lines. No entry begins with it, so no text looks like an entry of its own.
const CONTINUED: &str = "\n  | ";

/// A log. Its clones are the same log. As a [`Write`] it takes one entry with each call and never fails.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: File,
    /// A child that a model forks lacks the writing thread.
    process: u32,
    queue: Mutex<Queue>,
    /// An entry was added.
    added: Condvar,
    /// The queue is empty, and its last entry was written.
    idle: Condvar,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
}

impl Log {
    /// A log on standard error, by a descriptor of its own: code that closes or replaces descriptor 2 does not affect the log.
    ///
    /// # Errors
    ///
    /// Those of the system, for the descriptor or the thread.
    pub fn to_standard_error() -> io::Result<Self> {
        Self::start(io::stderr().as_fd().try_clone_to_owned()?.into())
    }

    /// The same on standard output.
    ///
    /// # Errors
    ///
    /// Those of the system, for the descriptor or the thread.
    pub fn to_standard_output() -> io::Result<Self> {
        Self::start(io::stdout().as_fd().try_clone_to_owned()?.into())
    }

    /// A log at the end of a file, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Self::start(File::options().append(true).create(true).open(path)?)
    }

    fn start(file: File) -> io::Result<Self> {
        // A file at RLIMIT_FSIZE would end the process. Python ignores the signal, too (`signal_install_handlers` in
        // Modules/signalmodule.c).
        // SAFETY: the signal is ignored: no handler is set that code could run in.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let log = Self(Arc::new(Shared {
            file,
            process: process::id(),
            queue: Mutex::default(),
            added: Condvar::new(),
            idle: Condvar::new(),
            lost: AtomicU64::new(0),
        }));
        let writes = log.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writes.0.run())?;
        Ok(log)
    }

    /// Entries that could not be written, or came while too many waited.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Waits until all entries are written or lost, for so long at most. False if some are left.
    pub fn flush_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut queue = self.0.queue.lock();
        while queue.is_writing || !queue.entries.is_empty() {
            if self.0.idle.wait_until(&mut queue, deadline).timed_out() {
                return false;
            }
        }
        true
    }

    /// Logs an entry, which may have several lines.
    fn add(&self, entry: &[u8]) {
        let entry = entry_of(entry);
        if self.0.process != process::id() {
            // Nobody of the child reads the number.
            drop((&self.0.file).write_all(&entry));
            return;
        }
        let mut queue = self.0.queue.lock();
        if queue.bytes + entry.len() > WAITING {
            drop(queue);
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes += entry.len();
        queue.entries.push_back(entry);
        self.0.added.notify_one();
    }
}

impl Write for Log {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.add(entry);
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An entry as it is written: foreign text in it cannot begin an entry or command a terminal.
fn entry_of(entry: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(entry);
    let lines: Vec<_> = text.trim_end_matches('\n').split('\n').map(escaped).collect();
    let mut entry = lines.join(CONTINUED).into_bytes();
    entry.push(b'\n');
    entry
}

impl Shared {
    /// Writes entries as they come, for as long as the process lives.
    fn run(&self) {
        let (mut is_torn, mut unreported) = (false, 0);
        let mut queue = self.queue.lock();
        loop {
            let Some(entry) = queue.entries.pop_front() else {
                queue.is_writing = false;
                self.idle.notify_all();
                self.added.wait(&mut queue);
                continue;
            };
            queue.bytes -= entry.len();
            queue.is_writing = true;
            drop(queue);
            let lost = self.lost.load(Ordering::Relaxed);
            if self.write(&entry, &mut is_torn).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            } else if lost > unreported {
                tracing::warn!("{} lines of the log were lost up to here", lost - unreported);
                unreported = lost;
            }
            queue = self.queue.lock();
        }
    }

    /// Writes an entry. `is_torn`: the line before it has not ended.
    fn write(&self, entry: &[u8], is_torn: &mut bool) -> io::Result<()> {
        if *is_torn {
            self.write_all(b"\n", is_torn)?;
            *is_torn = false;
        }
        self.write_all(entry, is_torn)
    }

    fn write_all(&self, mut bytes: &[u8], is_torn: &mut bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    *is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the stream takes something again, or nobody reads it any more.
    fn wait(&self) {
        let mut asked =
            libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which lives during the call.
        if unsafe { libc::poll(&mut asked, 1, -1) } != 1 {
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Log, WAITING};
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn entries_are_written_in_their_order_and_look_like_no_other_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::to_file(&path).unwrap();
        log.write_all(b"one\n").unwrap();
        log.write_all("two\n2026 ERROR forged \u{1b}[2J\u{202e}\r\n".as_bytes()).unwrap();
        log.write_all(b"three \xff\n").unwrap();
        assert!(log.flush_within(PATIENCE));
        let found = fs::read_to_string(&path).unwrap();
        let forged = r"  | 2026 ERROR forged \u{1b}[2J\u{202e}\r";
        assert_eq!(found, format!("one\ntwo\n{forged}\nthree \u{fffd}\n"));
        assert_eq!(log.lost(), 0);
    }

    #[test]
    fn a_full_device_loses_entries_and_counts_them() {
        let mut log = Log::start(File::options().write(true).open("/dev/full").unwrap()).unwrap();
        for _ in 0..3 {
            log.write_all(b"lost\n").unwrap();
        }
        assert!(log.flush_within(PATIENCE));
        assert_eq!(log.lost(), 3);
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut log = Log::start(OwnedFd::from(writer).into()).unwrap();
        let entry = vec![b'x'; 1023];
        // The pipe and the queue take less.
        for _ in 0..4 * WAITING / 1024 {
            log.write_all(&entry).unwrap();
        }
        assert!(!log.flush_within(Duration::from_millis(10)));
        let lost = log.lost();
        assert!(lost > 1000, "{lost}");
        // A reader that comes back gets the rest.
        let read = std::thread::spawn(move || {
            let mut all = vec![0; (4 * WAITING / 1024 - lost as usize) * 1024];
            reader.read_exact(&mut all).unwrap();
            all
        });
        assert!(log.flush_within(PATIENCE));
        assert!(read.join().unwrap().chunks(1024).all(|chunk| chunk.ends_with(b"x\n")));
    }

    #[test]
    fn a_reader_that_has_gone_ends_nothing() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut log = Log::start(OwnedFd::from(writer).into()).unwrap();
        drop(reader);
        log.write_all(b"lost\n").unwrap();
        assert!(log.flush_within(PATIENCE));
        assert_eq!(log.lost(), 1);
    }
}
