//! Exceptions on their way to threads of an interpreter.
//!
//! To see where a thread is, the sender needs the GIL. The interrupting thread must not wait for it: the code to interrupt may
//! be the very code that does not release it. So a separate thread waits, at most one for each interpreter, while there
//! is something to be sent. It looks again and again while a thread runs code in which nothing may be raised.

use super::visit::{MOMENT, Visit};
use crate::interpreter::Inner;
use crate::payload::table::{Interrupt, Progress};
use crate::thread::Thread;
use crate::thread::reaction_time;
use hydrozoa_loader::{LeafLock, thread_number};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread as Parked};
use std::time::Duration;

/// The exceptions to be sent to threads of one interpreter.
#[derive(Debug, Default)]
pub(crate) struct Sender(LeafLock<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// The process with the thread that empties the queue: a forked child does not have it.
    emptied_in: Option<u32>,
    /// That thread, as gettid(2) gives it, once it runs.
    task: Option<libc::pid_t>,
    /// The same, to be woken.
    thread: Option<Parked>,
}

/// An exception on its way.
#[derive(Debug)]
struct Waiting {
    visit: Arc<Visit>,
    reason: Interrupt,
    progress: Progress,
}

/// The longest time between two looks at a thread that waits for something.
const LONGEST: Duration = Duration::from_millis(8);

impl Sender {
    /// Whether the thread that empties the queue waits for a processor, or has not begun.
    pub(super) fn is_late(&self) -> bool {
        let (is_emptied, task) = self.0.with(|queue| (queue.emptied_in.is_some(), queue.task));
        is_emptied && !task.and_then(reaction_time::sleeps).unwrap_or(false)
    }
}

/// Sends it as soon as the interpreter's GIL is free. Does not wait.
pub(super) fn send(visit: &Arc<Visit>, reason: Interrupt) {
    let Some(inner) = visit.interpreter.upgrade() else { return };
    let process = hydrozoa_loader::Process::current().number();
    let (is_emptied, thread) = inner.sender().0.with(|queue| {
        let is_emptied = queue.emptied_in.replace(process) == Some(process);
        // A second exception right after the first would hit the code that handles that one.
        let is_on_its_way = visit.on_its_way.swap(true, Ordering::AcqRel);
        if !(is_emptied && is_on_its_way) {
            let (visit, progress) = (visit.clone(), Progress::NEW);
            queue.waiting.push(Waiting { visit, reason, progress });
        }
        (is_emptied, queue.thread.clone())
    });
    if is_emptied {
        if let Some(thread) = thread {
            thread.unpark();
        }
        return;
    }
    let sending = inner.clone();
    match Thread::helper("interrupt", move || empty(&sending)) {
        Ok(thread) => thread.detach(),
        Err(error) => {
            inner.sender().0.with(|queue| queue.emptied_in = None);
            tracing::warn!(interpreter = inner.name(), %error, "no thread to interrupt a call");
        }
    }
}

fn empty(inner: &Arc<Inner>) {
    let task = thread_number();
    inner.sender().0.with(|queue| {
        (queue.task, queue.thread) = (Some(task), Some(thread::current()));
    });
    let mut pause = MOMENT;
    loop {
        let attached = inner.attach();
        let mut waiting = inner.sender().0.with(|queue| {
            let waiting = std::mem::take(&mut queue.waiting);
            if waiting.is_empty() {
                queue.emptied_in = None;
                (queue.task, queue.thread) = (None, None);
            }
            waiting
        });
        if waiting.is_empty() {
            return;
        }
        waiting.retain_mut(|one| {
            let is_there = one.visit.send(inner, one.reason, &mut one.progress);
            if is_there {
                one.visit.on_its_way.store(false, Ordering::Release);
            }
            !is_there
        });
        drop(attached);
        if !waiting.is_empty() {
            let waits = waiting.iter().all(|one| one.progress == Progress::WAITS);
            pause = if waits { LONGEST.min(pause * 2) } else { MOMENT };
            inner.sender().0.with(|queue| queue.waiting.append(&mut waiting));
            thread::park_timeout(pause);
        }
    }
}
