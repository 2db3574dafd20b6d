//! Settled interpreters: memory that nobody uses lies in a file ([`crate::cold`]).
//!
//! An interpreter is settled while nobody is inside of it, and nobody can be. [`Interpreter::settle`] has the order: who
//! can refuse does so first, then garbage is collected, then everybody is kept outside, and pages are exchanged.

use crate::cold::{
    Exchange, Extent, Pagemap, Record, Settled, Spans, Unsettled, bytes, extend, leave_memory,
    unlinked,
};
use crate::heap::{Heap, Still};
use crate::interpreter::{Inner, Interpreter, without_gil};
use crate::payload::Sink;
use crate::payload::table::Region;
use crate::thread::Thread;
use crate::thread::signals::Mask;
use crate::{Error, Result};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

impl Interpreter {
    /// Moves memory of this interpreter to a file without a name in `directory`, which should be on a local disk.
    ///
    /// The memory keeps its bytes and its addresses. Its pages are those of the file from then on, and leave memory. A page that is
    /// used is read again, alone: the first call takes longer, by as many reads from the disk as it uses pages (some 450 with
    /// torch). What was read is page cache, which the kernel may drop when memory is short. Pages that are written become anonymous
    /// memory again, by themselves. Call this when the interpreter has imported and done once what it is for, and again when
    /// [`Settled::anonymous`] would be worth it. A further call writes what has become anonymous since, and now and then
    /// everything. It waits until the disk has the file.
    ///
    /// Before, it runs `gc.collect()` and, whenever everything is written, `gc.freeze()`: later collections do not look at the
    /// objects that exist now, and do not touch their memory. Of these objects, those that become unreachable in cycles are
    /// freed the next time that everything is written, or when the interpreter ends.
    ///
    /// The memory is what CPython's allocators have, in blocks of less than 32 MiB, libpython's variables, and the data of
    /// libraries that is read-only. The variables of other libraries and the C++ objects of all, in blocks of less than
    /// 128 KiB, join too, unless threads of these libraries run. What extension modules take
    /// from malloc is not part of it, nor are data of numpy's arrays and torch's tensors.
    ///
    /// A Python thread keeps the interpreter from it also while it waits, as an executor's worker does. It may wake up at any
    /// time without Python, by a timeout or a file, and it writes to Python's memory before it asks for the GIL.
    ///
    /// Nobody may use the interpreter while pages are exchanged. Calls of other threads wait, some tenths of a second for 200 MiB,
    /// and not for the disk. Memory of Python objects must not be registered with a device (`cudaHostRegister`, io_uring), which
    /// knows pages and not addresses.
    ///
    /// The file has what Python has in memory, secrets included, and its blocks stay on the disk until others are written
    /// there. Only this user could open it, and nobody finds it. A disk that fails later ends the process with SIGBUS where it touches the
    /// memory, as one with the program's libraries does. Core dumps have these pages if bit 2 of `/proc/PID/coredump_filter` is
    /// set.
    ///
    /// # Errors
    ///
    /// [`Error::Settle`] says what keeps it from it. The interpreter goes on as before, and nothing is lost. Or the exception
    /// that `gc.collect()` raises.
    pub fn settle(&self, directory: impl AsRef<Path>) -> Result<Settled> {
        settle(&self.0, directory.as_ref())
    }
}

/// Settles an interpreter whose last session has ended, on a thread of its own, if it is time to.
pub(crate) fn session_ended(inner: &Arc<Inner>) {
    if !inner.settling().is_due(inner.leases().count()) {
        return;
    }
    let weak = Arc::downgrade(inner);
    let job = move || {
        let Some(inner) = weak.upgrade() else { return };
        let outcome = inner.settling().directory().and_then(|directory| settle(&inner, directory));
        let interpreter = inner.name();
        match outcome {
            Ok(settled) => tracing::debug!(interpreter, ?settled, "settled"),
            Err(Error::Settle { reason, .. }) if reason.is_passing() => {
                tracing::debug!(interpreter, %reason, "not settled");
                inner.settling().try_again();
            }
            Err(error) => tracing::warn!(interpreter, %error, "not settled"),
        }
    };
    match Thread::helper("settle", job) {
        Ok(thread) => thread.detach(),
        Err(error) => {
            let interpreter = inner.name();
            tracing::warn!(interpreter, %error, "no thread to settle an interpreter");
        }
    }
}

/// See [`Interpreter::settle`].
pub(crate) fn settle(inner: &Arc<Inner>, directory: &Path) -> Result<Settled> {
    let refused = |reason| Error::Settle { interpreter: inner.name().to_owned(), reason };
    let begin = Instant::now();
    if inner.entries().is_childs() {
        return Err(refused(Unsettled::Forked));
    }
    match inner.entries().count() {
        0 => {}
        visits => return Err(refused(Unsettled::Visited { visits })),
    }
    // Whoever has the record may wait for this thread's GIL.
    let mut record = without_gil(|| inner.settling().record());
    let file = unlinked(directory).map_err(refused)?;
    let pagemap = Pagemap::open().map_err(Unsettled::pagemap).map_err(refused)?;
    // Whoever refuses now refuses before everything is touched.
    let (spans, anonymous) = {
        let _attached = inner.attach();
        quietly(inner, |spans| pagemap.anonymous(spans.all()).map(|found| (spans, found)))
            .and_then(|found| found.map_err(Unsettled::pagemap))
            .map_err(|reason| refused(visited_or(inner, reason)))?
    };
    if spans.is_empty() {
        return Err(refused(Unsettled::NoWindow));
    }
    let extent = record.extent(spans.all(), &anonymous);
    collect(inner, extent)?;
    let outcome = inner.entries().close().map_err(|visits| Unsettled::Visited { visits });
    let outcome = outcome.and_then(|closed| {
        let _attached = inner.attach_alone(&closed);
        let job = Job { file: &file, directory, pagemap: &pagemap, extent };
        exchange_all(inner, &job, &mut record)
    });
    drop(record);
    if outcome.is_err() && extent == Extent::All {
        give_back_to_collections(inner);
    }
    let (written, anonymous, memory) = outcome.map_err(refused)?;
    without_gil(|| leave_memory(&file))
        .map_err(|source| refused(Unsettled::io(directory, source)))?;
    inner.settling().is_done();
    Ok(Settled { written, anonymous, memory, elapsed: begin.elapsed() })
}

/// Why an interpreter is not settled in which the calling thread is attached. A host's thread makes its state before it waits
/// for the GIL. Until it has it, the state looks like one of Python's threads.
fn visited_or(inner: &Inner, reason: Unsettled) -> Unsettled {
    match (reason, inner.entries().count()) {
        (Unsettled::Threads { .. }, count @ 2..) => Unsettled::Visited { visits: count - 1 },
        (reason, _) => reason,
    }
}

/// Frees what nobody refers to, and has later collections leave alone what is there if all of it is written.
fn collect(inner: &Arc<Inner>, extent: Extent) -> Result<()> {
    let _attached = inner.attach();
    let mut sink = Sink::default();
    // SAFETY: attached.
    let status = unsafe { (inner.table().collect)(extent == Extent::All, sink.pointer()) };
    sink.check(status)
}

/// Has collections look again at what was to be written, and was not.
fn give_back_to_collections(inner: &Arc<Inner>) {
    let _attached = inner.attach();
    // SAFETY: attached.
    unsafe { (inner.table().unfreeze)() };
}

/// What is to be done, and with what.
struct Job<'a> {
    file: &'a File,
    directory: &'a Path,
    pagemap: &'a Pagemap,
    extent: Extent,
}

/// Exchanges pages, and returns the bytes that were written, those that are anonymous still, and all.
///
/// The caller has kept the host's threads outside, and is attached.
fn exchange_all(
    inner: &Inner,
    job: &Job<'_>,
    record: &mut Record,
) -> Result<(u64, u64, u64), Unsettled> {
    let in_directory = |source| Unsettled::io(job.directory, source);
    match inner.settling().loans() {
        0 => {}
        loans => return Err(Unsettled::Lent { loans }),
    }
    let mut exchange = Exchange::new(job.file).map_err(in_directory)?;
    let anonymous =
        |spans: &[Range<usize>]| job.pagemap.anonymous(spans).map_err(Unsettled::pagemap);
    // A handler of a signal would run on this thread, and may do anything.
    let mask = Mask::current();
    Mask::block_all();
    let outcome = quietly(inner, |spans| {
        let runs = record.runs(job.extent, spans.all(), &anonymous(spans.all())?);
        let total = bytes(&runs) as u64;
        extend(job.file, total).map_err(in_directory)?;
        record.begin(total);
        inner.domain().replaces_data();
        for run in &runs {
            // SAFETY: the pages lie in the interpreter's windows, in parts that are in use and that it uses as private
            // memory which is readable and writable, or in data of its replicas. Nobody unmaps them: the allocators that
            // would do so are kept still, and only code inside closes libraries. Interpreter::settle asks its callers to
            // keep devices away.
            let outcome = unsafe {
                match spans.is_constant(run) {
                    true => exchange.exchange_constants(run.clone()),
                    false => exchange.exchange(run.clone()),
                }
            };
            outcome.map_err(in_directory)?;
            record.add(run.clone());
        }
        record.finish(job.extent, runs.len(), total);
        Ok((total, bytes(&anonymous(spans.all())?) as u64, bytes(spans.all()) as u64))
    });
    mask.set();
    outcome?
}

/// Whether threads run that the interpreter's code has created. One that has been joined is gone soon.
fn has_threads(inner: &Inner) -> bool {
    (0..20).all(|attempt| {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        inner.domain().has_threads()
    })
}

/// Calls `action` with the addresses of the interpreter's memory, while nobody changes it who goes through Python. The
/// calling thread is attached.
fn quietly<T>(inner: &Inner, action: impl FnOnce(Spans) -> T) -> Result<T, Unsettled> {
    struct Context<F, T> {
        action: Option<F>,
        result: Option<T>,
    }
    unsafe extern "C" fn call<T, F: FnOnce(&[Range<usize>]) -> T>(
        context: *mut c_void,
        used: *const Region,
        count: usize,
    ) {
        // SAFETY: the payload passes the context below, and as many regions as it says.
        let (context, used) = unsafe {
            (&mut *context.cast::<Context<F, T>>(), std::slice::from_raw_parts(used, count))
        };
        let spans: Vec<_> = used.iter().map(|one| one.start..one.start + one.length).collect();
        context.result = context.action.take().map(|action| action(&spans));
    }
    fn of<T, F: FnOnce(&[Range<usize>]) -> T>(
        _: &Context<F, T>,
    ) -> unsafe extern "C" fn(*mut c_void, *const Region, usize) {
        call::<T, F>
    }
    // What its libraries have joins, unless threads of theirs could change it.
    let is_still = !has_threads(inner);
    let cxx = inner.heap().filter(|_| is_still).and_then(Heap::still);
    let data = inner.domain().data();
    let libpython = inner.python().library().canonicalize();
    let action = |used: &[Range<usize>]| {
        let mut spans = Spans::default();
        used.iter().cloned().chain(cxx.as_ref().map(Still::used)).for_each(|span| spans.add(span));
        // Without a heap of its own it is not worth it.
        let data = if spans.is_empty() { Vec::new() } else { data };
        for data in data {
            let is_pythons = libpython.as_ref().is_ok_and(|path| *path == data.path);
            spans.add_data(data, is_still || is_pythons);
        }
        action(spans)
    };
    let mut context = Context { action: Some(action), result: None };
    let function = of(&context);
    // SAFETY: attached, as the caller vouches; the context outlives the call.
    let others = unsafe { (inner.table().quiet)(function, (&raw mut context).cast()) };
    match (others.threads, others.interpreters, context.result) {
        (0, 0, Some(result)) => Ok(result),
        (0, interpreters, _) => Err(Unsettled::SubInterpreters { interpreters }),
        (threads, ..) => Err(Unsettled::Threads { threads }),
    }
}
