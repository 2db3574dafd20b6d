//! Settled interpreters: unused memory lies in a file ([`crate::settled_pages`]).
//!
//! An interpreter is settled while no thread is inside it, and none can enter. The order is that of [`Interpreter::settle`]: all
//! checks that can refuse come first, then garbage is collected, then all threads are kept outside, and pages are exchanged.

use crate::heap::Still;
use crate::interpreter::{Inner, Interpreter, without_gil};
use crate::payload::Sink;
use crate::settled_pages::{
    Exchange, Extent, Pagemap, Record, Settled, Settlings, Spans, Unsettled, bytes, extend,
    leave_memory, unlinked,
};
use crate::thread::asleep::is_asleep;
use crate::thread::signals::Mask;
use crate::{Error, Result};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

impl Interpreter {
    /// Moves memory of this interpreter to a file without a name in `directory`, which should be on a local disk.
    ///
    /// The memory keeps its bytes and its addresses. From then on the file backs its pages, and they leave memory. A page that is
    /// used is read again, alone: the first call takes longer, by one disk read for each page that it uses (some 450 with
    /// torch). When the interpreter is settled again, it is known which pages are used. They are read at once, in the background, when a
    /// thread enters the next time. Pages read this way are page cache, which the kernel may drop when memory is short. Pages that are written become
    /// anonymous memory again, automatically. Call this when the interpreter has imported its modules and done its work once, and
    /// again when [`Settled::anonymous`] is large enough to be worth it. A further call writes the pages that have become
    /// anonymous since, and now and then everything. It waits until the file is on the disk.
    ///
    /// First it runs `gc.collect()` and, whenever everything is written, `gc.freeze()`: later collections skip the
    /// objects that exist now, and do not touch their memory. If such objects become unreachable in cycles, they are
    /// freed the next time that everything is written, or when the interpreter ends.
    ///
    /// The memory consists of the blocks of CPython's allocators below 32 MiB, libpython's variables, and the read-only data of
    /// libraries. The variables of other libraries, and what all of them take from malloc and by `operator new`, join too,
    /// numpy's arrays included, unless threads of these libraries run. The data of torch's tensors stays where it is, and so does memory that
    /// other interpreters use by a [`Movable`](crate::Movable).
    ///
    /// Python threads that run prevent this. Those that wait for a lock, a time, a file or a child, as an executor's workers do, may
    /// go on waiting. They keep the variables of libpython and of libraries in memory, and what libraries take from malloc. The
    /// interpreter's event loop (feature `async`) costs nothing while it waits: its thread is outside.
    ///
    /// Nobody may use the interpreter while pages are exchanged. Calls of other threads wait, some tenths of a second for 200
    /// MiB, but not for the disk. Memory of Python objects and of libraries, other than torch's tensors, must not be registered with a device (`cudaHostRegister`, io_uring):
    /// devices know pages, not addresses.
    ///
    /// The file holds a copy of Python's memory, secrets included, and its blocks stay on the disk until others are written
    /// there. Only this user could open it, and it has no name to find it by. If the disk fails later, the process ends with
    /// SIGBUS when it touches the memory, as it does when the disk of its libraries fails. Core dumps include these pages if bit
    /// 2 of `/proc/PID/coredump_filter` is set.
    ///
    /// # Errors
    ///
    /// [`Error::Crashed`]. [`Error::Settle`] says what prevents it; the interpreter goes on as before, and nothing is lost. Or the exception
    /// that `gc.collect()` raises.
    pub fn settle(&self, directory: impl AsRef<Path>) -> Result<Settled> {
        settle(&self.0, directory.as_ref())
    }

    /// How this interpreter was settled so far: by [`Interpreter::settle`], by its pool, and by itself
    /// ([`Builder::dense`](crate::Builder::dense)).
    pub fn settlings(&self) -> Settlings {
        self.0.settling().so_far()
    }
}

/// See [`Interpreter::settle`].
pub(crate) fn settle(inner: &Arc<Inner>, directory: &Path) -> Result<Settled> {
    noted(inner, || Survey::new(inner, directory)?.settle(inner))
}

/// The same, if enough has become anonymous since the last time to be worth it.
pub(crate) fn settle_if_worth_it(inner: &Arc<Inner>, directory: &Path) -> Result<Option<Settled>> {
    noted(inner, || {
        let survey = Survey::new(inner, directory)?;
        let is_worth_it = survey.record.is_worth_it(survey.spans.all(), &survey.anonymous);
        is_worth_it.then(|| survey.settle(inner)).transpose()
    })
}

/// Notes why an attempt has failed.
fn noted<T>(inner: &Inner, attempt: impl FnOnce() -> Result<T>) -> Result<T> {
    attempt().inspect_err(|error| inner.settling().note_refusal(error.to_string()))
}

/// The memory that is there to settle, found while nothing hinders it.
struct Survey<'a> {
    begin: Instant,
    directory: &'a Path,
    file: File,
    pagemap: Pagemap,
    record: MutexGuard<'a, Record>,
    spans: Spans,
    anonymous: Vec<Range<usize>>,
    /// The pages that were used since the last time. There is nothing to learn from the first one: the interpreter has just begun.
    used: Vec<Range<usize>>,
}

impl<'a> Survey<'a> {
    /// A refusal here comes before any page is touched.
    fn new(inner: &'a Arc<Inner>, directory: &'a Path) -> Result<Self> {
        let refused = |reason| refusal(inner, reason);
        let begin = Instant::now();
        if let Some(crash) = inner.crash() {
            return Err(crash);
        }
        if inner.visitors().is_childs() {
            return Err(refused(Unsettled::Forked));
        }
        match inner.visitors().count() {
            0 => {}
            visits => return Err(refused(Unsettled::Visited { visits })),
        }
        // The thread that holds the record may wait for this thread's GIL.
        let record = without_gil(|| inner.settling().record());
        let file = unlinked(directory).map_err(refused)?;
        let pagemap = Pagemap::open().map_err(Unsettled::pagemap).map_err(refused)?;
        let look = |spans: Spans| {
            let anonymous = pagemap.anonymous(spans.all())?;
            let used = if record.is_new() { Vec::new() } else { pagemap.used(spans.all())? };
            Ok((spans, anonymous, used))
        };
        let (spans, anonymous, used) = {
            let _attached = inner.attach();
            quietly(inner, look)
                .and_then(|found| found.map_err(Unsettled::pagemap))
                .map_err(|reason| refused(visited_or(inner, reason)))?
        };
        match spans.is_empty() {
            true => Err(refused(Unsettled::NoWindow)),
            false => Ok(Self { begin, directory, file, pagemap, record, spans, anonymous, used }),
        }
    }

    fn settle(mut self, inner: &Arc<Inner>) -> Result<Settled> {
        let refused = |reason| refusal(inner, reason);
        let extent = self.record.extent(self.spans.all(), &self.anonymous);
        collect(inner, extent)?;
        let outcome = inner.visitors().close().map_err(|visits| Unsettled::Visited { visits });
        let outcome = outcome.and_then(|closed| {
            let _attached = inner.attach_alone(&closed);
            let job =
                Job { file: &self.file, directory: self.directory, pagemap: &self.pagemap, extent };
            exchange_all(inner, &job, &mut self.record)
        });
        drop(self.record);
        if outcome.is_err() && extent == Extent::All {
            give_back_to_collections(inner);
        }
        let (written, anonymous, memory) = outcome.map_err(refused)?;
        without_gil(|| leave_memory(&self.file))
            .map_err(|source| refused(Unsettled::io(self.directory, source)))?;
        inner.settling().leave(self.used);
        inner.settling().count(written);
        Ok(Settled { written, anonymous, memory, elapsed: self.begin.elapsed() })
    }
}

fn refusal(inner: &Inner, reason: Unsettled) -> Error {
    Error::Settle { interpreter: inner.name().to_owned(), reason }
}

/// Why an interpreter is not settled in which the calling thread is attached. A host's thread makes its state before it waits
/// for the GIL. Until it has it, the state looks like one of Python's threads.
fn visited_or(inner: &Inner, reason: Unsettled) -> Unsettled {
    match (reason, inner.visitors().count()) {
        (Unsettled::Threads { .. }, count @ 2..) => Unsettled::Visited { visits: count - 1 },
        (reason, _) => reason,
    }
}

/// Frees unreachable objects. If everything is to be written, later collections leave the remaining objects alone.
fn collect(inner: &Arc<Inner>, extent: Extent) -> Result<()> {
    let _attached = inner.attach();
    let mut sink = Sink::default();
    // SAFETY: attached.
    let status = unsafe { (inner.table().collect)(extent == Extent::All, sink.pointer()) };
    sink.check(status)
}

/// Has collections look again at the objects that were to be written but were not.
fn give_back_to_collections(inner: &Arc<Inner>) {
    let _attached = inner.attach();
    // SAFETY: attached.
    unsafe { (inner.table().unfreeze)() };
}

/// The file, directory and extent of one settling.
struct Job<'a> {
    file: &'a File,
    directory: &'a Path,
    pagemap: &'a Pagemap,
    extent: Extent,
}

/// Exchanges pages, and returns the bytes that were written, those that are still anonymous, and all.
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

/// Whether threads run that the interpreter's code has created. A joined thread is gone soon.
fn has_threads(inner: &Inner) -> bool {
    (0..20).all(|attempt| {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        inner.domain().has_threads()
    })
}

/// Whether all Python threads but the host's, so many, sleep in the kernel. They have no GIL: the calling thread is attached. One that wakes
/// up writes its own stack, the lock, file or time that it has waited for, and the GIL's lock, until it has the GIL.
fn others_sleep(inner: &Inner, count: usize) -> bool {
    unsafe extern "C" fn add(identifiers: *mut c_void, identifier: usize) {
        // SAFETY: the vector that is passed below.
        unsafe { (*identifiers.cast::<Vec<usize>>()).push(identifier) };
    }
    let mut identifiers: Vec<usize> = Vec::new();
    // SAFETY: attached; `add` gets the vector that it expects.
    unsafe { (inner.table().other_threads)(add, (&raw mut identifiers).cast()) };
    let threads = inner.domain().threads().unwrap_or_default();
    let sleeps = |identifier: &usize| {
        let own = threads.iter().find(|(_, stack)| stack.contains(identifier));
        own.is_some_and(|(number, _)| is_asleep(*number))
    };
    // An interpreter that has crashed counts one, and shows none.
    identifiers.len() == count && identifiers.iter().all(sleeps)
}

/// Calls `action` with the addresses of the interpreter's memory, while no thread changes it through Python. The
/// calling thread is attached.
fn quietly<T>(inner: &Inner, action: impl FnOnce(Spans) -> T) -> Result<T, Unsettled> {
    // The memory of its libraries joins, unless threads of theirs could change it.
    let is_still = !has_threads(inner);
    let arenas = inner.arenas();
    let data = inner.domain().data();
    let libpython = inner.python().library_file();
    // From here on, no code of the interpreter gets memory.
    let heap = inner.heap().and_then(|heap| heap.still(is_still));
    // SAFETY: attached, as the caller vouches.
    let others = unsafe { (inner.table().others)() };
    if others.threads > 0 && !others_sleep(inner, others.threads) {
        return Err(Unsettled::Threads { threads: others.threads });
    }
    if others.interpreters > 0 {
        return Err(Unsettled::SubInterpreters { interpreters: others.interpreters });
    }
    let mut spans = Spans::default();
    let used = heap.as_ref().map(Still::used).unwrap_or_default();
    arenas.into_iter().chain(used).for_each(|span| spans.add(span));
    inner.settling().shared().iter().for_each(|range| spans.leave_out(range));
    // Without a heap of its own it is not worth it.
    let data = if spans.is_empty() { Vec::new() } else { data };
    for data in data {
        let is_pythons = libpython.as_ref().is_some_and(|path| *path == data.path);
        // A thread that wakes up waits for the GIL, whose lock is among libpython's variables: a word that is locked and unlocked while
        // its page is exchanged is one of the two cases that the exchange cannot tell from others.
        spans.add_data(data, is_still || (is_pythons && others.threads == 0));
    }
    Ok(action(spans))
}
