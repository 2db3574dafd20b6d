//! `sys.stdin`, `sys.stdout` and `sys.stderr` as readers and writers of the application.

use crate::Result;
use crate::crash::contain;
use crate::interpreter::{Interpreter, called_by_anybody};
use crate::object::Object;
use crate::panics::{contained, drop_contained};
use crate::payload::table::Stream;
use crate::session::Session;
use hydrozoa_loader::{DomainId, Process, thread_number};
use std::ffi::c_void;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most bytes that are read at once.
const LARGEST_READ: usize = 1 << 16;

/// How long a thread sleeps before it looks again whether a stream is free. It takes no lock, so a fork disturbs nobody.
const PAUSE: Duration = Duration::from_micros(200);

/// Makes the writer of one interpreter, of which it gets the position in the pool.
type MakeWriter = Arc<dyn Fn(usize) -> Box<dyn Write + Send> + Send + Sync>;

/// Makes the reader of one.
type MakeReader = Arc<dyn Fn(usize) -> Box<dyn Read + Send> + Send + Sync>;

/// The streams of a pool's interpreters, as far as they are not the process's.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<MakeReader>,
    pub(crate) stdout: Option<MakeWriter>,
    pub(crate) stderr: Option<MakeWriter>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Streams")
            .field("stdin", &self.stdin.is_some())
            .field("stdout", &self.stdout.is_some())
            .field("stderr", &self.stderr.is_some())
            .finish()
    }
}

impl Streams {
    /// Gives an interpreter its streams.
    pub(crate) fn install(&self, interpreter: &Interpreter) -> Result<()> {
        let index = interpreter.index();
        let domain = interpreter.domain().id();
        let stdin =
            self.stdin.iter().map(|make| ("stdin", Held::new(End::Reader(make(index)), domain)));
        let writers = [("stdout", &self.stdout), ("stderr", &self.stderr)];
        let writers = writers.into_iter().filter_map(|(name, make)| Some((name, make.as_ref()?)));
        let writers =
            writers.map(|(name, make)| (name, Held::new(End::Writer(make(index)), domain)));
        for (name, held) in stdin.chain(writers) {
            let weak = Arc::downgrade(&held);
            interpreter.at_end(Box::new(move || {
                weak.upgrade().inspect(|held| held.finish());
            }));
            let session = interpreter.session();
            let stream = held.into_object(&session)?;
            session.import("_hydrozoa.streams")?.call_method("install", (name, stream))?;
        }
        Ok(())
    }
}

/// A stream that Python has. One thread uses it at a time.
struct Held {
    /// That of the interpreter.
    domain: DomainId,
    /// The number of the process and the system's of the thread that use it; 0 for none.
    user: AtomicU64,
    /// Whether the interpreter has ended. The object of Python may be there yet: those of streams that a thread was using when Python cut
    /// it off are never freed (`payload/src/threads/ending.rs`).
    is_over: AtomicBool,
    /// Taken by that thread alone, so nobody waits for it.
    end: Mutex<End>,
}

/// Which end of it the application has.
enum End {
    Writer(Box<dyn Write + Send>),
    Reader(Box<dyn Read + Send>),
    /// It was dropped with the interpreter.
    None,
}

impl Held {
    fn new(end: End, domain: DomainId) -> Arc<Self> {
        let (user, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { domain, user, is_over, end: Mutex::new(end) })
    }

    fn into_object(self: Arc<Self>, session: &Session) -> Result<Object<'_>> {
        let domain = self.domain;
        let context = Arc::into_raw(self).cast_mut().cast();
        contain::give(domain, context, release);
        let stream = Stream { context, write, read, drop: release };
        session.object(|inner, out, sink| {
            // SAFETY: `object` attaches; the payload drops the stream once, also on failure.
            unsafe { (inner.table().stream)(&stream, out, sink) }
        })
    }

    /// The interpreter has ended: drops the application's end, now or when the thread that uses it is done.
    fn finish(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.drop_end();
    }

    fn drop_end(&self) {
        if self.user.compare_exchange(0, u64::MAX, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            let end = std::mem::replace(
                &mut *self.end.lock().unwrap_or_else(PoisonError::into_inner),
                End::None,
            );
            self.user.store(0, Ordering::SeqCst);
            called_by_anybody(|| drop_contained("a stream", end));
        }
    }

    /// Calls `action` while no other thread uses the stream. A panic of the application's code, or a use of the stream in
    /// its own code, is an error. So is a use in a forked child of a stream that another thread used at the fork: that
    /// thread does not exist there, and the stream's state is unknown.
    fn with<T>(&self, action: impl FnOnce(&mut End) -> io::Result<T>) -> Result<T, i32> {
        let process = u64::from(Process::current().number());
        let thread = thread_number();
        let own = process << 32 | u64::from(thread.cast_unsigned());
        while let Err(user) =
            self.user.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
        {
            if user == own || user >> 32 != process {
                return Err(libc::EDEADLK);
            }
            std::thread::sleep(PAUSE);
        }
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        // The application's code may enter any interpreter.
        let done = called_by_anybody(|| contained(|| action(&mut end)));
        drop(end);
        self.user.store(0, Ordering::SeqCst);
        if self.is_over.load(Ordering::SeqCst) {
            self.drop_end();
        }
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
            Err(panic) => {
                tracing::error!(panic, "a stream of an interpreter panicked");
                Err(libc::EIO)
            }
        }
    }
}

/// # Safety
///
/// As [`Stream::write`] says; `context` must be a live [`Held`].
unsafe extern "C" fn write(context: *mut c_void, data: *const u8, len: usize) -> i32 {
    // SAFETY: as the caller vouches. Python holds the bytes during the call, and they are immutable (`_hydrozoa.streams`).
    let (held, bytes) = unsafe {
        let bytes = if len == 0 { &[] } else { std::slice::from_raw_parts(data, len) };
        (&*context.cast::<Held>(), bytes)
    };
    let done = held.with(|end| match end {
        End::Writer(writer) if bytes.is_empty() => writer.flush(),
        End::Writer(writer) => writer.write_all(bytes),
        End::Reader(_) | End::None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    });
    let status = done.err().unwrap_or(0);
    contain::depart();
    status
}

/// # Safety
///
/// As [`Stream::read`] says; `context` must be a live [`Held`].
unsafe extern "C" fn read(context: *mut c_void, data: *mut u8, len: usize) -> isize {
    // SAFETY: as the caller vouches.
    let held = unsafe { &*context.cast::<Held>() };
    if len == 0 {
        return 0;
    }
    // Other threads of Python may see the buffer meanwhile, so the reader gets memory of its own.
    let mut own = vec![0; len.min(LARGEST_READ)];
    let done = held.with(|end| match end {
        // A reader that claims more than there is room for has a defect.
        End::Reader(reader) => reader.read(&mut own).map(|count| count.min(own.len())),
        End::Writer(_) | End::None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    });
    if let Ok(count) = done {
        // SAFETY: both are at least as long; Python holds the buffer during the call.
        unsafe { data.copy_from_nonoverlapping(own.as_ptr(), count) };
    }
    drop(own);
    contain::depart();
    match done {
        Ok(count) => count.cast_signed(),
        Err(error) => -(error as isize),
    }
}

/// # Safety
///
/// `context` must come from [`Held::into_object`], and is freed.
unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let held = unsafe { Arc::from_raw(context.cast_const().cast::<Held>()) };
    contain::take_back(held.domain, context);
    called_by_anybody(|| drop_contained("a stream", held));
    contain::depart();
}
