//! An interpreter that contains its crashes.

use super::landing::guard;
use super::lent::Lent;
use crate::{Error, Result, heap};
use hydrozoa_loader::{Chained, DomainId, LeafLock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a thread waits for the report of another one's crash, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(200);

/// A function that is called through a guard.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GuardEntry {
    /// The function. The guard reads this and the next.
    pub(super) target: AtomicUsize,
    /// The result of a call that is refused, or has crashed.
    pub(super) refused: AtomicUsize,
    /// Null once the interpreter has ended. It is there as long as a call runs.
    pub(super) contained: AtomicPtr<Contained>,
}

impl GuardEntry {
    pub(super) fn new(target: usize, refused: usize, contained: &Arc<Contained>) -> Self {
        Self {
            target: AtomicUsize::new(target),
            refused: AtomicUsize::new(refused),
            contained: AtomicPtr::new(Arc::as_ptr(contained).cast_mut()),
        }
    }
}

/// The record of such an interpreter.
pub(crate) struct Contained {
    domain: DomainId,
    has_crashed: AtomicBool,
    report: LeafLock<Arc<str>>,
    pub(super) lent: LeafLock<Lent>,
    /// Called after its first crash, on a thread of its own.
    after: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Guarded functions of an interpreter, until this is dropped. Somebody may still call them afterwards, who is refused. The next
/// interpreter gets them.
pub(crate) struct Guarded {
    contained: Arc<Contained>,
    functions: &'static Functions,
}

struct Functions {
    code: Chained,
    entries: Box<[GuardEntry]>,
}

/// Those of ended interpreters.
static SPARE: LeafLock<Vec<&'static Functions>> = LeafLock::new(Vec::new());

/// Those that have not ended, by their domains.
static ALL: LeafLock<BTreeMap<u32, Arc<Contained>>> = LeafLock::new(BTreeMap::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The place of its flag, which a guard reads.
pub(super) const HAS_CRASHED: usize = std::mem::offset_of!(Contained, has_crashed);

impl Contained {
    /// The record of the interpreter in a domain, until [`Contained::forget`].
    pub(crate) fn new(domain: DomainId) -> Arc<Self> {
        let contained = Arc::new(Self {
            domain,
            has_crashed: AtomicBool::new(false),
            report: LeafLock::new("".into()),
            lent: LeafLock::default(),
            after: OnceLock::new(),
        });
        ALL.with(|all| all.insert(domain.index(), contained.clone()));
        COUNT.fetch_add(1, Ordering::SeqCst);
        contained
    }

    #[cfg(test)]
    pub(super) fn unlisted() -> Arc<Self> {
        let domain = hydrozoa_loader::Loader::builder().build().unwrap().domain("contained");
        let contained = Self::new(domain.build().unwrap().id());
        contained.forget();
        contained
    }

    /// The interpreter has ended: nobody is inside, and nobody comes.
    pub(crate) fn forget(&self) {
        if ALL.with(|all| all.remove(&self.domain.index())).is_some() {
            COUNT.fetch_sub(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn domain(&self) -> DomainId {
        self.domain
    }

    /// Whether its code has crashed.
    #[inline]
    pub(crate) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::Relaxed)
    }

    /// Notes a crash. True for the first.
    pub(super) fn note_crash(&self) -> bool {
        let is_first = !self.has_crashed.swap(true, Ordering::SeqCst);
        if is_first {
            heap::note_crash(self.domain);
        }
        is_first
    }

    /// The report of its first crash. Waits for it: the thread that has crashed notes it on its way out, and others may be out
    /// before.
    pub(crate) fn report(&self) -> String {
        let begin = Instant::now();
        loop {
            let report = self.report.with(|report| report.clone());
            if !report.is_empty() || begin.elapsed() > PATIENCE {
                return report.as_ref().to_owned();
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub(super) fn set_report(&self, text: &str) {
        let text: Arc<str> = text.into();
        let before = self.report.with(|report| std::mem::replace(report, text));
        drop(before);
    }

    /// Has something done after its first crash.
    pub(crate) fn after_crash(&self, action: impl Fn() + Send + Sync + 'static) {
        let _ = self.after.set(Box::new(action));
    }

    pub(super) fn call_after(&self) {
        if let Some(action) = self.after.get() {
            action();
        }
    }
}

impl fmt::Debug for Contained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("Contained");
        described.field("has_crashed", &self.has_crashed()).finish_non_exhaustive()
    }
}

/// Those that have not ended.
pub(super) fn all() -> Vec<Arc<Contained>> {
    ALL.with(|all| all.values().cloned().collect())
}

/// The one in a domain.
pub(super) fn find(domain: DomainId) -> Option<Arc<Contained>> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    ALL.with(|all| all.get(&domain.index()).cloned())
}

impl Guarded {
    /// Functions that call `targets` through a guard, each with the result of a call that is refused.
    pub(crate) fn new(contained: &Arc<Contained>, targets: &[(usize, usize)]) -> Result<Self> {
        let entry =
            |&(target, refused): &(usize, usize)| GuardEntry::new(target, refused, contained);
        let spare = SPARE.with(|spare| {
            let place = spare.iter().position(|one| one.entries.len() == targets.len())?;
            Some(spare.swap_remove(place))
        });
        if let Some(functions) = spare {
            for (entry, (target, refused)) in functions.entries.iter().zip(targets) {
                entry.target.store(*target, Ordering::Relaxed);
                entry.refused.store(*refused, Ordering::Relaxed);
                entry.contained.store(Arc::as_ptr(contained).cast_mut(), Ordering::Release);
            }
            return Ok(Self { contained: contained.clone(), functions });
        }
        let entries: Box<[GuardEntry]> = targets.iter().map(entry).collect();
        let contexts: Vec<usize> =
            entries.iter().map(|entry| std::ptr::from_ref(entry).expose_provenance()).collect();
        // SAFETY: the guard takes the address of an entry so. The targets are functions of integers and pointers.
        let code = unsafe { Chained::new(guard as *const std::ffi::c_void, &contexts) };
        let code = code.map_err(|error| {
            Error::Configuration(format!(
                "crashes cannot be contained, since the system refuses memory for code: {error}; build the pool without \
                 contain_crashes"
            ))
        })?;
        let functions = Box::leak(Box::new(Functions { code, entries }));
        Ok(Self { contained: contained.clone(), functions })
    }

    /// Their addresses, in the order of the targets.
    pub(crate) fn addresses(&self) -> &[usize] {
        self.functions.code.addresses()
    }

    pub(crate) fn contained(&self) -> &Arc<Contained> {
        &self.contained
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        for entry in &self.functions.entries {
            entry.contained.store(std::ptr::null_mut(), Ordering::Release);
        }
        SPARE.with(|spare| spare.push(self.functions));
    }
}
