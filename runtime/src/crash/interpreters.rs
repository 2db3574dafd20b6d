//! The interpreters of the process, for handlers of signals: by domain, without a lock.

use hydrozoa_loader::DomainId;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// The bytes of a name that a report has room for.
const NAME: usize = 64;

/// Not a domain's number, which has 32 bits.
const NO_DOMAIN: u64 = u64::MAX;

/// One interpreter, or the place of one that has ended. Records stay for the life of the process, and are used again.
#[derive(Debug)]
pub(super) struct Record {
    is_taken: AtomicBool,
    domain: AtomicU64,
    /// Its place in its pool, from 0.
    index: AtomicUsize,
    name: [AtomicU8; NAME],
    /// The function that writes its Python stacks (`PayloadTable::stacks`).
    stacks: AtomicUsize,
    next: AtomicPtr<Record>,
}

static FIRST: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());

fn all() -> impl Iterator<Item = &'static Record> {
    // SAFETY: null, or a record, which is never freed.
    let record = |place: &AtomicPtr<Record>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(record(&FIRST), move |one| record(&one.next))
}

/// An interpreter's record, until this is dropped.
#[derive(Debug)]
pub(crate) struct Listed(&'static Record);

impl Listed {
    /// Lists the interpreter in a domain. `stacks` writes its Python stacks to descriptor 2, in a process that nothing else
    /// runs in.
    pub(crate) fn new(
        domain: DomainId,
        index: usize,
        name: &str,
        stacks: unsafe extern "C" fn(),
    ) -> Self {
        let record = all().find(|one| !one.is_taken.swap(true, Ordering::AcqRel));
        let record = record.unwrap_or_else(add);
        record.index.store(index, Ordering::Relaxed);
        let name = name.bytes().chain(std::iter::repeat(0));
        for (place, byte) in record.name.iter().zip(name) {
            place.store(byte, Ordering::Relaxed);
        }
        record.stacks.store(stacks as *const () as usize, Ordering::Relaxed);
        record.domain.store(domain.index().into(), Ordering::Release);
        Self(record)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.domain.store(NO_DOMAIN, Ordering::Release);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// A new record, taken, at the begin of the list.
fn add() -> &'static Record {
    let record: &'static Record = Box::leak(Box::new(Record {
        is_taken: AtomicBool::new(true),
        domain: AtomicU64::new(NO_DOMAIN),
        index: AtomicUsize::new(0),
        name: [const { AtomicU8::new(0) }; NAME],
        stacks: AtomicUsize::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
    }));
    let own = ptr::from_ref(record).cast_mut();
    let mut first = FIRST.load(Ordering::Acquire);
    loop {
        record.next.store(first, Ordering::Relaxed);
        match FIRST.compare_exchange_weak(first, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return record,
            Err(now) => first = now,
        }
    }
}

/// The interpreter in a domain, unless it has ended.
pub(super) fn find(domain: DomainId) -> Option<&'static Record> {
    numbered(domain.index().into())
}

/// The interpreter in the domain of this number, unless it has ended, or the number is none.
pub(super) fn numbered(domain: u64) -> Option<&'static Record> {
    all().find(|one| domain != NO_DOMAIN && one.domain.load(Ordering::Acquire) == domain)
}

impl Record {
    /// Its place in its pool, from 0.
    pub(super) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed)
    }

    /// Its name, as far as there is room for it.
    pub(super) fn name<'a>(&self, buffer: &'a mut [u8; NAME]) -> &'a str {
        for (byte, place) in buffer.iter_mut().zip(&self.name) {
            *byte = place.load(Ordering::Relaxed);
        }
        let text = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
        text.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    /// The function that writes its Python stacks.
    pub(super) fn stacks(&self) -> Option<unsafe extern "C" fn()> {
        let address = self.stacks.load(Ordering::Relaxed);
        // SAFETY: 0, or the address of such a function.
        (address != 0)
            .then(|| unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(address) })
    }
}
