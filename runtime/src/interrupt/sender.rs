//! Exceptions on their way to threads of an interpreter.
//!
//! `PyThreadState_SetAsyncExc` needs the GIL. Whoever interrupts must not wait for it: code that does not release it is
//! one of the things that are interrupted. So a thread of its own waits, one for each interpreter at most, while there
//! is something to be sent.

use super::chance;
use super::visit::{MOMENT, Visit};
use crate::interpreter::Inner;
use crate::leaf::Leaf;
use crate::payload::table::Interrupt;
use crate::thread::Thread;
use std::sync::Arc;
use std::thread;

/// What is to be sent to threads of one interpreter.
#[derive(Debug, Default)]
pub(crate) struct Sender(Leaf<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Arc<Visit>, Interrupt)>,
    /// The process with the thread that empties the queue: a forked child does not have it.
    emptied_in: Option<u32>,
    /// That thread, as gettid(2) gives it, once it runs.
    task: Option<libc::pid_t>,
}

impl Sender {
    /// Whether the thread that empties the queue waits for a processor, or has not begun.
    pub(super) fn is_late(&self) -> bool {
        let (is_emptied, task) = self.0.with(|queue| (queue.emptied_in.is_some(), queue.task));
        is_emptied && !task.and_then(chance::sleeps).unwrap_or(false)
    }
}

/// Sends it as soon as the interpreter's GIL can be had. Does not wait.
pub(super) fn send(visit: &Arc<Visit>, reason: Interrupt) {
    let Some(inner) = visit.interpreter.upgrade() else { return };
    let process = std::process::id();
    let is_emptied = inner.sender().0.with(|queue| {
        if !queue.waiting.iter().any(|(waiting, _)| Arc::ptr_eq(waiting, visit)) {
            queue.waiting.push((visit.clone(), reason));
        }
        queue.emptied_in.replace(process) == Some(process)
    });
    if is_emptied {
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
    // SAFETY: no precondition.
    let task = unsafe { libc::gettid() };
    inner.sender().0.with(|queue| queue.task = Some(task));
    loop {
        let attached = inner.attach();
        let mut waiting = inner.sender().0.with(|queue| {
            let waiting = std::mem::take(&mut queue.waiting);
            if waiting.is_empty() {
                queue.emptied_in = None;
                queue.task = None;
            }
            waiting
        });
        if waiting.is_empty() {
            return;
        }
        waiting.retain(|(visit, reason)| !visit.send(inner, *reason));
        drop(attached);
        if !waiting.is_empty() {
            inner.sender().0.with(|queue| queue.waiting.append(&mut waiting));
            thread::sleep(MOMENT);
        }
    }
}
